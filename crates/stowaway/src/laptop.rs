//! The developer's end: one connection to the cluster's end, by the best way that there is, kept for as long as it is wanted.
//! What the cluster sends is delivered to local ports; what the machine's processes want of the cluster goes out by
//! [`Handle::connect`], [`Handle::datagrams`] and [`Handle::resolve`], through a [`proxy`] or a [`door`].

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use causeway_base::lock::{lock, read, write};
use causeway_link::{Flow, Identity, Link, Sink, Stream, Traffic, Unusable, token};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::datagrams;
use crate::place::{Place, normal_name};
use crate::request::{Request, flow_settings, hear_connected, no_answer, stream_settings};

mod approach;
mod bridge;
mod deliver;
pub mod door;
pub mod proxy;
mod seek;
mod state;
mod tunnel;

pub use approach::{Approach, Dial, Duplex};
pub use deliver::{MayDeliver, Ports};
pub use state::{Connected, State, WayState};
pub use tunnel::WireGuard;

use deliver::Places;
use seek::{Seeker, Wishes};

/// How long somebody who wants to go out waits for a link. One that broke is there again in a moment.
const LINK: Duration = Duration::from_secs(5);
/// How long the hub has to connect.
const ANSWER: Duration = Duration::from_secs(12);
/// The longest answer to a name.
const MAX_ADDRESSES: u64 = 8 << 10;
/// How long links may take to end in order.
const CLOSING: Duration = Duration::from_secs(3);
/// Whose share of memory unread bytes of local processes take.
const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// What a laptop needs.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who it is: [`crate::workstation_name`], as a dialer.
    pub identity: Identity,
    /// The ways to the cluster's end.
    pub ways: Vec<Approach>,
    /// Where streams of the cluster may go on this machine.
    pub may_deliver: MayDeliver,
    /// The namespace that names without one are looked up in.
    pub namespace: Option<String>,
}

impl Config {
    /// The usual settings.
    pub fn new(identity: Identity, ways: Vec<Approach>) -> Self {
        Self { identity, ways, may_deliver: MayDeliver::default(), namespace: None }
    }
}

/// Starts to connect, on the current runtime.
pub fn start(config: Config) -> Handle {
    let Config { identity, ways, may_deliver, namespace } = config;
    let laptop = Arc::new(Laptop {
        // Without chance there are no keys either, and then nothing comes of it anyway.
        session: token().unwrap_or_default(),
        link: watch::Sender::default(),
        state: watch::Sender::new(State::before(ways.iter().map(Approach::way))),
        may_deliver: RwLock::new(may_deliver),
        namespace: RwLock::new(namespace),
        places: Places::default(),
        traffic: Arc::default(),
        tasks: TaskTracker::new(),
        stopped: CancellationToken::new(),
    });
    let wishes = watch::Sender::new(Wishes { identity: Arc::new(identity), ways });
    let seeker = Seeker::new(laptop.clone(), wishes.subscribe());
    let task = Mutex::new(Some(tokio::spawn(seeker.run())));
    Handle { laptop, wishes, task }
}

/// A laptop that runs. Everything ends when it is dropped.
pub struct Handle {
    laptop: Arc<Laptop>,
    wishes: watch::Sender<Wishes>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("state", &*self.laptop.state.borrow()).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.laptop.stopped.cancel();
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

impl Handle {
    /// How things stand.
    pub fn state(&self) -> watch::Receiver<State> {
        self.laptop.state.subscribe()
    }

