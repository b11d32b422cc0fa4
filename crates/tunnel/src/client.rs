//! The client end: it listens for the host on two ports, does what the host says on the first, and carries the
//! clients of its tunnels over the links that the host makes to the second. It decides nothing by itself.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_base::{Throttle, file};
use causeway_link::{Connection, Credentials, Identity, IdentityError, Link, Listener, token};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::driven::{Driven, NoStreams};
use crate::places::Places;

mod datagrams;
mod entrance;
mod session;

use entrance::Entrances;

/// How long the links may take to end in order.
const CLOSING: Duration = Duration::from_secs(3);
/// Clients that may not come in are told of once in this time.
const STRANGERS: Duration = Duration::from_secs(10);
/// The identity's file is for its owner to read and for nobody to write.
const IDENTITY_MODE: u32 = 0o400;

/// What the client end needs.
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

/// Why the client end could not start.
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
    Identity(#[from] IdentityError),
}

/// The client end, listening.
pub struct Client {
    control: Listener,
    data: Listener,
    end: Arc<ClientEnd>,
}

impl Client {
    /// Listens for the host.
    ///
    /// # Errors
    /// When a port can't be had or the identity is of no use.
    pub async fn bind(options: Options) -> Result<Self, Error> {
        let credentials = Credentials::new(&options.identity)?;
        let listen = async |address| {
            let bound = Listener::bind(address, credentials.clone()).await;
            bound.map_err(|source| Error::Listen { address, source })
        };
        let (control, data) = (listen(options.control).await?, listen(options.data).await?);
        let end = Arc::new(ClientEnd::new(credentials, options.identity, options.save_to));
        Ok(Self { control, data, end })
    }

    /// Where the control and the data connections are taken.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.control.address(), self.data.address())
    }

    /// Serves the host until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                connection = self.control.accept() => {
                    let (end, stop) = (self.end.clone(), stop.clone());
                    tokio::spawn(async move {
                        tokio::select! {
                            () = session::run(&end, connection) => {}
                            () = stop.cancelled() => {}
                        }
                    });
                }
                connection = self.data.accept() => self.end.take(connection),
                () = stop.cancelled() => break,
            }
        }
        let Self { end, .. } = self;
        end.entrances.clear();
        end.drop_links("the client end stops");
        end.tasks.close();
        // A host that does not answer is not waited for.
        let _ = timeout(CLOSING, end.tasks.wait()).await;
    }
}

/// A control connection in charge; gives up its place when it ends, however it ends.
struct Turn {
    end: Arc<ClientEnd>,
    session: String,
    /// Cancelled when another connection takes over.
    control: CancellationToken,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end.finish(&self.control);
    }
}

/// What the tasks of the client end share.
struct ClientEnd {
    credentials: Credentials,
    identity: Mutex<Identity>,
    save_to: Option<PathBuf>,
    /// The host's control connection in charge: the newest.
    session: Mutex<Option<Session>>,
    links: Mutex<Vec<Arc<Link>>>,
    entrances: Entrances,
    /// The places for streams that this process has.
    places: Places,
    strangers: Throttle,
    /// Something that the host is told has changed.
    changed: watch::Sender<()>,
    /// The drivers of links.
    tasks: TaskTracker,
}

/// What the host and its links have in common. It lasts for as long as any of its connections: one that breaks for
/// itself does not take the others along.
struct Session {
    id: String,
    /// The control connection in charge; cancelled when a newer one comes. None while there is none.
    control: Option<CancellationToken>,
}

impl ClientEnd {
    fn new(credentials: Credentials, identity: Identity, save_to: Option<PathBuf>) -> Self {
        Self {
            credentials,
            identity: Mutex::new(identity),
            save_to,
            session: Mutex::default(),
            links: Mutex::default(),
            entrances: Entrances::default(),
            places: Places::of_this_process(),
            strangers: Throttle::new(STRANGERS),
            changed: watch::channel(()).0,
            tasks: TaskTracker::new(),
        }
    }

    /// Puts a control connection in charge, of the session that it asks for if there is that one, else of a new one. What
    /// an older session had is dropped: its host is gone or was replaced.
    fn begin(self: &Arc<Self>, asked: Option<String>) -> Result<Turn, IdentityError> {
        let control = CancellationToken::new();
        let mut session = lock(&self.session);
        let goes_on = session.as_ref().is_some_and(|current| asked.as_ref() == Some(&current.id));
        let id = match asked {
            Some(id) if goes_on => id,
            _ => token()?,
        };
        let older = session.replace(Session { id: id.clone(), control: Some(control.clone()) });
        if let Some(older) = older.and_then(|older| older.control) {
            // Under the lock: one that ends at this moment must not take the newer one for itself.
            older.cancel();
        }
        drop(session);
        if !goes_on {
            self.drop_links("another host has taken over");
        }
        Ok(Turn { end: self.clone(), session: id, control })
    }

    /// A control connection is gone. Its session goes on with its links; without any, ports refuse until the host comes
    /// again.
    fn finish(self: &Arc<Self>, control: &CancellationToken) {
        if let Some(session) = &mut *lock(&self.session) {
            // A token is cancelled when a newer connection is in charge, and when its own is gone.
            session.control.take_if(|_| !control.is_cancelled());
        }
        self.forget_session();
    }

    /// Forgets a session of which nothing is left.
    fn forget_session(&self) {
        let mut session = lock(&self.session);
        if session.as_ref().is_some_and(|session| session.control.is_none()) && lock(&self.links).is_empty() {
            *session = None;
        }
    }

    fn drop_links(self: &Arc<Self>, reason: &str) {
        for link in std::mem::take(&mut *lock(&self.links)) {
            link.close(reason);
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

    /// Takes a data connection of the host if it belongs to the session in charge.
    fn take(self: &Arc<Self>, connection: Connection) {
        let session = lock(&self.session);
        let current = session.as_ref().is_some_and(|session| session.id.as_bytes() == connection.greeting());
        if !current {
            tokio::spawn(async move {
                connection.refuse("this is not a data connection of the session in charge").await;
            });
            return;
        }
        let end = self.clone();
        let mut driven = Driven::start(connection, Arc::new(NoStreams), &self.tasks, |link| {
            lock(&end.links).push(link.clone());
        });
        drop(session);
        self.links_changed();
        tokio::spawn(async move {
            driven.ended().await;
            lock(&end.links).retain(|known| !Arc::ptr_eq(known, &driven.link));
            end.forget_session();
            end.links_changed();
        });
    }

    /// Takes a renewed identity into use and keeps it for the next start.
    fn renewed(&self, identity: Identity) -> Result<(), IdentityError> {
        self.credentials.renew(&identity)?;
        if let Some(path) = &self.save_to
            && let Err(error) = file::replace(path, IDENTITY_MODE, identity.to_pem().as_bytes())
        {
            tracing::warn!(path = %path.display(), %error, "can't keep the renewed identity; a restart would use the old one");
        }
        *lock(&self.identity) = identity;
        Ok(())
    }
}
