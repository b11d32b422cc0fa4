//! What an engine shows of itself.

use std::net::SocketAddr;
use std::sync::Arc;

use causeway_ir::{Address, Name, Plan, Problem};
use serde::Serialize;

use crate::listen::Transport;

/// What became of the newest plans.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// The plan that runs; `None` before the first good one.
    pub plan: Option<Arc<Plan>>,
    /// The newest plan and what is wrong with it, if it was refused and an older one runs on.
    pub refused: Option<(Arc<Plan>, Vec<Problem>)>,
    /// The listeners of the plan that runs.
    pub listeners: Vec<ListenerStatus>,
    /// Certificates that the plan names and nobody gave, each with its listener.
    pub missing_certificates: Vec<(Name, Name)>,
    /// No new connections are taken; the engine is about to stop.
    pub draining: bool,
}

impl Status {
    /// Why the engine is not ready; empty if it is.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.plan.is_none() {
            missing.push("there is no valid plan yet".to_owned());
        }
        if self.draining {
            missing.push("draining".to_owned());
        }
        let failed = |l: &ListenerStatus| l.error.as_ref().map(|e| format!("listener {}: {e}", l.name));
        missing.extend(self.listeners.iter().filter_map(failed));
        let lacks =
            |(listener, name): &(Name, Name)| format!("listener {listener}: there is no certificate {name}");
        missing.extend(self.missing_certificates.iter().map(lacks));
        missing
    }

    /// The address that a listener really has; with port 0 in the plan the port that it got.
    pub fn address(&self, listener: &str) -> Option<SocketAddr> {
        self.listeners.iter().find(|l| l.name == listener)?.address
    }
}

/// A listener of the plan that runs.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    pub name: Name,
    pub protocol: Transport,
    /// As in the plan.
    pub bind: SocketAddr,
    /// The true address; absent if it could not be had.
    pub address: Option<SocketAddr>,
    pub routes: usize,
    /// Why it does not listen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A cluster at this moment.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    pub name: Name,
    pub active: i64,
    pub total: u64,
    pub connect_failures: u64,
    pub endpoints: Vec<EndpointStatus>,
}

/// An endpoint at this moment.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    pub address: Address,
    pub weight: u32,
    /// By the plan: takes new connections.
    pub ready: bool,
    /// By the active check; true without one.
    pub healthy: bool,
    /// Rested for failing.
    pub ejected: bool,
    pub active: i64,
    pub total: u64,
}

/// An established connection.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionStatus {
    pub client: SocketAddr,
    pub listener: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    pub route: String,
    pub cluster: String,
    pub endpoint: Address,
    pub age_millis: u64,
    pub idle_millis: u64,
    pub bytes_up: u64,
    pub bytes_down: u64,
}
