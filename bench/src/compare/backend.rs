//! The servers behind the proxies: one thread around one epoll. Each skips a leading ClientHello without doing TLS
//! and obeys the order that follows it.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use anyhow::Context;

use super::names::{EVERYWHERE, PLAIN_BACKEND, backends};
use super::net::{self, EventFlags, Poller};
use super::target::{Order, reply};

const CHUNK: usize = 256 << 10;
const ACCEPTS: usize = 64;
const RECORD_HEADER: usize = 5;
const HANDSHAKE_RECORD: u8 = 22;

enum State {
    /// The first bytes.
    Opening(Vec<u8>),
    Sending,
    Taking,
    Both,
    Echoing {
        held: Vec<u8>,
        over: bool,
    },
    Keeping(u64),
}

struct Connection {
    socket: OwnedFd,
    address: SocketAddrV4,
    state: State,
}

struct Server {
    poller: Poller,
    data: Vec<u8>,
    buffer: Vec<u8>,
}

/// The process with these servers.
pub(crate) struct Backend(Child);

impl Backend {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("can't find this program's own file")?;
        Ok(Self(Command::new(own).arg("backend").spawn().context("can't start the backend")?))
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

/// Serves until the process is ended.
pub(crate) fn serve() -> anyhow::Result<()> {
    let mut listeners = Vec::new();
    let mut backend = Server { poller: Poller::new()?, data: pattern(), buffer: vec![0; CHUNK] };
    let named = backends().into_iter().map(|address| (address, address));
    for (at, address) in
        [(PLAIN_BACKEND, PLAIN_BACKEND), (EVERYWHERE, PLAIN_BACKEND)].into_iter().chain(named)
    {
        let listener = net::listen(at).with_context(|| format!("can't listen on {at}"))?;
        backend.poller.add(&listener, listeners.len(), EventFlags::IN)?;
        listeners.push((listener, address));
    }
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut free = Vec::new();
    loop {
        for place in 0..backend.poller.wait(None)? {
            let (number, flags) = backend.poller.event(place);
            let Some((listener, address)) = listeners.get(number) else {
                let slot = number - listeners.len();
                if let Some(connection) = &mut connections[slot]
                    && !backend.step(connection, number, flags).unwrap_or(false)
                {
                    connections[slot] = None;
                    free.push(slot);
                }
                continue;
            };
            for _ in 0..ACCEPTS {
                let Ok(socket) = net::accept(listener) else { break };
                let slot = free.pop().unwrap_or_else(|| {
                    connections.push(None);
                    connections.len() - 1
                });
                let number = listeners.len() + slot;
                backend.poller.add(&socket, number, EventFlags::IN)?;
                let mut connection =
                    Connection { socket, address: *address, state: State::Opening(Vec::new()) };
                // The order is often there already.
                if backend.step(&mut connection, number, EventFlags::IN).unwrap_or(false) {
                    connections[slot] = Some(connection);
                } else {
                    free.push(slot);
                }
            }
        }
    }
}

/// Bytes that are no pattern to any compressor on the way.
pub(crate) fn pattern() -> Vec<u8> {
    (0..CHUNK as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Nothing to do now is no failure.
fn later(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if net::is_early(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Server {
    /// Goes on with a connection; `false` when it is over.
    fn step(&mut self, connection: &mut Connection, number: usize, flags: EventFlags) -> io::Result<bool> {
        let Connection { socket, address, state } = connection;
        match state {
            State::Opening(opening) => {
                let Some(count) = later(net::receive(socket, &mut self.buffer))? else { return Ok(true) };
                if count == 0 {
                    return Ok(false);
                }
                opening.extend_from_slice(&self.buffer[..count]);
                let Some(start) = order_start(opening) else { return Ok(true) };
                let Some((order, rest)) = opening[start..].split_first_chunk() else { return Ok(true) };
                let Some((order, argument)) = Order::decode(order) else { return Ok(false) };
                let rest = rest.to_vec();
                match order {
                    Order::Reply => {
                        net::send(socket, &reply(*address))?;
                        return Ok(false);
                    }
                    Order::Send => {
                        *state = State::Sending;
                        self.poller.modify(&*socket, number, EventFlags::OUT)?;
                    }
                    Order::Take => *state = State::Taking,
                    Order::Both => {
                        *state = State::Both;
                        self.poller.modify(&*socket, number, EventFlags::IN | EventFlags::OUT)?;
                    }
                    Order::Echo => {
                        *state = State::Echoing { held: rest, over: false };
                        return self.step(connection, number, EventFlags::OUT);
                    }
                    Order::Keep => {
                        *state = State::Keeping(argument.max(1));
                        return self.step(connection, number, EventFlags::OUT);
                    }
                }
                Ok(true)
            }
            State::Sending => later(net::send(socket, &self.data)).map(|_| true),
            State::Taking | State::Keeping(0) => {
                Ok(later(net::receive(socket, &mut self.buffer))? != Some(0))
            }
            State::Both => {
                if flags.intersects(EventFlags::OUT.complement())
                    && later(net::receive(socket, &mut self.buffer))? == Some(0)
                {
                    return Ok(false);
                }
                if flags.contains(EventFlags::OUT) {
                    later(net::send(socket, &self.data))?;
                }
                Ok(true)
            }
            State::Echoing { held, over } => {
                if held.is_empty() && !*over {
                    match later(net::receive(socket, &mut self.buffer))? {
                        None => {}
                        Some(0) => *over = true,
                        Some(count) => {
                            let sent = later(net::send(socket, &self.buffer[..count]))?.unwrap_or(0);
                            held.extend_from_slice(&self.buffer[sent..count]);
                        }
                    }
                } else if let Some(sent) = later(net::send(socket, held))? {
                    held.drain(..sent);
                }
                let next = if held.is_empty() { EventFlags::IN } else { EventFlags::OUT };
                if !flags.contains(next) || flags.contains(EventFlags::OUT) {
                    self.poller.modify(&*socket, number, next)?;
                }
                Ok(!(*over && held.is_empty()))
            }
            State::Keeping(left) => {
                let count = self.data.len().min(*left as usize);
                *left -= later(net::send(socket, &self.data[..count]))?.unwrap_or(0) as u64;
                let next = if *left > 0 { EventFlags::OUT } else { EventFlags::IN };
                self.poller.modify(&*socket, number, next)?;
                Ok(true)
            }
        }
    }
}

/// Where the order begins, once that is clear.
fn order_start(opening: &[u8]) -> Option<usize> {
    if *opening.first()? != HANDSHAKE_RECORD {
        return Some(0);
    }
    let header = opening.first_chunk::<RECORD_HEADER>()?;
    let start = RECORD_HEADER + usize::from(u16::from_be_bytes([header[3], header[4]]));
    (opening.len() >= start).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_stands_behind_the_client_hello() {
        assert_eq!(order_start(b""), None);
        assert_eq!(order_start(b"R12345678"), Some(0));
        assert_eq!(order_start(b"\x16\x03\x01\x00"), None);
        assert_eq!(order_start(b"\x16\x03\x01\x00\x02h"), None);
        assert_eq!(order_start(b"\x16\x03\x01\x00\x02hiR"), Some(7));
    }
}
