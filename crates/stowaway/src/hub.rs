//! The cluster's end for all workstations. Laptops dial it and are known by their certificates; carriers connect to it by TLS,
//! and what they bring goes on to the laptops; what laptops want goes out into the cluster. Who may come, what carriers were
//! granted and what may be reached is told to it, and may change at any time: nobody is touched whom a change does not concern.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use causeway_base::lock::{read, write};
use causeway_link::{Connection, Credentials, Identity, IdentityError, KeyId, Listener, Traffic};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::driven::Driven;
use crate::greeting::Greeting;
use crate::way::Way;
use crate::{Uid, WORKSTATION};

mod caller;
mod deliver;
mod entry;
mod grants;
mod links;
mod outward;
mod places;
mod reach;
mod seats;
mod wireguard;

pub use grants::Grant;
pub use reach::Reach;
pub use seats::Standing;

use caller::Caller;
use entry::Shown;
use grants::Grants;
use links::Links;
use outward::Lookups;
use places::Places;
use seats::Seats;
use wireguard::WireGuard;

/// How long a laptop may keep a link that it does not use.
const UNUSED: Duration = Duration::from_secs(10);
/// How often a drain looks whether the last stream has ended.
const DRAIN_LOOK: Duration = Duration::from_millis(20);
/// How long links may take to end in order.
const CLOSING: Duration = Duration::from_secs(3);

/// What the hub needs.
#[derive(Debug, Clone)]
pub struct Config {
    /// What laptops are told this replica is called: the pod's name.
    pub name: String,
    /// Where links of laptops are taken.
    pub link: SocketAddr,
    /// Where carriers are taken.
    pub carriers: SocketAddr,
    /// Where WireGuard is taken.
    pub wireguard: Option<SocketAddr>,
    /// Who it is: [`crate::STOWAWAY`], as a listener.
    pub identity: Identity,
    /// The private key of WireGuard; without it nothing is taken there.
    pub wireguard_key: Option<[u8; 32]>,
}

/// A workstation that may come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workstation {
    /// What it is known by.
    pub uid: Uid,
    /// NAMESPACE/NAME, for people.
    pub label: String,
    /// The key of its certificates: whoever has had the workstation before has another. Without it no link is taken.
    pub link_key: Option<KeyId>,
    /// Its public key in WireGuard.
    pub wireguard_key: Option<[u8; 32]>,
    /// Its address in WireGuard.
    pub address: Option<IpAddr>,
}

/// Where the hub listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// For links.
    pub link: SocketAddr,
    /// For carriers.
    pub carriers: SocketAddr,
    /// For WireGuard.
    pub wireguard: Option<SocketAddr>,
}

/// Figures of the hub.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Workstations that are connected.
    pub connected: u64,
    /// Streams and flows that are open.
    pub streams: u64,
    /// Bytes that came from laptops.
    pub received: u64,
    /// Bytes that went to laptops.
    pub sent: u64,
}

/// Listens and serves until it is stopped.
///
/// # Errors
/// When a port can't be had or the identity is of no use.
pub async fn start(config: Config) -> io::Result<Handle> {
    let unusable = |error: IdentityError| io::Error::new(io::ErrorKind::InvalidInput, error);
    let credentials = Credentials::new(&config.identity).map_err(unusable)?;
    let shown = Shown::new(&config.identity).map_err(unusable)?;
    let listener =
        Listener::bind(config.link, credentials.clone()).await.map_err(|error| taken(config.link, error))?;
    let carriers = TcpListener::bind(config.carriers).await.map_err(|error| taken(config.carriers, error))?;
    let (wireguard, arrivals) = match (config.wireguard, config.wireguard_key) {
        (Some(address), Some(key)) => {
            let (wireguard, arrivals) =
                WireGuard::bind(key, address).map_err(|error| taken(address, error))?;
            (Some(wireguard), Some(arrivals))
        }
        _ => (None, None),
    };
    let addresses = Addresses {
        link: listener.address(),
        carriers: carriers.local_addr()?,
        wireguard: wireguard.as_ref().map(WireGuard::address),
    };
    let hub = Arc::new(Hub {
        name: config.name,
        credentials,
        shown: RwLock::new(Arc::new(shown)),
        known: RwLock::default(),
        grants: watch::Sender::default(),
        reach: RwLock::default(),
        seats: Seats::default(),
        links: Arc::default(),
        wireguard,
        places: Places::of_this_process(),
        lookups: Lookups::default(),
        traffic: Arc::default(),
        draining: CancellationToken::new(),
        stopped: CancellationToken::new(),
        tasks: TaskTracker::new(),
    });
    let mut tasks =
        vec![tokio::spawn(admit(hub.clone(), listener)), tokio::spawn(entry::accept(hub.clone(), carriers))];
    if let Some(arrivals) = arrivals {
        let weak = Arc::downgrade(&hub);
        tasks.push(tokio::spawn(wireguard::serve(weak.clone(), addresses.link, arrivals)));
        tasks.push(tokio::spawn(wireguard::watch_over(weak)));
    }
    Ok(Handle { hub, addresses, tasks })
}

