//! A connection between two ends from the handshake to the greeting: who the other end is, which version it speaks,
//! and what it says first. It becomes a link with [`Connection::start`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::driver::Driver;
use crate::frame::{self, Frame};
use crate::identity::{self, KeyId, Role};
use crate::link::{Handler, Link};
use crate::socket;
use crate::tls::{self, Handshake, Outgoing, Received, Tls, VERSION};

/// How much is read at once before a link begins.
const READ: usize = 16 << 10;
/// No handshake, with its certificates, takes as much.
const MAX_HANDSHAKE: usize = 64 << 10;
/// How long a refusal may take to be sent.
const REFUSING: Duration = Duration::from_secs(1);

/// Why no link came about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers.
    #[error("can't connect to {address}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// The connection failed during the handshake.
    #[error("the connection failed in the handshake")]
    Io(#[from] io::Error),
    /// The other end is not who it should be, or does not take this end for who it should be.
    #[error("the handshake failed")]
    Handshake(#[source] rustls::Error),
    /// A certificate is not good at the time that a clock shows.
    #[error(
        "the handshake failed: a certificate is not valid at this time; set the clock of this machine right, or that of the other end"
    )]
    Clock(#[source] rustls::Error),
    /// The other end speaks another version of the language.
    #[error(
        "the handshake failed: the other end does not speak {}; both ends must be of the same release, so replace the older one",
        String::from_utf8_lossy(VERSION)
    )]
    Version,
    /// The other end closed the connection in the middle of it.
    #[error("the other end closed the connection in the handshake")]
    Closed,
    /// The other end refused, and why.
    #[error("the other end refused: {0}")]
    Refused(String),
    /// The other end breaks the rules.
    #[error("the other end breaks the protocol")]
    Protocol(#[from] frame::Error),
    /// It took too long.
    #[error("no answer in the handshake within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    /// Own keys are of no use.
    #[error(transparent)]
    Identity(#[from] identity::Error),
}

impl From<tls::Error> for Error {
    fn from(error: tls::Error) -> Self {
        use rustls::AlertDescription::{CertificateExpired, NoApplicationProtocol};
        use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
        use rustls::Error::{AlertReceived, InvalidCertificate};
        match error {
            tls::Error::Tls(AlertReceived(NoApplicationProtocol) | rustls::Error::NoApplicationProtocol) => {
                Self::Version
            }
            tls::Error::Tls(
                error @ (AlertReceived(CertificateExpired)
                | InvalidCertificate(
                    Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. },
                )),
            ) => Self::Clock(error),
            tls::Error::Tls(error) => Self::Handshake(error),
            tls::Error::Exhausted | tls::Error::Closed => Self::Closed,
        }
    }
}

