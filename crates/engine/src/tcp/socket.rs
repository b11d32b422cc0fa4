//! A connected stream socket, TCP or Unix. It knows from the kernel's events whether a peer has ended, which tokio's
//! own streams keep to themselves: the end is noticed with the last bytes and passed on with them.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use causeway_base::socket::unacknowledged;
use causeway_ir::Keepalive;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, sockopt};
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

use super::events;

/// Bytes that were received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) count: usize,
    /// The peer has ended in good order and these are its last bytes.
    pub(crate) ended: bool,
}

#[derive(Debug)]
pub(crate) struct Socket {
    io: AsyncFd<OwnedFd>,
}

impl Socket {
    /// Registers a non-blocking socket with the runtime of this thread.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        // Urgent bytes are nobody's business here, but where they stand a read stops short before the end.
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        Ok(Self { io: events::watch(socket, interest)? })
    }

    /// Waits until a connect that was begun has succeeded or failed.
    pub(crate) async fn connected(&self) -> io::Result<()> {
        // The event tells success from failure; only a failure has to be asked for its reason.
        if self.io.writable().await?.ready().is_write_closed()
            && let Err(error) = sockopt::socket_error(&self.io)?
        {
            return Err(error.into());
        }
        Ok(())
    }

    /// Receives what is there now, without waiting for the runtime to learn of it; `None` if nothing is.
    pub(crate) fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        match rustix::net::recv(&self.io, buffer, RecvFlags::empty()) {
            Ok((_, count)) => Ok(Some(Received { count, ended: count == 0 })),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends what fits at once, without waiting for the runtime to learn that it does, and ends this side.
    pub(crate) fn send_now_and_end(&self, bytes: &[u8]) {
        // The peer may be gone, which is as good.
        let _ = rustix::net::send(&self.io, bytes, SendFlags::NOSIGNAL | SendFlags::MORE);
        self.end();
    }

    /// Receives once.
    pub(crate) fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<Received>> {
        loop {
            let mut ready = ready!(self.io.poll_read_ready(cx))?;
            // Known before reading: then nothing can come after what a short read leaves.
            let closed = ready.ready().is_read_closed();
            match rustix::net::recv(&self.io, &mut *buffer, RecvFlags::empty()) {
                Ok((_, count)) => {
                    let mut ended = count == 0;
                    if count < buffer.len() {
                        let state = self.exceptional(cx);
                        // A read stops short of an urgent byte, too: then it has not been emptied.
                        if !state.is_priority() {
                            ready.clear_ready();
                            ended |= closed && !state.is_error();
                        }
                    }
                    return Poll::Ready(Ok(Received { count, ended }));
                }
                Err(Errno::AGAIN) => {
                    ready.clear_ready();
                    self.forget_urgent(cx);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// What the events so far said besides that bytes are there: that one is urgent, or that the peer has reset.
    fn exceptional(&self, cx: &mut Context<'_>) -> Ready {
        // Says whether there is anything to ask for, at the price of a load.
        if self.io.try_io(Interest::PRIORITY, |_| Ok(())).is_err() {
            return Ready::EMPTY;
        }
        match pin!(self.io.ready(Interest::PRIORITY | Interest::ERROR)).poll(cx) {
            Poll::Ready(Ok(state)) => state.ready(),
            // The runtime is about to end.
            _ => Ready::ERROR,
        }
    }

    /// All was read, so no urgent byte stands in the way any more.
    fn forget_urgent(&self, cx: &mut Context<'_>) {
        if self.exceptional(cx).is_priority()
            && let Poll::Ready(Ok(mut state)) = pin!(self.io.ready(Interest::PRIORITY)).poll(cx)
        {
            state.clear_ready_matching(Ready::PRIORITY);
        }
    }

    /// Sends what fits. With `last` the bytes wait a moment for [`Self::end`], or for the close, to go with them.
    pub(crate) fn try_send(&self, bytes: &[u8], last: bool) -> io::Result<usize> {
        let flags = if last { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
        self.io.try_io(Interest::WRITABLE, |socket| Ok(rustix::net::send(socket, bytes, flags)?))
    }

    /// Sends what fits of two pieces.
    pub(crate) fn try_send_two(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        if second.is_empty() {
            return self.try_send(first, false);
        }
        self.try_send_pieces(&[IoSlice::new(first), IoSlice::new(second)])
    }

    /// Sends what fits of several pieces.
    pub(crate) fn try_send_pieces(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.try_io(Interest::WRITABLE, |socket| {
            let mut nothing = SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(socket, pieces, &mut nothing, SendFlags::NOSIGNAL)?)
        })
    }

    /// Whether the peer has said nothing that was not received, nor ended; asks the kernel only if it told of something.
    pub(crate) fn is_quiet(&self) -> bool {
        let peeked = self.io.try_io(Interest::READABLE, |socket| {
            Ok(rustix::net::recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT).map(drop)?)
        });
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Works on the socket if it is ready for that.
    pub(crate) fn try_io<T>(
        &self,
        interest: Interest,
        work: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.io.try_io(interest, |socket| work(socket.as_fd()))
    }

    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_read_ready(cx).map_ok(drop)
    }

    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_write_ready(cx).map_ok(drop)
    }

    /// Tells the peer that nothing more comes.
    pub(crate) fn end(&self) {
        // An error means that the peer is gone; the other direction reports how.
        let _ = rustix::net::shutdown(&self.io, Shutdown::Write);
    }

    /// Whether the peer has reset the connection.
    pub(crate) fn is_gone(&self) -> bool {
        !matches!(sockopt::socket_error(&self.io), Ok(Ok(())))
    }

    /// Sends small writes at once instead of gathering them.
    pub(crate) fn send_without_delay(&self) {
        // A failure means that the connection is gone already.
        let _ = sockopt::set_tcp_nodelay(&self.io, true);
    }

    /// The address that the peer connected to.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        rustix::net::getsockname(&self.io).ok()?.try_into().ok()
    }

    /// Has the kernel ask now and then whether the peer is still there; one that is gone is noticed by the next read.
    pub(crate) fn keep_alive(&self, keepalive: &Keepalive) {
        if keepalive.time.is_zero() {
            return;
        }
        let set = || -> rustix::io::Result<()> {
            sockopt::set_tcp_keepidle(&self.io, keepalive.time.max(Duration::from_secs(1)))?;
            sockopt::set_tcp_keepintvl(&self.io, keepalive.interval.max(Duration::from_secs(1)))?;
            sockopt::set_tcp_keepcnt(&self.io, keepalive.probes.clamp(1, 127))?;
            sockopt::set_socket_keepalive(&self.io, true)
        };
        if let Err(error) = set() {
            tracing::debug!(%error, "keep-alive was not set");
        }
    }

    /// Closes at once: the peer gets a reset and no state stays behind.
    pub(crate) fn refuse(self) {
        // A failure means that the connection is gone already.
        let _ = sockopt::set_socket_linger(&self.io, Some(Duration::ZERO));
    }

    /// Ends with a reset, but only once everything sent has arrived: a reset drops what still waits to be sent.
    pub(crate) async fn reset(self) {
        const STEP: Duration = Duration::from_millis(10);
        const PATIENCE: u32 = 200;
        for _ in 0..PATIENCE {
            if unacknowledged(&self.io) == 0 {
                break;
            }
            tokio::time::sleep(STEP).await;
        }
        self.refuse();
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

#[cfg(test)]
mod tests;
