//! A connection whose TLS ends here: a client's, or one to an endpoint. What the session holds of either direction is
//! bounded by a few records.

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::io::{self, BufRead as _, IoSlice, Read, Write};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use crate::tcp::{Received, Socket};

pub(crate) struct TlsStream {
    socket: Socket,
    session: RefCell<Connection>,
    /// The peer ended without the word for it: somebody else may have cut what it said.
    was_cut: Cell<bool>,
}

/// Receives for a session.
struct Receiving<'a, 'b, 'c> {
    socket: &'a Socket,
    cx: &'b mut Context<'c>,
}

impl Read for Receiving<'_, '_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.socket.poll_receive(self.cx, buffer) {
            Poll::Ready(received) => received.map(|received| received.count),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Sends for a session.
struct Sending<'a>(&'a Socket);

impl Write for Sending<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_send(bytes, false)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_send_pieces(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

impl TlsStream {
    /// Shakes hands; `bytes` were read already.
    ///
    /// # Errors
    /// If the client leaves, or the two do not agree; the client is told of the latter.
    ///
    /// # Cancellation
    /// Dropping the future closes the connection.
    pub(crate) async fn accept(socket: Socket, config: Arc<ServerConfig>, bytes: &[u8]) -> io::Result<Self> {
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Self::shake_hands(socket, session.into(), bytes).await
    }

    /// Shakes hands with an endpoint, which shows a certificate that the configuration takes for this name.
    ///
    /// # Errors
    /// If the endpoint leaves, or the two do not agree.
    ///
    /// # Cancellation
    /// Dropping the future closes the connection.
    pub(crate) async fn connect(
        socket: Socket,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Self::shake_hands(socket, session.into(), &[]).await
    }

    async fn shake_hands(socket: Socket, session: Connection, bytes: &[u8]) -> io::Result<Self> {
        let stream = Self { socket, session: RefCell::new(session), was_cut: Cell::new(false) };
        let mut first = bytes;
        poll_fn(|cx| {
            loop {
                ready!(stream.poll_flush(cx))?;
                let mut session = stream.session.borrow_mut();
                if first.is_empty() {
                    if !session.is_handshaking() {
                        return Poll::Ready(Ok(()));
                    }
                    match session.read_tls(&mut Receiving { socket: &stream.socket, cx }) {
                        Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                        Ok(_) => {}
                        Err(error) if would_block(&error) => return Poll::Pending,
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                } else {
                    session.read_tls(&mut first)?;
                }
                stream.process(&mut session)?;
            }
        })
        .await?;
        Ok(stream)
    }

    /// The certificates that the peer has shown, if any.
    pub(crate) fn with_peer_certificates<R>(&self, look: impl FnOnce(&[CertificateDer<'static>]) -> R) -> R {
        look(self.session.borrow().peer_certificates().unwrap_or_default())
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether this protocol was agreed on.
    pub(crate) fn agreed_on(&self, protocol: &[u8]) -> bool {
        self.session.borrow().alpn_protocol() == Some(protocol)
    }

    pub(crate) fn into_socket(self) -> Socket {
        self.socket
    }

    /// Works on what was received; an error is told to the peer.
    fn process(&self, session: &mut RefMut<'_, Connection>) -> io::Result<()> {
        if let Err(error) = session.process_new_packets() {
            // The peer may be gone, which is as good.
            let _ = self.flush(session);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(())
    }

    fn flush(&self, session: &mut RefMut<'_, Connection>) -> io::Result<()> {
        while session.wants_write() {
            session.write_tls(&mut Sending(&self.socket))?;
        }
        Ok(())
    }

    /// Sends what is encrypted already.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let flushed = self.flush(&mut self.session.borrow_mut());
            match flushed {
                Err(error) if would_block(&error) => ready!(self.socket.poll_writable(cx))?,
                flushed => return Poll::Ready(flushed),
            }
        }
    }

    /// Whether receiving is worth a buffer.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_empty = self.session.borrow_mut().reader().fill_buf().is_err_and(|error| would_block(&error));
        if is_empty { self.socket.poll_readable(cx) } else { Poll::Ready(Ok(())) }
    }

    pub(crate) fn poll_receive(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<Received>> {
        let mut session = self.session.borrow_mut();
        loop {
            match session.reader().read(buffer) {
                Ok(count) => return Poll::Ready(Ok(Received { count, ended: count == 0 })),
                Err(error) if would_block(&error) => {}
                // Most messages tell their own length: an end without the word for it is an end. Those that do not ask.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.was_cut.set(true);
                    return Poll::Ready(Ok(Received { count: 0, ended: true }));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            match session.read_tls(&mut Receiving { socket: &self.socket, cx }) {
                Ok(_) => {}
                Err(error) if would_block(&error) => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
            self.process(&mut session)?;
            match self.flush(&mut session) {
                Err(error) if !would_block(&error) => return Poll::Ready(Err(error)),
                _ => {}
            }
        }
    }

    /// Whether the end of what was received may not be that of what was sent.
    pub(crate) fn was_cut(&self) -> bool {
        self.was_cut.get()
    }

    /// Takes what fits once everything before it was sent; it is sent with [`Self::poll_flush`].
    pub(crate) fn try_send_two(&self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        let mut session = self.session.borrow_mut();
        self.flush(&mut session)?;
        let count = session.writer().write_vectored(&[IoSlice::new(first), IoSlice::new(second)])?;
        match self.flush(&mut session) {
            Err(error) if !would_block(&error) => Err(error),
            _ => Ok(count),
        }
    }

    /// Tells the peer that nothing more comes.
    pub(crate) fn end(&self) {
        let mut session = self.session.borrow_mut();
        session.send_close_notify();
        // What does not fit is of no use to a peer that does not read.
        let _ = self.flush(&mut session);
        self.socket.end();
    }
}