fn taken(address: SocketAddr, error: io::Error) -> io::Error {
    let text =
        format!("can't listen on {address}: {error}: choose another address, or end what listens there");
    io::Error::new(error.kind(), text)
}

/// A hub that runs. Everything ends when it is dropped.
pub struct Handle {
    hub: Arc<Hub>,
    addresses: Addresses,
    tasks: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
        self.hub.stopped.cancel();
        self.hub.links.close("the cluster's end stops");
    }
}

impl Handle {
    /// Shows another identity from the next handshake on, to laptops and to carriers.
    ///
    /// # Errors
    /// When the identity is not one of a listener; the old one is kept.
    pub fn renew(&self, identity: &Identity) -> Result<(), IdentityError> {
        let shown = Shown::new(identity)?;
        self.hub.credentials.renew(identity)?;
        *write(&self.hub.shown) = Arc::new(shown);
        Ok(())
    }

    /// Says who may come. Who no longer may is cut off.
    pub fn set_workstations(&self, workstations: Vec<Workstation>) {
        if let Some(wireguard) = &self.hub.wireguard {
            wireguard.set(workstations.iter());
        }
        let known = workstations.into_iter().map(|one| (one.uid.clone(), one)).collect();
        *write(&self.hub.known) = known;
        self.hub.links.keep(|uid, key| self.hub.knows(uid, key));
    }

    /// Says what carriers may have, from the next handshake on. What is open without a grant has half a minute to end by itself.
    pub fn set_grants(&self, grants: Vec<Grant>) {
        let grants = Grants::new(grants);
        // Everything that is open looks at a change.
        self.hub.grants.send_if_modified(|known| {
            let is_new = *known != grants;
            *known = grants;
            is_new
        });
    }

    /// Says what laptops may reach, from the next stream on; what is open goes on.
    pub fn set_reach(&self, reach: Reach) {
        *write(&self.hub.reach) = Arc::new(reach);
    }

