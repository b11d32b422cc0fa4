//! Sockets that never wait, and one epoll: what load and backend are made of. Calls go straight to the kernel, so that
//! the load is a small and fixed cost beside the proxies.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, accept_with, bind, recv,
    shutdown, socket_with, sockopt,
};

pub(crate) use rustix::event::epoll::EventFlags;

const BACKLOG: i32 = 4096;
/// Addresses that clients connect from, so that their ports never run out.
const SOURCES: usize = 32;
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

pub(crate) fn listen(at: SocketAddrV4) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Begins to connect; `turn` chooses the address to connect from.
pub(crate) fn connect(to: SocketAddrV4, turn: usize) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if to.ip().is_loopback() {
        let source = Ipv4Addr::new(127, 0, 1, 1 + (turn % SOURCES) as u8);
        bind(&socket, &SocketAddrV4::new(source, 0))?;
    }
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn accept(listener: &OwnedFd) -> io::Result<OwnedFd> {
    let socket = accept_with(listener, FLAGS)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    Ok(socket)
}

pub(crate) fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

pub(crate) fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> io::Result<usize> {
    Ok(recv(socket, bytes, RecvFlags::empty())?.0)
}

/// Says that nothing more will be sent.
pub(crate) fn finish(socket: &OwnedFd) -> io::Result<()> {
    Ok(shutdown(socket, Shutdown::Write)?)
}

/// Whether to try again later; before it is connected a socket says `NotConnected`.
pub(crate) fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

/// Waits until there is something to read, or room to write; `false` when the time is over.
pub(crate) fn wait(socket: &OwnedFd, flags: PollFlags, limit: Duration) -> io::Result<PollFlags> {
    let mut polled = [PollFd::new(socket, flags)];
    rustix::event::poll(&mut polled, Some(&timespec(limit)))?;
    Ok(polled[0].revents())
}

fn timespec(limit: Duration) -> Timespec {
    Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) }
}

/// Sockets by number, and what has happened to them.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(256) })
    }

    pub(crate) fn add(&self, socket: impl AsFd, number: usize, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(number as u64), flags)?)
    }

    pub(crate) fn modify(&self, socket: impl AsFd, number: usize, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(number as u64), flags)?)
    }

    /// Waits for events and says how many there are.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> io::Result<usize> {
        self.events.clear();
        let limit = limit.map(timespec);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(self.events.len()),
            Err(error) => Err(error.into()),
        }
    }

    /// The number of the socket of an event, and what happened.
    pub(crate) fn event(&self, place: usize) -> (usize, EventFlags) {
        let event = self.events[place];
        (event.data.u64() as usize, event.flags)
    }
}
