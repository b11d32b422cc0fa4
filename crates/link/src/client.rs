//! The container's end: it listens for the host on two ports, does what the host says on the first, and carries the
//! clients of its tunnels over the connections that the host makes to the second. It decides nothing by itself.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::identity::{self, Identity};
use crate::mux::{Broken, Link, Side, lock};
use crate::tunnel::TunnelId;

mod entrance;
mod session;

use entrance::Entrances;

/// A handshake that takes longer is not from the host.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Handshakes at the same time from one address: a stranger on the network can use up neither the container's
/// descriptors nor the turns of the host, which comes from an address of its own.
const HANDSHAKES: usize = 16;
/// A pause after the kernel could not accept, for example for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the container's end needs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the host's control connection is taken.
    pub control: SocketAddr,
    /// Where the host's data connections are taken.
    pub data: SocketAddr,
    /// Who this end is.
    pub identity: Identity,
    /// Where a renewed identity is kept, so that a restart finds it.
    pub save_to: Option<PathBuf>,
}

/// Why the container's end could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port could not be had.
    #[error("can't listen on {address}: choose another address, or end what listens there")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// The identity is of no use.
    #[error("can't use the identity")]
    Identity(#[from] identity::Error),
}

/// The container's end, listening.
pub struct Client {
    control: TcpListener,
    data: TcpListener,
    end: Arc<ContainerEnd>,
}

impl Client {
    /// Listens for the host.
    pub async fn bind(options: Options) -> Result<Self, Error> {
        let listen = async |address| {
            TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
        };
        let (control, data) = (listen(options.control).await?, listen(options.data).await?);
        let tls = options.identity.server_config()?;
        let end = Arc::new(ContainerEnd {
            tls: Mutex::new(tls),
            identity: Mutex::new(options.identity),
            save_to: options.save_to,
            session: Mutex::default(),
            links: Mutex::default(),
            entrances: Entrances::default(),
            changed: watch::channel(()).0,
        });
        Ok(Self { control, data, end })
    }

    /// Where the control and the data connections are taken.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.control.local_addr()?, self.data.local_addr()?))
    }

    /// Serves the host until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let Self { control, data, end } = self;
        let control = accept(control, end.clone(), stop.clone(), |end, stream| async move {
            session::run(&end, stream).await;
        });
        let data = accept(data, end.clone(), stop.clone(), |end, stream| async move {
            end.carry(stream).await;
        });
        tokio::join!(control, data);
        end.entrances.clear();
    }
}

/// Takes connections and does the handshake with each; only the pair's host gets beyond it.
async fn accept<F>(
    listener: TcpListener,
    end: Arc<ContainerEnd>,
    stop: CancellationToken,
    serve: impl Fn(Arc<ContainerEnd>, TlsStream<TcpStream>) -> F + Clone + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let handshakes = Arc::new(Handshakes::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        let (socket, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Closed at once: the host comes again.
        let Some(handshake) = handshakes.begin(from.ip()) else { continue };
        crate::socket::prepare(&socket);
        let acceptor = TlsAcceptor::from(lock(&end.tls).clone());
        let (end, serve, stop) = (end.clone(), serve.clone(), stop.clone());
        tokio::spawn(async move {
            let shaken = timeout(HANDSHAKE, acceptor.accept(socket)).await;
            drop(handshake);
            match shaken {
                Ok(Ok(stream)) => {
                    tokio::select! {
                        () = serve(end, stream) => {}
                        () = stop.cancelled() => {}
                    }
                }
                Ok(Err(error)) => {
                    tracing::warn!(%from, %error, "refused a connection that is not the host's");
                }
                Err(_) => tracing::warn!(%from, "refused a connection that did not finish its handshake"),
            }
        });
    }
}

/// Handshakes under way, by address.
#[derive(Default)]
struct Handshakes(Mutex<HashMap<IpAddr, usize>>);

impl Handshakes {
    /// Counts one more, unless that address has too many.
    fn begin(self: &Arc<Self>, from: IpAddr) -> Option<Handshake> {
        let mut counts = lock(&self.0);
        let count = counts.entry(from).or_default();
        if *count == HANDSHAKES {
            return None;
        }
        *count += 1;
        Some(Handshake { all: self.clone(), from })
    }
}

/// One handshake under way.
struct Handshake {
    all: Arc<Handshakes>,
    from: IpAddr,
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut counts = lock(&self.all.0);
        if let Some(count) = counts.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.from);
            }
        }
    }
}

