//! Turns plans into commands for the cores. What a plan keeps is kept: sockets by address, clusters and routes by
//! name; only what differs is compiled and sent.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_ir::{HealthCheck, Listener, Plan, Protocol};
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::health;
use crate::metrics::ListenerMetrics;
use crate::socket;
use crate::status::{ListenerStatus, Status};
use crate::table::{NO_SERVER_NAME, PLAINTEXT, Route, RouteShared, Table, UNKNOWN_SERVER_NAME};
use crate::worker::{Command, ListenSocket, Shared, SocketId};

/// When to try again to listen on an address that could not be had.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);
/// How long the last connections may take to end once they were told.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Sockets stay while their address is in the plan; with port 0 the name tells them apart.
type SocketKey = (Protocol, SocketAddr, Option<String>);
/// A listener's name and a route's.
type RouteKey = (String, String);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Leaving {
    Route(RouteKey),
    Cluster(String),
}

struct Socket {
    id: SocketId,
    address: SocketAddr,
    listener: Listener,
    metrics: ListenerMetrics,
}

pub struct Director {
    shared: Arc<Shared>,
    workers: Vec<mpsc::UnboundedSender<Command>>,
    status_tx: watch::Sender<Status>,
    clusters_tx: watch::Sender<Vec<Arc<Cluster>>>,
    plan: Arc<Plan>,
    clusters: HashMap<String, Arc<Cluster>>,
    routes: HashMap<RouteKey, Arc<RouteShared>>,
    sockets: HashMap<SocketKey, Socket>,
    checks: HashMap<String, (HealthCheck, AbortHandle)>,
    /// What is no longer in the plan, and until when it is kept.
    leaving: HashMap<Leaving, Instant>,
    next_socket: SocketId,
}

impl Director {
    pub fn new(
        shared: Arc<Shared>,
        workers: Vec<mpsc::UnboundedSender<Command>>,
        status_tx: watch::Sender<Status>,
        clusters_tx: watch::Sender<Vec<Arc<Cluster>>>,
    ) -> Self {
        Self {
            shared,
            workers,
            status_tx,
            clusters_tx,
            plan: Arc::default(),
            clusters: HashMap::new(),
            routes: HashMap::new(),
            sockets: HashMap::new(),
            checks: HashMap::new(),
            leaving: HashMap::new(),
            next_socket: 0,
        }
    }

    pub async fn run(mut self, mut plans_rx: watch::Receiver<Option<Arc<Plan>>>, stop: CancellationToken) {
        let mut open = true;
        let mut retry = None;
        plans_rx.mark_changed();
        while !stop.is_cancelled() {
            tokio::select! {
                changed = plans_rx.changed(), if open => match changed {
                    Ok(()) => {
                        let plan = plans_rx.borrow_and_update().clone();
                        if let Some(plan) = plan {
                            self.take(plan).await;
                        }
                    }
                    // Whoever made the plans is gone: the last one runs on.
                    Err(_) => open = false,
                },
                () = at(retry) => self.apply().await,
                () = at(self.leaving.values().min().copied()) => self.finish_drains(),
                () = stop.cancelled() => break,
            }
            let failed = self.status_tx.borrow().listeners.iter().any(|l| l.error.is_some());
            retry = failed.then(|| Instant::now() + LISTEN_AGAIN);
        }
        self.stop().await;
    }

    /// Checks a plan and applies it, or refuses it and stays with the one that runs.
    async fn take(&mut self, plan: Arc<Plan>) {
        let problems = plan.validate();
        if !problems.is_empty() {
            self.shared.metrics.plans_refused.inc();
            tracing::warn!(problems = problems.len(), first = %problems[0], "plan refused; the last one stays");
            self.status_tx.send_modify(|status| status.refused = Some((plan, problems)));
            return;
        }
        let changes = causeway_ir::diff(&self.plan, &plan);
        self.plan = plan;
        self.status_tx.send_modify(|status| status.refused = None);
        self.apply().await;
        self.shared.metrics.plans_applied.inc();
        tracing::info!(%changes, "plan applied");
    }

    async fn apply(&mut self) {
        let plan = Arc::clone(&self.plan);
        self.shared.limits.set(&plan.limits);
        for planned in &plan.clusters {
            if let Some(cluster) = self.clusters.get(&planned.name) {
                cluster.update(planned);
            } else {
                let cluster = Arc::new(Cluster::new(planned, &self.shared.metrics));
                self.clusters.insert(planned.name.clone(), cluster);
            }
        }
        self.keep_checks(&plan);

        let wanted: HashSet<SocketKey> = plan.listeners.iter().filter_map(key).collect();
        let gone: Vec<SocketKey> = self.sockets.keys().filter(|k| !wanted.contains(*k)).cloned().collect();
        for key in &gone {
            if let Some(socket) = self.sockets.remove(key) {
                self.tell(|| Command::Stop { id: socket.id });
                self.shared.metrics.forget_listener(&label(socket.address));
            }
        }
        if !gone.is_empty() {
            // A new listener may want an address that these still hold.
            self.sync().await;
        }
        let listeners = plan.listeners.iter().map(|listener| self.apply_listener(listener)).collect();
        self.sync().await;
        self.begin_drains(&plan);
        let clusters = plan.clusters.iter().filter_map(|c| self.clusters.get(&c.name).cloned()).collect();
        self.clusters_tx.send_replace(clusters);
        self.status_tx.send_modify(|status| {
            status.plan = Some(plan);
            status.listeners = listeners;
        });
    }

