//! What a server shows of itself. It changes when something to be told has changed; what always moves is in the metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use causeway_ir::Problem;
use causeway_ir::dns::DnsPlan;
use serde::Serialize;

/// What became of the newest plans.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// The plan that runs; `None` before the first good one.
    pub plan: Option<Arc<DnsPlan>>,
    /// The newest plan and what is wrong with it, if it was refused and an older one runs on.
    pub refused: Option<(Arc<DnsPlan>, Vec<Problem>)>,
    /// The binds of the plan that runs.
    pub listeners: Vec<ListenerStatus>,
    /// Its views.
    pub views: Vec<ViewStatus>,
    /// The resolvers that are asked: the plan's, or the host's.
    pub upstreams: Vec<UpstreamStatus>,
}

impl Status {
    /// Why the server is not ready; empty if it is. Resolvers do not matter here: without any of them the zones are still
    /// answered.
    pub fn missing(&self) -> Vec<String> {
        if self.plan.is_none() {
            return vec!["there is no valid plan yet".to_owned()];
        }
        let failed = |l: &ListenerStatus| l.error.as_ref().map(|error| format!("{}: {error}", l.bind));
        self.listeners.iter().filter_map(failed).collect()
    }
}

/// A bind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// As the plan has it.
    pub bind: SocketAddr,
    /// Where it listens, by UDP and TCP; none if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Why not; it is tried again every second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewStatus {
    /// As the plan has it.
    pub name: String,
    /// Names that have records, those of addresses and of the zones' own servers too.
    pub names: usize,
}

/// A resolver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamStatus {
    /// Where it is.
    pub address: SocketAddr,
    /// Whether it is asked by TLS.
    pub tls: bool,
    /// Whether it answered lately.
    pub healthy: bool,
    /// Whether what it is asked comes back here; then it is not asked.
    pub loops: bool,
}
