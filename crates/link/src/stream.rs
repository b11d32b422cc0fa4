//! One stream on a link: a client's connection on the container's end, a connection to the service on the host's.
//! What comes in over the link is written to the socket at once by the link's driver; only what the socket does not
//! take is kept, at most one window, and written by the stream's own task. An idle stream holds no buffer.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use rustix::io::Errno;
use rustix::net::{SendFlags, send, sendto};
use tokio::net::{TcpStream, UdpSocket};

use crate::counters::Tally;
use crate::frame::Frame;
use crate::mux::{Link, lock};
use crate::tunnel::TunnelId;

/// How much may be on its way in one direction of a stream before the receiver has taken it.
pub const WINDOW: u32 = 256 << 10;
/// Credit is given back in pieces of at least this.
const CREDIT_STEP: u32 = WINDOW / 4;

/// What a stream is connected to.
pub enum Socket {
    /// A connection.
    Tcp(TcpStream),
    /// The host's own socket for one client's datagrams, connected to the service.
    Session(UdpSocket),
    /// A client of the container's socket, which all clients share.
    Peer(Arc<UdpSocket>, SocketAddr),
}

/// One stream.
pub struct Stream {
    pub id: u32,
    pub tunnel: TunnelId,
    pub link: Arc<Link>,
    pub tally: Arc<Tally>,
    idle: Duration,
    born: Instant,
    /// When something last moved, in milliseconds after `born`.
    moved: AtomicU64,
    /// How much may still be sent.
    credit: AtomicU32,
    waker: AtomicWaker,
    socket: OnceLock<Socket>,
    inbound: Mutex<Inbound>,
}

/// What came over the link and where it stands.
#[derive(Default)]
pub struct Inbound {
    /// What the socket has not taken.
    pub queue: VecDeque<Vec<u8>>,
    /// How much of the first one it has.
    pub written: usize,
    /// Taken, and not yet credited.
    taken: u32,
    /// Nothing more will come.
    pub fin: bool,
    /// The socket was told so.
    pub shut: bool,
    /// The stream is broken and by whom.
    pub broken: Option<Side>,
    /// The link is gone: what came is still written, nothing else can be done.
    pub lost: bool,
    /// A datagram of which only a part has come.
    datagram: Vec<u8>,
    queued: usize,
}

/// Who broke a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// This end: the other one has to hear of it.
    Here,
    /// The other end, or the loss of the link.
    There,
}

impl Stream {
    pub fn new(id: u32, tunnel: TunnelId, link: Arc<Link>, tally: Arc<Tally>, idle: Duration) -> Self {
        Self {
            id,
            tunnel,
            link,
            tally,
            idle,
            born: Instant::now(),
            moved: AtomicU64::new(0),
            credit: AtomicU32::new(WINDOW),
            waker: AtomicWaker::new(),
            socket: OnceLock::new(),
            inbound: Mutex::default(),
        }
    }

    /// Gives the stream its socket.
    pub fn attach(&self, socket: Socket) {
        let attached = self.socket.set(socket);
        debug_assert!(attached.is_ok(), "a stream gets one socket");
    }

    pub fn socket(&self) -> Option<&Socket> {
        self.socket.get()
    }

