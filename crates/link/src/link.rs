//! One link: the streams on it and what goes out. Both ends have the same and may do the same.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_base::lock::lock;

use crate::flow::{self, Flow};
use crate::frame::{Content, Frame, MAX_PAYLOAD, MAX_SMALL};
use crate::identity::Role;
use crate::inbound::{Broken, Sink};
use crate::memory::Crowd;
use crate::outbox::Outbox;
use crate::stream::{Settings, Shared, Stream};

/// What the windows of all streams may have beyond what each begins with.
const GROWTH: u64 = 64 << 20;
/// Numbers of streams are used once; a link that runs out of them takes no more.
const LAST_ID: u32 = u32::MAX - 2;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; MAX_PAYLOAD].into());
}

/// Lends the thread's buffer, in which the largest frame fits; no stream has one of its own.
pub(crate) fn with_buffer<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| work(buffer))
}

/// A link that takes no new streams: it is closed, or was told to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the link takes no new streams")]
pub struct Unusable;

/// What an end does with the streams that the other one opens.
pub trait Handler: Send + Sync + 'static {
    /// The other end has opened a stream. Called by the link's driver, so it must not wait: it accepts or refuses, and
    /// leaves everything else to a task.
    fn opened(&self, incoming: Incoming<'_>);
}

/// A connection between two ends and the streams on it.
pub struct Link {
    pub(crate) outbox: Outbox,
    role: Role,
    streams: Mutex<HashMap<u32, Arc<Shared>>>,
    pub(crate) crowd: Crowd,
    next_id: AtomicU32,
    /// This end opens no more streams.
    leaving: AtomicBool,
    /// The other end opens no more streams either: the link ends with its last one.
    told_to_leave: AtomicBool,
    closed: AtomicBool,
    reason: Mutex<String>,
    born: Instant,
    /// Milliseconds since `born`, as the driver saw them last.
    clock: AtomicU64,
    /// The shortest that was seen, in microseconds.
    round_trip: AtomicU64,
    /// What the windows have beyond what each began with.
    grown: AtomicU64,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("streams", &self.len()).finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(role: Role) -> Self {
        // Odd numbers for the streams of the end that dialled, even ones for those of the other.
        let first = match role {
            Role::Dialer => 1,
            Role::Listener => 2,
        };
        Self {
            outbox: Outbox::default(),
            role,
            streams: Mutex::default(),
            crowd: Crowd::default(),
            next_id: AtomicU32::new(first),
            leaving: AtomicBool::new(false),
            told_to_leave: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            reason: Mutex::default(),
            born: Instant::now(),
            clock: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
            grown: AtomicU64::new(0),
        }
    }

    /// Opens a stream; the other end learns from `request` what it is for.
    ///
    /// # Errors
    /// When the link takes no new streams.
    ///
    /// # Panics
    /// When the request is longer than 500 bytes.
    pub fn open(self: &Arc<Self>, request: &[u8], settings: Settings) -> Result<Stream, Unusable> {
        self.open_as(Content::Bytes, request, settings, Sink::Reader).map(Stream::new)
    }

    /// Opens a flow of datagrams; `sink` takes those that come.
    ///
    /// # Errors
    /// When the link takes no new streams.
    ///
    /// # Panics
    /// When the request is longer than 500 bytes.
    pub fn open_flow(
        self: &Arc<Self>,
        request: &[u8],
        settings: Settings,
        sink: flow::Sink,
    ) -> Result<Flow, Unusable> {
        self.open_as(Content::Datagrams, request, settings, Sink::Datagrams(sink)).map(Flow::new)
    }

    fn open_as(
        self: &Arc<Self>,
        content: Content,
        request: &[u8],
        settings: Settings,
        sink: Sink,
    ) -> Result<Arc<Shared>, Unusable> {
        assert!(request.len() < MAX_SMALL - 10, "a request is short");
        let mut streams = lock(&self.streams);
        // Under the lock: a link that leaves either waits for this stream or never had it.
        let id = self.next_id.load(Relaxed);
        if !self.is_usable() {
            return Err(Unusable);
        }
        self.next_id.store(id + 2, Relaxed);
        let stream = Arc::new(Shared::new(id, self.clone(), settings, sink));
        streams.insert(id, stream.clone());
        self.crowd.grew_to(streams.len());
        // Also under the lock: it must be the first that the other end hears of this stream, and come before a Leave.
        self.outbox.put(&Frame::Open { stream: id, content, request });
        Ok(stream)
    }

    /// A stream that the other end opened.
    fn insert(self: &Arc<Self>, id: u32, settings: Settings, sink: Sink) -> Arc<Shared> {
        let stream = Arc::new(Shared::new(id, self.clone(), settings, sink));
        let mut streams = lock(&self.streams);
        streams.insert(id, stream.clone());
        self.crowd.grew_to(streams.len());
        drop(streams);
        if self.is_closed() {
            // The driver may have emptied the table just before.
            stream.break_off(Broken::Lost);
        }
        stream
    }

    pub(crate) fn stream(&self, id: u32) -> Option<Arc<Shared>> {
        lock(&self.streams).get(&id).cloned()
    }

    /// Whether the other end may open a stream of this number: one of its own that is not in use.
    pub(crate) fn may_open(&self, id: u32) -> bool {
        let theirs = match self.role {
            Role::Dialer => 0,
            Role::Listener => 1,
        };
        id != 0 && id % 2 == theirs && !lock(&self.streams).contains_key(&id)
    }