    /// Who is connected, and how.
    pub fn standings(&self) -> watch::Receiver<BTreeMap<Uid, Standing>> {
        self.hub.seats.standings()
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Its figures.
    pub fn figures(&self) -> Figures {
        Figures {
            connected: self.hub.seats.len() as u64,
            streams: self.hub.places.used(),
            received: self.hub.traffic.received(),
            sent: self.hub.traffic.sent(),
        }
    }

    /// Asks the laptops to go to another replica, takes no new ones, serves those that have not gone yet, lets streams end
    /// within the limit, then closes everything in order.
    ///
    /// # Cancellation
    /// Dropping the future closes everything at once.
    pub async fn stop(self, drain: Duration) {
        let deadline = Instant::now() + drain;
        self.hub.draining.cancel();
        let mut look = interval(DRAIN_LOOK);
        while Instant::now() < deadline && !self.hub.is_quiet() {
            look.tick().await;
        }
        let hub = self.hub.clone();
        drop(self);
        hub.tasks.close();
        // A laptop that does not answer is not waited for.
        let _ = timeout(CLOSING, hub.tasks.wait()).await;
    }
}

/// What the tasks of the hub share.
struct Hub {
    name: String,
    credentials: Credentials,
    shown: RwLock<Arc<Shown>>,
    known: RwLock<HashMap<Uid, Workstation>>,
    grants: watch::Sender<Grants>,
    reach: RwLock<Arc<Reach>>,
    seats: Seats,
    links: Arc<Links>,
    wireguard: Option<WireGuard>,
    places: Places,
    lookups: Lookups,
    traffic: Arc<Traffic>,
    /// Cancelled when laptops are to leave.
    draining: CancellationToken,
    /// Cancelled when everything ends.
    stopped: CancellationToken,
    /// The drivers of links.
    tasks: TaskTracker,
}

impl Hub {
    /// Whether a workstation may come with this key.
    fn knows(&self, uid: &str, key: Option<KeyId>) -> bool {
        read(&self.known).get(uid).is_some_and(|one| key.is_some() && one.link_key == key)
    }

    fn reach(&self) -> Arc<Reach> {
        read(&self.reach).clone()
    }

    /// Whether everybody has left and nothing is carried.
    fn is_quiet(&self) -> bool {
        self.seats.is_empty() && self.links.are_quiet() && self.places.used() == 0
    }

    /// Who a connection is from, or why it is not wanted.
    fn check(&self, connection: &Connection) -> Result<(Arc<str>, Greeting, SocketAddr), String> {
        if self.draining.is_cancelled() {
            return Err("this replica of the cluster's end is being stopped".to_owned());
        }
        let peer = connection.peer();
        let uid = peer
            .strip_prefix(WORKSTATION)
            .ok_or_else(|| format!("{peer:?} is not the name of a workstation"))?;
        if !self.knows(uid, connection.peer_key()) {
            let is_there = read(&self.known).contains_key(uid);
            let what =
                if is_there { "has another key: it may be another machine's by now" } else { "is not there" };
            return Err(format!("workstation {uid} {what}, or the cluster's end has not heard of it yet"));
        }
        let greeting = Greeting::decode(connection.greeting())
            .ok_or("the greeting can't be read: is the laptop's release a newer one?")?;
        let mut from = connection.peer_address().map_err(|error| error.to_string())?;
        if let Some(wireguard) = self.wireguard.as_ref().filter(|_| greeting.way == Way::WireGuard) {
            // It comes out of WireGuard here; where it really comes from is known there.
            from = wireguard.endpoint(uid).unwrap_or(from);
        }
        Ok((uid.into(), greeting, SocketAddr::new(from.ip().to_canonical(), from.port())))
    }

    /// Makes a laptop's connection a link.
    fn take(self: &Arc<Self>, connection: Connection) {
        let (uid, greeting, from) = match self.check(&connection) {
            Ok(checked) => checked,
            Err(reason) => {
                tracing::debug!(peer = connection.peer(), reason, "refused a laptop");
                tokio::spawn(async move { connection.refuse(&reason).await });
                return;
            }
        };
        let key = connection.peer_key();
        let served = AtomicBool::new(false);
        let caller = Arc::new(Caller { hub: Arc::downgrade(self), uid: uid.clone(), from, greeting, served });
        let register = |link: &Arc<_>| self.links.register(&uid, key, link);
        let mut driven = Driven::start(connection, caller.clone(), &self.tasks, register);
        if !self.knows(&uid, key) {
            // Removed since it was looked at, and perhaps before its link was known.
            driven.link.close("the workstation was removed");
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = driven.ended() => return,
                () = sleep(UNUSED) => {}
            }
            if caller.link_is_unused(&driven.link) {
                driven.link.close("the link was not put to use");
            }
            driven.ended().await;
        });
    }
}

/// Takes laptops until it is dropped.
async fn admit(hub: Arc<Hub>, mut listener: Listener) {
    loop {
        let connection = listener.accept().await;
        hub.take(connection);
    }
}
