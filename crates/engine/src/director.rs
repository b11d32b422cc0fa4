//! Turns plans into commands for the cores. What a plan keeps is kept: sockets by address, clusters and routes by
//! name; only what differs is compiled and sent.

mod changes;
mod clusters;
mod drains;
mod executable;
mod listeners;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use causeway_ir::{OnRemoval, Plan};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::cluster::Clusters;
use crate::engine::Options;
use crate::handover::Handed;
use crate::http::PageSet;
use crate::memory::Memory;
use crate::status::{MissingCertificate, Status};
use crate::tls::Certificates;
use crate::worker::{Command, Shared};
use changes::ListenerChange;
use clusters::ClusterSet;
use drains::{Drains, Leaving};
use listeners::{ListenerSet, Named};

pub use executable::problems;

/// When to try again to listen on an address that could not be had.
const LISTEN_AGAIN: Duration = Duration::from_secs(2);
/// How often is asked whether memory should be given back.
const GIVE_BACK: Duration = Duration::from_secs(2);
/// How often certificates that are about to expire are told.
const TELL_EXPIRY: Duration = Duration::from_hours(12);
/// When it is looked again whether something that was removed, and is kept for its connections, is still used.
const STILL_USED: Duration = Duration::from_secs(30);
/// How long the last connections may take to end once they were told.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The ways to the cores.
#[derive(Clone)]
pub(crate) struct Cores(Vec<mpsc::UnboundedSender<Command>>);

impl Cores {
    pub(crate) fn new(cores: Vec<mpsc::UnboundedSender<Command>>) -> Self {
        Self(cores)
    }

    pub(crate) fn as_slice(&self) -> &[mpsc::UnboundedSender<Command>] {
        &self.0
    }

    /// Tells every core.
    pub(crate) fn tell(&self, command: impl Fn() -> Command) {
        for core in &self.0 {
            // A core that is gone has nothing left to do.
            let _ = core.send(command());
        }
    }

    /// Waits until the cores have done all they were told.
    async fn sync(&self) {
        for core in &self.0 {
            let (answer_tx, answer_rx) = oneshot::channel();
            if core.send(Command::Sync(answer_tx)).is_ok() {
                // An error means that the core is gone.
                let _ = answer_rx.await;
            }
        }
    }
}

pub(crate) struct Director {
    shared: Arc<Shared>,
    cores: Cores,
    status_tx: watch::Sender<Status>,
    handed_over: Arc<AtomicBool>,
    certificates_rx: Option<watch::Receiver<Arc<Certificates>>>,
    /// The newest good plan, which all below is of.
    plan: Arc<Plan>,
    clusters: ClusterSet,
    pages: PageSet,
    listeners: ListenerSet,
    drains: Drains,
}

impl Director {
    pub(crate) fn new(
        shared: Arc<Shared>,
        cores: Cores,
        status_tx: watch::Sender<Status>,
        clusters: Clusters,
        handed_over: Arc<AtomicBool>,
        inherited: Vec<Handed>,
        options: &Options,
    ) -> Self {
        Self {
            clusters: ClusterSet::new(Arc::clone(&shared), clusters),
            listeners: ListenerSet::new(
                Arc::clone(&shared),
                cores.clone(),
                inherited,
                options.share_ports.clone(),
            ),
            pages: PageSet::default(),
            drains: Drains::default(),
            plan: Arc::default(),
            shared,
            cores,
            status_tx,
            handed_over,
            certificates_rx: options.certificates.clone(),
        }
    }

    pub(crate) async fn run(
        mut self,
        mut plans_rx: watch::Receiver<Option<Arc<Plan>>>,
        stop: CancellationToken,
    ) {
        let mut open = true;
        let mut memory = Memory::default();
        let mut give_back = tokio::time::interval(GIVE_BACK);
        give_back.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut expiry = tokio::time::interval(TELL_EXPIRY);
        expiry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        expiry.reset();
        let mut retry = None;
        plans_rx.mark_changed();
        self.renew().await;
        while !stop.is_cancelled() {
            tokio::select! {
                changed = plans_rx.changed(), if open => match changed {
                    Ok(()) => {
                        let plan = plans_rx.borrow_and_update().clone();
                        if let Some(plan) = plan {
                            self.take(plan).await;
                        }
                    }
                    // The source of plans is gone: the last one runs on.
                    Err(_) => open = false,
                },
                () = changed(&mut self.certificates_rx) => self.renew().await,
                () = at(retry) => self.listen(&[]).await,
                _ = give_back.tick() => {
                    if memory.is_time(self.shared.metrics.ended.get()) {
                        // It looks at every page of the process: not here, and not on a core.
                        drop(tokio::task::spawn_blocking(causeway_base::memory::give_back));
                    }
                    continue;
                }
                _ = expiry.tick() => {
                    self.shared.metrics.certificates.tell();
                    continue;
                }
                () = at(self.drains.next()) => self.finish_drains(),
                () = stop.cancelled() => break,
            }
            let failed = self.status_tx.borrow().listeners.iter().any(|l| l.error.is_some());
            retry = failed.then(|| Instant::now() + LISTEN_AGAIN);
        }
        self.stop().await;
    }

