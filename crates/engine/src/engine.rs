//! Starts the cores, applies plans to them and stops them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use causeway_base::lock;
use causeway_ir::Plan;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::access_log::{self, AccessLog};
use crate::clock;
use crate::cluster::{Cluster, Clusters, Standing};
use crate::director::{Cores, Director};
use crate::handover::{Handed, Purpose};
use crate::http::SessionKey;
use crate::limits::Limits;
use crate::listen::SharePorts;
use crate::metrics::Metrics;
use crate::spans::Spans;
use crate::status::{ClusterStatus, ConnectionStatus, EndpointStatus, Status};
use crate::tls::{self, Certificates};
use crate::worker::{self, Command, Shared};

/// How an engine runs.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Threads; 0 is one per core.
    pub workers: usize,
    /// Where the line of each connection goes.
    pub access_log: AccessLog,
    /// When listeners may share their ports with another process of this user: a predecessor that is about to end and can't
    /// hand its sockets over, and nobody else.
    pub share_ports: SharePorts,
    /// The certificates that plans name, the newest of a channel; by default none.
    pub certificates: Option<watch::Receiver<Arc<Certificates>>>,
    /// What sessions of clients are signed with. Engines that share clients share it, so that a client stays with its
    /// endpoint whichever it comes to; by default another one in each process.
    pub session_key: Option<[u8; 32]>,
    /// Who takes spans of requests; by default nobody, and what requests say of their trace goes on as it is.
    pub spans: Option<Spans>,
}

