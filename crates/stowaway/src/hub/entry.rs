//! The entry for carriers: TLS in which the server name says which port of which workstation is wanted. Nothing is done before it
//! is shown who asks, which is at the end of a handshake. A byte then says that the laptop has connected there; without it the
//! connection ends, so that a carrier knows at once where the workstation is not.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_base::Throttle;
use causeway_base::lock::read;
use causeway_link::{Handshakes, Identity, IdentityError, Underway, name_of, reset_on_close};
use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::{StartHandshake, TlsStream};

use super::Hub;
use super::deliver::Delivered;
use super::grants::withdrawn;
use super::places::Place;
use crate::framed;
use crate::join::join;
use crate::refusal::{Cause, Refusal};
use crate::request::CONNECTED;
use crate::server_name::Wanted;

/// Handshakes at the same time, from one carrier and in all: many requests may begin at once, and each waits for a laptop.
const FROM_ONE: usize = 256;
const FROM_ALL: usize = 2048;
/// How long a carrier has for its first message, and then for its last.
const HELLO: Duration = Duration::from_secs(3);
const FINISH: Duration = Duration::from_secs(3);
/// How long a carrier that only looked has to close the connection.
const CLOSING: Duration = Duration::from_secs(1);
/// Refusals are told once in this time.
const TELL: Duration = Duration::from_secs(10);
/// A pause after the kernel could not accept, for example for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is shown to carriers.
pub(super) struct Shown {
    /// By what was agreed to be spoken inside, which is the carrier's business and the laptop's.
    plain: Arc<ServerConfig>,
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
    /// Fails every handshake, with an alert.
    refusing: Arc<ServerConfig>,
}

impl Shown {
    pub(super) fn new(identity: &Identity) -> Result<Self, IdentityError> {
        let plain = identity.tls_server()?;
        let speaking = |protocol: &[u8]| {
            let mut config = plain.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            Arc::new(config)
        };
        let refusing = ServerConfig::builder_with_provider(plain.crypto_provider().clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Nobody));
        Ok(Self {
            http1: speaking(b"http/1.1"),
            http2: speaking(b"h2"),
            plain: Arc::new(plain),
            refusing: Arc::new(refusing),
        })
    }

    /// HTTP/1.1 where the carrier leaves the choice: what the laptop speaks is not known here, and that is what most do.
    fn for_hello(&self, hello: &ClientHello<'_>) -> Arc<ServerConfig> {
        let offers = |wanted: &[u8]| hello.alpn().is_some_and(|mut offered| offered.any(|one| one == wanted));
        let config = if offers(b"http/1.1") {
            &self.http1
        } else if offers(b"h2") {
            &self.http2
        } else {
            &self.plain
        };
        config.clone()
    }
}

/// Has no certificate for anybody.
#[derive(Debug)]
struct Nobody;

