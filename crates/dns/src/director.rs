//! Applies plans: hands tables to the workers, opens and closes binds, and follows the host's resolvers.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_base::report;
use causeway_ir::dns::{Cache, DnsPlan, Forward, Upstream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::answer::Desk;
use crate::connections::Connections;
use crate::forward::{self, Forwarder};
use crate::metrics::Metrics;
use crate::seats::Seats;
use crate::status::{ListenerStatus, Status};
use crate::table::Table;
use crate::{resolv_conf, server, socket, tcp, udp};

/// How often ports that could not be had, and the host's resolvers, are looked at again.
const LOOK: Duration = Duration::from_secs(1);

/// Owns what plans change.
pub(crate) struct Director {
    desk: Arc<Desk>,
    metrics: Metrics,
    workers: usize,
    resolv_conf: PathBuf,
    binds: HashMap<SocketAddr, Bound>,
    connections: Arc<Connections>,
    seats: Arc<Seats>,
    forwarder: Arc<Forwarder>,
    /// What the forwarder was made of.
    forwards: Option<Forwards>,
    table_tx: watch::Sender<Arc<Table>>,
    status_tx: watch::Sender<Status>,
}

#[derive(PartialEq)]
struct Forwards {
    upstreams: Vec<Upstream>,
    forward: Forward,
    cache: Cache,
    limit: u32,
}

/// A bind that listens; dropped, it does no longer.
struct Bound {
    address: SocketAddr,
    sockets: Vec<Arc<udp::Socket>>,
    threads: Vec<JoinHandle<()>>,
    _tcp: AbortOnDropHandle<()>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        for socket in &self.sockets {
            socket.stop();
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a worker panicked");
            }
        }
    }
}

impl Director {
    /// A director whose table is empty, and where its reports are seen.
    ///
    /// # Errors
    /// If forwarding can't be set up.
    pub(crate) fn new(
        desk: Arc<Desk>,
        metrics: Metrics,
        workers: usize,
        resolv_conf: PathBuf,
    ) -> Result<(Self, watch::Receiver<Status>), forward::Error> {
        let nothing = DnsPlan::default();
        let forwarder = Forwarder::new(&nothing, &[], &metrics)?;
        let table = Table::new(&nothing, &metrics, workers, Arc::clone(&forwarder));
        let (table_tx, _) = watch::channel(Arc::new(table)); // director → workers
        let (status_tx, status_rx) = watch::channel(Status::default()); // director → handles
        let connections = Connections::new(nothing.limits.tcp_connections.get() as usize);
        let director = Self {
            desk,
            metrics,
            workers,
            resolv_conf,
            binds: HashMap::new(),
            connections,
            seats: Seats::new(tcp::PER_CLIENT),
            forwarder,
            forwards: None,
            table_tx,
            status_tx,
        };
        Ok((director, status_rx))
    }

    /// Applies each new plan until it is told to stop.
    pub(crate) async fn run(
        mut self,
        mut plans_rx: watch::Receiver<Option<Arc<DnsPlan>>>,
        stop: CancellationToken,
    ) {
        loop {
            let newest = plans_rx.borrow_and_update().clone();
            if let Some(plan) = newest {
                self.apply(plan);
            }
            loop {
                tokio::select! {
                    changed = plans_rx.changed() => {
                        if changed.is_err() {
                            stop.cancelled().await;
                            return;
                        }
                        break;
                    }
                    () = tokio::time::sleep(LOOK) => self.look_again(),
                    () = stop.cancelled() => return,
                }
            }
        }
    }

    fn apply(&mut self, plan: Arc<DnsPlan>) {
        // The files of resolvers that are asked already are not read for every plan.
        let are_asked = self.forwards.as_ref() == Some(&self.forwards(&plan));
        let problems = if are_asked { plan.validate() } else { server::problems(&plan) };
        if !problems.is_empty() {
            self.metrics.plans_refused.inc();
            self.status_tx.send_modify(|status| status.refused = Some((plan, problems)));
            return;
        }
        self.publish(&plan);
        self.metrics.plans_applied.inc();
        self.connections.allow(plan.limits.tcp_connections.get() as usize);
        self.binds.retain(|bind, _| plan.binds.contains(bind));
        let listeners = self.listen(&plan);
        let (views, upstreams) = (self.table_tx.borrow().statuses(), self.forwarder.statuses());
        self.status_tx.send_replace(Status { plan: Some(plan), refused: None, listeners, views, upstreams });
    }

