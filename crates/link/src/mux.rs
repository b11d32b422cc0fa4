//! One data link: the streams on it and what goes out. Both ends have the same; only the container opens streams.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::counters::Tally;
use crate::frame::{self, Frame, MAX_PAYLOAD};
use crate::outbox::Outbox;
use crate::stream::{Socket, Stream};
use crate::tunnel::TunnelId;

/// A lock that a panicking holder does not take with it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; MAX_PAYLOAD].into());
}

/// Lends the thread's buffer, in which the largest frame fits; no stream has one of its own.
pub fn with_buffer<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| work(buffer))
}

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The connection failed.
    #[error("the connection failed")]
    Io(#[from] std::io::Error),
    /// TLS failed.
    #[error("TLS failed")]
    Tls(#[from] rustls::Error),
    /// The other end breaks the rules.
    #[error("the other end breaks the protocol")]
    Protocol(#[from] frame::Error),
    /// The other end does what its role may not.
    #[error("the other end sent what it may not send: {0}")]
    Role(&'static str),
    /// The other end closed the connection.
    #[error("the other end closed the connection")]
    Closed,
    /// Nothing was heard for too long.
    #[error("nothing was heard from the other end for {} s", .0.as_secs_f32())]
    Silent(Duration),
    /// The link was told to leave and its last stream has ended.
    #[error("the link was replaced")]
    Replaced,
}

/// What an end does with the frames that only one end may send.
pub trait Side: Send + Sync + 'static {
    /// The other end says which session the link belongs to.
    fn hello(&self, link: &Arc<Link>, session: &[u8]) -> Result<(), Broken>;
    /// The other end has a client.
    fn open(&self, link: &Arc<Link>, stream: u32, tunnel: TunnelId, source: SocketAddr)
    -> Result<(), Broken>;
}

/// One connection between the ends and the streams on it.
#[derive(Default)]
pub struct Link {
    pub outbox: Outbox,
    streams: Mutex<HashMap<u32, Arc<Stream>>>,
    last_id: AtomicU32,
    /// Takes no new streams; ends with its last one.
    leaving: AtomicBool,
    closed: AtomicBool,
    /// The other end has answered a ping.
    pub answered: Notify,
}

impl Link {
    /// A stream that this end opens for a client of `tunnel`; a link that takes no new ones gives the client back.
    pub fn open(
        self: &Arc<Self>,
        tunnel: TunnelId,
        source: SocketAddr,
        socket: Socket,
        tally: Arc<Tally>,
        idle: Duration,
    ) -> Result<Arc<Stream>, Socket> {
        let id = self.last_id.fetch_add(1, Relaxed) + 1;
        let stream = Arc::new(Stream::new(id, tunnel, self.clone(), tally, idle));
        {
            let mut streams = lock(&self.streams);
            // Under the lock: a link that leaves either waits for this stream or never had it.
            if !self.is_usable() {
                return Err(socket);
            }
            streams.insert(id, stream.clone());
        }
        stream.attach(socket);
        self.outbox.put(&Frame::Open { stream: id, tunnel, source });
        Ok(stream)
    }

    /// A stream that the other end opened.
    pub fn insert(
        self: &Arc<Self>,
        id: u32,
        tunnel: TunnelId,
        tally: Arc<Tally>,
        idle: Duration,
    ) -> Arc<Stream> {
        let stream = Arc::new(Stream::new(id, tunnel, self.clone(), tally, idle));
        lock(&self.streams).insert(id, stream.clone());
        if self.is_closed() {
            // The driver may have emptied the table just before.
            stream.lose_link();
        }
        stream
    }

    pub fn stream(&self, id: u32) -> Option<Arc<Stream>> {
        lock(&self.streams).get(&id).cloned()
    }

    /// Forgets a stream that is over.
    pub fn remove(&self, id: u32) {
        let mut streams = lock(&self.streams);
        streams.remove(&id);
        let last = streams.is_empty();
        drop(streams);
        if last && self.is_leaving() {
            self.outbox.driver.wake();
        }
    }

    pub fn len(&self) -> usize {
        lock(&self.streams).len()
    }

    /// Whether it was told to leave and its last stream has ended; no other can come then.
    pub fn has_left(&self) -> bool {
        let streams = lock(&self.streams);
        self.is_leaving() && streams.is_empty()
    }

    /// Streams for which `which` holds.
    pub fn select(&self, which: impl Fn(&Stream) -> bool) -> Vec<Arc<Stream>> {
        lock(&self.streams).values().filter(|stream| which(stream)).cloned().collect()
    }

    pub fn is_usable(&self) -> bool {
        !self.is_leaving() && !self.is_closed()
    }

    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Relaxed)
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// No new streams from now on; the driver ends with the last one.
    pub fn leave(&self) {
        self.leaving.store(true, Relaxed);
        self.outbox.driver.wake();
    }

    /// The connection is gone, and with it every stream that still needs it.
    pub fn close(&self) {
        self.closed.store(true, Relaxed);
        self.outbox.close();
        for stream in std::mem::take(&mut *lock(&self.streams)).into_values() {
            stream.lose_link();
        }
        self.outbox.driver.wake();
    }
}
