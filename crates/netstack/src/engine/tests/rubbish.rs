//! Bytes that nobody meant: a core takes them, and never panics.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use causeway_testkit::Dice;
use proptest::prelude::*;
use tokio::sync::{mpsc, oneshot};

use crate::engine::{Command, Core, Mailbox};
use crate::flow::Incoming;
use crate::{Config, Device, TcpFlow, ip};

/// Keeps what is sent.
#[derive(Default)]
struct Basket(Vec<Vec<u8>>);

impl Device for Basket {
    fn mtu(&self) -> usize {
        1420
    }

    fn poll_receive(&mut self, _: &mut Context<'_>, _: &mut dyn FnMut(&[u8])) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn has_room(&self) -> bool {
        self.0.len() < 200
    }

    fn send(&mut self, length: usize, write: impl FnOnce(&mut [u8])) {
        let mut packet = vec![0; length];
        write(&mut packet);
        self.0.push(packet);
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// One side of a talk.
struct Side {
    core: Core,
    mailbox: Arc<Mailbox>,
    arrivals: mpsc::Receiver<Incoming>,
    flows: Vec<TcpFlow>,
    basket: Basket,
}

impl Side {
    fn new(is_sound: bool) -> Self {
        let (arrivals_tx, arrivals) = mpsc::channel(64);
        let mailbox = Arc::new(Mailbox::default());
        let config = Config { max_flows: 256, ..Config::default() };
        let core = Core::new(&config, 1420, is_sound, Arc::clone(&mailbox), arrivals_tx);
        Self { core, mailbox, arrivals, flows: Vec::new(), basket: Basket::default() }
    }

    /// Accepts, says something, reads, and lets some go.
    fn work(&mut self, now: Instant, dice: &mut Dice) {
        while let Ok(incoming) = self.arrivals.try_recv() {
            match incoming {
                Incoming::Tcp(pending) if dice.below(8) > 0 => self.flows.push(pending.accept()),
                Incoming::Tcp(pending) => pending.refuse(),
                Incoming::Udp(flow) => flow.send(b"pong"),
            }
        }
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for flow in &mut self.flows {
            use tokio::io::{AsyncRead as _, AsyncWrite as _};
            let mut space = [0; 512];
            let mut buffer = tokio::io::ReadBuf::new(&mut space);
            let _ = std::pin::Pin::new(&mut *flow).poll_read(&mut cx, &mut buffer);
            let _ = std::pin::Pin::new(&mut *flow).poll_write(&mut cx, &[1; 700]);
            if dice.below(50) == 0 {
                let _ = std::pin::Pin::new(&mut *flow).poll_shutdown(&mut cx);
            }
        }
        if !self.flows.is_empty() && dice.below(30) == 0 {
            self.flows.swap_remove(dice.below(self.flows.len() as u64) as usize);
        }
        self.core.take_mail(now);
        self.core.tick(now);
        self.core.send(&mut self.basket, now);
    }
}

/// Changes a few bytes; often so that the header's checksum is right again.
fn bend(packet: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(packet.len().min(60) as u64) as usize;
        match dice.below(5) {
            0 if !packet.is_empty() => packet[at] ^= 1 << dice.below(8),
            1 if !packet.is_empty() => packet[at] = dice.below(256) as u8,
            2 => packet.truncate(packet.len() - at.min(packet.len())),
            3 => packet.extend(vec![0xff; at]),
            _ if packet.len() > at => packet[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5) as usize],
            _ => {}
        }
    }
    if packet.len() >= 20 && packet[0] >> 4 == 4 && dice.below(4) > 0 {
        packet[0] = 0x45;
        let mut packet = smoltcp::wire::Ipv4Packet::new_unchecked(&mut packet[..]);
        packet.fill_checksum();
    }
}

#[test]
fn bent_packets_between_two_stacks_do_no_harm() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut now = Instant::now();
        let mut sides = [Side::new(true), Side::new(true)];
        for n in 0..8 {
            let to = if n % 2 == 0 { "10.0.0.1:80" } else { "[fd00::1]:80" };
            let from = if n % 2 == 0 { "10.0.0.2:0" } else { "[fd00::2]:0" };
            let (reply_tx, _reply_rx) = oneshot::channel();
            sides[0].mailbox.command(Command::Connect(from.parse().unwrap(), to.parse().unwrap(), reply_tx));
        }
        for _ in 0..300 {
            now += Duration::from_millis(dice.below(30));
            for index in 0..2 {
                sides[index].work(now, &mut dice);
                for mut packet in std::mem::take(&mut sides[index].basket.0) {
                    if dice.below(4) == 0 {
                        bend(&mut packet, &mut dice);
                    }
                    let copies = dice.below(20) / 9;
                    for _ in 0..=copies {
                        sides[1 - index].core.take(&packet, now);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_are_taken(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20), sound in any::<bool>()) {
        let (mut side, now) = (Side::new(sound), Instant::now());
        let mut dice = Dice::new(1);
        for packet in &packets {
            side.core.take(packet, now);
            // The same as what a packet carries.
            for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
                let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
                for protocol in [1, 6, 17, 58, 44, 0, 60, 43] {
                    let mut whole = vec![0; ip::header_len(to)];
                    whole.extend_from_slice(packet);
                    ip::write_header(&mut whole, from, to, protocol.into());
                    side.core.take(&whole, now);
                }
            }
            side.work(now, &mut dice);
        }
    }
}