    fn apply_listener(&mut self, listener: &Listener) -> ListenerStatus {
        let mut status = ListenerStatus {
            name: listener.name.clone(),
            protocol: listener.protocol,
            bind: listener.bind.clone(),
            address: None,
            routes: listener.routes.len(),
            error: None,
        };
        let Some(key) = key(listener) else { return status };
        if let Some(socket) = self.sockets.get(&key) {
            status.address = Some(socket.address);
            if socket.listener == *listener {
                return status;
            }
            let (id, address) = (socket.id, socket.address);
            // A renamed listener keeps its socket and counts under its new name.
            let metrics = if socket.listener.name == listener.name {
                socket.metrics.clone()
            } else {
                self.shared.metrics.listener(&listener.name, &label(address))
            };
            if let Some(table) = self.compile(listener, address, metrics.clone()) {
                self.tell(|| Command::Update { id, table: Arc::clone(&table) });
                self.sockets.insert(key, Socket { id, address, listener: listener.clone(), metrics });
            }
            return status;
        }
        match self.listen(key, listener) {
            Ok(address) => status.address = Some(address),
            Err(error) => {
                let error = explain(&error, &listener.bind);
                status.error = Some(error);
                let told = self
                    .status_tx
                    .borrow()
                    .listeners
                    .iter()
                    .any(|l| l.name == status.name && l.error == status.error);
                if !told {
                    tracing::warn!(
                        listener = listener.name,
                        error = status.error,
                        "can't listen; trying again"
                    );
                }
            }
        }
        status
    }

    fn listen(&mut self, key: SocketKey, listener: &Listener) -> std::io::Result<SocketAddr> {
        let count = self.workers.len();
        let (sockets, address): (Vec<ListenSocket>, _) = match listener.protocol {
            Protocol::Tcp => {
                let sockets = socket::listen(key.1, count)?;
                let address = sockets.first().map_or(Ok(key.1), std::net::TcpListener::local_addr)?;
                (sockets.into_iter().map(ListenSocket::Tcp).collect(), address)
            }
            Protocol::Udp => {
                let sockets = socket::bind_udp(key.1, count)?;
                let address = sockets.first().map_or(Ok(key.1), std::net::UdpSocket::local_addr)?;
                (sockets.into_iter().map(ListenSocket::Udp).collect(), address)
            }
        };
        let metrics = self.shared.metrics.listener(&listener.name, &label(address));
        let Some(table) = self.compile(listener, address, metrics.clone()) else { return Ok(address) };
        let id = self.next_socket;
        self.next_socket += 1;
        for (worker, socket) in self.workers.iter().zip(sockets) {
            // A core that is gone takes nothing; the others do.
            let _ = worker.send(Command::Listen { id, socket, table: Arc::clone(&table) });
        }
        self.sockets.insert(key, Socket { id, address, listener: listener.clone(), metrics });
        Ok(address)
    }

    fn compile(
        &mut self,
        listener: &Listener,
        address: SocketAddr,
        metrics: ListenerMetrics,
    ) -> Option<Arc<Table>> {
        let (routes, clusters, families) = (&mut self.routes, &self.clusters, &self.shared.metrics);
        let table = Table::compile(listener, address, metrics, |name, cluster, limit| {
            let shared = routes.entry((listener.name.clone(), name.to_owned())).or_insert_with(|| {
                let closed = families.closes(&listener.name, name);
                Arc::new(RouteShared { active: Gauge::default(), closed })
            });
            let cluster = Arc::clone(clusters.get(cluster)?);
            Some(Arc::new(Route { name: name.to_owned(), cluster, limit, shared: Arc::clone(shared) }))
        });
        table.map(Arc::new)
    }

