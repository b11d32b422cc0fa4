//! A server on an interface: one thread takes what has come, decides, and tells clients; another makes the leases of a group
//! durable with one sync before their clients are told.

mod advertiser;
mod card;
mod clock;
mod interface;
mod outbox;
mod probe;
mod running;
mod socket;
mod status;
mod writer;

use std::io;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use causeway_base::lock::lock;
use causeway_ir::dhcp::DhcpPlan;

pub use self::status::{Status, Unknown};
use crate::lease::Lease;
use crate::metrics::Metrics;
use crate::store::{OpenError, Store};
use running::Running;

/// Why a server can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its leases can't be used.
    #[error(transparent)]
    Leases(#[from] OpenError),
    /// Its interface can't.
    #[error("{interface} can't be served: {source}; {}", remedy(source))]
    Interface {
        /// The interface.
        interface: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// The system has no thread or pipe for it.
    #[error("the server can't be started: {0}")]
    System(io::Error),
    /// It no longer runs.
    #[error("the server has ended; start it again")]
    Ended,
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "low ports need CAP_NET_BIND_SERVICE or the sysctl net.ipv4.ip_unprivileged_port_start=67"
        }
        io::ErrorKind::AddrInUse => "another DHCP server runs on it: stop that one",
        _ => "look with `ip link` whether it is there and up",
    }
}

/// What a server is told from outside.
enum Order {
    Plan(Box<DhcpPlan>, Sender<Result<(), StartError>>),
    Leases(Sender<Vec<Lease>>),
    Stop,
}

/// A server that runs until it is told to stop, or dropped.
pub struct Server {
    order_tx: Sender<Order>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
    status: Arc<Mutex<Status>>,
}

impl Server {
    /// Opens the leases and the sockets of a valid plan, and serves from then on.
    ///
    /// # Errors
    /// When the leases or the interface can't be used.
    pub fn start(plan: DhcpPlan, leases: &Path, metrics: Metrics) -> Result<Self, StartError> {
        let (store, known) = Store::open(leases)?;
        let (order_tx, order_rx) = channel(); // handle → thread
        let (wake, woken) = UnixStream::pair().map_err(StartError::System)?;
        wake.set_nonblocking(true).and_then(|()| woken.set_nonblocking(true)).map_err(StartError::System)?;
        let status = Arc::new(Mutex::new(Status::default()));
        let orders = Orders { order_rx, woken };
        let mut running = Running::new(plan, store, known, metrics, Arc::clone(&status))?;
        let thread = std::thread::Builder::new().name("dhcp".into());
        let thread = thread.spawn(move || running.run(&orders)).map_err(StartError::System)?;
        Ok(Self { order_tx, wake, thread: Some(thread), status })
    }

    /// Takes another valid plan into use, and returns when it runs. Leases that fit it stay; others are refused at their
    /// next renewal, and are nobody else's before their time is over.
    ///
    /// # Errors
    /// When its interface can't be served: then the last plan runs on.
    pub fn change(&self, plan: DhcpPlan) -> Result<(), StartError> {
        let (done_tx, done_rx) = channel(); // thread → caller
        self.order(Order::Plan(Box::new(plan), done_tx));
        done_rx.recv().unwrap_or(Err(StartError::Ended))
    }

    /// How the server is: about a second ago, and at the last change of its plan.
    pub fn status(&self) -> Status {
        let mut status = lock(&self.status).clone();
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            status.problem = Some(StartError::Ended.to_string());
        }
        status
    }

    /// All leases, also past ones and those that are about to be on disk; none of a server that has ended.
    pub fn leases(&self) -> Vec<Lease> {
        let (leases_tx, leases_rx) = channel(); // thread → caller
        self.order(Order::Leases(leases_tx));
        leases_rx.recv().unwrap_or_default()
    }

    /// Ends the server; what was told to clients is on disk.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed where it was.
            let _ = thread.join();
        }
    }

    fn order(&self, order: Order) {
        use std::io::Write as _;
        // Only a thread that has ended hears nothing; a full pipe wakes as well.
        let _ = self.order_tx.send(order);
        let _ = (&self.wake).write(&[0]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}

/// The thread's side of what it is told.
struct Orders {
    order_rx: Receiver<Order>,
    woken: UnixStream,
}

/// The sockets of an interface.
struct Sockets {
    /// The kernel's number of the interface: one that is removed and made again has another, and these sockets are deaf.
    index: u32,
    v4: UdpSocket,
    v6: Option<UdpSocket>,
    solicitations: Option<UdpSocket>,
    /// None without the right to raw sockets.
    card: Option<card::Card>,
}

impl Sockets {
    fn open(plan: &DhcpPlan) -> Result<Self, StartError> {
        let interface = plan.interface.as_str();
        let index = socket::index(interface).map_err(|source| failed(plan, source))?;
        let card = card::Card::open(interface);
        if let Err(error) = &card {
            tracing::info!(interface, %error, "no raw sockets: clients without an address are answered by broadcast");
        }
        let v4 = socket::v4(interface).map_err(|source| failed(plan, source))?;
        let mut sockets = Self { index, v4, v6: None, solicitations: None, card: card.ok() };
        sockets.open_v6(plan)?;
        Ok(sockets)
    }

    /// Follows a plan. What has not changed stays open: two sockets can't have the same port.
    fn change(&mut self, before: &DhcpPlan, plan: &DhcpPlan) -> Result<(), StartError> {
        if plan.interface == before.interface {
            self.open_v6(plan)
        } else {
            Self::open(plan).map(|new| *self = new)
        }
    }

    /// Opens what IPv6 needs, and closes what it no longer does.
    fn open_v6(&mut self, plan: &DhcpPlan) -> Result<(), StartError> {
        let interface = plan.interface.as_str();
        if plan.ipv6.is_none() {
            self.v6 = None;
        } else if self.v6.is_none() {
            self.v6 = Some(socket::v6(interface).map_err(|source| failed(plan, source))?);
        }
        let advertise = plan.ipv6.as_ref().is_some_and(|ipv6| ipv6.advertise);
        if !advertise {
            self.solicitations = None;
        } else if self.solicitations.is_none() {
            self.solicitations = socket::solicitations(interface)
                .inspect_err(|error| tracing::warn!(interface, %error, "routers can't be advertised without CAP_NET_RAW"))
                .ok();
        }
        Ok(())
    }
}

fn failed(plan: &DhcpPlan, source: io::Error) -> StartError {
    StartError::Interface { interface: plan.interface.as_str().to_owned(), source }
}