    pub fn inbound(&self) -> std::sync::MutexGuard<'_, Inbound> {
        lock(&self.inbound)
    }

    pub fn register(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    pub fn wake(&self) {
        self.waker.wake();
    }

    /// How much may be sent now.
    pub fn credit(&self) -> usize {
        self.credit.load(Ordering::Acquire) as usize
    }

    /// Sends bytes for which there is credit.
    pub fn send(&self, piece: &[u8]) {
        self.credit.fetch_sub(piece.len() as u32, Ordering::AcqRel);
        self.send_datagram(piece);
    }

    /// Sends a datagram, for which no credit is needed.
    pub fn send_datagram(&self, piece: &[u8]) {
        self.touch();
        self.tally.outbound.fetch_add(piece.len() as u64, Ordering::Relaxed);
        self.link.outbox.put(&Frame::Data { stream: self.id, piece, last: true });
    }

    /// The other end has room for more.
    pub fn credited(&self, bytes: u32) {
        // An end that gives more than a window gains nothing by it.
        let more = |credit: u32| Some(credit.saturating_add(bytes).min(WINDOW));
        let old = self.credit.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        if old == Ok(0) {
            self.wake();
        }
    }

    /// Bytes came over the link.
    pub fn deliver(&self, piece: &[u8], last: bool) {
        self.touch();
        self.tally.inbound.fetch_add(piece.len() as u64, Ordering::Relaxed);
        let mut inbound = self.inbound();
        match self.socket() {
            Some(Socket::Tcp(socket)) if inbound.queue.is_empty() => {
                let sent = write_some(socket, piece);
                self.delivered(&mut inbound, piece, sent);
            }
            Some(Socket::Tcp(_)) | None => self.keep(&mut inbound, piece),
            Some(Socket::Session(socket)) => {
                inbound.whole(piece, last, |datagram| match send(socket, datagram, SendFlags::DONTWAIT) {
                    // The refusal is that of an earlier datagram, and this one has not been sent.
                    Err(Errno::CONNREFUSED) => send(socket, datagram, SendFlags::DONTWAIT),
                    sent => sent,
                });
            }
            Some(Socket::Peer(socket, peer)) => {
                inbound.whole(piece, last, |datagram| sendto(socket, datagram, SendFlags::DONTWAIT, peer));
            }
        }
    }

    fn delivered(&self, inbound: &mut Inbound, piece: &[u8], sent: io::Result<usize>) {
        match sent {
            Ok(sent) => {
                self.taken(inbound, sent);
                if sent < piece.len() {
                    self.keep(inbound, &piece[sent..]);
                }
            }
            Err(_) => self.break_locally(inbound),
        }
    }

    /// Keeps what the socket does not take now; its own task writes it when it can.
    fn keep(&self, inbound: &mut Inbound, piece: &[u8]) {
        if inbound.broken.is_some() {
            return;
        }
        if inbound.queued + piece.len() > WINDOW as usize {
            // The other end was never given that much credit.
            self.break_locally(inbound);
            return;
        }
        inbound.queued += piece.len();
        match inbound.queue.back_mut() {
            // Small pieces share a buffer, so that a window of them does not become a thousand allocations.
            Some(tail) if tail.len() + piece.len() <= 16 << 10 => tail.extend_from_slice(piece),
            _ => inbound.queue.push_back(piece.to_vec()),
        }
        self.wake();
    }

    fn break_locally(&self, inbound: &mut Inbound) {
        inbound.broken.get_or_insert(Side::Here);
        self.wake();
    }

    /// The socket took `count` bytes, so the other end may send as many more.
    pub fn taken(&self, inbound: &mut Inbound, count: usize) {
        inbound.taken += count as u32;
        if inbound.taken >= CREDIT_STEP && !inbound.fin {
            let bytes = std::mem::take(&mut inbound.taken);
            self.link.outbox.put(&Frame::Credit { stream: self.id, bytes });
        }
    }

    /// Writes what is kept as far as the socket takes it; says whether all is written.
    pub fn flush(&self, inbound: &mut Inbound, socket: &TcpStream) -> io::Result<bool> {
        while let Some(head) = inbound.queue.front() {
            let left = &head[inbound.written..];
            let sent = write_some(socket, left)?;
            let whole = sent == left.len();
            if whole {
                inbound.queue.pop_front();
                inbound.written = 0;
            } else {
                inbound.written += sent;
            }
            inbound.queued -= sent;
            self.taken(inbound, sent);
            if !whole {
                return Ok(false);
            }
        }
        // A drained queue gives its memory back.
        inbound.queue = VecDeque::new();
        Ok(true)
    }

    /// Nothing more will come over the link.
    pub fn finished(&self) {
        self.inbound().fin = true;
        self.wake();
    }

    /// The link is gone.
    pub fn lose_link(&self) {
        self.inbound().lost = true;
        self.wake();
    }

    /// The other end broke the stream off.
    pub fn break_off(&self) {
        self.inbound().broken = Some(Side::There);
        self.wake();
    }

    /// This end breaks the stream off, and tells the other.
    pub fn abort(&self) {
        self.break_locally(&mut self.inbound());
    }

    fn touch(&self) {
        self.moved.store(self.born.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether nothing moved for too long.
    pub fn is_idle(&self) -> bool {
        let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(moved) > self.idle
    }
}

/// Writes until the socket takes no more.
fn write_some(socket: &TcpStream, piece: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < piece.len() {
        match socket.try_write(&piece[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

impl Inbound {
    /// Sends a datagram once it is whole. One that the network does not take is lost, as datagrams are. The kernel is
    /// asked directly: the runtime does not know yet that a socket made a moment ago can be written to.
    fn whole(&mut self, piece: &[u8], last: bool, send: impl FnOnce(&[u8]) -> rustix::io::Result<usize>) {
        if last && self.datagram.is_empty() {
            let _ = send(piece);
            return;
        }
        self.datagram.extend_from_slice(piece);
        if last {
            let _ = send(&self.datagram);
            self.datagram = Vec::new();
        }
    }
}
