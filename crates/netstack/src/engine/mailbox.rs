//! What owners of flows want of the engine.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use bytes::Bytes;
use causeway_base::lock::lock;
use futures::task::AtomicWaker;
use tokio::sync::oneshot;

use crate::flow::{Ends, TcpCell, UdpCell};

/// Bytes of datagrams that wait to be sent; further ones are lost.
const WAITING: usize = 4 << 20;

/// Something that is not done often.
pub(crate) enum Command {
    Connect(SocketAddr, SocketAddr, oneshot::Sender<io::Result<Arc<TcpCell>>>),
    OpenUdp(SocketAddr, SocketAddr, oneshot::Sender<io::Result<Arc<UdpCell>>>),
    EndUdp(Arc<UdpCell>),
    RefuseUdp(Ends, Bytes),
    /// Every flow of an address is broken off.
    Cut(IpAddr),
    Stop,
}

/// Where the engine finds what it is asked for.
#[derive(Default)]
pub(crate) struct Mailbox {
    engine: AtomicWaker,
    closed: AtomicBool,
    kicked: Mutex<Vec<Arc<TcpCell>>>,
    commands: Mutex<Vec<Command>>,
    datagrams: Mutex<Datagrams>,
}

/// Datagrams that wait to be sent.
#[derive(Default)]
struct Datagrams {
    queue: VecDeque<(Ends, Bytes)>,
    bytes: usize,
}

impl Mailbox {
    pub(super) fn register(&self, waker: &Waker) {
        self.engine.register(waker);
    }

    /// Nobody reads any more.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.commands).clear();
        lock(&self.kicked).clear();
        *lock(&self.datagrams) = Datagrams::default();
    }

    /// A connection has something to send, or to say.
    pub(crate) fn kick(&self, cell: Arc<TcpCell>) {
        if !self.closed.load(Ordering::Acquire) {
            lock(&self.kicked).push(cell);
            self.engine.wake();
        }
    }

    pub(crate) fn command(&self, command: Command) {
        // Behind the lock, so that none stays when the engine has gone: its sender would wait for ever.
        let mut commands = lock(&self.commands);
        if !self.closed.load(Ordering::Acquire) {
            commands.push(command);
            drop(commands);
            self.engine.wake();
        }
    }

    pub(crate) fn send_datagram(&self, ends: Ends, datagram: Bytes) {
        let mut waiting = lock(&self.datagrams);
        if waiting.bytes + datagram.len() <= WAITING && !self.closed.load(Ordering::Acquire) {
            waiting.bytes += datagram.len();
            waiting.queue.push_back((ends, datagram));
            drop(waiting);
            self.engine.wake();
        }
    }

    pub(super) fn take_kicked(&self) -> Vec<Arc<TcpCell>> {
        std::mem::take(&mut *lock(&self.kicked))
    }

    pub(super) fn take_commands(&self) -> Vec<Command> {
        std::mem::take(&mut *lock(&self.commands))
    }

    pub(super) fn take_datagram(&self) -> Option<(Ends, Bytes)> {
        let mut waiting = lock(&self.datagrams);
        let next = waiting.queue.pop_front()?;
        waiting.bytes -= next.1.len();
        Some(next)
    }

    pub(super) fn has_datagrams(&self) -> bool {
        !lock(&self.datagrams).queue.is_empty()
    }
}
