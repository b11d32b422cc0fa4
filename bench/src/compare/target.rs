//! Where a load goes, and the first bytes it sends there.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::event::PollFlags;

use super::names::{Names, PLAIN_BACKEND};
use super::net;

/// How long one connection may take to open, and one answer to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a backend is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Answer with one's address and close.
    Reply,
    /// Send without end.
    Send,
    /// Take everything.
    Take,
    /// Both at once.
    Both,
    /// Send everything back.
    Echo,
    /// Send so many bytes and keep the connection.
    Keep,
}

impl Order {
    pub(crate) const LENGTH: usize = 9;

    fn letter(self) -> u8 {
        match self {
            Self::Reply => b'R',
            Self::Send => b'D',
            Self::Take => b'U',
            Self::Both => b'X',
            Self::Echo => b'E',
            Self::Keep => b'I',
        }
    }

    pub(crate) fn encode(self, argument: u64, out: &mut Vec<u8>) {
        out.push(self.letter());
        out.extend_from_slice(&argument.to_le_bytes());
    }

    pub(crate) fn decode(bytes: &[u8; Self::LENGTH]) -> Option<(Self, u64)> {
        let [letter, argument @ ..] = bytes;
        let all = [Self::Reply, Self::Send, Self::Take, Self::Both, Self::Echo, Self::Keep];
        let order = all.into_iter().find(|order| order.letter() == *letter)?;
        Some((order, u64::from_le_bytes(*argument)))
    }
}

/// What a backend answers to `Order::Reply`: two letters and its address.
pub(crate) fn reply(of: SocketAddrV4) -> [u8; 8] {
    let mut reply = *b"OK\0\0\0\0\0\0";
    reply[2..6].copy_from_slice(&of.ip().octets());
    reply[6..].copy_from_slice(&of.port().to_be_bytes());
    reply
}

/// Where a load goes.
#[derive(Clone)]
pub(crate) struct Target {
    /// The proxy; without one each connection goes straight to its backend.
    pub(crate) proxy: Option<SocketAddrV4>,
    /// With names each connection begins with a ClientHello.
    pub(crate) names: Option<Rc<Names>>,
    /// Where the proxy, which speaks SOCKS5, is asked to lead; for loads that open few connections.
    pub(crate) socks: Option<SocketAddrV4>,
}

impl Target {
    /// How many different connections there are.
    pub(crate) fn len(&self) -> usize {
        self.names.as_ref().map_or(1, |names| names.len())
    }

    fn backend(&self, place: usize) -> SocketAddrV4 {
        self.names.as_ref().map_or(PLAIN_BACKEND, |names| names.backend(place))
    }

    pub(crate) fn connect(&self, place: usize, turn: usize) -> io::Result<OwnedFd> {
        net::connect(self.proxy.unwrap_or_else(|| self.backend(place)), turn)
    }

    /// The first bytes of a connection: ClientHello and order.
    pub(crate) fn opening(&self, place: usize, order: Order, argument: u64, out: &mut Vec<u8>) {
        out.clear();
        if let Some(names) = &self.names {
            names.write_hello(place, out);
        }
        order.encode(argument, out);
    }

    /// Whether an answer came from the backend that the name leads to.
    pub(crate) fn check(&self, place: usize, answer: &[u8]) -> anyhow::Result<()> {
        ensure!(answer == reply(self.backend(place)), "an answer from the wrong backend");
        Ok(())
    }

    /// Connects and sends the first bytes.
    pub(crate) fn open(&self, place: usize, order: Order, argument: u64) -> anyhow::Result<OwnedFd> {
        let socket = self.connect(place, place).context("connecting failed")?;
        if let Some(to) = self.socks {
            lead(&socket, to)?;
        }
        let mut opening = Vec::new();
        self.opening(place, order, argument, &mut opening);
        send(&socket, &opening)?;
        Ok(socket)
    }

    /// One request with its answer.
    pub(crate) fn probe(&self, place: usize, patience: Duration) -> anyhow::Result<()> {
        let socket = self.open(place, Order::Reply, 0)?;
        let (mut answer, mut buffer) = (Vec::new(), [0; 64]);
        loop {
            if net::wait(&socket, PollFlags::IN, patience)?.is_empty() {
                bail!("no answer within {} ms", patience.as_millis());
            }
            match net::receive(&socket, &mut buffer).context("no answer")? {
                0 => break,
                count => answer.extend_from_slice(&buffer[..count]),
            }
        }
        self.check(place, &answer)
    }
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> anyhow::Result<()> {
    let (mut sent, started) = (0, Instant::now());
    while sent < bytes.len() {
        match net::send(socket, &bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if net::is_early(&error) => {
                net::wait(socket, PollFlags::OUT, PATIENCE)?;
                ensure!(started.elapsed() < PATIENCE, "a connection took too long to open");
            }
            Err(error) => return Err(error).context("sending the first bytes failed"),
        }
    }
    Ok(())
}

/// Asks a SOCKS5 proxy that wants no password to lead on.
fn lead(socket: &OwnedFd, to: SocketAddrV4) -> anyhow::Result<()> {
    let mut question = vec![5, 1, 0, 5, 1, 0, 1];
    question.extend(to.ip().octets());
    question.extend(to.port().to_be_bytes());
    send(socket, &question)?;
    // The method, then the answer with an address.
    let (mut answer, mut got) = ([0; 12], 0);
    while got < answer.len() {
        ensure!(!net::wait(socket, PollFlags::IN, PATIENCE)?.is_empty(), "the proxy does not answer");
        match net::receive(socket, &mut answer[got..]).context("the proxy does not answer")? {
            0 => bail!("the proxy refuses to lead to {to}"),
            count => got += count,
        }
    }
    ensure!(answer[3] == 0, "the proxy does not lead to {to}: {}", answer[3]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_were_written() {
        for order in [Order::Reply, Order::Send, Order::Take, Order::Both, Order::Echo, Order::Keep] {
            let mut bytes = Vec::new();
            order.encode(77, &mut bytes);
            assert_eq!(Order::decode(&bytes.try_into().unwrap()), Some((order, 77)));
        }
        assert_eq!(Order::decode(b"?00000000"), None);
    }
}
