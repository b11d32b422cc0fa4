//! From a `ProxyServer` to its checked form, or to everything that is wrong with it: each problem with the path of its
//! field and, where two entries are in each other's way, with both. The API server refuses some of it already; the rest
//! needs more than a schema can say.

mod backends;
mod listeners;
mod network;
mod ports;

use std::time::Duration;

use causeway_api::conditions::Reason;
use causeway_api::{Engine, ProxyServer, ProxyServerSpec};
use causeway_ir::{self as ir, Limit, Name, Period, Problem};
use kube::ResourceExt;

use super::valid::Valid;

pub use network::{bare_address, with_prefix};

/// Port of `/healthz` and `/ready` on the pod's address.
pub const HEALTH_PORT: u16 = 8080;

/// The checked form of this object.
///
/// # Errors
/// Everything that makes it impossible to run, by the paths of its fields.
pub fn validate(proxy: &ProxyServer) -> Result<Valid, Vec<Problem>> {
    let path = |entry: Entry| match entry {
        Entry::Backend(index) => format!("spec.backends[{index}]"),
        Entry::Port(index) => format!("spec.ports[{index}]"),
    };
    let mut findings = Findings { found: Vec::new(), path: &path };
    let valid = findings.proxy(proxy);
    let problem = |finding: Finding| Problem { path: finding.path, message: finding.message };
    let problems: Vec<Problem> = findings.found.into_iter().map(problem).collect();
    valid.filter(|_| problems.is_empty()).ok_or(problems)
}

/// What is wrong with the backends and ports of a spec that is yet to be written, for those who write one; `path` says
/// where its author finds the entry.
pub fn check_backends(spec: &ProxyServerSpec, path: &dyn Fn(Entry) -> String) -> Vec<Finding> {
    let mut findings = Findings { found: Vec::new(), path };
    findings.backends("", spec);
    findings.ports(spec);
    findings.found
}

/// An entry of a list in the spec, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Of `spec.backends`.
    Backend(usize),
    /// Of `spec.ports`.
    Port(usize),
}

/// Something in a spec that can't be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The condition's reason.
    pub reason: Reason,
    /// The field.
    pub path: String,
    /// What is wrong and what to write.
    pub message: String,
}

struct Findings<'a> {
    found: Vec<Finding>,
    path: &'a dyn Fn(Entry) -> String,
}

impl Findings<'_> {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.add_because(Reason::InvalidSpec, path, message);
    }

    fn add_because(&mut self, reason: Reason, path: impl Into<String>, message: impl Into<String>) {
        self.found.push(Finding { reason, path: path.into(), message: message.into() });
    }

    /// The path of a field of a backend.
    fn of_backend(&self, index: usize, field: &str) -> String {
        format!("{}.{field}", (self.path)(Entry::Backend(index)))
    }

    /// `None` only if something was found.
    fn proxy(&mut self, proxy: &ProxyServer) -> Option<Valid> {
        let (name, spec) = (proxy.name_any(), &proxy.spec);
        let addresses = self.addresses(spec);
        self.attachment(&spec.network_config);
        let connections = spec.connection_limit.and_then(|limit| self.limit("spec.connectionLimit", limit));
        let connections_per_source =
            spec.connections_per_source.and_then(|limit| self.limit("spec.connectionsPerSource", limit));
        if connections_per_source.is_some() && spec.engine == Some(Engine::Envoy) {
            self.add(
                "spec.connectionsPerSource",
                "Envoy can't count connections by client address: leave it out, or write `engine: Native`",
            );
        }
        if spec.drain_seconds < 0 {
            self.add("spec.drainSeconds", "must be at least 0");
        }
        let backends = self.backends(&name, spec);
        self.ports(spec);
        let backends = backends?;
        let listeners = self.listeners(&name, spec, &backends)?;
        Some(Valid {
            namespace: proxy.namespace().unwrap_or_default(),
            addresses,
            main_port: spec.port,
            listeners,
            backends: backends.into_iter().map(|(backend, _)| backend).collect(),
            limits: ir::Limits { connections, connections_per_source, ..ir::Limits::default() },
            drain_timeout: Duration::from_secs(u64::try_from(spec.drain_seconds).unwrap_or_default()),
        })
    }

    /// A number of seconds; what stands in for a wrong one is thrown away with the rest.
    fn seconds(&mut self, path: impl Into<String>, count: i32) -> Period {
        let period = u64::try_from(count).ok().and_then(|count| Period::new(Duration::from_secs(count)));
        period.unwrap_or_else(|| {
            self.add(path, "must be at least 1");
            const { Period::from_secs(1) }
        })
    }

    fn limit(&mut self, path: impl Into<String>, count: i32) -> Option<Limit> {
        let limit = u32::try_from(count).ok().and_then(Limit::new);
        if limit.is_none() {
            self.add(path, "must be at least 1: leave it out for no limit");
        }
        limit
    }

    /// A name in the plan; `None` if it can't be one.
    fn name(&mut self, path: impl Into<String>, text: &str) -> Option<Name> {
        Name::parse(text).map_err(|message| self.add(path, message)).ok()
    }
}

#[cfg(test)]
mod tests;
