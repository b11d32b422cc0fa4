//! One stream on a link. Whoever opened or accepted it reads and writes it like any other, or has it joined to a
//! socket (`relay`), past which no byte is copied here. An idle stream holds no buffer.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use causeway_base::lock::lock;
use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::frame::{Frame, MAX_PAYLOAD};
use crate::inbound::{Broken, Delivery, Inbound, Sink};
use crate::link::Link;
use crate::traffic::Traffic;
use crate::waiting::Waiting;
use crate::window;

/// What is asked of a stream.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long it may be silent before it is broken off.
    pub idle_timeout: Duration,
    /// Where its bytes are counted.
    pub traffic: Arc<Traffic>,
    /// The client that it is for, whose share of memory its unread bytes take; none for what the ends say to each other.
    pub client: Option<IpAddr>,
}

/// What the stream's owner and the link's driver share.
pub(crate) struct Shared {
    pub(crate) id: u32,
    pub(crate) link: Arc<Link>,
    settings: Settings,
    /// When something last moved, by the link's clock.
    moved: AtomicU64,
    /// How much may still be sent.
    credit: AtomicU32,
    pub(crate) reader: AtomicWaker,
    pub(crate) writer: AtomicWaker,
    /// Whether the outbox has it on its list.
    pub(crate) waits_for_room: AtomicBool,
    inbound: Mutex<Inbound>,
}

impl Shared {
    pub(crate) fn new(id: u32, link: Arc<Link>, settings: Settings, sink: Sink) -> Self {
        let inbound = Mutex::new(Inbound::new(sink, Waiting::of(settings.client)));
        Self {
            id,
            moved: AtomicU64::new(link.clock()),
            link,
            settings,
            credit: AtomicU32::new(window::FIRST),
            reader: AtomicWaker::new(),
            writer: AtomicWaker::new(),
            waits_for_room: AtomicBool::new(false),
            inbound,
        }
    }

    pub(crate) fn inbound(&self) -> MutexGuard<'_, Inbound> {
        lock(&self.inbound)
    }

    fn wake(&self) {
        self.reader.wake();
        self.writer.wake();
    }

    /// How much may be sent now; none while the link is busy with what it has. The writer is woken when it may go on.
    pub(crate) fn allowance(self: &Arc<Self>) -> usize {
        let credit = self.credit.load(Ordering::Acquire) as usize;
        if credit == 0 || !self.link.outbox.has_room(self) { 0 } else { credit.min(MAX_PAYLOAD) }
    }

    /// Sends bytes for which there is credit.
    pub(crate) fn send(&self, piece: &[u8]) {
        self.credit.fetch_sub(piece.len() as u32, Ordering::AcqRel);
        self.send_datagram(piece);
    }

    /// Sends a datagram, for which no credit is needed.
    pub(crate) fn send_datagram(&self, piece: &[u8]) {
        self.touch();
        self.settings.traffic.add_sent(piece.len());
        self.link.outbox.put(&Frame::Data { stream: self.id, piece, last: true });
    }

    /// The other end has room for more.
    pub(crate) fn credited(&self, bytes: u32) {
        let more = |credit: u32| Some(credit.saturating_add(bytes));
        let old = self.credit.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        if old == Ok(0) {
            self.writer.wake();
        }
    }

    /// Bytes came over the link.
    pub(crate) fn deliver(&self, piece: &[u8], last: bool) {
        self.touch();
        self.settings.traffic.add_received(piece.len());
        let mut inbound = self.inbound();
        match inbound.deliver(piece, last) {
            Delivery::Taken(count) => self.taken(&mut inbound, count),
            Delivery::Nowhere => {}
            Delivery::Failed => inbound.broken = inbound.broken.take().or(Some(Broken::Here)),
        }
        let wake = inbound.broken.is_some() || !inbound.queue.is_empty() || inbound.has_lost_sink();
        drop(inbound);
        if wake {
            self.reader.wake();
        }
    }

    /// So many bytes have gone on from here, so the other end may send as many more.
    pub(crate) fn taken(&self, inbound: &mut Inbound, count: usize) {
        let credit = inbound.window.taken(count, self.link.round_trip(), |more| self.link.grant(more));
        if let Some(bytes) = credit.filter(|_| !inbound.fin) {
            self.link.outbox.put(&Frame::Credit { stream: self.id, bytes });
        }
    }

    /// Nothing more will come over the link.
    pub(crate) fn finished(&self) {
        self.inbound().fin = true;
        self.reader.wake();
    }

    /// The stream breaks off; the first cause counts.
    pub(crate) fn break_off(&self, cause: Broken) {
        self.inbound().broken.get_or_insert(cause);
        self.wake();
    }

    fn touch(&self) {
        self.moved.store(self.link.clock(), Ordering::Relaxed);
    }

    /// Whether nothing moved for too long.
    pub(crate) fn is_idle(&self) -> bool {
        let silent = self.link.clock().saturating_sub(self.moved.load(Ordering::Relaxed));
        Duration::from_millis(silent) > self.settings.idle_timeout
    }

    /// Whether it is broken off.
    pub(crate) fn is_broken(&self) -> bool {
        self.inbound().broken.is_some()
    }

    /// The owner is done with it: the other end is told unless it knows, and the link forgets it.
    pub(crate) fn release(&self, sent_fin: bool, reason: &str) {
        let mut inbound = self.inbound();
        let known = match inbound.broken {
            Some(Broken::There(_) | Broken::Lost) => true,
            Some(Broken::Here) => false,
            None => sent_fin && inbound.fin,
        };
        // What comes from here on goes nowhere, and the socket is let go.
        inbound.broken.get_or_insert(Broken::Here);
        inbound.clear();
        let extra = inbound.window.extra();
        drop(inbound);
        if !known {
            self.link.outbox.put(&Frame::Reset { stream: self.id, reason });
        }
        self.link.remove(self.id, extra);
    }
}