/// A connection whose ends know each other.
pub struct Connection {
    socket: TcpStream,
    tls: Tls,
    role: Role,
    /// Read and not yet opened.
    received: Received,
    /// Opened and not yet understood.
    early: Vec<u8>,
    peer: String,
    /// How old the other end's certificate is, where that is known.
    peer_age: Duration,
    greeting: Vec<u8>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Connection {
    /// The handshake, and the greetings of both ends as far as they come before [`Self::start`].
    pub(crate) async fn establish(
        socket: TcpStream,
        tls: Tls,
        role: Role,
        greeting: &[u8],
    ) -> Result<Self, Error> {
        let mut connection = Self {
            socket,
            tls,
            role,
            received: Received::default(),
            early: Vec::new(),
            peer: String::new(),
            peer_age: Duration::MAX,
            greeting: Vec::new(),
        };
        connection.shake().await?;
        if role == Role::Dialer {
            connection.say(&Frame::Hello { greeting }).await?;
        }
        connection.greeting = connection.hear_greeting().await?;
        Ok(connection)
    }

    async fn shake(&mut self) -> Result<(), Error> {
        loop {
            let mut out = Outgoing::default();
            let shaken = self.tls.shake(&mut self.received, &mut out);
            let sent = self.send(&mut out).await;
            // What went wrong in the handshake says more than that the other end did not hear of it.
            if shaken? == Handshake::Done {
                sent?;
                break;
            }
            sent?;
            self.receive().await?;
        }
        let state = self.tls.state();
        if state.alpn_protocol() != Some(VERSION) {
            return Err(Error::Version);
        }
        let shown = state.peer_certificates().and_then(<[_]>::first);
        self.peer = shown.and_then(identity::name_of).unwrap_or_default();
        self.peer_age = shown.and_then(identity::age_of).unwrap_or(Duration::MAX);
        Ok(())
    }

    async fn hear_greeting(&mut self) -> Result<Vec<u8>, Error> {
        loop {
            let mut out = Outgoing::default();
            let early = &mut self.early;
            self.tls.open(&mut self.received, &mut out, |plain| {
                early.extend_from_slice(plain);
                Ok::<(), Error>(())
            })?;
            self.send(&mut out).await?;
            if let Some((frame, length)) = Frame::first(&self.early)? {
                let greeting = match frame {
                    Frame::Hello { greeting } => greeting.to_vec(),
                    Frame::Close { reason } => return Err(Error::Refused(reason.to_owned())),
                    _ => return Err(frame::Error::Malformed.into()),
                };
                self.early.drain(..length);
                return Ok(greeting);
            }
            self.receive().await?;
        }
    }

    async fn say(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        let (mut plain, mut out) = (Vec::new(), Outgoing::default());
        frame.encode(&mut plain);
        self.tls.seal(&plain, &mut self.received, &mut out)?;
        self.send(&mut out).await
    }

    async fn send(&self, out: &mut Outgoing) -> Result<(), Error> {
        while !out.is_empty() {
            self.socket.writable().await?;
            out.sent(socket::send(&self.socket, out.unsent(), false)?);
        }
        Ok(())
    }

    async fn receive(&mut self) -> Result<(), Error> {
        let Self { socket, received, .. } = self;
        let room = received.room(READ);
        let count = std::future::poll_fn(|cx| socket::poll_recv(socket, cx, room)).await?;
        received.add(count);
        match count {
            0 => Err(Error::Closed),
            _ if received.len() > MAX_HANDSHAKE => Err(frame::Error::TooLong(received.len()).into()),
            _ => Ok(()),
        }
    }

    /// The name in the other end's certificate.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// What the key in the other end's certificate is known by.
    pub fn peer_key(&self) -> Option<KeyId> {
        self.tls.state().peer_certificates().and_then(<[_]>::first).and_then(KeyId::of)
    }

    /// The address that the other end's connection comes from, or goes to.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn peer_address(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    /// How long until the other end's certificate has this age.
    pub fn peer_until_age(&self, age: Duration) -> Duration {
        age.saturating_sub(self.peer_age)
    }

    /// What the other end said first.
    pub fn greeting(&self) -> &[u8] {
        &self.greeting
    }

    /// Makes it a link. The driver is to be run in a task; the other end's streams come to `handler`.
    pub fn start(self, handler: Arc<dyn Handler>) -> (Arc<Link>, Driver) {
        let link = Arc::new(Link::new(self.role));
        if self.role == Role::Listener {
            // The end that dialled waits for this: it knows then that it is welcome.
            link.outbox.put(&Frame::Hello { greeting: &[] });
        }
        let driver = Driver::new(self.socket, self.tls, link.clone(), handler, self.received, self.early);
        (link, driver)
    }

    /// Closes it, and tells the other end why.
    pub async fn refuse(mut self, reason: &str) {
        let saying = async {
            self.say(&Frame::Close { reason }).await?;
            socket::end_writing(&self.socket)?;
            // Until the other end has read it: closing earlier could take it back.
            let mut rest = vec![0; READ];
            while std::future::poll_fn(|cx| socket::poll_recv(&self.socket, cx, &mut rest)).await? > 0 {}
            Ok::<(), Error>(())
        };
        // An end that does not listen is not told.
        let _ = timeout(REFUSING, saying).await;
    }
}
