//! The endpoint's side of a session: a socket for datagrams or, where the endpoint is reached with TLS, a stream in which each
//! datagram has its length in front (two bytes, the high one first).

use std::cell::{Cell, RefCell};
use std::io;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

use crate::http::wire::Wire as _;
use crate::tcp::Upstream;

/// Bytes that wait for the endpoint, at most; what comes then is lost, as on any network.
const WAITING: usize = 64 << 10;
/// The length before each datagram.
const LENGTH: usize = 2;

pub(super) enum Far {
    Datagrams(UdpSocket),
    Stream(Box<Stream>),
}

impl Far {
    pub(super) fn stream(wire: Upstream) -> Self {
        wire.socket().send_without_delay();
        let (outgoing, incoming, carrier) = (RefCell::default(), RefCell::default(), Cell::default());
        Self::Stream(Box::new(Stream { wire, outgoing, incoming, carrier }))
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// If there is no room now, or the endpoint's host said that nobody listens there.
    pub(super) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        match self {
            Self::Datagrams(socket) => socket.try_send(datagram).map(|_| ()),
            Self::Stream(stream) => stream.send(datagram),
        }
    }

    /// Receives a datagram; its length. Also what waits to be sent goes on by this.
    pub(super) fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Datagrams(socket) => {
                let mut read = ReadBuf::new(buffer);
                ready!(socket.poll_recv(cx, &mut read))?;
                Poll::Ready(Ok(read.filled().len()))
            }
            Self::Stream(stream) => stream.poll_receive(cx, buffer),
        }
    }
}

/// Datagrams in a stream.
pub(super) struct Stream {
    wire: Upstream,
    outgoing: RefCell<Vec<u8>>,
    /// What has come of the next datagrams.
    incoming: RefCell<Vec<u8>>,
    /// The task that carries what waits.
    carrier: Cell<Option<Waker>>,
}

impl Stream {
    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        let mut outgoing = self.outgoing.borrow_mut();
        let length = u16::try_from(datagram.len()).map_err(|_| io::ErrorKind::WouldBlock)?;
        if outgoing.len() + datagram.len() > WAITING {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        outgoing.extend(length.to_be_bytes());
        outgoing.extend_from_slice(datagram);
        if let Some(carrier) = self.carrier.take() {
            carrier.wake();
        }
        Ok(())
    }

    fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.carrier.set(Some(cx.waker().clone()));
        if let Poll::Ready(Err(error)) = self.poll_send(cx) {
            return Poll::Ready(Err(error));
        }
        let mut incoming = self.incoming.borrow_mut();
        loop {
            if let Some(length) = first(&incoming) {
                buffer[..length].copy_from_slice(&incoming[LENGTH..LENGTH + length]);
                incoming.drain(..LENGTH + length);
                return Poll::Ready(Ok(length));
            }
            let received = ready!(self.wire.poll_receive(cx, buffer))?;
            if received.count == 0 {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            incoming.extend_from_slice(&buffer[..received.count]);
        }
    }

    /// Hands what waits to the kernel, as far as it fits.
    fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut outgoing = self.outgoing.borrow_mut();
        while !outgoing.is_empty() {
            match self.wire.try_send_two(&outgoing, &[]) {
                Ok(count) => drop(outgoing.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.wire.poll_writable(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.wire.poll_flush(cx)
    }
}

/// The length of the first datagram, if it is all there.
fn first(bytes: &[u8]) -> Option<usize> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    (rest.len() >= length).then_some(length)
}