    /// Starts, restarts and ends active checks so that each cluster has the one its plan asks for.
    fn keep_checks(&mut self, plan: &Plan) {
        let wanted: HashMap<&str, &HealthCheck> =
            plan.clusters.iter().filter_map(|c| Some((c.name.as_str(), c.health_check.as_ref()?))).collect();
        self.checks.retain(|name, (check, task)| {
            let keep = wanted.get(name.as_str()) == Some(&&*check);
            if !keep {
                task.abort();
            }
            keep
        });
        for (name, check) in wanted {
            if let Some(cluster) = self.clusters.get(name)
                && !self.checks.contains_key(name)
            {
                let task = tokio::spawn(health::run(Arc::clone(cluster), check.clone())).abort_handle();
                self.checks.insert(name.to_owned(), (check.clone(), task));
            }
        }
        // Without a check nothing would ever find an endpoint healthy again.
        for planned in plan.clusters.iter().filter(|c| c.health_check.is_none()) {
            if let Some(cluster) = self.clusters.get(&planned.name) {
                cluster.state().members.iter().for_each(|member| member.endpoint.set_healthy(true));
            }
        }
    }

    /// Gives what is no longer in the plan its time to end; what came back stays.
    fn begin_drains(&mut self, plan: &Plan) {
        let (routes, clusters) = in_plan(plan);
        let routes = self.routes.keys().filter(|(l, r)| !routes.contains(&(l.as_str(), r.as_str())));
        let clusters = self.clusters.keys().filter(|name| !clusters.contains(name.as_str()));
        let gone = routes.cloned().map(Leaving::Route).chain(clusters.cloned().map(Leaving::Cluster));
        let deadline = Instant::now() + plan.drain_timeout;
        self.leaving = gone
            .map(|what| {
                let deadline = self.leaving.get(&what).copied().unwrap_or(deadline);
                (what, deadline)
            })
            .collect();
    }

    /// Ends what had its time.
    fn finish_drains(&mut self) {
        let now = Instant::now();
        let mut over = Vec::new();
        for what in self.leaving.extract_if(|_, deadline| *deadline <= now).map(|(what, _)| what) {
            match what {
                Leaving::Route(key) => over.extend(self.routes.remove(&key)),
                Leaving::Cluster(name) => {
                    self.clusters.remove(&name);
                    self.shared.metrics.forget_cluster(&name);
                }
            }
        }
        for route in &over {
            route.closed.forget();
        }
        self.tell(|| Command::Drain { routes: Some(over.clone()) });
    }

    async fn stop(mut self) {
        self.status_tx.send_modify(|status| status.draining = true);
        for (_, socket) in std::mem::take(&mut self.sockets) {
            self.tell(|| Command::Stop { id: socket.id });
        }
        for (_, (_, task)) in self.checks.drain() {
            task.abort();
        }
        self.sync().await;
        self.idle_within(self.plan.drain_timeout).await;
        self.tell(|| Command::Drain { routes: None });
        self.idle_within(LAST_WORDS).await;
    }

    async fn idle_within(&self, limit: Duration) {
        let active = &self.shared.metrics.active;
        let deadline = Instant::now() + limit;
        while active.get() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn tell(&self, command: impl Fn() -> Command) {
        for worker in &self.workers {
            // A core that is gone has nothing left to do.
            let _ = worker.send(command());
        }
    }

    /// Waits until the cores have done all they were told.
    async fn sync(&self) {
        for worker in &self.workers {
            let (answer_tx, answer_rx) = oneshot::channel();
            if worker.send(Command::Sync(answer_tx)).is_ok() {
                // An error means that the core is gone.
                let _ = answer_rx.await;
            }
        }
    }
}

fn key(listener: &Listener) -> Option<SocketKey> {
    let address = listener.address()?;
    Some((listener.protocol, address, (address.port() == 0).then(|| listener.name.clone())))
}

/// The routes and clusters that a plan has.
fn in_plan(plan: &Plan) -> (HashSet<(&str, &str)>, HashSet<&str>) {
    let routes = plan.listeners.iter().flat_map(|listener| {
        let outcomes = [
            (NO_SERVER_NAME, &listener.no_server_name),
            (UNKNOWN_SERVER_NAME, &listener.unknown_server_name),
            (PLAINTEXT, &listener.plaintext),
        ];
        let outcomes = outcomes
            .into_iter()
            .filter(|(_, outcome)| matches!(outcome, causeway_ir::Outcome::Cluster(_)))
            .map(|(name, _)| name);
        let routes = listener.routes.iter().map(|route| route.name.as_str());
        routes.chain(outcomes).map(|route| (listener.name.as_str(), route))
    });
    (routes.collect(), plan.clusters.iter().map(|cluster| cluster.name.as_str()).collect())
}

/// An address as Envoy's metrics write it.
fn label(address: SocketAddr) -> String {
    address.to_string().replace(':', "_")
}

fn explain(error: &std::io::Error, bind: &str) -> String {
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => "another process listens there: stop it or choose another port",
        std::io::ErrorKind::AddrNotAvailable => "this host does not have that address",
        std::io::ErrorKind::PermissionDenied => {
            "ports below 1024 need the capability NET_BIND_SERVICE, or choose a higher one"
        }
        _ => return format!("can't listen on {bind}: {error}"),
    };
    format!("can't listen on {bind}: {hint}")
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