    /// Looks after what may change without a new plan.
    fn look_again(&mut self) {
        let Some(plan) = self.status_tx.borrow().plan.clone() else { return };
        // Its socket would still get questions, and nobody would take them.
        self.binds.retain(|_, bound| !bound.threads.iter().any(JoinHandle::is_finished));
        if plan.forward.upstreams.is_empty() && self.forwards.as_ref() != Some(&self.forwards(&plan)) {
            self.publish(&plan);
        }
        let listeners = self.listen(&plan);
        let upstreams = self.forwarder.statuses();
        self.status_tx.send_if_modified(|status| {
            let changed = status.listeners != listeners || status.upstreams != upstreams;
            (status.listeners, status.upstreams) = (listeners, upstreams);
            changed
        });
        let (answers, bytes) = self.forwarder.cache.size();
        self.metrics.cache_answers.set(answers as i64);
        self.metrics.cache_bytes.set(bytes as i64);
    }

    fn forwards(&self, plan: &DnsPlan) -> Forwards {
        let upstreams = match &plan.forward.upstreams[..] {
            [] => self.of_the_host(&plan.binds),
            some => some.to_vec(),
        };
        let limit = plan.limits.forwarded.get();
        Forwards { upstreams, forward: plan.forward.clone(), cache: plan.cache.clone(), limit }
    }

    /// The host's resolvers. A file without any is being written, or is not there: those of before are still the best.
    fn of_the_host(&self, binds: &[SocketAddr]) -> Vec<Upstream> {
        let before = self.forwards.as_ref().filter(|before| before.forward.upstreams.is_empty());
        match (resolv_conf::read(&self.resolv_conf, binds), before) {
            (none, Some(before)) if none.is_empty() => before.upstreams.clone(),
            (some, _) => some,
        }
    }

    /// Hands a new table to all workers. The cache stays unless what is asked has changed.
    fn publish(&mut self, plan: &DnsPlan) {
        let forwards = self.forwards(plan);
        if self.forwards.as_ref() != Some(&forwards) {
            match Forwarder::new(plan, &forwards.upstreams, &self.metrics) {
                Ok(forwarder) => self.forwarder = forwarder,
                Err(error) => {
                    tracing::error!(error = report::chain(&error), "the resolvers of before are asked on");
                }
            }
            self.forwards = Some(forwards);
        }
        let table = Table::new(plan, &self.metrics, self.workers, Arc::clone(&self.forwarder));
        self.table_tx.send_replace(Arc::new(table));
    }

    /// Opens what does not listen yet, and says how each bind is.
    fn listen(&mut self, plan: &DnsPlan) -> Vec<ListenerStatus> {
        let listen = |bind: &SocketAddr| {
            let mut status = ListenerStatus { bind: *bind, address: None, error: None };
            if !self.binds.contains_key(bind) {
                match self.open(*bind) {
                    Ok(bound) => {
                        self.binds.insert(*bind, bound);
                    }
                    Err(error) => status.error = Some(words(&error)),
                }
            }
            status.address = self.binds.get(bind).map(|bound| bound.address);
            status
        };
        plan.binds.iter().map(listen).collect()
    }

    fn open(&self, bind: SocketAddr) -> io::Result<Bound> {
        let sockets = socket::open(bind, self.workers)?;
        let service = tcp::Service {
            desk: Arc::clone(&self.desk),
            table_rx: self.table_tx.subscribe(),
            connections: Arc::clone(&self.connections),
            seats: Arc::clone(&self.seats),
            worker: self.workers,
            accepted: self.metrics.tcp_connections.clone(),
        };
        let listener = sockets.tcp;
        let accepting = tokio::spawn(async move {
            if let Err(error) = tcp::serve(listener, service).await {
                tracing::error!(%error, "connections are no longer accepted");
            }
        });
        let mut bound = Bound {
            address: sockets.address,
            sockets: Vec::new(),
            threads: Vec::new(),
            _tcp: AbortOnDropHandle::new(accepting),
        };
        for (number, fd) in sockets.udp.into_iter().enumerate() {
            let socket = Arc::new(udp::Socket::new(fd, bind.ip()));
            let worker = udp::Worker {
                number,
                socket: Arc::clone(&socket),
                desk: Arc::clone(&self.desk),
                table_rx: self.table_tx.subscribe(),
            };
            bound.sockets.push(socket);
            bound
                .threads
                .push(std::thread::Builder::new().name(format!("dns-{number}")).spawn(|| worker.run())?);
        }
        Ok(bound)
    }
}

/// Why a port can't be had, and what to do about it.
fn words(error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => "another process listens there: stop it or choose another port",
        io::ErrorKind::AddrNotAvailable => "this host does not have that address",
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE: grant it or choose another port"
        }
        _ => return error.to_string(),
    };
    remedy.to_owned()
}

#[cfg(test)]
mod tests;
