//! A stream joined to a socket: bytes go from the socket into the link and from the link into the socket, without a
//! buffer in between unless the socket is slow. What the other end sent before it broke off is still delivered.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use causeway_base::socket::unacknowledged;
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};

use crate::inbound::{Broken, Sink};
use crate::link::with_buffer;
use crate::socket;
use crate::stream::Stream;

/// After so many reads others get their turn.
const ROUNDS: usize = 4;
/// How long the peer has for what was sent to it before the stream broke off.
const TAIL: Duration = Duration::from_secs(10);
/// How often to look whether it has it.
const LOOK: Duration = Duration::from_millis(5);

/// How a relayed stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayEnd {
    /// Both directions came to their end.
    Finished,
    /// The other end broke it off; the reason may be empty.
    Reset {
        /// What the other end said.
        reason: String,
    },
    /// The link is gone.
    Lost,
    /// This end's socket failed, or the stream was silent for too long.
    Failed,
}

impl Stream {
    /// Carries bytes between the stream and a socket until both directions have ended.
    ///
    /// # Cancellation
    /// Dropping the future breaks the stream off: the socket's peer and the other end see a reset.
    pub async fn relay(self, socket: TcpStream) -> RelayEnd {
        let socket = Arc::new(socket);
        self.shared.inbound().sink = Sink::Socket(socket.clone());
        let mut relay = Relay { stream: self, socket, shut: false, finished: false };
        let end = poll_fn(|cx| relay.poll(cx)).await;
        match end {
            RelayEnd::Finished => relay.finished = true,
            RelayEnd::Reset { .. } | RelayEnd::Lost => {
                // Either the peer takes it in time or it is lost; there is nobody to tell.
                let _ = timeout(TAIL, relay.deliver_tail()).await;
            }
            RelayEnd::Failed => {}
        }
        end
    }
}

struct Relay {
    stream: Stream,
    socket: Arc<TcpStream>,
    /// The socket was told that nothing more will come.
    shut: bool,
    finished: bool,
}

impl Relay {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RelayEnd> {
        let shared = &self.stream.shared;
        // Before anything is looked at: what changes from here on wakes this task again.
        shared.reader.register(cx.waker());
        shared.writer.register(cx.waker());
        let written = self.poll_write(cx);
        if matches!(written, Poll::Ready(Err(_))) {
            return self.fail();
        }
        // Also from a socket that takes no more: its peer may have answered before it closed.
        if !self.stream.sent_fin && matches!(self.poll_read(cx), Poll::Ready(Err(_))) {
            return self.fail();
        }
        if self.stream.sent_fin && self.shut {
            return Poll::Ready(RelayEnd::Finished);
        }
        let inbound = self.stream.shared.inbound();
        if self.stream.sent_fin && inbound.has_lost_sink() {
            drop(inbound);
            return self.fail();
        }
        match &inbound.broken {
            None => Poll::Pending,
            // All that is left to do is to write what is here.
            Some(Broken::Lost) if self.stream.sent_fin && inbound.fin => Poll::Pending,
            Some(Broken::Lost) => Poll::Ready(RelayEnd::Lost),
            Some(Broken::There(reason)) => Poll::Ready(RelayEnd::Reset { reason: reason.clone() }),
            Some(Broken::Here) => Poll::Ready(RelayEnd::Failed),
        }
    }

    fn fail(&self) -> Poll<RelayEnd> {
        self.stream.shared.break_off(Broken::Here);
        Poll::Ready(RelayEnd::Failed)
    }

    /// Writes what is kept; ready when all of it is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = &self.stream.shared;
        let mut inbound = shared.inbound();
        while !inbound.queue.is_empty() {
            ready!(self.socket.poll_write_ready(cx))?;
            let sent = inbound.flush(&self.socket);
            shared.taken(&mut inbound, sent);
        }
        if inbound.fin && !self.shut && !inbound.has_lost_sink() {
            self.shut = true;
            socket::end_writing(&self.socket)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Reads from the socket into the link; ready when the socket has ended and the other end was told.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = &self.stream.shared;
        for _ in 0..ROUNDS {
            let allowance = shared.allowance();
            if allowance == 0 {
                return Poll::Pending;
            }
            let count = with_buffer(|buffer| {
                let count = ready!(socket::poll_recv(&self.socket, cx, &mut buffer[..allowance]))?;
                if count > 0 {
                    shared.send(&buffer[..count]);
                }
                Poll::Ready(io::Result::Ok(count))
            });
            if ready!(count)? == 0 {
                if shared.inbound().has_lost_sink() {
                    // A reset, of which the kernel tells once, and has told the write.
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                }
                self.stream.send_fin();
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits until the peer has what came before the end.
    async fn deliver_tail(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_write(cx)).await?;
        let mut look = interval(LOOK);
        while unacknowledged(&self.socket) > 0 {
            look.tick().await;
        }
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if !self.finished {
            socket::reset_on_close(&self.socket);
        }
    }
}