/// One stream. Dropped before both directions have ended, it is broken off.
pub struct Stream {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sent_fin: bool,
    /// What the other end is told if it is broken off.
    reason: String,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("id", &self.shared.id).finish_non_exhaustive()
    }
}

impl Stream {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, sent_fin: false, reason: String::new() }
    }

    /// Breaks it off and tells the other end why.
    pub fn refuse(mut self, reason: impl Into<String>) {
        self.shared.break_off(Broken::Here);
        self.reason = reason.into();
    }

    pub(crate) fn send_fin(&mut self) {
        if !self.sent_fin {
            self.sent_fin = true;
            self.shared.link.outbox.put(&Frame::Fin { stream: self.shared.id });
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.release(self.sent_fin, &self.reason);
    }
}

/// A broken stream as those who read and write it are told.
fn error(broken: &Broken) -> io::Error {
    match broken {
        Broken::Here => io::ErrorKind::ConnectionAborted.into(),
        Broken::There(reason) if reason.is_empty() => io::ErrorKind::ConnectionReset.into(),
        Broken::There(reason) => io::Error::new(io::ErrorKind::ConnectionReset, reason.clone()),
        Broken::Lost => io::Error::new(io::ErrorKind::ConnectionReset, "the link is gone"),
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let shared = &self.shared;
        shared.reader.register(cx.waker());
        let mut inbound = shared.inbound();
        if !inbound.queue.is_empty() && inbound.broken != Some(Broken::Here) {
            let (front, _) = inbound.queue.as_slices();
            let count = front.len().min(buffer.remaining());
            buffer.put_slice(&front[..count]);
            inbound.consume(count);
            shared.taken(&mut inbound, count);
            return Poll::Ready(Ok(()));
        }
        match &inbound.broken {
            _ if inbound.fin => Poll::Ready(Ok(())),
            Some(broken) => Poll::Ready(Err(error(broken))),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let shared = &self.shared;
        shared.writer.register(cx.waker());
        if self.sent_fin {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if let Some(broken) = &shared.inbound().broken {
            return Poll::Ready(Err(error(broken)));
        }
        let count = shared.allowance().min(bytes.len());
        if count == 0 && !bytes.is_empty() {
            return Poll::Pending;
        }
        shared.send(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The driver sends what it has as soon as it can.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.send_fin();
        Poll::Ready(Ok(()))
    }
}
