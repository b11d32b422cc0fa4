//! A pod of a `DHCPServer`: an agent that follows the object, gives its plans to the server in this process, and hands the
//! names of its clients to whoever answers DNS.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use causeway_agent::{Agent, Dhcp, Leased, OwnEntry, Runner, Snapshot, changes_of, publish_lease_names};
use causeway_api::{LeaseCounts, names};
use causeway_base::lock::lock;
use causeway_base::report::chain;
use causeway_dhcp::{Metrics, Server};
use causeway_engine::admin::METRICS_TYPE;
use causeway_ir::dhcp::DhcpPlan;
use futures::stream::BoxStream;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::names::{names as names_of, unix_now};
use crate::parts::lease_list::LeaseList;
use crate::parts::server_pod::ServerPodArgs;

/// Between attempts to serve an interface, and looks at what has changed.
const LOOK: Duration = Duration::from_secs(1);
/// How often the names of clients are looked at when their number stays, and how often their number is told.
const LOOK_CLOSER: Duration = Duration::from_secs(5);
/// Between two lists of leases that are told, and how often that is done in any case.
const LIST_REST: Duration = Duration::from_secs(10);
const LIST_AGAIN: Duration = Duration::from_mins(5);
/// How often leases are told of that were prolonged, and nothing else.
const LIST_PROLONGED: Duration = Duration::from_mins(1);
const DHCP_PORT: u16 = 67;

pub(super) async fn run(args: ServerPodArgs, replica: usize, leases: PathBuf) -> anyhow::Result<ExitCode> {
    let followed = args.follow("dhcp").await?;
    let (leased_tx, leased_rx) = watch::channel(Vec::new()); // server → ConfigMap
    let (namespace, name) = (followed.config.namespace.clone(), followed.pod.name.clone());
    let (listed_tx, listed_rx) = watch::channel(LeaseList::default()); // server → ConfigMap
    let entry = OwnEntry {
        client: followed.client.clone(),
        namespace: namespace.clone(),
        config_map: names::leases_config_map(&name),
        key: replica.to_string(),
        rest: LIST_REST,
        again: LIST_AGAIN,
    };
    tokio::spawn(entry.keep(listed_rx, LeaseList::text));
    tokio::spawn(publish_lease_names(followed.client.clone(), namespace, name, replica, leased_rx));
    let (agent, plan_rx) = Agent::new(followed.client, Dhcp(followed.pod), followed.config);
    let leasing = Arc::new(Leasing::default());
    tokio::spawn(Arc::clone(&leasing).serve(plan_rx, leases));
    tokio::spawn(Arc::clone(&leasing).look(leased_tx, listed_tx));
    agent.run(leasing, followed.health).await.context("can't listen for signals")?;
    Ok(ExitCode::SUCCESS)
}

/// The server in this process.
#[derive(Default)]
struct Leasing {
    metrics: Metrics,
    /// None until its interface is there, and after the end.
    server: Mutex<Option<Arc<Server>>>,
    stands_tx: watch::Sender<Stands>,
}

/// How the server stands.
#[derive(Clone, Default, PartialEq)]
struct Stands {
    plan: Option<Arc<DhcpPlan>>,
    /// Why the newest plan does not run.
    trouble: Option<String>,
    /// Why clients are not served, though a plan runs.
    problem: Option<String>,
    counts: Option<LeaseCounts>,
}

impl Leasing {
    /// Runs each plan; a server that can't be started is tried again.
    async fn serve(self: Arc<Self>, mut plan_rx: watch::Receiver<Option<Arc<DhcpPlan>>>, leases: PathBuf) {
        loop {
            let wanted = plan_rx.borrow_and_update().clone();
            let is_new = wanted.is_some() && wanted != self.stands_tx.borrow().plan;
            let mut has_failed = false;
            if let Some(plan) = wanted.filter(|_| is_new) {
                let running = lock(&self.server).clone();
                let outcome = match running {
                    Some(server) => {
                        let plan = DhcpPlan::clone(&plan);
                        let changed = tokio::task::spawn_blocking(move || server.change(plan)).await;
                        changed
                            .map_err(|error| error.to_string())
                            .and_then(|done| done.map_err(|e| chain(&e)))
                    }
                    None => self.start(&plan, leases.clone()).await,
                };
                has_failed = outcome.is_err();
                self.stands_tx.send_modify(|stands| match outcome {
                    Ok(()) => (stands.plan, stands.trouble) = (Some(plan), None),
                    Err(trouble) => stands.trouble = Some(trouble),
                });
            }
            if has_failed {
                let _ = timeout(LOOK, plan_rx.changed()).await;
            } else if plan_rx.changed().await.is_err() {
                return;
            }
        }
    }