impl ResolvesServerCert for Nobody {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// Takes carriers until it is dropped.
pub(super) async fn accept(hub: Arc<Hub>, listener: TcpListener) {
    let handshakes = Handshakes::new(FROM_ONE, FROM_ALL);
    let refusals = Arc::new(Throttle::new(TELL));
    loop {
        let (socket, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let underway = handshakes.begin(from.ip());
        let (hub, refusals) = (hub.clone(), refusals.clone());
        tokio::spawn(async move {
            let cut = hub.stopped.clone();
            tokio::select! {
                served = serve(&hub, socket, from, underway) => {
                    if let Err(refusal) = served && let Some(refused) = refusals.pass() {
                        tracing::warn!(%from, refused, reason = refusal.text, "refused a carrier");
                    }
                }
                () = cut.cancelled() => {}
            }
        });
    }
}

/// Serves one carrier from its first byte to its last.
async fn serve(
    hub: &Arc<Hub>,
    socket: TcpStream,
    from: SocketAddr,
    mut underway: Underway,
) -> Result<(), Refusal> {
    causeway_link::prepare(&socket);
    let shaken = tokio::select! {
        shaken = shake(hub, socket, from) => shaken?,
        () = underway.displaced() => return Err(Refusal::new(Cause::Busy, "too many handshakes at a time")),
    };
    drop(underway);
    let Some(Shaken { mut tls, delivered, place, carrier, wanted }) = shaken else { return Ok(()) };
    let cut = withdrawn(hub.grants.subscribe(), &carrier, &wanted);
    let ended = match delivered {
        Delivered::Stream(mut stream) => unless(cut, join(&mut tls, &mut stream)).await,
        Delivered::Flow(flow, datagrams) => unless(cut, framed::carry(&mut tls, &flow, datagrams)).await,
        Delivered::WireGuard(mut flow) => {
            let ended = unless(cut, join(&mut tls, &mut flow)).await;
            if ended.is_err() {
                // Not the carrier, which may be out of sight as well.
                if flow.has_fallen_silent() {
                    hub.missed(&wanted.workstation);
                }
                flow.reset();
            }
            ended
        }
        Delivered::WireGuardFlow(flow) => unless(cut, framed::carry_stack(&mut tls, &flow)).await,
    };
    if ended.is_err() {
        // What was cut off must not look as if it had come to its end.
        reset_on_close(tls.get_ref().0);
    }
    drop(place);
    Ok(())
}

/// Carries, and breaks off when it is cut.
async fn unless(
    cut: impl Future<Output = ()>,
    carrying: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::select! {
        ended = carrying => ended,
        () = cut => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

/// A carrier that has come through, and what it gets.
struct Shaken {
    tls: TlsStream<TcpStream>,
    delivered: Delivered,
    place: Place,
    carrier: String,
    wanted: Wanted,
}

/// The handshake, and then the laptop's answer; nothing if there is nothing to carry.
async fn shake(hub: &Arc<Hub>, socket: TcpStream, from: SocketAddr) -> Result<Option<Shaken>, Refusal> {
    let start = within(HELLO, LazyConfigAcceptor::new(Acceptor::default(), socket)).await?;
    let name = start.client_hello().server_name().unwrap_or_default().to_owned();
    let shown = read(&hub.shown).clone();
    let Some(wanted) = Wanted::parse(&name) else {
        let text = format!("{name:?} is no name of a workstation's port");
        return refuse(start, &shown, Refusal::new(Cause::Failed, text)).await;
    };
    let config = shown.for_hello(&start.client_hello());
    let mut tls = within(FINISH, start.into_stream(config)).await?;
    let carrier =
        tls.get_ref().1.peer_certificates().and_then(<[_]>::first).and_then(name_of).unwrap_or_default();
    if !hub.grants.borrow().allows(&carrier, &wanted) {
        reset_on_close(tls.get_ref().0);
        return Err(Refusal::new(Cause::Denied, format!("{carrier:?} was not granted {name}")));
    }
    let ready = match wanted.port {
        0 => hub.is_there(&wanted.workstation).map(|()| None),
        _ => hub.deliver(&wanted, from).await.map(Some),
    };
    match ready {
        Ok(ready) => {
            within(FINISH, confirm(&mut tls)).await?;
            if let Some((delivered, place)) = ready {
                return Ok(Some(Shaken { tls, delivered, place, carrier, wanted }));
            }
        }
        // Nothing is wrong: the laptop is not there, or its program is not.
        Err(refusal) => tracing::debug!(%name, %refusal, "not delivered"),
    }
    // One that does not close the connection is cut off.
    let _ = timeout(CLOSING, end(&mut tls)).await;
    Ok(None)
}

/// Says that the laptop has connected.
async fn confirm(tls: &mut TlsStream<TcpStream>) -> io::Result<()> {
    tls.write_u8(CONNECTED).await?;
    tls.flush().await
}

/// Fails a handshake with an alert, so that the carrier need not wait for anything.
async fn refuse<T>(
    start: StartHandshake<TcpStream>,
    shown: &Shown,
    refusal: Refusal,
) -> Result<Option<T>, Refusal> {
    // It fails: that is what it is for.
    let _ = timeout(FINISH, start.into_stream(shown.refusing.clone())).await;
    Err(refusal)
}

async fn within<T>(limit: Duration, step: impl Future<Output = io::Result<T>>) -> Result<T, Refusal> {
    match timeout(limit, step).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Refusal::of("the handshake failed", &error)),
        Err(_) => Err(Refusal::new(Cause::Timeout, format!("no handshake within {} s", limit.as_secs()))),
    }
}

/// Ends a connection on which nothing is carried.
async fn end(tls: &mut TlsStream<TcpStream>) -> io::Result<()> {
    tls.shutdown().await?;
    tokio::io::copy(tls, &mut tokio::io::sink()).await.map(|_| ())
}
