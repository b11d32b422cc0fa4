//! TLS 1.3 of a link without IO: records are opened in the buffer they were read into and sealed into the buffer they
//! are sent from. Which version of the link's language is spoken is agreed on in the handshake (ALPN), so that an end
//! of another version is refused there and told why.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus,
    WriteTraffic,
};
use rustls::{ClientConfig, CommonState, ServerConfig};

/// The version of the link's language, as the handshake names it. Raise it with every change that the other end would
/// not understand.
pub(crate) const VERSION: &[u8] = b"causeway-link/2";

/// What a record takes beyond its content, and how much content it holds.
const RECORD_OVERHEAD: usize = 5 + 1 + 16;
const RECORD_CONTENT: usize = 16 << 10;

/// What can go wrong in TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error("no more can be sent with these keys")]
    Exhausted,
    #[error("the other end closed the connection")]
    Closed,
}

/// What has to happen for a handshake to go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// What is in the outgoing buffer is to be sent, and then the other end is to be heard.
    GoesOn,
    /// It is over.
    Done,
}

/// Bytes to send; the buffer is kept and only its beginning and end move.
#[derive(Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
}

impl Outgoing {
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.from == self.to
    }

    pub(crate) fn sent(&mut self, count: usize) {
        self.from += count;
        if self.is_empty() {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Gives memory back that is not in use.
    pub(crate) fn release(&mut self) {
        if self.is_empty() {
            self.bytes = Vec::new();
        }
    }

    /// Room for so many bytes more.
    fn room(&mut self, count: usize) -> &mut [u8] {
        if self.bytes.len() < self.to + count {
            self.bytes.resize(self.to + count, 0);
        }
        &mut self.bytes[self.to..]
    }
}

/// Bytes that came and are not used up: records of which only a part is here, and messages that span several. The
/// library keeps positions in it, so it is asked with this buffer and no other.
#[derive(Default)]
pub(crate) struct Received {
    bytes: Vec<u8>,
    filled: usize,
}

impl Received {
    /// Room for at least `least` more bytes.
    pub(crate) fn room(&mut self, least: usize) -> &mut [u8] {
        if self.bytes.len() < self.filled + least {
            self.bytes.resize(self.filled + least, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// How much is kept. A peer that never ends a message must not make it grow for ever.
    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    /// Gives memory back that is not in use.
    pub(crate) fn release(&mut self) {
        self.bytes.truncate(self.filled);
        self.bytes.shrink_to_fit();
    }

    /// So many bytes have come into the room.
    pub(crate) fn add(&mut self, count: usize) {
        self.filled += count;
    }

    fn from(&mut self, used: usize) -> &mut [u8] {
        &mut self.bytes[used..self.filled]
    }

    fn discard(&mut self, count: usize) {
        self.bytes.copy_within(count..self.filled, 0);
        self.filled -= count;
    }
}

/// One end of a TLS connection.
pub(crate) enum Tls {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// The one thing that both kinds of connections do.
trait Records {
    type Data;
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Records for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Records for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Tls {
    pub(crate) fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        Ok(Self::Client(Box::new(UnbufferedClientConnection::new(config, name)?)))
    }

    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self::Server(Box::new(UnbufferedServerConnection::new(config)?)))
    }

    /// What both ends have agreed on.
    pub(crate) fn state(&self) -> &CommonState {
        match self {
            Self::Client(tls) => tls,
            Self::Server(tls) => tls,
        }
    }

    /// Takes a handshake as far as what was received allows.
    pub(crate) fn shake(&mut self, received: &mut Received, out: &mut Outgoing) -> Result<Handshake, Error> {
        match self {
            Self::Client(tls) => shake(tls.as_mut(), received, out),
            Self::Server(tls) => shake(tls.as_mut(), received, out),
        }
    }

    /// Opens every whole record and hands the content to `each`.
    pub(crate) fn open<E: From<Error>>(
        &mut self,
        received: &mut Received,
        out: &mut Outgoing,
        each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Client(tls) => open(tls.as_mut(), received, out, each),
            Self::Server(tls) => open(tls.as_mut(), received, out, each),
        }
    }

    /// Seals `plain` into records. Everything that was received has to be opened before.
    pub(crate) fn seal(
        &mut self,
        plain: &[u8],
        received: &mut Received,
        out: &mut Outgoing,
    ) -> Result<(), Error> {
        match self {
            Self::Client(tls) => {
                seal(tls.as_mut(), received, out, |traffic, out| encrypt(traffic, plain, out))
            }
            Self::Server(tls) => {
                seal(tls.as_mut(), received, out, |traffic, out| encrypt(traffic, plain, out))
            }
        }
    }

    /// Tells the other end that nothing more will come.
    pub(crate) fn close(&mut self, received: &mut Received, out: &mut Outgoing) -> Result<(), Error> {
        match self {
            Self::Client(tls) => seal(tls.as_mut(), received, out, close),
            Self::Server(tls) => seal(tls.as_mut(), received, out, close),
        }
    }
}

fn shake<C: Records>(tls: &mut C, received: &mut Received, out: &mut Outgoing) -> Result<Handshake, Error> {
    let mut failed = None;
    loop {
        let UnbufferedStatus { discard, state } = tls.process(received.from(0));
        let step = match state {
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, out).map(|()| None),
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Ok(None)
            }
            Ok(ConnectionState::BlockedHandshake) => Ok(Some(Handshake::GoesOn)),
            // What came behind the handshake stays where it is until it is asked for.
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::ReadTraffic(_)) => {
                Ok(Some(Handshake::Done))
            }
            Ok(_) => Err(Error::Closed),
            // Asked once more, it gives the alert that tells the other end.
            Err(error) if failed.is_none() => {
                failed = Some(error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        };
        received.discard(discard);
        match (step, &failed) {
            (Ok(None), _) => {}
            (_, Some(error)) => return Err(error.clone().into()),
            (Ok(Some(handshake)), None) => return Ok(handshake),
            (Err(error), None) => return Err(error),
        }
    }
}

fn open<C: Records, E: From<Error>>(
    tls: &mut C,
    received: &mut Received,
    out: &mut Outgoing,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut used, mut failed) = (0, None);
    loop {
        let UnbufferedStatus { discard, state } = tls.process(received.from(used));
        match state.map_err(Error::from)? {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record.map_err(Error::from)?;
                    // What comes behind a failure is opened all the same: this end may still have something to say.
                    if failed.is_none() {
                        failed = each(record.payload).err();
                    }
                }
            }
            // An answer to a change of keys.
            ConnectionState::EncodeTlsData(data) => encode(data, out)?,
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::WriteTraffic(_) => {
                received.discard(used + discard);
                return failed.map_or(Ok(()), Err);
            }
            _ => {
                received.discard(used + discard);
                return Err(failed.unwrap_or_else(|| Error::Closed.into()));
            }
        }
        used += discard;
    }
}