    /// Forgets a stream that is over, and takes back what its window had grown by.
    pub(crate) fn remove(&self, id: u32, extra: u32) {
        self.grown.fetch_sub(u64::from(extra), Relaxed);
        let mut streams = lock(&self.streams);
        streams.remove(&id);
        if streams.len() < streams.capacity() / 8 {
            // A crowd that has gone gives its memory back.
            let len = streams.len();
            streams.shrink_to(2 * len);
        }
        let last = streams.is_empty();
        drop(streams);
        if last && self.told_to_leave.load(Relaxed) {
            self.outbox.driver.wake();
        }
    }

    /// How many streams and flows there are.
    pub fn len(&self) -> usize {
        lock(&self.streams).len()
    }

    /// Whether there is no stream.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both ends have agreed to leave and the last stream has ended; no other can come then.
    pub(crate) fn has_left(&self) -> bool {
        let streams = lock(&self.streams);
        self.told_to_leave.load(Relaxed) && streams.is_empty()
    }

    /// Breaks off the streams that have been silent for too long.
    pub(crate) fn sweep(&self) {
        let idle: Vec<_> = lock(&self.streams).values().filter(|stream| stream.is_idle()).cloned().collect();
        for stream in idle {
            stream.break_off(Broken::Here);
        }
    }

    /// Whether streams may be opened.
    pub fn is_usable(&self) -> bool {
        !self.leaving.load(Relaxed) && !self.is_closed() && self.next_id.load(Relaxed) < LAST_ID
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Neither end opens streams from now on; the link ends with the last one.
    pub fn leave(&self) {
        let _streams = lock(&self.streams);
        if !self.leaving.swap(true, Relaxed) {
            self.outbox.put(&Frame::Leave);
        }
    }

    /// The other end wants to leave, and has opened its last stream.
    pub(crate) fn told_to_leave(&self) {
        let streams = lock(&self.streams);
        self.leaving.store(true, Relaxed);
        self.told_to_leave.store(true, Relaxed);
        drop(streams);
        self.outbox.driver.wake();
    }

    /// Ends the link and tells the other end why. Every stream on it is lost; what was sent before still goes out.
    pub fn close(&self, reason: &str) {
        if self.closed.swap(true, Relaxed) {
            return;
        }
        reason.clone_into(&mut lock(&self.reason));
        self.outbox.put(&Frame::Close { reason });
        self.outbox.close();
        for stream in std::mem::take(&mut *lock(&self.streams)).into_values() {
            stream.break_off(Broken::Lost);
        }
        self.outbox.driver.wake();
    }

    /// Why this end closed it.
    pub(crate) fn reason(&self) -> String {
        lock(&self.reason).clone()
    }

    pub(crate) fn clock(&self) -> u64 {
        self.clock.load(Relaxed)
    }

    /// Looks at the time, for all streams.
    pub(crate) fn tick(&self) {
        self.clock.store(self.born.elapsed().as_millis() as u64, Relaxed);
    }

    /// A stamp for a ping.
    pub(crate) fn stamp(&self) -> u64 {
        self.born.elapsed().as_micros() as u64
    }

    /// The other end has answered the ping with this stamp.
    pub(crate) fn answered(&self, stamp: u64) {
        let took = self.stamp().saturating_sub(stamp).max(1);
        let known = self.round_trip.load(Relaxed);
        if known == 0 || took < known {
            self.round_trip.store(took, Relaxed);
        }
    }

    /// The shortest round trip that was seen.
    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip.load(Relaxed))
    }

    /// Whether a window may grow by so much.
    pub(crate) fn grant(&self, more: u32) -> bool {
        let more = u64::from(more);
        let grow = |grown: u64| (grown + more <= GROWTH).then_some(grown + more);
        self.grown.fetch_update(Relaxed, Relaxed, grow).is_ok()
    }
}

/// A stream that the other end has opened. Dropped, it is refused.
pub struct Incoming<'a> {
    link: &'a Arc<Link>,
    id: u32,
    content: Content,
    request: &'a [u8],
    answered: bool,
}

impl<'a> Incoming<'a> {
    pub(crate) fn new(link: &'a Arc<Link>, id: u32, content: Content, request: &'a [u8]) -> Self {
        Self { link, id, content, request, answered: false }
    }

    /// What it is for.
    pub fn request(&self) -> &'a [u8] {
        self.request
    }

    /// The link that it is on.
    pub fn link(&self) -> &'a Arc<Link> {
        self.link
    }

    /// Whether it carries datagrams: it is to be accepted as a flow then.
    pub fn is_flow(&self) -> bool {
        self.content == Content::Datagrams
    }

    /// Takes it as a stream of bytes.
    pub fn accept(mut self, settings: Settings) -> Stream {
        self.answered = true;
        Stream::new(self.link.insert(self.id, settings, Sink::Reader))
    }

    /// Takes it as a flow of datagrams; `sink` takes those that come.
    pub fn accept_flow(mut self, settings: Settings, sink: flow::Sink) -> Flow {
        self.answered = true;
        Flow::new(self.link.insert(self.id, settings, Sink::Datagrams(sink)))
    }

    /// Refuses it and says why.
    pub fn refuse(mut self, reason: &str) {
        self.answered = true;
        self.link.outbox.put(&Frame::Reset { stream: self.id, reason });
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.link.outbox.put(&Frame::Reset { stream: self.id, reason: "" });
        }
    }
}
