//! A relay with many clients, each of which asks for its next address when it has one: so many at a time, no faster than
//! the server answers. Each message is one call of the kernel, which is little beside what a server does for it.

use std::collections::HashMap;
use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};

use super::network::{Network, RELAY, SERVER};
use crate::samples::Samples;

const PORT: u16 = 67;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// What is not answered in this time is lost.
const LOST: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(20);
/// The processor of the load.
const PROCESSOR: usize = 1;

/// Which clients ask.
#[derive(Clone, Copy)]
pub(super) enum Who {
    /// Ever others.
    New,
    /// The first so many, again and again.
    Known(u32),
}

/// What a load found.
#[derive(Default)]
pub(super) struct Measured {
    /// From each request to its acknowledgement, in milliseconds.
    pub(super) acks: Samples,
    pub(super) lost: u64,
}

/// The relay's socket.
pub(super) struct Load(UdpSocket);

impl Load {
    /// Opens it in the load's namespace.
    pub(super) fn open(network: &Network) -> anyhow::Result<Self> {
        let name = network.load.clone();
        // A namespace is a thread's, and a socket stays where it was made.
        let opened = std::thread::spawn(move || {
            let namespace = File::open(format!("/var/run/netns/{name}"))?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            UdpSocket::bind((RELAY, PORT))
        });
        let socket =
            opened.join().ok().context("a thread was lost")?.context("can't open the load's socket")?;
        socket.connect((SERVER, PORT))?;
        socket.set_read_timeout(Some(LOOK))?;
        Ok(Self(socket))
    }

    /// Asks once; whether there was an answer.
    pub(super) fn is_answered(&self) -> anyhow::Result<bool> {
        // Refused as long as nobody listens.
        let _ = self.0.send(&message(DISCOVER, u32::MAX, &[]));
        let answered = self.0.recv(&mut [0; 2048]).is_ok();
        if !answered {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(answered)
    }

    /// Gets addresses for the first so many clients.
    pub(super) fn fill(&self, at_once: usize, clients: u32) -> anyhow::Result<()> {
        Ask::new(&self.0, Who::Known(clients)).run(at_once, |found| found.acks.len() >= clients as usize)
    }

    /// Asks for this long.
    pub(super) fn run(&self, at_once: usize, who: Who, time: Duration) -> anyhow::Result<Measured> {
        let mut processors = CpuSet::new();
        processors.set(PROCESSOR);
        sched_setaffinity(None, &processors).context("the bench needs two processors")?;
        let began = Instant::now();
        let mut ask = Ask::new(&self.0, who);
        ask.run(at_once, |_| began.elapsed() >= time)?;
        Ok(ask.measured)
    }
}

const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACK: u8 = 5;

/// A load at work.
struct Ask<'s> {
    socket: &'s UdpSocket,
    who: Who,
    next: u32,
    /// When each client that waits has asked last.
    asked: HashMap<u32, Instant>,
    measured: Measured,
}

impl<'s> Ask<'s> {
    fn new(socket: &'s UdpSocket, who: Who) -> Self {
        Self { socket, who, next: 0, asked: HashMap::new(), measured: Measured::default() }
    }

    fn run(&mut self, at_once: usize, is_over: impl Fn(&Measured) -> bool) -> anyhow::Result<()> {
        let mut buffer = [0; 2048];
        for _ in 0..at_once {
            self.discover()?;
        }
        let mut looked = Instant::now();
        while !is_over(&self.measured) {
            if let Ok(length) = self.socket.recv(&mut buffer) {
                self.take(&buffer[..length])?;
            }
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.give_up()?;
            }
        }
        Ok(())
    }

    fn discover(&mut self) -> anyhow::Result<()> {
        let client = self.next;
        self.next = match self.who {
            Who::New => client + 1,
            Who::Known(clients) => (client + 1) % clients,
        };
        self.send(client, &message(DISCOVER, client, &[]))
    }

    fn send(&mut self, client: u32, message: &[u8]) -> anyhow::Result<()> {
        self.asked.insert(client, Instant::now());
        self.socket.send(message).map(drop).context("can't send")
    }

    fn take(&mut self, reply: &[u8]) -> anyhow::Result<()> {
        ensure!(reply.len() > 243, "a reply of {} bytes", reply.len());
        let client = u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]);
        // One that was given up is late.
        let Some(asked) = self.asked.remove(&client) else { return Ok(()) };
        match kind(reply) {
            OFFER => {
                let wanted = [&[50, 4][..], &reply[16..20], &[54, 4], &SERVER.octets()].concat();
                self.send(client, &message(REQUEST, client, &wanted))
            }
            ACK => {
                self.measured.acks.push(asked.elapsed().as_secs_f64() * 1e3);
                self.discover()
            }
            other => anyhow::bail!("a reply of type {other}"),
        }
    }

    /// Asks with others in the place of those that were not answered.
    fn give_up(&mut self) -> anyhow::Result<()> {
        let before = self.asked.len();
        self.asked.retain(|_, asked| asked.elapsed() < LOST);
        let lost = before - self.asked.len();
        self.measured.lost += lost as u64;
        for _ in 0..lost {
            self.discover()?;
        }
        Ok(())
    }
}

/// The type of a message, wherever in its options that stands.
fn kind(message: &[u8]) -> u8 {
    let mut options = &message[240..];
    while let [code, length, rest @ ..] = options {
        match code {
            53 => return rest.first().copied().unwrap_or_default(),
            _ => options = rest.get(usize::from(*length)..).unwrap_or_default(),
        }
    }
    0
}

fn message(kind: u8, client: u32, options: &[u8]) -> Vec<u8> {
    let relay: Ipv4Addr = RELAY;
    let mut bytes = vec![0; 240];
    bytes[..4].copy_from_slice(&[1, 1, 6, 1]);
    bytes[4..8].copy_from_slice(&client.to_be_bytes());
    bytes[24..28].copy_from_slice(&relay.octets());
    bytes[28..30].copy_from_slice(&[2, 1]);
    bytes[30..34].copy_from_slice(&client.to_be_bytes());
    bytes[236..].copy_from_slice(&COOKIE);
    bytes.extend_from_slice(&[53, 1, kind, 55, 6, 1, 3, 6, 15, 28, 51]);
    bytes.extend_from_slice(options);
    bytes.push(255);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_its_type_behind_other_options() {
        assert_eq!(kind(&message(REQUEST, 7, &[])), REQUEST);
        let mut bytes = vec![0; 240];
        bytes.extend_from_slice(&[54, 4, 10, 0, 0, 2, 53, 1, 5, 255]);
        assert_eq!((kind(&bytes), kind(&bytes[..246])), (ACK, 0));
    }
}
