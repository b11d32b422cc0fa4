//! The bytes below a connection of HTTP/2. What is written is gathered until whoever drives the connection has nothing
//! more to do, so that the frames of many streams go out together; a connection that waits holds no buffer here.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Pulse;
use super::guard::Guard;
use crate::clock;
use crate::http::wire::Wire;
use crate::worker::Worker;

/// What is gathered before it is sent, and the largest write that is gathered with others.
const GATHERED: usize = 16 << 10;
const SMALL: usize = 8 << 10;

/// Who hears of what comes.
pub(crate) enum Watch {
    Client(Rc<Guard>),
    Endpoint(Rc<Pulse>),
}

/// A wire, and what waits to be sent over it.
pub(crate) struct Pipe<W> {
    pub(crate) wire: W,
    out: RefCell<Vec<u8>>,
    sent: Cell<usize>,
    watch: Watch,
    worker: Rc<Worker>,
}

impl<W: Wire> Pipe<W> {
    pub(crate) fn new(wire: W, watch: Watch, worker: &Rc<Worker>) -> Rc<Self> {
        Rc::new(Self { wire, out: RefCell::default(), sent: Cell::new(0), watch, worker: Rc::clone(worker) })
    }

    /// Sends what was gathered.
    pub(crate) fn poll_drain(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut out = self.out.borrow_mut();
        if out.is_empty() {
            return self.wire.poll_flush(cx);
        }
        while self.sent.get() < out.len() {
            match self.wire.try_send_two(&out[self.sent.get()..], &[]) {
                Ok(count) => self.moved(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.wire.poll_writable(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.sent.set(0);
        self.worker.workspace.buffers.give_back_head(std::mem::take(&mut *out));
        self.wire.poll_flush(cx)
    }

    fn moved(&self, count: usize) {
        self.sent.set(self.sent.get() + count);
        self.earned(count);
    }

    fn earned(&self, count: usize) {
        if let Watch::Client(guard) = &self.watch {
            guard.sent(count);
        }
    }

    fn heard(&self, bytes: &[u8]) {
        match &self.watch {
            Watch::Client(guard) => guard.observe(bytes),
            Watch::Endpoint(pulse) => pulse.heard(clock::woken()),
        }
    }

    fn is_shut(&self) -> bool {
        matches!(&self.watch, Watch::Client(guard) if guard.is_flooded())
    }

    /// Whether pieces were gathered; what is too large for that is not.
    fn gather(&self, pieces: &[IoSlice<'_>]) -> Option<usize> {
        let count: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut out = self.out.borrow_mut();
        if count > SMALL || out.len() + count > GATHERED {
            return None;
        }
        if out.capacity() == 0 {
            *out = self.worker.workspace.buffers.take_head();
        }
        for piece in pieces {
            out.extend_from_slice(piece);
        }
        Some(count)
    }

    fn poll_write(&self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if let Some(count) = self.gather(pieces) {
            return Poll::Ready(Ok(count));
        }
        ready!(self.poll_drain(cx))?;
        if let Some(count) = self.gather(pieces) {
            return Poll::Ready(Ok(count));
        }
        let mut present = pieces.iter().filter(|piece| !piece.is_empty());
        let first = present.next().map_or(&[][..], |piece| &piece[..]);
        let second = present.next().map_or(&[][..], |piece| &piece[..]);
        loop {
            match self.wire.try_send_two(first, second) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.wire.poll_writable(cx))?;
                }
                Ok(count) => {
                    self.earned(count);
                    return Poll::Ready(Ok(count));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// The pipe as the framing below HTTP/2 sees it.
pub(crate) struct Io<W> {
    pipe: Rc<Pipe<W>>,
    /// What was read before.
    early: Vec<u8>,
    at: usize,
    ended: bool,
}

impl<W: Wire> Io<W> {
    pub(crate) fn new(pipe: &Rc<Pipe<W>>, early: Vec<u8>) -> Self {
        Self { pipe: Rc::clone(pipe), early, at: 0, ended: false }
    }
}

impl<W: Wire> AsyncRead for Io<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.ended || this.pipe.is_shut() {
            // Whoever drives the connection looks after each poll whether it is shut.
            return if this.ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        if this.at < this.early.len() {
            let count = buffer.remaining().min(this.early.len() - this.at);
            let bytes = &this.early[this.at..this.at + count];
            this.pipe.heard(bytes);
            buffer.put_slice(bytes);
            this.at += count;
            if this.at == this.early.len() {
                (this.early, this.at) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        let room = buffer.initialize_unfilled();
        let received = ready!(this.pipe.wire.poll_receive(cx, room))?;
        this.ended = received.ended;
        this.pipe.heard(&room[..received.count]);
        buffer.advance(received.count);
        Poll::Ready(Ok(()))
    }
}

impl<W: Wire> AsyncWrite for Io<W> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.pipe.poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.pipe.poll_write(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is to be done: the pipe is drained by whoever drives the connection.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.pipe.poll_drain(cx))?;
        self.pipe.wire.end();
        Poll::Ready(Ok(()))
    }
}
