//! An Envoy beside this process: what it took and refused, and what its admin interface says of connections.

mod admin;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_agent::Snapshot;
use causeway_ir::Plan;
use causeway_translate::proxy::bootstrap::Address;
use causeway_xds::{ClientStatus, Handle, Server, Socket, Status};
use http::Method;
use tokio::sync::watch;
use tokio::time::Instant;

use super::runner::words;

/// How often it is asked whether connections are left while it drains.
const DRAIN_LOOK: Duration = Duration::from_millis(250);

/// Feeds an Envoy.
pub(crate) struct Envoy {
    handle: Handle,
    /// Serves for as long as this lives.
    _server: Server,
    admin: Address,
    /// It took a whole configuration before, and so carries traffic though it may refuse a newer one.
    carried: AtomicBool,
}

impl Envoy {
    /// Feeds the Envoy that connects to `socket`; `admin` is where it shows its state.
    pub(crate) fn start(
        plan_rx: watch::Receiver<Option<Arc<Plan>>>,
        socket: Socket,
        admin: Address,
    ) -> anyhow::Result<Self> {
        let server = Server::start(plan_rx, socket, causeway_xds::Options::default())?;
        Ok(Self { handle: server.handle(), _server: server, admin, carried: AtomicBool::new(false) })
    }

    pub(super) fn watch(&self) -> watch::Receiver<Status> {
        self.handle.watch()
    }

    pub(super) fn missing(&self) -> Vec<String> {
        let status = self.handle.status();
        if status.clients.iter().any(|c| c.up_to_date) {
            self.carried.store(true, Ordering::Relaxed);
        }
        let text = if status.plan.is_none() {
            "there is no valid plan yet"
        } else if status.clients.is_empty() {
            "no Envoy is connected"
        } else if !self.carried.load(Ordering::Relaxed) {
            "Envoy has not taken its configuration yet"
        } else {
            return Vec::new();
        };
        vec![text.to_owned()]
    }

    pub(super) async fn snapshot(&self) -> Snapshot<Plan> {
        let status = self.handle.status();
        let up_to_date = status.clients.iter().any(|c| c.up_to_date);
        let refusal = |c: &ClientStatus| {
            c.nack
                .as_ref()
                .map(|n| format!("Envoy refuses {} {}: {}", n.kind, n.resources.join(", "), n.message))
        };
        let refused = status.refused.as_ref().map(|(_, problems)| words(problems));
        let refused = refused.or_else(|| status.clients.iter().find_map(refusal));
        let trouble = match &refused {
            None if status.clients.is_empty() => {
                Some("no Envoy is connected: see whether its container runs".to_owned())
            }
            None if !up_to_date => Some("Envoy has not taken its newest configuration yet".to_owned()),
            _ => None,
        };
        let plan = status.plan.filter(|_| up_to_date);
        let listeners = plan.iter().flat_map(|plan| &plan.listeners);
        let mut listening: Vec<String> = listeners.map(|l| l.bind.to_string()).collect();
        listening.sort();
        Snapshot {
            plan,
            listening,
            refused,
            trouble,
            connections: self.connections().await.unwrap_or_default(),
        }
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
            match self.connections().await {
                // Its connection to this process is not counted: it is of no cluster of the plan.
                Ok(counts) if plan.clusters.iter().any(|c| counts.get(&*c.name).is_some_and(|n| *n > 0)) => {
                    tokio::time::sleep(DRAIN_LOOK).await;
                }
                _ => return,
            }
        }
    }

    /// Open connections by cluster.
    async fn connections(&self) -> anyhow::Result<HashMap<String, i64>> {
        let path = "/stats?filter=%5Ecluster%5C..*%5C.upstream_cx_active%24";
        Ok(parse_counts(&admin::ask(&self.admin, Method::GET, path).await?))
    }
}

/// Lines like `cluster.edge-web.upstream_cx_active: 3`.
fn parse_counts(text: &str) -> HashMap<String, i64> {
    let count = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        let name = name.strip_prefix("cluster.")?.strip_suffix(".upstream_cx_active")?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_counts_from_statistics() {
        assert_eq!(parse_counts("cluster.a.upstream_cx_active: 3\n").get("a"), Some(&3));
        assert!(parse_counts("cluster.a.upstream_cx_total: 3").is_empty());
    }
}