    /// Connects to a place in the cluster.
    ///
    /// # Errors
    /// When there is no connection to the cluster, nobody answers at that place, or it may not be reached.
    ///
    /// # Cancellation
    /// Dropping the future gives the stream up.
    pub async fn connect(&self, place: &Place) -> io::Result<Stream> {
        let request = Request::Connect(self.laptop.completed(place)).encode();
        let open = |link: &Arc<Link>| link.open(&request, stream_settings(&self.laptop.traffic, OWN));
        let deadline = Instant::now() + LINK;
        loop {
            let (link, mut stream) = self.laptop.open(deadline, open).await?;
            match hear_connected(&mut stream, ANSWER).await {
                Ok(()) => return Ok(stream),
                // Nobody was promised anything, and there may be another link in a moment.
                Err(_) if is_lost(&link) && Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a flow of datagrams to a place in the cluster; `sink` takes those that come back.
    ///
    /// # Errors
    /// When there is no connection to the cluster, there is no such place, or it may not be reached.
    ///
    /// # Cancellation
    /// Dropping the future gives the flow up.
    pub async fn datagrams(&self, place: &Place, sink: Sink) -> io::Result<Flow> {
        let request = Request::Datagrams(self.laptop.completed(place)).encode();
        let sink: Arc<Sink> = Arc::new(sink);
        let open = |link: &Arc<Link>| {
            let sink = sink.clone();
            let settings = flow_settings(&self.laptop.traffic, OWN);
            datagrams::open(link, &request, settings, Box::new(move |datagram: &[u8]| sink(datagram)))
        };
        let deadline = Instant::now() + LINK;
        loop {
            let (link, opening) = self.laptop.open(deadline, open).await?;
            match opening.connected(ANSWER).await {
                Ok(flow) => return Ok(flow),
                Err(_) if is_lost(&link) && Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The addresses of a name in the cluster.
    ///
    /// # Errors
    /// When there is no connection to the cluster, it knows no such name, or nothing behind it may be reached.
    pub async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let bad = || io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name of a host"));
        let name = self.laptop.completed_name(&normal_name(name).ok_or_else(bad)?);
        let request = Request::Resolve(name).encode();
        let open = |link: &Arc<Link>| link.open(&request, stream_settings(&self.laptop.traffic, OWN));
        let deadline = Instant::now() + LINK;
        loop {
            let (link, mut stream) = self.laptop.open(deadline, open).await?;
            match read_addresses(&mut stream).await {
                Ok(addresses) => return Ok(addresses),
                Err(_) if is_lost(&link) && Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Shows another identity: a new link takes the place of the one in use, and what is open ends by itself.
    pub fn renew(&self, identity: Identity) {
        self.wishes.send_modify(|wishes| wishes.identity = Arc::new(identity));
    }

    /// Says by which ways to come.
    pub fn set_ways(&self, ways: Vec<Approach>) {
        self.wishes.send_modify(|wishes| wishes.ways = ways);
    }

    /// Says where streams of the cluster may go, from the next one on.
    pub fn set_may_deliver(&self, may_deliver: MayDeliver) {
        *write(&self.laptop.may_deliver) = may_deliver;
    }

    /// Says in which namespace names without one are looked up.
    pub fn set_namespace(&self, namespace: Option<String>) {
        *write(&self.laptop.namespace) = namespace;
    }

    /// Leaves the cluster: everything is closed, in order.
    pub async fn stop(&self) {
        self.laptop.stopped.cancel();
        let task = lock(&self.task).take();
        if let Some(task) = task {
            // A panic in there was reported where it happened.
            let _ = task.await;
        }
        self.laptop.tasks.close();
        // A hub that does not answer is not waited for.
        let _ = timeout(CLOSING, self.laptop.tasks.wait()).await;
    }
}

/// Whether a link has ended or is about to.
fn is_lost(link: &Link) -> bool {
    !link.is_usable()
}

/// What the tasks of a laptop share.
struct Laptop {
    /// The same for all links of this process.
    session: String,
    /// The link in use.
    link: watch::Sender<Option<Arc<Link>>>,
    state: watch::Sender<State>,
    may_deliver: RwLock<MayDeliver>,
    namespace: RwLock<Option<String>>,
    places: Places,
    traffic: Arc<Traffic>,
    /// The drivers of links.
    tasks: TaskTracker,
    stopped: CancellationToken,
}

impl Laptop {
    /// Opens something on the link in use, and waits for one if there is none.
    async fn open<T>(
        &self,
        deadline: Instant,
        open: impl Fn(&Arc<Link>) -> Result<T, Unusable>,
    ) -> io::Result<(Arc<Link>, T)> {
        let mut links = self.link.subscribe();
        loop {
            let usable = links.wait_for(|link| link.as_ref().is_some_and(|link| link.is_usable()));
            let link = tokio::select! {
                found = timeout_at(deadline, usable) => match found {
                    Ok(Ok(link)) => link.clone(),
                    _ => None,
                },
                () = self.stopped.cancelled() => None,
            };
            let Some(link) = link else {
                let complaint = self.state.borrow().complaint();
                return Err(io::Error::new(io::ErrorKind::NotConnected, complaint));
            };
            // The one that was there may have been told to leave meanwhile.
            if let Ok(opened) = open(&link) {
                return Ok((link, opened));
            }
        }
    }

    /// A place with the namespace that the user means.
    fn completed(&self, place: &Place) -> Place {
        match place {
            Place::Name(name, port) => Place::Name(self.completed_name(name), *port),
            Place::Address(_) => place.clone(),
        }
    }

    fn completed_name(&self, name: &str) -> String {
        match &*read(&self.namespace) {
            Some(namespace) if !name.contains('.') => format!("{name}.{namespace}"),
            _ => name.to_owned(),
        }
    }
}

async fn read_addresses(stream: &mut Stream) -> io::Result<Vec<IpAddr>> {
    hear_connected(stream, ANSWER).await?;
    let mut lines = String::new();
    let reading = stream.take(MAX_ADDRESSES);
    tokio::pin!(reading);
    timeout(ANSWER, reading.read_to_string(&mut lines)).await.map_err(|_| no_answer(ANSWER))??;
    Ok(lines.lines().filter_map(|line| line.parse().ok()).collect())
}
