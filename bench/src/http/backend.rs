//! The servers behind the gateways: one thread around one epoll. What a request says does not matter to them; each has
//! one answer.

mod speech;

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use anyhow::Context;

use super::setting::{LAPTOP, LARGE, LARGE_BODY, LONGER_MESSAGE, MESSAGE, MESSAGES, SMALL, SMALL_BODY};
use crate::compare::net::{self, EventFlags, Poller};
use speech::Speech;

const ACCEPTS: usize = 64;
const BUFFER: usize = 64 << 10;

/// Where servers stand in for pods: HTTP/1.1, then HTTP/2.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    #[arg(long = "pod")]
    pub(crate) pods: Vec<SocketAddrV4>,
}

/// The process with these servers.
pub(crate) struct Backend(Child);

impl Backend {
    /// Starts it on the cores of this process.
    pub(crate) fn start(args: &Args) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("can't find this program's own file")?;
        let mut command = Command::new(own);
        command.arg("http-backend");
        for pod in &args.pods {
            command.args(["--pod", &pod.to_string()]);
        }
        Ok(Self(command.spawn().context("can't start the backend")?))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // It holds nothing worth an orderly end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Listener {
    socket: OwnedFd,
    /// What it says to every request: a whole answer, or a message by HTTP/2.
    answer: Vec<u8>,
    second: bool,
}

struct Connection {
    socket: OwnedFd,
    /// Its listener.
    of: usize,
    speech: Speech,
    /// What the socket did not take.
    unsent: Vec<u8>,
}

/// Serves until the process is ended.
pub(crate) fn serve(args: &Args) -> anyhow::Result<()> {
    let mut poller = Poller::new()?;
    let mut listeners = Vec::new();
    for (address, answer, second) in addresses(&args.pods) {
        let socket = net::listen(address).with_context(|| format!("can't listen on {address}"))?;
        poller.add(&socket, listeners.len(), EventFlags::IN)?;
        listeners.push(Listener { socket, answer, second });
    }
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut free = Vec::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        for place in 0..poller.wait(None)? {
            let (number, _) = poller.event(place);
            let Some(listener) = listeners.get(number) else {
                let slot = number - listeners.len();
                let Some(connection) = &mut connections[slot] else { continue };
                if !connection.step(&listeners, &mut buffer).unwrap_or(false) {
                    connections[slot] = None;
                    free.push(slot);
                }
                continue;
            };
            for _ in 0..ACCEPTS {
                let Ok(socket) = net::accept(&listener.socket) else { break };
                let slot = free.pop().unwrap_or_else(|| {
                    connections.push(None);
                    connections.len() - 1
                });
                let both = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
                poller.add(&socket, listeners.len() + slot, both)?;
                let speech = if listener.second { Speech::second() } else { Speech::first() };
                let mut connection = Connection { socket, of: number, speech, unsent: Vec::new() };
                // The request is often there already.
                if connection.step(&listeners, &mut buffer).unwrap_or(false) {
                    connections[slot] = Some(connection);
                } else {
                    free.push(slot);
                }
            }
        }
    }
}

/// Every address, its answer, and whether that is a message by HTTP/2.
fn addresses(pods: &[SocketAddrV4]) -> impl Iterator<Item = (SocketAddrV4, Vec<u8>, bool)> {
    let small = SMALL.into_iter().enumerate();
    let small = small.map(|(place, address)| (address, answer(b'0' + place as u8, SMALL_BODY), false));
    let both = |[first, second]: [SocketAddrV4; 2], who: u8, message: Vec<u8>| {
        [(first, answer(who, SMALL_BODY), false), (second, message, true)]
    };
    small
        .chain([(LARGE, answer(b'0', LARGE_BODY), false), (MESSAGES, MESSAGE.to_vec(), true)])
        .chain(
            <[SocketAddrV4; 2]>::try_from(pods)
                .into_iter()
                .flat_map(move |pods| both(pods, b'0', MESSAGE.to_vec())),
        )
        .chain(both(LAPTOP, b'1', LONGER_MESSAGE.to_vec()))
}

/// A whole answer, whose body begins with a byte that tells who answered.
fn answer(first: u8, length: usize) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n")
            .into_bytes();
    answer.push(first);
    answer.resize(answer.len() + length - 1, b'x');
    answer
}

impl Connection {
    /// Goes on as far as it can; `false` when it is over.
    fn step(&mut self, listeners: &[Listener], buffer: &mut [u8]) -> anyhow::Result<bool> {
        if !self.unsent.is_empty() {
            let sent = send(&self.socket, &self.unsent)?;
            self.unsent.drain(..sent);
        }
        loop {
            let count = match net::receive(&self.socket, buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if net::is_early(&error) => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            let said = self.speech.hear(&buffer[..count], &listeners[self.of].answer)?;
            let sent = if self.unsent.is_empty() { send(&self.socket, said)? } else { 0 };
            self.unsent.extend_from_slice(&said[sent..]);
            self.speech.said();
            // Less than there was room for was all there is, and more will be told.
            if count < buffer.len() {
                return Ok(true);
            }
        }
    }
}

/// What the socket takes now.
fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        return Ok(0);
    }
    match net::send(socket, bytes) {
        Err(error) if net::is_early(&error) => Ok(0),
        sent => sent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_length_that_it_says() {
        let answer = answer(b'3', 16);
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with("Content-Length: 16"));
        assert_eq!(body, format!("3{}", "x".repeat(15)));
    }
}
