//! The worker of one tunnel proxy: it sees to the image, the container and the host end, whatever breaks in between. The
//! reconciler tells it what is desired by a watched order, and it tells how things stand by a watched state, so that
//! neither ever waits for the other: images are built and containers started for minutes.
//!
//! Dropped, a worker leaves everything running: the next one adopts it.

mod client;
pub(super) mod container;
mod finish;
mod host_end;
mod outage;
mod tend;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::conditions::Reason;
use causeway_api::{ContainerNetworkTunnelProxyStatus, Tunnel};
use causeway_base::Backoff;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::container::Owner;
use self::work::Work;
use super::desired::Desired;
use super::directory::{self, Directory};
use super::figures::Figures;
use super::history;
use super::host::HostProgram;
use super::ledger::Ledger;
use super::problem::Problem;
use super::state::{Phase, State};
use crate::containers::runtime::ContainerRuntime;
use crate::framework::report;

/// Between two tries to get further.
const RETRY: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// What a worker is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// Bring this about, and keep it so.
    Serve(Box<Desired>),
    /// Remove everything that was made; the object goes.
    End {
        /// How long streams may go on.
        drain: Duration,
    },
}

/// What workers share.
#[derive(Clone)]
pub(super) struct Context {
    /// The container runtime.
    pub(super) runtime: ContainerRuntime,
    /// What the directories of objects are below.
    pub(super) directory: PathBuf,
    /// The program of host ends.
    pub(super) program: HostProgram,
    /// Where figures are told.
    pub(super) figures: Figures,
}

/// What is known of an object when the disk knows nothing: its status, and its tunnels.
pub(super) type Memory = (ContainerNetworkTunnelProxyStatus, Vec<Tunnel>);

/// The handle of a worker.
pub(super) struct Worker {
    order_tx: watch::Sender<Order>,
    state_rx: watch::Receiver<State>,
    task: JoinHandle<()>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Worker {
    /// Starts a worker. `wake` is called whenever the state has changed.
    pub(super) fn start(
        context: Context,
        owner: Owner,
        order: Order,
        memory: Memory,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        let (order_tx, order_rx) = watch::channel(order); // reconciler → worker
        let (state_tx, state_rx) = watch::channel(State::default()); // worker → reconciler
        let reporter = Reporter { state: State::default(), state_tx, wake };
        let task = tokio::spawn(run(context, owner, memory, order_rx, reporter));
        Self { order_tx, state_rx, task }
    }

    /// Gives another order; an equal one is nothing new.
    pub(super) fn order(&self, order: Order) {
        self.order_tx.send_if_modified(|known| {
            let differs = *known != order;
            *known = order;
            differs
        });
    }

    /// How things stand.
    pub(super) fn state(&self) -> State {
        self.state_rx.borrow().clone()
    }

    /// Removes everything that was made, and waits for that.
    pub(super) async fn end(mut self, drain: Duration) {
        self.order(Order::End { drain });
        // An error means that it has ended already.
        let _ = self.state_rx.wait_for(|state| state.phase == Phase::Gone).await;
    }
}

/// Tells how things stand.
struct Reporter {
    state: State,
    state_tx: watch::Sender<State>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Reporter {
    /// Tells the state, if it is another one than before, and gives what there is to say of that to people.
    fn tell(&self) -> Vec<String> {
        let mut said = Vec::new();
        let is_news = self.state_tx.send_if_modified(|known| {
            let differs = *known != self.state;
            if differs {
                said = history::of(known, &self.state);
                known.clone_from(&self.state);
            }
            differs
        });
        if is_news {
            (self.wake)();
        }
        said
    }
}

async fn run(
    context: Context,
    owner: Owner,
    memory: Memory,
    mut order_rx: watch::Receiver<Order>,
    mut reporter: Reporter,
) {
    let mut retries = RETRY.retries();
    let (directory, ledger) = loop {
        match open(&context, &owner, &memory) {
            Ok(found) => break found,
            Err(error) => {
                let message = report::chain(&error);
                reporter.state.phase = Phase::Waiting;
                reporter.state.problem = Some(Problem::permanent(Reason::NotReady, message));
                reporter.tell();
                tokio::select! {
                    () = sleep(retries.next_delay()) => {}
                    _ = order_rx.wait_for(|order| matches!(order, Order::End { .. })) => {
                        // Without a directory nothing was ever made.
                        reporter.state.phase = Phase::Gone;
                        reporter.tell();
                        return;
                    }
                }
            }
        }
    };
    Work::new(context, owner, directory, ledger, order_rx, reporter).run().await;
}

fn open(
    context: &Context,
    owner: &Owner,
    (status, tunnels): &Memory,
) -> Result<(Directory, Ledger), directory::Error> {
    let directory = Directory::open(&context.directory, &owner.namespace, &owner.name)?;
    let ledger = directory.ledger()?.unwrap_or_else(|| Ledger::from_status(status, tunnels));
    Ok((directory, ledger))
}
