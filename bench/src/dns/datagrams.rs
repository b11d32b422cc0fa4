//! Questions by UDP as fast as a server answers them: many datagrams at a call, so that the load is not the limit.

use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

use super::questions::{Questions, SERVER};
use crate::compare::load::{Figures, Measured, Now, Settings, Stopwatch};

/// Clients, each with so many questions on the way: together no more than a socket with a usual buffer takes.
const CLIENTS: usize = 4;
const WINDOW: usize = 64;
const WARM_UP: Duration = Duration::from_millis(500);
const LENGTH: Duration = Duration::from_secs(4);
/// After which time what is on the way is lost.
const LOST: Duration = Duration::from_millis(200);
const ANSWER: usize = 512;

/// A socket with its questions on the way.
struct Client {
    socket: UdpSocket,
    outstanding: usize,
    /// When it last heard something.
    heard: Instant,
    headers_in: MultiHeaders<SockaddrStorage>,
    headers_out: MultiHeaders<SockaddrStorage>,
    buffers: Vec<[u8; ANSWER]>,
}

#[derive(Default)]
struct Count {
    answered: u64,
    wrong: u64,
    lost: u64,
}

pub(crate) fn run(questions: &Questions, settings: &Settings<'_>) -> anyhow::Result<Measured> {
    let mut clients = (0..CLIENTS).map(|_| Client::new()).collect::<anyhow::Result<Vec<_>>>()?;
    let mut watch = Stopwatch::new(settings, WARM_UP, LENGTH);
    let (mut count, mut next) = (Count::default(), 0);
    loop {
        match watch.look() {
            Now::Going => {}
            Now::Begins => count = Count::default(),
            Now::Over => break,
        }
        for client in &mut clients {
            client.receive(questions, &mut count)?;
            client.send(questions, &mut next)?;
        }
    }
    let spent = watch.stop();
    ensure!(spent.seconds > 0.0, "the machine was too busy to measure");
    ensure!(count.wrong == 0, "{} of {} answers were wrong", count.wrong, count.answered);
    let answered = count.answered as f64;
    Ok((
        spent,
        Figures::from([
            ("questions", answered),
            ("perSecond", answered / spent.seconds),
            ("lost", count.lost as f64),
        ]),
    ))
}

/// Asks each question until it is answered.
pub(crate) fn ask_each(questions: &Questions) -> anyhow::Result<()> {
    const ATTEMPTS: usize = 5;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(SERVER)?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut buffer = [0; ANSWER];
    for place in 0..questions.len() {
        let mut attempts = (0..ATTEMPTS).filter_map(|_| {
            socket.send(questions.packet(place)).ok()?;
            let length = socket.recv(&mut buffer).ok()?;
            (buffer[..2] == questions.packet(place)[..2] && questions.is_answer(&buffer[..length]))
                .then_some(())
        });
        attempts.next().context("a name is not resolved")?;
    }
    Ok(())
}

impl Client {
    fn new() -> anyhow::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(SERVER)?;
        Ok(Self {
            socket,
            outstanding: 0,
            heard: Instant::now(),
            headers_in: MultiHeaders::preallocate(WINDOW, None),
            headers_out: MultiHeaders::preallocate(WINDOW, None),
            buffers: vec![[0; ANSWER]; WINDOW],
        })
    }

    fn receive(&mut self, questions: &Questions, count: &mut Count) -> anyhow::Result<()> {
        if self.outstanding == 0 {
            return Ok(());
        }
        let mut slices: Vec<[IoSliceMut<'_>; 1]> =
            self.buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let fd = self.socket.as_raw_fd();
        let received =
            match recvmmsg(fd, &mut self.headers_in, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) {
                Ok(received) => received,
                Err(Errno::EAGAIN) => {
                    if self.heard.elapsed() > LOST {
                        count.lost += self.outstanding as u64;
                        self.outstanding = 0;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error).context("can't receive"),
            };
        let mut got = 0;
        for message in received {
            let right = message.iovs().next().is_some_and(|packet| questions.is_answer(packet));
            count.wrong += u64::from(!right);
            got += 1;
        }
        count.answered += got as u64;
        self.outstanding = self.outstanding.saturating_sub(got);
        self.heard = Instant::now();
        Ok(())
    }

    /// Sends as many as have been answered, once that is half of the window.
    fn send(&mut self, questions: &Questions, next: &mut usize) -> anyhow::Result<()> {
        let room = WINDOW - self.outstanding;
        if room < WINDOW / 2 {
            return Ok(());
        }
        let slices: Vec<[IoSlice<'_>; 1]> =
            (0..room).map(|i| [IoSlice::new(questions.packet(*next + i))]).collect();
        let (nobody, nothing): (_, [ControlMessage<'_>; 0]) = ([None; WINDOW], []);
        let fd = self.socket.as_raw_fd();
        let sent =
            sendmmsg(fd, &mut self.headers_out, slices.iter(), &nobody[..room], nothing, MsgFlags::empty());
        let sent = match sent {
            Ok(sent) => sent.count(),
            // Nobody listens any more, or not yet.
            Err(Errno::ECONNREFUSED) => 0,
            Err(error) => return Err(error).context("can't send"),
        };
        if self.outstanding == 0 {
            self.heard = Instant::now();
        }
        self.outstanding += sent;
        *next = (*next + sent) % questions.len();
        Ok(())
    }
}
