//! What an engine shows of itself.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use causeway_ir::{Address, CertificateRef, Name, Plan, Problem};
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
    /// Certificates and authorities that the plan names and nobody gave.
    pub missing_certificates: Vec<MissingCertificate>,
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
        // A cluster whose endpoints can't be trusted keeps nobody else from being served.
        let of_listeners = self.missing_certificates.iter().filter(|m| matches!(m.of, Part::Listener(_)));
        missing.extend(of_listeners.map(ToString::to_string));
        missing
    }

    /// The address that a listener really has; with port 0 in the plan the port that it got.
    pub fn address(&self, listener: &str) -> Option<SocketAddr> {
        self.listeners.iter().find(|l| l.name == listener)?.address
    }
}

/// A certificate, or authorities, that a plan names and nobody gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCertificate {
    /// What does not work without.
    pub of: Part,
    /// Authorities, not a certificate with its key.
    pub is_authorities: bool,
    /// By which name.
    pub name: Name,
}

/// A part of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Its handshakes fail.
    Listener(Name),
    /// Its endpoints are not connected to.
    Cluster(Name),
}

impl MissingCertificate {
    pub(crate) fn key(of: Part, name: &CertificateRef) -> Self {
        Self { of, is_authorities: false, name: name.0.clone() }
    }

    pub(crate) fn authorities(of: Part, name: &CertificateRef) -> Self {
        Self { of, is_authorities: true, name: name.0.clone() }
    }
}

impl fmt::Display for MissingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Part::Listener(name) => write!(f, "listener {name}: ")?,
            Part::Cluster(name) => write!(f, "cluster {name}: ")?,
        }
        let what = if self.is_authorities { "are no authorities" } else { "is no certificate" };
        write!(f, "there {what} {}", self.name)
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
