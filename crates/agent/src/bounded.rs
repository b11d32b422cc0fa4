//! A listener for a few short conversations, such as probes and scrapes: beyond its bound the newest takes the place of
//! the oldest, so that nobody can take the descriptors of a process that others depend on, nor keep its probes out.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// Connections at a time.
const MOST: usize = 64;

/// A listener that keeps few connections.
pub struct BoundedListener<L> {
    listener: L,
    /// Dropped, a sender ends its connection; the oldest first.
    open: VecDeque<oneshot::Sender<()>>,
}

impl<L> BoundedListener<L> {
    /// Bounds a listener.
    pub fn new(listener: L) -> Self {
        Self { listener, open: VecDeque::new() }
    }
}

impl<L: Listener> Listener for BoundedListener<L> {
    type Io = BoundedStream<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = self.listener.accept().await;
        self.open.retain(|connection| !connection.is_closed());
        if self.open.len() == MOST {
            self.open.pop_front();
        }
        let (displace_tx, displaced_rx) = oneshot::channel();
        self.open.push_back(displace_tx);
        (BoundedStream { stream, displaced_rx }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when it has to make room.
pub struct BoundedStream<S> {
    stream: S,
    displaced_rx: oneshot::Receiver<()>,
}

impl<S> BoundedStream<S> {
    fn still_has_its_place(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match Pin::new(&mut self.displaced_rx).poll(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(_) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.still_has_its_place(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.still_has_its_place(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn a_crowd_of_silent_connections_keeps_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/healthz", get(async || "ok"));
        tokio::spawn(axum::serve(BoundedListener::new(listener), router).into_future());
        let mut silent = Vec::new();
        for _ in 0..3 * MOST {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let mut probe = TcpStream::connect(address).await.unwrap();
        probe.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        probe.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // The first of the crowd had to go.
        assert!(matches!(silent[0].read(&mut [0]).await, Ok(0) | Err(_)));
    }
}
