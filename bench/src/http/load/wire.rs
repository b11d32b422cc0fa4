//! One connection of the load, with TLS or without, that never waits.

use std::io::{BufRead, ErrorKind, Write};
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ClientConnection, HandshakeKind};

use crate::compare::net;
use crate::compare::running::Never;

/// A connection.
pub(super) struct Wire {
    pub(super) socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// What the socket did not take yet.
    unsent: Vec<u8>,
}

/// Whether more may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    Open,
    Ended,
}

impl Wire {
    /// Begins to connect; `turn` chooses the address to connect from.
    pub(super) fn open(
        to: SocketAddrV4,
        turn: usize,
        tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    ) -> anyhow::Result<Self> {
        let socket = net::connect(to, turn).context("can't connect")?;
        let tls = match tls {
            Some((config, name)) => Some(Box::new(ClientConnection::new(config, name)?)),
            None => None,
        };
        Ok(Self { socket, tls, unsent: Vec::new() })
    }

    /// Sends bytes, as soon as it is possible.
    pub(super) fn say(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(bytes).context("can't encrypt")?,
            None if self.unsent.is_empty() => {
                let sent = send(&self.socket, bytes)?;
                self.unsent.extend_from_slice(&bytes[sent..]);
                return Ok(());
            }
            None => self.unsent.extend_from_slice(bytes),
        }
        self.flush()
    }

    /// Sends what is left.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut self.unsent)?;
            }
        }
        if !self.unsent.is_empty() {
            let sent = send(&self.socket, &self.unsent)?;
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// Whether there is something that the socket did not take.
    pub(super) fn is_behind(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Gives everything that has come to somebody.
    pub(super) fn hear(
        &mut self,
        buffer: &mut [u8],
        mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Heard> {
        if self.is_behind() {
            self.flush()?;
        }
        loop {
            let count = match net::receive(&self.socket, buffer) {
                Ok(0) => return Ok(Heard::Ended),
                Ok(count) => count,
                Err(error) if net::is_early(&error) => return Ok(Heard::Open),
                Err(error) => return Err(error).context("a connection broke"),
            };
            let heard = match &mut self.tls {
                None => take(&buffer[..count]).map(|()| Heard::Open)?,
                Some(tls) => {
                    let heard = decrypt(tls, &buffer[..count], &mut take)?;
                    if tls.wants_write() {
                        self.flush()?;
                    }
                    heard
                }
            };
            // Less than there was room for was all there is, and more will be told.
            if heard == Heard::Ended || count < buffer.len() {
                return Ok(heard);
            }
        }
    }

    /// The protocol that TLS agreed on, once it has.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.alpn_protocol()
    }

    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.tls.as_ref().and_then(|tls| tls.handshake_kind()) == Some(HandshakeKind::Resumed)
    }

    /// Says that nothing more will come, as clients should.
    pub(super) fn close(mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // The other side may have gone already.
            let _ = self.flush();
        }
    }
}

/// What the socket takes now.
fn send(socket: &OwnedFd, bytes: &[u8]) -> anyhow::Result<usize> {
    match net::send(socket, bytes) {
        Err(error) if net::is_early(&error) => Ok(0),
        sent => sent.context("sending failed"),
    }
}

fn decrypt(
    tls: &mut ClientConnection,
    mut bytes: &[u8],
    take: &mut impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<Heard> {
    while !bytes.is_empty() {
        if tls.read_tls(&mut bytes)? == 0 {
            return Ok(Heard::Ended);
        }
        tls.process_new_packets().map_err(|error| match error {
            rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                anyhow::Error::from(Never("it does not know the protocol that TLS should agree on"))
            }
            error => anyhow!("TLS failed: {error}"),
        })?;
        loop {
            let mut reader = tls.reader();
            let length = match reader.fill_buf() {
                Ok([]) => return Ok(Heard::Ended),
                Ok(plain) => {
                    take(plain)?;
                    plain.len()
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("TLS ended early"),
            };
            reader.consume(length);
        }
    }
    Ok(Heard::Open)
}
