//! An Envoy beside this process: what it took and refused, and what its admin interface says of connections.

mod admin;
mod answers;
mod settings;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use causeway_agent::{Snapshot, changes_of};
use causeway_api::LogLevel;
use causeway_ir::Plan;
use causeway_translate::proxy::bootstrap::Address;
use causeway_xds::{ClientStatus, Handle, Server, Socket};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::Method;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::parts::plan_check::in_words;

/// How often it is asked whether connections are left while it drains.
const DRAIN_LOOK: Duration = Duration::from_millis(250);

/// Feeds an Envoy.
pub(crate) struct Envoy {
    handle: Handle,
    /// Serves for as long as this lives.
    _server: Server,
    admin: Address,
    /// Ends with this.
    _settings: AbortOnDropHandle<()>,
    /// Whether its workers do; ends with this. Of one that is met by TCP it is not known, and taken for so.
    answers_rx: watch::Receiver<bool>,
    _answers: Option<AbortOnDropHandle<()>>,
}

impl Envoy {
    /// Feeds the Envoy that connects to `socket`; `admin` is where it shows its state, `answers` where its
    /// workers say that they run, `level_rx` how much it logs.
    pub(crate) fn start(
        plan_rx: watch::Receiver<Option<Arc<Plan>>>,
        socket: Socket,
        admin: Address,
        answers: Option<PathBuf>,
        level_rx: watch::Receiver<Option<LogLevel>>,
    ) -> anyhow::Result<Self> {
        let server = Server::start(plan_rx, socket, causeway_xds::Options::default())?;
        let handle = server.handle();
        let settings = tokio::spawn(settings::keep(admin.clone(), handle.watch(), level_rx));
        let (answers_tx, answers_rx) = watch::channel(true); // questions → readiness
        let answers = answers.map(|at| AbortOnDropHandle::new(tokio::spawn(answers::keep(at, answers_tx))));
        Ok(Self {
            handle,
            _server: server,
            admin,
            answers_rx,
            _answers: answers,
            _settings: AbortOnDropHandle::new(settings),
        })
    }

    pub(super) fn changes(&self) -> BoxStream<'static, ()> {
        // Who is not asked never changes, which is no end.
        let answers = changes_of(self.answers_rx.clone()).chain(stream::pending());
        stream::select(changes_of(self.handle.watch()), answers).boxed()
    }

    pub(super) fn missing(&self) -> Vec<String> {
        let status = self.handle.status();
        let text = if status.plan.is_none() {
            "there is no valid plan yet"
        } else if status.clients.is_empty() {
            "no Envoy is connected"
        } else if status.taken.is_none() {
            "Envoy has not taken its configuration yet"
        } else if !*self.answers_rx.borrow() {
            "Envoy is connected and its workers do not answer"
        } else {
            return Vec::new();
        };
        vec![text.to_owned()]
    }

    pub(super) async fn snapshot(&self) -> Snapshot<Plan> {
        let status = self.handle.status();
        let refusal = |c: &ClientStatus| {
            c.nack
                .as_ref()
                .map(|n| format!("Envoy refuses {} {}: {}", n.kind, n.resources.join(", "), n.message))
        };
        let refused = status.refused.as_ref().map(|(_, problems)| in_words(problems));
        let refused = refused.or_else(|| status.clients.iter().find_map(refusal));
        let trouble = match &refused {
            None if status.clients.is_empty() => {
                Some("no Envoy is connected: see whether its container runs".to_owned())
            }
            None if status.taken.is_none() => Some("Envoy has not taken its configuration yet".to_owned()),
            None if !*self.answers_rx.borrow() => Some(
                "Envoy's workers do not answer: see whether its process hangs or has no processor time"
                    .to_owned(),
            ),
            _ => None,
        };
        // Not the newest, while Envoy has not taken that.
        let plan = status.taken;
        let listeners = plan.iter().flat_map(|plan| &plan.listeners);
        let mut listening: Vec<String> = listeners.map(|l| l.bind.to_string()).collect();
        listening.sort();
        let healthy = match &plan {
            Some(plan) => self.healthy(plan).await,
            None => HashMap::new(),
        };
        Snapshot { plan, listening, refused, trouble, healthy, ..Snapshot::default() }
    }

    /// What Envoy counts; none while it can't be asked.
    pub(super) async fn metrics(&self) -> Option<String> {
        admin::ask(&self.admin, Method::GET, "/stats/prometheus").await.ok()
    }

    pub(super) fn drain_limit(&self) -> Duration {
        self.handle.status().plan.map(|plan| plan.drain_timeout).unwrap_or_default()
    }

    /// The endpoints that Envoy's own checks find healthy, of the clusters that are checked.
    async fn healthy(&self, plan: &Plan) -> HashMap<String, usize> {
        let checked = || plan.clusters.iter().filter(|cluster| cluster.health_check.is_some());
        if checked().next().is_none() {
            return HashMap::new();
        }
        // What can't be asked is not known to be ill.
        let counts = self.counts("membership_healthy").await.unwrap_or_default();
        let known = checked().filter_map(|cluster| {
            let healthy = counts.get(&*cluster.name)?;
            Some((cluster.name.to_string(), usize::try_from(*healthy).unwrap_or_default()))
        });
        known.collect()
    }

    /// Has Envoy close its listeners, and waits until its connections have ended or the plan's limit is reached.
    pub(super) async fn drain(&self) {
        let plan = self.handle.status().plan.unwrap_or_default();
        let until = Instant::now() + plan.drain_timeout;
        if let Err(error) = admin::ask(&self.admin, Method::POST, "/drain_listeners").await {
            // It may have got the same signal and be gone already.
            tracing::debug!("Envoy can't be told to drain: {error:#}");
            return;
        }
        while Instant::now() < until {
            match self.counts("upstream_cx_active").await {
                // Its connection to this process is not counted: it is of no cluster of the plan.
                Ok(counts) if plan.clusters.iter().any(|c| counts.get(&*c.name).is_some_and(|n| *n > 0)) => {
                    tokio::time::sleep(DRAIN_LOOK).await;
                }
                _ => return,
            }
        }
    }

    /// A gauge of every cluster.
    async fn counts(&self, gauge: &str) -> anyhow::Result<HashMap<String, i64>> {
        let path = format!("/stats?filter=%5Ecluster%5C..*%5C.{gauge}%24");
        Ok(parse_counts(&admin::ask(&self.admin, Method::GET, &path).await?, gauge))
    }
}

/// Lines like `cluster.edge-web.upstream_cx_active: 3`.
fn parse_counts(text: &str, gauge: &str) -> HashMap<String, i64> {
    let count = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        let name = name.strip_prefix("cluster.")?.strip_suffix(gauge)?.strip_suffix('.')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_counts_from_statistics() {
        let gauge = "upstream_cx_active";
        assert_eq!(parse_counts("cluster.a.upstream_cx_active: 3\n", gauge).get("a"), Some(&3));
        assert!(parse_counts("cluster.a.upstream_cx_total: 3", gauge).is_empty());
    }
}
