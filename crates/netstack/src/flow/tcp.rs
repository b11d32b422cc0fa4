//! A TCP connection as its owner has it. The owner and the engine share the connection under one lock; whoever changes
//! what the other waits for wakes it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use causeway_base::Share;
use causeway_base::lock::lock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Ends;
use crate::engine::Mailbox;
use crate::tcp::{Connection, Failure, Phase, Read};

/// What owner and engine share.
pub(crate) struct TcpCell {
    pub ends: Ends,
    mailbox: Arc<Mailbox>,
    state: Mutex<TcpState>,
}

/// What is behind the lock.
pub(crate) struct TcpState {
    pub connection: Connection,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Whether the engine has it on its list.
    pub is_listed: bool,
    /// When the engine looks at it by itself.
    pub scheduled: Option<Instant>,
    /// Its place among the flows of the stack; none while it only lingers.
    pub place: Option<Share<IpAddr>>,
}

impl TcpCell {
    pub(crate) fn new(
        ends: Ends,
        mailbox: Arc<Mailbox>,
        connection: Connection,
        place: Share<IpAddr>,
    ) -> Arc<Self> {
        let state = TcpState {
            connection,
            reader: None,
            writer: None,
            is_listed: false,
            scheduled: None,
            place: Some(place),
        };
        Arc::new(Self { ends, mailbox, state: Mutex::new(state) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TcpState> {
        lock(&self.state)
    }

    /// Has the engine look at it.
    fn kick(self: &Arc<Self>, mut state: MutexGuard<'_, TcpState>) {
        if !std::mem::replace(&mut state.is_listed, true) {
            drop(state);
            self.mailbox.kick(Arc::clone(self));
        }
    }
}

impl TcpState {
    /// Those who wait for what is there now; woken when the lock is free again.
    pub(crate) fn take_wakers(&mut self) -> [Option<Waker>; 2] {
        let connection = &self.connection;
        let reader = self.reader.take_if(|_| connection.is_readable());
        let is_decided = connection.phase() != Phase::Asking;
        let writer = self.writer.take_if(|_| is_decided && connection.has_plenty_of_room());
        [reader, writer]
    }
}

/// A TCP connection that somebody asks for. Until it is accepted the client has no answer, so its owner may connect onward
/// first. Dropped, it is refused.
pub struct Pending(Option<Arc<TcpCell>>);

impl Pending {
    pub(crate) fn new(cell: Arc<TcpCell>) -> Self {
        Self(Some(cell))
    }

    /// The client's address.
    pub fn from(&self) -> SocketAddr {
        self.ends().there
    }

    /// The address that the client wants.
    pub fn to(&self) -> SocketAddr {
        self.ends().here
    }

    fn ends(&self) -> Ends {
        self.0.as_ref().expect("it is there until it is consumed").ends
    }

    /// Answers the client. What is written before the client has heard of that waits.
    pub fn accept(mut self) -> TcpFlow {
        let cell = self.0.take().expect("it is there until it is consumed");
        let mut state = cell.lock();
        state.connection.accept();
        cell.kick(state);
        TcpFlow { cell, is_outgoing: false }
    }

    /// Answers with a reset, as a host does where nobody listens.
    pub fn refuse(self) {
        drop(self);
    }

    /// Whether the client has given up.
    pub fn is_gone(&self) -> bool {
        self.0.as_ref().is_some_and(|cell| cell.lock().connection.failure().is_some())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            let mut state = cell.lock();
            state.connection.abort(Failure::Aborted);
            cell.kick(state);
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("from", &self.from()).field("to", &self.to()).finish()
    }
}

/// An open TCP connection. Each direction ends by itself: `shutdown` ends what is written, reading goes on. Dropped, what
/// was written is still sent, and then the connection ends; if something that came was not read, it is reset.
pub struct TcpFlow {
    cell: Arc<TcpCell>,
    is_outgoing: bool,
}

impl TcpFlow {
    /// Waits until the other end has answered.
    pub(crate) async fn connected(cell: Arc<TcpCell>) -> io::Result<Self> {
        // From here on dropping it, also by cancellation, gives it up.
        let flow = Self { cell, is_outgoing: true };
        std::future::poll_fn(|cx| {
            let mut state = flow.cell.lock();
            match (state.connection.failure(), state.connection.phase()) {
                (Some(failure), _) => Poll::Ready(Err(io::Error::from(failure))),
                (None, Phase::Asking) => {
                    state.writer = Some(cx.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(Ok(())),
            }
        })
        .await?;
        Ok(flow)
    }

    /// The address of who opened it.
    pub fn from(&self) -> SocketAddr {
        if self.is_outgoing { self.cell.ends.here } else { self.cell.ends.there }
    }

    /// The address that it was opened to.
    pub fn to(&self) -> SocketAddr {
        if self.is_outgoing { self.cell.ends.there } else { self.cell.ends.here }
    }

    /// Breaks with `TimedOut` when the other end is not heard for so long, also while nothing is to be said: it is asked before
    /// whether it is there. Without this that takes a minute and more.
    pub fn limit_silence(&self, limit: Duration) {
        let mut state = self.cell.lock();
        state.connection.limit_silence(limit, Instant::now());
        self.cell.kick(state);
    }

    /// Whether it broke because the other end was not heard.
    pub fn has_fallen_silent(&self) -> bool {
        self.cell.lock().connection.failure() == Some(Failure::TimedOut)
    }

    /// Breaks it off: the other end sees a reset.
    pub fn reset(self) {
        let mut state = self.cell.lock();
        state.connection.abort(Failure::Aborted);
        self.cell.kick(state);
    }
}

impl Drop for TcpFlow {
    fn drop(&mut self) {
        let mut state = self.cell.lock();
        state.connection.abandon(Instant::now());
        self.cell.kick(state);
    }
}

impl fmt::Debug for TcpFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpFlow").field("from", &self.from()).field("to", &self.to()).finish()
    }
}

impl AsyncRead for TcpFlow {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.cell.lock();
        let before = buffer.filled().len();
        let mut tell = false;
        loop {
            let (front, read) = state.connection.peek();
            let count = front.len().min(buffer.remaining());
            if count == 0 {
                let has_any = buffer.filled().len() > before || buffer.remaining() == 0;
                let result = match read {
                    _ if has_any => Poll::Ready(Ok(())),
                    Read::Failed(failure) => Poll::Ready(Err(failure.into())),
                    Read::Ended | Read::Bytes(_) => Poll::Ready(Ok(())),
                    Read::Nothing => {
                        state.reader = Some(cx.waker().clone());
                        Poll::Pending
                    }
                };
                if tell {
                    self.cell.kick(state);
                }
                return result;
            }
            buffer.put_slice(&front[..count]);
            tell = state.connection.consume(count, Instant::now());
        }
    }
}

impl AsyncWrite for TcpFlow {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.cell.lock();
        if state.connection.is_finished() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        match state.connection.write(bytes) {
            Err(failure) => Poll::Ready(Err(failure.into())),
            Ok(0) if !bytes.is_empty() => {
                state.writer = Some(cx.waker().clone());
                Poll::Pending
            }
            Ok(count) => {
                self.cell.kick(state);
                Poll::Ready(Ok(count))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The engine sends what it has as soon as it may.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.cell.lock();
        state.connection.finish();
        self.cell.kick(state);
        Poll::Ready(Ok(()))
    }
}