fn seal<C: Records>(
    tls: &mut C,
    received: &mut Received,
    out: &mut Outgoing,
    put: impl FnOnce(WriteTraffic<'_, C::Data>, &mut Outgoing) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut used = 0;
    let sealed = loop {
        let UnbufferedStatus { discard, state } = tls.process(received.from(used));
        used += discard;
        match state? {
            ConnectionState::EncodeTlsData(data) => encode(data, out)?,
            ConnectionState::TransmitTlsData(data) => data.done(),
            ConnectionState::WriteTraffic(traffic) => break put(traffic, out),
            _ => break Err(Error::Closed),
        }
    };
    received.discard(used);
    sealed
}

fn encrypt<D>(mut traffic: WriteTraffic<'_, D>, plain: &[u8], out: &mut Outgoing) -> Result<(), Error> {
    let mut room = plain.len() + plain.len().div_ceil(RECORD_CONTENT) * RECORD_OVERHEAD;
    loop {
        match traffic.encrypt(plain, out.room(room)) {
            Ok(count) => {
                out.to += count;
                return Ok(());
            }
            // A change of keys is sent in front.
            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                room = required_size;
            }
            Err(EncryptError::EncryptExhausted) => return Err(Error::Exhausted),
        }
    }
}

fn close<D>(mut traffic: WriteTraffic<'_, D>, out: &mut Outgoing) -> Result<(), Error> {
    match traffic.queue_close_notify(out.room(4 * RECORD_OVERHEAD)) {
        Ok(count) => {
            out.to += count;
            Ok(())
        }
        Err(_) => Err(Error::Exhausted),
    }
}

fn encode<D>(mut data: EncodeTlsData<'_, D>, out: &mut Outgoing) -> Result<(), Error> {
    let mut room = RECORD_CONTENT;
    loop {
        match data.encode(out.room(room)) {
            Ok(count) => {
                out.to += count;
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                room = required_size;
            }
            Err(EncodeError::AlreadyEncoded) => return Ok(()),
        }
    }
}
