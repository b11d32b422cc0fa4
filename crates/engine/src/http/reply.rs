//! The way back to a client, whichever protocol it speaks. Heads are given as the lines of HTTP/1.1.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use causeway_ir::Keepalive;
use http::HeaderMap;

use super::buffer::{Buffers, send};
use super::h1::framing::Framing;
use super::h2::{Outflow, head};
use super::sink::{Sink, in_time};
use super::source::Piece;
use crate::tcp::Downstream;

/// How long a client may take for what it is sent at a time.
pub(crate) const SLOW_READ: Duration = Duration::from_mins(1);

#[derive(Clone, Copy)]
pub(crate) enum Reply<'a> {
    H1(&'a Downstream),
    H2 {
        flow: &'a RefCell<Outflow>,
        /// The address that the client connected to.
        local: Option<SocketAddr>,
    },
}

impl<'a> Reply<'a> {
    /// The address that the client connected to.
    pub(crate) fn local_address(self) -> Option<SocketAddr> {
        match self {
            Self::H1(stream) => stream.socket().local_address(),
            Self::H2 { local, .. } => local,
        }
    }

    /// Has the kernel ask whether the client is there. A connection with streams cares for itself.
    pub(crate) fn keep_alive(self, keepalive: &Keepalive) {
        if let Self::H1(stream) = self {
            stream.socket().keep_alive(keepalive);
        }
    }

    /// Waits until the client has given its stream up. Who speaks HTTP/1.1 is watched where its requests come from.
    pub(crate) fn poll_gone(self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::H1(_) => Poll::Pending,
            Self::H2 { flow, .. } => flow.borrow_mut().poll_gone(cx),
        }
    }

    /// Sends a head before the one that counts.
    pub(crate) async fn interim(self, out: &[u8], buffers: &Buffers) -> io::Result<()> {
        match self {
            Self::H1(stream) => send_in_time(stream, out).await,
            Self::H2 { flow, .. } => {
                let (head, _) = head::response(out, &mut buffers.index()).ok_or(NONSENSE)?;
                flow.borrow_mut().interim(head)
            }
        }
    }

    /// Begins an answer with its head; `framing` is how the body follows, `ended`: there is none.
    pub(crate) fn begin(
        self,
        out: Vec<u8>,
        framing: Framing,
        ended: bool,
        buffers: &Buffers,
    ) -> io::Result<Sink<'a, Downstream>> {
        match self {
            Self::H1(stream) => Ok(Sink::h1(stream, out, framing)),
            Self::H2 { flow, .. } => {
                let read = head::response(&out, &mut buffers.index());
                buffers.give_back_head(out);
                flow.borrow_mut().begin(read.ok_or(NONSENSE)?.0, ended)?;
                Ok(Sink::H2(flow))
            }
        }
    }

    /// Begins an answer with fields that it came with; `ended`: nothing follows. Only streams take them.
    pub(crate) fn pass(
        self,
        status: u16,
        fields: HeaderMap,
        ended: bool,
    ) -> io::Result<Sink<'a, Downstream>> {
        let Self::H2 { flow, .. } = self else { return Err(NONSENSE.into()) };
        let mut head = http::Response::new(());
        *head.status_mut() = http::StatusCode::from_u16(status).map_err(|_| NONSENSE)?;
        *head.headers_mut() = fields;
        flow.borrow_mut().begin(head, ended)?;
        Ok(Sink::H2(flow))
    }

    /// Sends an answer that is complete, with its body.
    pub(crate) async fn whole(self, out: &[u8], buffers: &Buffers) -> io::Result<()> {
        match self {
            Self::H1(stream) => send_in_time(stream, out).await,
            Self::H2 { flow, .. } => {
                let (head, length) = head::response(out, &mut buffers.index()).ok_or(NONSENSE)?;
                let body = &out[length..];
                flow.borrow_mut().begin(head, body.is_empty())?;
                if body.is_empty() {
                    return Ok(());
                }
                let mut sink = Sink::<Downstream>::H2(flow);
                in_time(SLOW_READ, pin!(sink.push(Piece::Owned(Bytes::copy_from_slice(body)), true))).await?
            }
        }
    }
}

/// Sends all of this to a client that reads it.
///
/// # Errors
/// If it does not, or is gone.
pub(crate) async fn send_in_time(stream: &Downstream, bytes: &[u8]) -> io::Result<()> {
    in_time(SLOW_READ, pin!(send(stream, bytes, &[]))).await?
}

/// What was written here is read here.
const NONSENSE: io::ErrorKind = io::ErrorKind::InvalidData;

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::tcp::Socket;

    /// Time stands still while there is something to do, and passes while everybody waits.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_its_answer_is_not_waited_for_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let socket = listener.accept().await.unwrap().0.into_std().unwrap();
        let stream = Downstream::Tcp(Socket::new(socket.into()).unwrap());
        let answer = vec![b'x'; 64 << 20];
        let failed = send_in_time(&stream, &answer).await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        drop(peer);
    }
}
