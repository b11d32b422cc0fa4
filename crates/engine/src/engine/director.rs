//! Turns plans into commands for the cores. What a plan keeps is kept: sockets by address, clusters and routes by
//! name; only what differs is compiled and sent.

mod changes;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLockWriteGuard};
use std::time::Duration;

use causeway_ir::{HealthCheck, Listener, Plan, Protocol};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, Clusters};
use crate::handover::{Handed, Purpose};
use crate::health;
use crate::memory::{self, Memory};
use crate::metrics::ListenerMetrics;
use crate::socket::ListenSocket;
use crate::status::{ListenerStatus, Status};
use crate::table::{Change, Front, Route, RouteShared, Table};
use crate::worker::{Command, Shared, SocketId};
use changes::{Changes, all_of};

/// When to try again to listen on an address that could not be had.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);
/// How often is asked whether memory should be given back.
const GIVE_BACK: Duration = Duration::from_secs(2);
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

/// What left a list and what came to it.
type Changed<'a, T> = (&'a [T], &'a [T]);

struct Socket {
    id: SocketId,
    table: Arc<Table>,
}

pub struct Director {
    shared: Arc<Shared>,
    workers: Vec<mpsc::UnboundedSender<Command>>,
    status_tx: watch::Sender<Status>,
    handed_over: Arc<AtomicBool>,
    /// The newest good plan.
    plan: Arc<Plan>,
    /// The plan that all below is of.
    applied: Arc<Plan>,
    clusters: Clusters,
    /// By listener and name.
    routes: HashMap<String, HashMap<String, Arc<RouteShared>>>,
    /// Of a predecessor, until the first plan has taken what it wants.
    inherited: HashMap<SocketKey, Vec<OwnedFd>>,
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
        clusters: Clusters,
        handed_over: Arc<AtomicBool>,
    ) -> Self {
        Self {
            shared,
            workers,
            status_tx,
            handed_over,
            plan: Arc::default(),
            applied: Arc::default(),
            clusters,
            routes: HashMap::new(),
            inherited: HashMap::new(),
            sockets: HashMap::new(),
            checks: HashMap::new(),
            leaving: HashMap::new(),
            next_socket: 0,
        }
    }

    /// Takes the sockets of a predecessor.
    pub fn inherit(mut self, handed: Vec<Handed>) -> Self {
        for Handed { purpose, sockets } in handed {
            if let Purpose::Listener { protocol, bind, name } = purpose {
                self.inherited.entry((protocol, bind, name)).or_default().extend(sockets);
            }
        }
        self
    }

    pub async fn run(mut self, mut plans_rx: watch::Receiver<Option<Arc<Plan>>>, stop: CancellationToken) {
        let mut open = true;
        let mut memory = Memory::default();
        let mut give_back = tokio::time::interval(GIVE_BACK);
        give_back.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
                _ = give_back.tick() => {
                    if memory.is_time(self.shared.metrics.ended.get()) {
                        // It looks at every page of the process: not here, and not on a core.
                        drop(tokio::task::spawn_blocking(memory::give_back));
                    }
                    continue;
                }
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
        let problems = plan.validate_after(&self.plan);
        if !problems.is_empty() {
            self.shared.metrics.plans_refused.inc();
            tracing::warn!(problems = problems.len(), first = %problems[0], "plan refused; the last one stays");
            self.status_tx.send_modify(|status| status.refused = Some((plan, problems)));
            return;
        }
        let old = std::mem::replace(&mut self.plan, plan);
        self.status_tx.send_modify(|status| status.refused = None);
        self.apply().await;
        self.shared.metrics.plans_applied.inc();
        // To name all that differs takes its time in a large plan: only once it runs, and if someone reads it.
        if tracing::enabled!(tracing::Level::INFO) {
            let changes = causeway_ir::diff(&old, &self.plan);
            tracing::info!(%changes, "plan applied");
        }
    }

    /// Makes what runs the same as the plan, beginning from the plan that was applied last.
    async fn apply(&mut self) {
        let (old, plan) = (Arc::clone(&self.applied), Arc::clone(&self.plan));
        self.shared.limits.set(&plan.limits);
        let deadline = Instant::now() + plan.drain_timeout;
        self.apply_clusters(causeway_ir::changed(&old.clusters, &plan.clusters), deadline);

        let wanted: HashSet<SocketKey> = plan.listeners.iter().filter_map(key).collect();
        let gone: Vec<SocketKey> = self.sockets.keys().filter(|k| !wanted.contains(*k)).cloned().collect();
        for key in &gone {
            if let Some(socket) = self.sockets.remove(key) {
                self.tell(|| Command::Stop { id: socket.id, handed_over: false });
                self.shared.metrics.forget_listener(&label(socket.table.listener.address));
            }
        }
        if !gone.is_empty() {
            // A new listener may want an address that these still hold.
            self.sync().await;
        }
        let changes = Changes::between(&old, &plan);
        let mut replaced = Vec::new();
        let mut listeners = Vec::with_capacity(plan.listeners.len());
        for listener in &plan.listeners {
            listeners.push(self.apply_listener(listener, &changes, &mut replaced));
        }
        self.sync().await;
        // The cores have let go of these tables: they are freed here and hold up no traffic.
        drop(replaced);
        self.inherited.clear();
        self.begin_drains(&changes, deadline);
        self.applied = Arc::clone(&plan);
        self.status_tx.send_modify(|status| {
            status.plan = Some(plan);
            status.listeners = listeners;
        });
    }

    /// Makes and changes clusters; one that is gone has its time to drain.
    fn apply_clusters(&mut self, (gone, new): Changed<'_, causeway_ir::Cluster>, deadline: Instant) {
        for planned in gone {
            self.leaving.entry(Leaving::Cluster(planned.name.clone())).or_insert(deadline);
        }
        for planned in new {
            self.leaving.remove(&Leaving::Cluster(planned.name.clone()));
            let known = self.cluster(&planned.name);
            let cluster = if let Some(cluster) = known {
                cluster.update(planned);
                cluster
            } else {
                let cluster = Arc::new(Cluster::new(planned));
                self.write_clusters().insert(planned.name.clone(), Arc::clone(&cluster));
                cluster
            };
            self.keep_check(planned, cluster);
        }
        for planned in gone {
            if self.leaving.contains_key(&Leaving::Cluster(planned.name.clone()))
                && let Some((_, task)) = self.checks.remove(&planned.name)
            {
                task.abort();
            }
        }
    }

    fn cluster(&self, name: &str) -> Option<Arc<Cluster>> {
        self.clusters.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn write_clusters(&self) -> RwLockWriteGuard<'_, HashMap<String, Arc<Cluster>>> {
        self.clusters.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply_listener(
        &mut self,
        listener: &Listener,
        changes: &Changes<'_>,
        replaced: &mut Vec<Arc<Table>>,
    ) -> ListenerStatus {
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
            let (id, old) = (socket.id, Arc::clone(&socket.table));
            status.address = Some(old.listener.address);
            let renamed = *old.listener.name != *listener.name;
            if !renamed && changes.is_same(&listener.name) {
                return status;
            }
            // A renamed listener keeps its socket and counts under its new name.
            let metrics = (!renamed).then(|| old.listener.metrics.clone());
            let front = self.front(listener, old.listener.address, metrics);
            let change = if renamed { all_of(listener) } else { changes.of(listener, &old) };
            if let Some(table) = self.compile(listener, front, &change) {
                self.tell(|| Command::Update { id, table: Arc::clone(&table) });
                self.sockets.insert(key, Socket { id, table });
                replaced.push(old);
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
        let sockets = match self.inherited.remove(&key) {
            Some(inherited) => ListenSocket::adopt(listener.protocol, inherited, self.workers.len())?,
            None => ListenSocket::open(listener.protocol, key.1, self.workers.len())?,
        };
        let address = sockets.first().map_or(Ok(key.1), ListenSocket::address)?;
        let front = self.front(listener, address, None);
        let Some(table) = self.compile(listener, front, &all_of(listener)) else { return Ok(address) };
        let id = self.next_socket;
        self.next_socket += 1;
        let (protocol, bind, name) = key.clone();
        let purpose = Arc::new(Purpose::Listener { protocol, bind, name });
        // There may be more sockets than cores: a predecessor may have had more.
        for (worker, socket) in self.workers.iter().cycle().zip(sockets) {
            let (purpose, table) = (Arc::clone(&purpose), Arc::clone(&table));
            // A core that is gone takes nothing; the others do.
            let _ = worker.send(Command::Listen { id, purpose, socket, table });
        }
        self.sockets.insert(key, Socket { id, table });
        Ok(address)
    }

    fn front(
        &self,
        listener: &Listener,
        address: SocketAddr,
        metrics: Option<ListenerMetrics>,
    ) -> Arc<Front> {
        let name: Arc<str> = listener.name.as_str().into();
        let metrics = metrics.unwrap_or_else(|| self.shared.metrics.listener(&name, &label(address)));
        let accept_proxy_protocol = listener.accept_proxy_protocol;
        Arc::new(Front { name, address, accept_proxy_protocol, metrics })
    }

    fn compile(&mut self, listener: &Listener, front: Arc<Front>, change: &Change<'_>) -> Option<Arc<Table>> {
        let (families, listener_name) = (&self.shared.metrics, Arc::clone(&front.name));
        let routes = self.routes.entry(listener.name.clone()).or_default();
        let clusters = self.clusters.read().unwrap_or_else(PoisonError::into_inner);
        let table = Table::compile(listener, front, change, |name, cluster, limit| {
            if !routes.contains_key(name) {
                let shared = RouteShared::new(families.closes(&listener_name, name));
                routes.insert(name.to_owned(), Arc::new(shared));
            }
            let (cluster, shared) = (Arc::clone(clusters.get(cluster)?), Arc::clone(routes.get(name)?));
            Some(Arc::new(Route { name: name.into(), cluster, limit, shared }))
        });
        table.map(Arc::new)
    }

    /// Starts, restarts or ends the active check of a cluster so that it has the one its plan asks for.
    fn keep_check(&mut self, planned: &causeway_ir::Cluster, cluster: Arc<Cluster>) {
        let running = self.checks.get(&planned.name).map(|(check, _)| check);
        if running == planned.health_check.as_ref() {
            return;
        }
        if let Some((_, task)) = self.checks.remove(&planned.name) {
            task.abort();
        }
        match &planned.health_check {
            Some(check) => {
                let task = tokio::spawn(health::run(cluster, check.clone())).abort_handle();
                self.checks.insert(planned.name.clone(), (check.clone(), task));
            }
            // Without a check nothing would ever find an endpoint healthy again.
            None => cluster.state().members.iter().for_each(|member| member.endpoint.set_healthy(true)),
        }
    }

    /// Gives routes that are no longer in the plan their time to end; what came back stays.
    fn begin_drains(&mut self, changes: &Changes<'_>, deadline: Instant) {
        let key = |(listener, route): (&str, &str)| Leaving::Route((listener.to_owned(), route.to_owned()));
        for gone in changes.gone() {
            self.leaving.entry(key(gone)).or_insert(deadline);
        }
        for new in changes.added() {
            self.leaving.remove(&key(new));
        }
    }

    /// Ends what had its time.
    fn finish_drains(&mut self) {
        let now = Instant::now();
        let over: Vec<Leaving> =
            self.leaving.extract_if(|_, deadline| *deadline <= now).map(|(what, _)| what).collect();
        for what in over {
            match what {
                Leaving::Route((listener, route)) => {
                    let Some(routes) = self.routes.get_mut(&listener) else { continue };
                    if let Some(route) = routes.remove(&route) {
                        route.end();
                    }
                    if routes.is_empty() {
                        self.routes.remove(&listener);
                    }
                }
                Leaving::Cluster(name) => drop(self.write_clusters().remove(&name)),
            }
        }
        self.tell(|| Command::Drain { all: false });
    }

    async fn stop(mut self) {
        self.status_tx.send_modify(|status| status.draining = true);
        let handed_over = self.handed_over.load(Relaxed);
        for (_, socket) in std::mem::take(&mut self.sockets) {
            self.tell(|| Command::Stop { id: socket.id, handed_over });
        }
        for (_, (_, task)) in self.checks.drain() {
            task.abort();
        }
        self.sync().await;
        self.idle_within(self.plan.drain_timeout).await;
        self.tell(|| Command::Drain { all: true });
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