/// What the tasks of the container's end share.
struct ContainerEnd {
    /// For the next handshakes; replaced when the certificate is renewed.
    tls: Mutex<Arc<ServerConfig>>,
    identity: Mutex<Identity>,
    save_to: Option<PathBuf>,
    /// The host's control connection in charge: the newest.
    session: Mutex<Option<Session>>,
    links: Mutex<Vec<Arc<Link>>>,
    entrances: Entrances,
    /// Something that the host is told has changed.
    changed: watch::Sender<()>,
}

struct Session {
    id: String,
    /// Ends it when a newer one comes.
    over: CancellationToken,
}

impl ContainerEnd {
    /// Makes a session the one in charge. What an older one had is dropped: its host is gone or was replaced.
    fn begin(self: &Arc<Self>, id: String) -> CancellationToken {
        let over = CancellationToken::new();
        let older = lock(&self.session).replace(Session { id, over: over.clone() });
        if let Some(older) = older {
            older.over.cancel();
            self.drop_links();
        }
        over
    }

    /// The host's control connection is gone. Ports stay bound and refuse until it comes again.
    fn finish(self: &Arc<Self>, id: &str) {
        let mut session = lock(&self.session);
        if session.as_ref().is_some_and(|session| session.id == id) {
            *session = None;
            drop(session);
            self.drop_links();
        }
    }

    fn drop_links(self: &Arc<Self>) {
        for link in std::mem::take(&mut *lock(&self.links)) {
            link.close();
        }
        self.links_changed();
    }

    fn links_changed(self: &Arc<Self>) {
        self.entrances.links_changed(self);
        self.changed.send_replace(());
    }

    fn usable_links(&self) -> usize {
        lock(&self.links).iter().filter(|link| link.is_usable()).count()
    }

    /// The link with the fewest streams.
    fn pick(&self) -> Option<Arc<Link>> {
        lock(&self.links).iter().filter(|link| link.is_usable()).min_by_key(|link| link.len()).cloned()
    }

    /// Drives one data connection of the host.
    async fn carry(self: &Arc<Self>, stream: TlsStream<TcpStream>) {
        let (socket, tls) = stream.into_inner();
        let link = Arc::new(Link::default());
        let driver = Driver::new(socket, tls.into(), link.clone(), Arc::new(DataSide(self.clone())));
        let broken = driver.run().await;
        lock(&self.links).retain(|known| !Arc::ptr_eq(known, &link));
        self.links_changed();
        let error: &dyn std::error::Error = &broken;
        tracing::info!(reason = error, "a data connection ended");
    }

    /// Takes a renewed identity into use and keeps it for the next start.
    fn renewed(&self, identity: Identity) -> Result<(), identity::Error> {
        *lock(&self.tls) = identity.server_config()?;
        if let Some(path) = &self.save_to
            && let Err(error) = save(path, &identity.to_pem())
        {
            tracing::warn!(path = %path.display(), %error, "can't keep the renewed identity; a restart would use the old one");
        }
        *lock(&self.identity) = identity;
        Ok(())
    }
}

/// Replaces the file as a whole, readable by its owner only.
fn save(path: &std::path::Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let beside = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o400).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(beside, path)
}

/// What the container does with frames that only the host sends.
struct DataSide(Arc<ContainerEnd>);

impl Side for DataSide {
    fn hello(&self, link: &Arc<Link>, session: &[u8]) -> Result<(), Broken> {
        {
            let current = lock(&self.0.session);
            if current.as_ref().is_none_or(|current| current.id.as_bytes() != session) {
                return Err(Broken::Role("a session that is not the current one"));
            }
            lock(&self.0.links).push(link.clone());
        }
        self.0.links_changed();
        Ok(())
    }

    fn open(&self, _: &Arc<Link>, _: u32, _: TunnelId, _: SocketAddr) -> Result<(), Broken> {
        Err(Broken::Role("only the container opens streams"))
    }
}