    async fn start(&self, plan: &Arc<DhcpPlan>, leases: PathBuf) -> Result<(), String> {
        let (plan, metrics) = (DhcpPlan::clone(plan), self.metrics.clone());
        let started = tokio::task::spawn_blocking(move || Server::start(plan, &leases, metrics)).await;
        let server = started.map_err(|error| error.to_string())?.map_err(|error| chain(&error))?;
        *lock(&self.server) = Some(Arc::new(server));
        Ok(())
    }

    /// Tells how many leases there are, whose they are, and the names of their clients.
    async fn look(
        self: Arc<Self>,
        leased_tx: watch::Sender<Vec<Leased>>,
        listed_tx: watch::Sender<LeaseList>,
    ) {
        let (mut looked_closer, mut listed_at) = (Instant::now(), Instant::now());
        let (mut last_active, mut last_revision) = (None, None);
        let mut look = tokio::time::interval(LOOK);
        loop {
            look.tick().await;
            let Some(server) = lock(&self.server).clone() else { continue };
            let status = server.status();
            let is_time = looked_closer.elapsed() >= LOOK_CLOSER;
            // Leases that are over change nothing, but are no names any more.
            if is_time || last_revision != Some(status.revision) {
                let Ok(leases) = tokio::task::spawn_blocking(move || server.leases()).await else { continue };
                let Some(plan) = self.stands_tx.borrow().plan.clone() else { continue };
                let told = names_of(&leases, &plan, &leased_tx.borrow());
                leased_tx.send_if_modified(|before| {
                    let is_new = *before != told;
                    *before = told;
                    is_new
                });
                let list = LeaseList::of(leases, unix_now());
                let is_due = listed_at.elapsed() >= LIST_PROLONGED;
                listed_tx.send_if_modified(|before| {
                    let is_new = !before.is_alike(&list) || (is_due && *before != list);
                    if is_new {
                        (*before, listed_at) = (list, Instant::now());
                    }
                    is_new
                });
            }
            let count = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
            let counts = LeaseCounts {
                active: count(status.active),
                free: count(status.free),
                declined: count(status.declined),
                unknown_clients: i32::try_from(status.unknown.len()).unwrap_or(i32::MAX),
            };
            let is_first = self.stands_tx.borrow().counts.is_none() || last_active == Some(0);
            self.stands_tx.send_if_modified(|stands| {
                let mut next = stands.clone();
                if is_time || is_first {
                    next.counts = Some(counts);
                }
                next.problem.clone_from(&status.problem);
                let is_new = next != *stands;
                *stands = next;
                is_new
            });
            if is_time {
                looked_closer = Instant::now();
            }
            (last_active, last_revision) = (Some(status.active), Some(status.revision));
        }
    }
}

impl Runner for Leasing {
    type Plan = DhcpPlan;

    fn missing(&self) -> Vec<String> {
        let stands = self.stands_tx.borrow();
        let unplanned = || stands.plan.is_none().then(|| "it is not known yet what to lease".to_owned());
        let trouble = stands.trouble.as_ref().or(stands.problem.as_ref());
        trouble.cloned().or_else(unplanned).into_iter().collect()
    }

    async fn snapshot(&self) -> Snapshot<DhcpPlan> {
        let stands = self.stands_tx.borrow().clone();
        let listening = stands.plan.iter().map(|plan| format!("{}:{DHCP_PORT}", plan.server)).collect();
        Snapshot {
            plan: stands.plan,
            listening,
            trouble: stands.trouble.or(stands.problem),
            leases: stands.counts,
            ..Snapshot::default()
        }
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        changes_of(self.stands_tx.subscribe())
    }

    async fn metrics(&self) -> Option<(&'static str, String)> {
        let mut registry = Registry::default();
        self.metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).ok()?;
        Some((METRICS_TYPE, text))
    }

    /// A client that hears nothing asks again.
    fn drain_limit(&self) -> Duration {
        Duration::ZERO
    }

    async fn drain(&self) {
        let server = lock(&self.server).take();
        // It ends when the last who has it lets go, and that takes a moment.
        let _ = tokio::task::spawn_blocking(move || drop(server)).await;
    }
}
