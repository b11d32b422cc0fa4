//! What messages travel over, on either side: the kernel's socket, or something on it.

use std::io;
use std::task::{Context, Poll};

use crate::tcp::{Downstream, Received, Upstream};

/// A stream of bytes each way.
pub(crate) trait Wire {
    /// Whether receiving is worth a buffer.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Receives once.
    fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<Received>>;

    /// Takes what fits of two pieces.
    fn try_send_two(&self, first: &[u8], second: &[u8]) -> io::Result<usize>;

    /// Whether something may fit.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether all that was taken is with the kernel.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Tells the peer that nothing more comes.
    fn end(&self);

    /// Whether the peer's end may not be the one that it meant.
    fn was_cut(&self) -> bool;
}

impl Wire for Downstream {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(socket) => socket.poll_readable(cx),
            Self::Tls(stream) => stream.poll_readable(cx),
        }
    }

    fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<Received>> {
        match self {
            Self::Tcp(socket) => socket.poll_receive(cx, buffer),
            Self::Tls(stream) => stream.poll_receive(cx, buffer),
        }
    }

    fn try_send_two(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.try_send_two(first, second),
            Self::Tls(stream) => stream.try_send_two(first, second),
        }
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_writable(cx)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => stream.poll_flush(cx),
        }
    }

    fn end(&self) {
        match self {
            Self::Tcp(socket) => socket.end(),
            Self::Tls(stream) => stream.end(),
        }
    }

    fn was_cut(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Tls(stream) => stream.was_cut(),
        }
    }
}

impl Wire for Upstream {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(socket) | Self::Unix(socket) => socket.poll_readable(cx),
            Self::Tls { stream, .. } => stream.poll_readable(cx),
        }
    }

    fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<Received>> {
        match self {
            Self::Tcp(socket) | Self::Unix(socket) => socket.poll_receive(cx, buffer),
            Self::Tls { stream, .. } => stream.poll_receive(cx, buffer),
        }
    }

    fn try_send_two(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) | Self::Unix(socket) => socket.try_send_two(first, second),
            Self::Tls { stream, .. } => stream.try_send_two(first, second),
        }
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_writable(cx)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Tls { stream, .. } => stream.poll_flush(cx),
        }
    }

    fn end(&self) {
        match self {
            Self::Tcp(socket) | Self::Unix(socket) => socket.end(),
            Self::Tls { stream, .. } => stream.end(),
        }
    }

    fn was_cut(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls { stream, .. } => stream.was_cut(),
        }
    }
}