    /// Checks a plan and applies it, or refuses it and stays with the one that runs.
    async fn take(&mut self, plan: Arc<Plan>) {
        // Whoever gives a plan has given the certificates that it names before.
        if self.certificates_rx.as_ref().is_some_and(|rx| rx.has_changed().is_ok_and(|changed| changed)) {
            self.renew().await;
        }
        let old = Arc::clone(&self.plan);
        let listeners = ListenerChange::all(&old.listeners, &plan.listeners);
        let clusters = causeway_ir::changes(&old.clusters, &plan.clusters);
        let mut problems = plan.validate_after(&old);
        if problems.is_empty() {
            problems = executable::in_changes(&plan, &listeners, &clusters);
        }
        if !problems.is_empty() {
            self.shared.metrics.plans_refused.inc();
            tracing::warn!(problems = problems.len(), first = %problems[0], "plan refused; the last one stays");
            self.status_tx.send_modify(|status| status.refused = Some((Arc::clone(&plan), problems)));
            return;
        }
        self.status_tx.send_modify(|status| status.refused = None);
        self.plan = Arc::clone(&plan);
        self.shared.limits.set(&plan.limits);
        let deadline = Instant::now() + plan.drain_timeout;
        self.clusters.apply(&clusters, &mut self.drains, deadline);
        self.pages.apply(&causeway_ir::changes(&old.pages, &plan.pages));
        self.listen(&listeners).await;
        self.drains.follow(&listeners, deadline);
        self.shared.metrics.plans_applied.inc();
        // To name all that differs takes its time in a large plan: only once it runs, and if someone reads it.
        if tracing::enabled!(tracing::Level::INFO) {
            let changes = causeway_ir::diff(&old, &plan);
            tracing::info!(%changes, "plan applied");
        }
    }

    /// Makes the listeners those of the plan, and tries again where that failed before.
    async fn listen(&mut self, changes: &[ListenerChange<'_>]) {
        let plan = Arc::clone(&self.plan);
        let before = self.status_tx.borrow().listeners.clone();
        let named = Named { clusters: &self.clusters, pages: &self.pages };
        let listeners = self.listeners.apply(&plan, changes, named, &before).await;
        let missing = self.missing_certificates();
        self.status_tx.send_modify(|status| {
            status.missing_certificates = missing;
            status.plan = Some(plan);
            status.listeners = listeners;
        });
    }

    /// Takes the newest certificates into use.
    async fn renew(&mut self) {
        let Some(certificates_rx) = &mut self.certificates_rx else { return };
        let certificates = Arc::clone(&certificates_rx.borrow_and_update());
        self.shared.metrics.certificates.set(&certificates);
        self.shared.metrics.certificates.tell();
        self.clusters.renew(&certificates, &self.plan);
        let named = Named { clusters: &self.clusters, pages: &self.pages };
        self.listeners.renew(certificates, &self.plan, named).await;
        let missing = self.missing_certificates();
        self.status_tx.send_modify(|status| status.missing_certificates = missing);
    }

    fn missing_certificates(&self) -> Vec<MissingCertificate> {
        let mut missing = self.listeners.missing_certificates(&self.plan);
        missing.extend(self.clusters.missing_certificates(&self.plan));
        missing
    }

    /// Ends what had its time, unless it is kept for as long as it is used.
    fn finish_drains(&mut self) {
        let now = Instant::now();
        for what in self.drains.over(now) {
            let is_used = || match &what {
                Leaving::Route { listener, route } => self.listeners.is_used(listener, route),
                Leaving::Cluster(name) => self.clusters.is_used(name),
            };
            if self.plan.on_removal == OnRemoval::Keep && is_used() {
                self.drains.begin(what, now + STILL_USED);
                continue;
            }
            match what {
                Leaving::Route { listener, route } => self.listeners.end_route(&listener, &route),
                Leaving::Cluster(name) => self.clusters.remove(&name),
            }
        }
        self.cores.tell(|| Command::Drain { all: false });
    }

    async fn stop(mut self) {
        self.status_tx.send_modify(|status| status.draining = true);
        self.listeners.stop_all(self.handed_over.load(Relaxed));
        self.clusters.stop_checks();
        self.cores.sync().await;
        self.idle_within(self.plan.drain_timeout).await;
        self.cores.tell(|| Command::Drain { all: true });
        self.idle_within(LAST_WORDS).await;
    }

    async fn idle_within(&self, limit: Duration) {
        let active = &self.shared.metrics.active;
        let deadline = Instant::now() + limit;
        while active.get() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Waits until there are other certificates.
async fn changed(certificates_rx: &mut Option<watch::Receiver<Arc<Certificates>>>) {
    if let Some(rx) = certificates_rx
        && rx.changed().await.is_ok()
    {
        return;
    }
    // Nobody has any, or whoever had them is gone.
    std::future::pending::<()>().await;
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
