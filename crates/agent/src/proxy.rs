//! ProxyServers: what one replica of a proxy follows, runs and reports.

use std::net::IpAddr;
use std::sync::Arc;

use causeway_api::{BackendStatus, Engine, LogLevel, ProxyServer, ReplicaStatus};
use causeway_ir::{Plan, Problem};
use causeway_translate::proxy::{BackendState, Bind, Network, Valid, cluster_name, translate, validate};
use serde_json::Value;

use crate::followed::{Followed, Needs, State, Surroundings};
use crate::runner::Snapshot;

/// One replica of a proxy.
pub struct Proxy {
    /// The object's name.
    pub name: String,
    /// The pod that reports.
    pub pod: String,
    /// The pod's address, which is always listened on.
    pub pod_ip: IpAddr,
    /// The address of the isolated network to listen on; those of the spec if there is none, which are of all replicas.
    pub server_ip: Option<IpAddr>,
    /// What carries the traffic.
    pub engine: Engine,
    /// Told of the level of the log that the object asks for.
    pub follow_log_level: fn(LogLevel),
}

/// What is to be said of a proxy's plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProxyNotes {
    /// Whether the isolated network is there; `None` if none is asked for.
    pub attached: Option<bool>,
    /// Each backend.
    pub backends: Vec<BackendState>,
}

impl Followed for Proxy {
    type Object = ProxyServer;
    type Checked = Valid;
    type Plan = Plan;
    type Notes = ProxyNotes;

    fn check(&self, object: &ProxyServer) -> Result<Valid, Vec<Problem>> {
        validate(object)
    }

    fn needs(&self, proxy: &Valid) -> Needs {
        Needs {
            services: proxy.services().cloned().collect(),
            addresses: self.server_ip.map_or_else(|| proxy.addresses.clone(), |address| vec![address]),
        }
    }

    fn plan(
        &self,
        proxy: &Valid,
        surroundings: &Surroundings,
        running: Option<&Plan>,
    ) -> Result<(Plan, ProxyNotes), Vec<Problem>> {
        let isolated = |address: &IpAddr| Bind { address: *address, network: Network::Isolated };
        let mut bind: Vec<Bind> = surroundings.here.iter().map(isolated).collect();
        let attached = proxy.is_attached.then_some(!bind.is_empty());
        bind.push(Bind { address: self.pod_ip, network: Network::Pod });
        let made = translate(proxy, &bind, &surroundings.services);
        let problems = match running {
            Some(running) => made.plan.validate_after(running),
            None => made.plan.validate(),
        };
        if problems.is_empty() {
            Ok((made.plan, ProxyNotes { attached, backends: made.backends }))
        } else {
            Err(problems)
        }
    }

    fn report(&self, state: &State<Self>, carried: &Snapshot<Plan>) -> Value {
        serde_json::to_value(self.entry(state, carried)).unwrap_or_default()
    }

    fn observe(&self, object: &ProxyServer) {
        (self.follow_log_level)(object.spec.log_level);
    }
}

impl Proxy {
    fn entry(&self, state: &State<Self>, carried: &Snapshot<Plan>) -> ReplicaStatus {
        let runs = match (&state.plan, &carried.plan) {
            (Some(wanted), Some(runs)) => Arc::ptr_eq(wanted, runs) || wanted == runs,
            _ => false,
        };
        let refused = state.refused.clone().or_else(|| carried.refused.clone());
        let trouble: Vec<String> =
            [&state.trouble, &carried.trouble].into_iter().filter_map(Clone::clone).collect();
        let backends = state.notes.backends.iter().map(|backend| BackendStatus {
            name: backend.name.clone(),
            ready_endpoints: i32::try_from(backend.ready_endpoints).unwrap_or(i32::MAX),
            connections: carried.connections.get(&cluster_name(&self.name, &backend.name)).copied(),
            message: backend.message.clone(),
        });
        ReplicaStatus {
            name: self.pod.clone(),
            observed_generation: state.generation,
            engine: self.engine,
            serving: runs && refused.is_none() && carried.trouble.is_none(),
            listening: carried.listening.clone(),
            attached: state.notes.attached,
            refused,
            trouble: (!trouble.is_empty()).then(|| trouble.join("; ")),
            backends: backends.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