/// Why an engine can't start.
#[derive(Debug, Error)]
pub enum Error {
    /// The access log.
    #[error("can't open the access log")]
    OpenAccessLog(#[source] std::io::Error),
    /// A core.
    #[error("can't start a worker")]
    StartWorker(#[source] std::io::Error),
}

/// A running engine.
pub struct Engine {
    handle: Handle,
    stop: CancellationToken,
    handed_over: Arc<AtomicBool>,
    director: tokio::task::JoinHandle<()>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

/// A view of a running engine.
#[derive(Clone)]
pub struct Handle {
    status_rx: watch::Receiver<Status>,
    clusters: Clusters,
    cores: Cores,
    registry: Arc<Registry>,
    plans_refused: Counter,
    ends_soon: Arc<AtomicBool>,
}

impl Engine {
    /// Starts an engine that runs the newest plan of a channel; `None` means that there is none yet.
    ///
    /// # Errors
    /// If the access log can't be opened, or a core has no thread or event queue.
    ///
    /// # Panics
    /// Outside of a tokio runtime, which looks after plans and health checks; traffic has threads of its own.
    pub fn start(plans_rx: watch::Receiver<Option<Arc<Plan>>>, options: &Options) -> Result<Self, Error> {
        Self::start_with(plans_rx, options, Vec::new())
    }

    /// The same with the listening sockets of a predecessor: the first plan uses those it wants, the rest is closed.
    ///
    /// # Errors
    /// The same.
    ///
    /// # Panics
    /// The same.
    pub fn start_with(
        plans_rx: watch::Receiver<Option<Arc<Plan>>>,
        options: &Options,
        inherited: Vec<Handed>,
    ) -> Result<Self, Error> {
        let metrics = Metrics::default();
        let plans_refused = metrics.plans_refused.clone();
        let mut registry = Registry::default();
        let clusters = Clusters::default();
        metrics.register(&clusters, &mut registry);
        if let Some(spans) = &options.spans {
            registry.register("causeway_spans_sent", "Spans that a collector took", spans.sent.clone());
            registry.register("causeway_spans_lost", "Spans that no collector got", spans.lost.clone());
        }
        let ends_soon = Arc::<AtomicBool>::default();
        let shared = Arc::new(Shared {
            metrics,
            limits: Limits::new(&causeway_ir::Limits::default()),
            access_log: access_log::start(&options.access_log).map_err(Error::OpenAccessLog)?,
            spans: options.spans.clone(),
            tls: tls::Shared::default(),
            sessions: Arc::new(options.session_key.as_ref().map_or_else(SessionKey::random, SessionKey::new)),
            ends_soon: Arc::clone(&ends_soon),
        });
        let count = match options.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let mut workers = Vec::with_capacity(count);
        let mut threads = Vec::with_capacity(count);
        for number in 0..count {
            let (command_tx, command_rx) = mpsc::unbounded_channel(); // director → core
            let thread =
                worker::start(number, Arc::clone(&shared), command_rx).map_err(Error::StartWorker)?;
            workers.push(command_tx);
            threads.push(thread);
        }
        let cores = Cores::new(workers);
        let (status_tx, status_rx) = watch::channel(Status::default()); // director → handles
        let stop = CancellationToken::new();
        let handed_over = Arc::default();
        let director = Director::new(
            shared,
            cores.clone(),
            status_tx,
            Arc::clone(&clusters),
            Arc::clone(&handed_over),
            inherited,
            options,
        );
        let director = tokio::spawn(director.run(plans_rx, stop.clone()));
        let handle =
            Handle { status_rx, clusters, cores, registry: Arc::new(registry), plans_refused, ends_soon };
        Ok(Self { handle, stop, handed_over, director, threads })
    }

    /// A view that can be given away.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The same for an engine whose sockets a successor has: sessions of datagrams still get their answers.
    ///
    /// # Cancellation
    /// The same.
    pub async fn hand_over(self) {
        self.handed_over.store(true, Relaxed);
        self.shutdown().await;
    }

    /// Takes no new connections, lets the established ones end until the plan's drain timeout, and stops.
    ///
    /// # Cancellation
    /// Dropping the future leaves the cores running without anything to tell them to end.
    pub async fn shutdown(self) {
        self.stop.cancel();
        if let Err(error) = self.director.await {
            tracing::error!(%error, "the engine did not stop in good order");
        }
        self.handle.cores.tell(|| Command::Quit);
        let join = tokio::task::spawn_blocking(move || {
            self.threads.into_iter().filter_map(|thread| thread.join().err()).count()
        });
        if join.await.is_ok_and(|panicked| panicked > 0) {
            tracing::error!("a worker panicked");
        }
    }
}

impl Handle {
    /// What became of the newest plans.
    pub fn status(&self) -> Status {
        self.status_rx.borrow().clone()
    }

    /// The same, to wait for changes.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status_rx.clone()
    }

    /// Waits until this plan runs or was refused; `false` when the engine is gone. Only for the newest plan: one that
    /// was replaced before the engine saw it never settles.
    pub async fn settled(&self, plan: &Arc<Plan>) -> bool {
        let is = |other: &Arc<Plan>| Arc::ptr_eq(other, plan);
        let done = |status: &Status| {
            status.plan.as_ref().is_some_and(is) || status.refused.as_ref().is_some_and(|(p, _)| is(p))
        };
        self.watch().wait_for(done).await.is_ok()
    }

    /// Every cluster of the plan with its endpoints.
    pub fn clusters(&self) -> Vec<ClusterStatus> {
        let Some(plan) = self.status_rx.borrow().plan.clone() else { return Vec::new() };
        let clusters = lock::read(&self.clusters);
        let known = plan.clusters.iter().filter_map(|planned| clusters.get(&planned.name));
        known.map(|cluster| cluster_status(cluster)).collect()
    }

    /// Copies of all listening sockets, for a successor.
    pub async fn sockets(&self) -> Vec<Handed> {
        let mut all: HashMap<Purpose, Vec<OwnedFd>> = HashMap::new();
        for core in self.cores.as_slice() {
            let (answer_tx, answer_rx) = oneshot::channel();
            if core.send(Command::Sockets(answer_tx)).is_ok()
                && let Ok(sockets) = answer_rx.await
            {
                for (purpose, socket) in sockets {
                    all.entry(Purpose::clone(&purpose)).or_default().push(socket);
                }
            }
        }
        all.into_iter().map(|(purpose, sockets)| Handed { purpose, sockets }).collect()
    }

    /// Leaves the datagrams of these listeners to a successor that has their sockets too; sessions still get their
    /// answers. Connections may be taken by both until this engine stops.
    pub fn leave_datagrams(&self, purposes: &[Purpose]) {
        self.cores.tell(|| Command::LeaveDatagrams(purposes.to_vec()));
    }

    /// Tells the clients of HTTP with their next answer that their connection ends; new connections are taken all the same.
    /// For an engine that is about to stop: a client whose connection ends while it asks on it would fail.
    pub fn say_farewell(&self) {
        self.ends_soon.store(true, Relaxed);
    }

    /// Counts a plan that was refused before it came here.
    pub fn count_refused(&self) {
        self.plans_refused.inc();
    }

    /// The established connections of all cores.
    pub async fn connections(&self) -> Vec<ConnectionStatus> {
        let mut all = Vec::new();
        for core in self.cores.as_slice() {
            let (answer_tx, answer_rx) = oneshot::channel();
            if core.send(Command::Connections(answer_tx)).is_ok()
                && let Ok(Ok(some)) = tokio::time::timeout(Duration::from_secs(5), answer_rx).await
            {
                all.extend(some);
            }
        }
        all
    }

    /// All counters, to be encoded.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}

fn cluster_status(cluster: &Cluster) -> ClusterStatus {
    let now = clock::now();
    let state = cluster.state();
    let endpoints = state.members.iter().map(|member| EndpointStatus {
        address: member.endpoint.address.clone(),
        weight: member.weight,
        ready: member.standing == Standing::Ready,
        healthy: member.endpoint.is_healthy(),
        ejected: member.endpoint.is_ejected(now),
        active: member.endpoint.active.get(),
        total: member.endpoint.total.get(),
    });
    ClusterStatus {
        name: cluster.name.clone(),
        active: cluster.metrics.active.get(),
        total: cluster.metrics.total.get(),
        connect_failures: cluster.metrics.connect_failures.get(),
        endpoints: endpoints.collect(),
    }
}
