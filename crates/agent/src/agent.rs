//! One agent: its parts put together, from the first watch to the last connection.

use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::followed::{Followed, State};
use crate::follower::Follower;
use crate::health::{self, Phase};
use crate::neighbours::Neighbours;
use crate::presence::Presence;
use crate::report::Reporter;
use crate::runner::Runner;

/// How long the end waits for those who asked to be told of it.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// How a pod leaves after the word to end. Connections are still taken for a while, and no longer than the plan lets them drain:
/// whoever sends them here hears of it only by and by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It is not ready at once, and takes what comes for a moment.
    Unready,
    /// It stays ready for a longer while: a Service leads here. Kubernetes takes a pod that ends out of it by itself, as soon as the
    /// rules of each node follow; and until they have another one, they lead to one that ends for as long as it is ready.
    Ready,
}

impl Leave {
    fn time(self) -> Duration {
        match self {
            Self::Unready => Duration::from_secs(3),
            Self::Ready => Duration::from_secs(10),
        }
    }
}

/// Which object an agent follows, and how.
#[derive(Debug, Clone)]
pub struct Config {
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// This pod's address on the network of all pods.
    pub pod_ip: IpAddr,
    /// The field manager of this pod's part of the status.
    pub field_manager: String,
    /// Where the last good state is kept; without, a start needs the API server and a good spec.
    pub state_dir: Option<PathBuf>,
    /// A file with the object as it was last accepted by anybody, which outlives this pod.
    pub accepted: Option<PathBuf>,
    /// Whether Services of other namespaces need a ReferenceGrant there.
    pub require_grants: bool,
    /// How it leaves.
    pub leave: Leave,
}

/// Follows one object.
pub struct Agent<F: Followed> {
    client: Client,
    followed: Arc<F>,
    config: Config,
    plan_tx: watch::Sender<Option<Arc<F::Plan>>>, // → runner
}

impl<F: Followed> Agent<F> {
    /// An agent, and the plans that it will make: `None` until there is a first one.
    pub fn new(client: Client, followed: F, config: Config) -> (Self, watch::Receiver<Option<Arc<F::Plan>>>) {
        let (plan_tx, plan_rx) = watch::channel(None);
        (Self { client, followed: Arc::new(followed), config, plan_tx }, plan_rx)
    }

    /// Runs until SIGTERM or SIGINT, and then until the runner has drained; a further SIGINT ends that at once. Serves
    /// health on `health` meanwhile. After the word to end it takes connections for a moment more.
    ///
    /// # Errors
    /// When the signals can't be caught.
    pub async fn run<R: Runner<Plan = F::Plan>>(
        self,
        runner: Arc<R>,
        health: TcpListener,
    ) -> std::io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        // Asked for when the first signal has come, so that it is not its own repetition.
        let hurry = async {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        self.run_until(runner, health, stop, hurry).await;
        Ok(())
    }

    /// The same, with other reasons to stop and to hurry.
    ///
    /// # Cancellation
    /// Nothing is followed or reported after a drop; the runner goes on with its last plan.
    pub async fn run_until<R: Runner<Plan = F::Plan>>(
        self,
        runner: Arc<R>,
        health: TcpListener,
        stop: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
    ) {
        let phase_tx = Arc::new(watch::Sender::new(Phase::Following));
        let (state_tx, state_rx) = watch::channel(Arc::default()); // follower → reporter
        let neighbours = Arc::new(Neighbours::default());
        let runner = Arc::new(Presence::new(runner, Arc::clone(&neighbours)));
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(neighbours.keep(state_rx.clone()));
        tasks.spawn(Arc::clone(&runner).keep(self.config.pod_ip, state_rx.clone()));
        tasks.spawn(health::serve(health, Arc::clone(&runner), Arc::clone(&phase_tx)));
        let reporter = Reporter::new(self.client.clone(), Arc::clone(&self.followed), &self.config);
        tasks.spawn(reporter.run(state_rx.clone(), Arc::clone(&runner)));
        tasks.spawn(count_refusals(state_rx, Arc::clone(&runner)));
        let follower = Follower::new(self.client, self.followed, &self.config, self.plan_tx, state_tx);
        let mut following = std::pin::pin!(follower.run());
        tokio::select! {
            never = &mut following => match never {},
            () = stop => {}
        }
        let leave = self.config.leave;
        phase_tx.send_replace(if leave == Leave::Ready { Phase::Leaving } else { Phase::Draining });
        runner.say_farewell();
        tracing::info!("draining; once more Ctrl-C ends at once");
        let ending = async {
            // Followed meanwhile: what is still taken must find its way.
            let _ = timeout(leave.time().min(runner.drain_limit()), following).await;
            phase_tx.send_replace(Phase::Draining);
            runner.drain().await;
        };
        tokio::select! {
            () = ending => tracing::info!("stopped"),
            () = hurry => tracing::warn!("stopped before all connections had ended"),
        }
        phase_tx.send_replace(Phase::Drained);
        // Those who wait for this have their answer before the process is gone.
        let _ = timeout(LAST_ANSWERS, phase_tx.closed()).await;
    }
}

/// Tells the runner of each spec that was refused, once.
async fn count_refusals<F: Followed, R: Runner<Plan = F::Plan>>(
    mut state_rx: watch::Receiver<Arc<State<F>>>,
    runner: Arc<R>,
) {
    let mut last = None;
    while state_rx.changed().await.is_ok() {
        let state = Arc::clone(&state_rx.borrow_and_update());
        let refused = state.refused.as_ref().map(|why| (state.generation, why.clone()));
        if refused.is_some() && refused != last {
            runner.spec_refused();
        }
        last = refused;
    }
}
