//! ProxyServers: what one replica of a proxy follows, runs and reports.

use std::net::IpAddr;

use causeway_api::{BackendStatus, Engine, LogLevel, ProxyServer, ReplicaStatus};
use causeway_ir::{Plan, Problem};
use causeway_translate::proxy::{BackendState, Bind, Network, Valid, cluster_name, translate, validate};
use serde_json::Value;

use crate::followed::{Followed, Needs, State, Surroundings};
use crate::runner::Snapshot;
use crate::standing::Standing;

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
    pub follow_log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
}

/// Backends in a report: sixteen proxies that each name this many stay far below what one object may hold.
const MOST_TOLD: usize = 16;

/// What is to be said of a proxy's plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProxyNotes {
    /// Whether the server address is there.
    pub attached: bool,
    /// Each backend.
    pub backends: Vec<BackendState>,
    /// Routes that are carried, and how many of them have an endpoint.
    pub routes: (usize, usize),
}

impl Followed for Proxy {
    type Object = ProxyServer;
    type Checked = Valid;
    type Plan = Plan;
    type Notes = ProxyNotes;

    const IS_SUPPLIED: bool = true;

    fn check(&self, object: &ProxyServer) -> Result<Valid, Vec<Problem>> {
        validate(object)
    }

    fn needs(&self, proxy: &Valid) -> Needs {
        Needs {
            services: proxy.services().cloned().collect(),
            addresses: self.server_ip.map_or_else(|| proxy.addresses.clone(), |address| vec![address]),
            ..Needs::default()
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
        let attached = !bind.is_empty() || self.needs(proxy).addresses.is_empty();
        bind.push(Bind { address: self.pod_ip, network: Network::Pod });
        let made = translate(proxy, &surroundings.routes, &bind, &surroundings.services);
        let problems = match running {
            Some(running) => made.plan.validate_after(running),
            None => made.plan.validate(),
        };
        if problems.is_empty() {
            let ready = made.routes.iter().filter(|route| route.ready_endpoints > 0).count();
            let routes = (made.routes.len(), ready);
            Ok((made.plan, ProxyNotes { attached, backends: made.backends, routes }))
        } else {
            Err(problems)
        }
    }

    fn report(&self, state: &State<Self>, carried: &Snapshot<Plan>) -> Value {
        serde_json::to_value(self.entry(state, carried)).unwrap_or_default()
    }

    fn reported(&self, object: &ProxyServer) -> Option<Value> {
        let entry = object.status.as_ref()?.replicas.iter().find(|entry| entry.name == self.pod)?;
        serde_json::to_value(entry).ok()
    }

    fn is_shared(&self, object: &ProxyServer) -> bool {
        let mut reports = object.status.iter().flat_map(|status| &status.replicas);
        reports
            .any(|entry| entry.name != self.pod && entry.address.is_some() && entry.address == self.address())
    }

    fn observe(&self, object: &ProxyServer) {
        (self.follow_log_level)(object.spec.log_level);
    }
}

impl Proxy {
    fn address(&self) -> Option<String> {
        self.server_ip.map(|address| address.to_string())
    }

    fn entry(&self, state: &State<Self>, carried: &Snapshot<Plan>) -> ReplicaStatus {
        let Standing { refused, trouble, serving } = Standing::of(state, carried);
        let backends: Vec<_> =
            state.notes.backends.iter().map(|backend| self.backend(backend, carried)).collect();
        let (routes, ready_routes) = state.notes.routes;
        ReplicaStatus {
            name: self.pod.clone(),
            observed_generation: state.generation,
            running_generation: state.running,
            engine: self.engine,
            serving,
            address: self.address(),
            listening: carried.listening.clone(),
            attached: state.plan.as_ref().map(|_| state.notes.attached),
            refused,
            trouble,
            routes: i32::try_from(routes).ok().filter(|routes| *routes > 0),
            ready_routes: i32::try_from(ready_routes).ok().filter(|_| routes > 0),
            ready_backends: i32::try_from(backends.iter().filter(|b| b.ready_endpoints > 0).count())
                .unwrap_or(i32::MAX),
            backends: worth_telling(backends),
        }
    }

    /// One backend, by its Service and by the health checks of what carries it.
    fn backend(&self, backend: &BackendState, carried: &Snapshot<Plan>) -> BackendStatus {
        let all = backend.ready_endpoints;
        let healthy = carried.healthy.get(&cluster_name(&self.name, &backend.name));
        let ready = healthy.map_or(all, |healthy| all.min(*healthy));
        let sick = (ready < all).then(|| match all {
            1 => "its endpoint fails the health check".to_owned(),
            _ => format!("{} of {all} endpoints fail the health check", all - ready),
        });
        let message: Vec<String> = backend.message.clone().into_iter().chain(sick).collect();
        BackendStatus {
            name: backend.name.clone(),
            ready_endpoints: i32::try_from(ready).unwrap_or(i32::MAX),
            message: (!message.is_empty()).then(|| message.join("; ")),
        }
    }
}

/// Those that are not ready, then those that are and have something to be said of; the rest is a number.
fn worth_telling(backends: Vec<BackendStatus>) -> Vec<BackendStatus> {
    let (mut told, ready): (Vec<_>, Vec<_>) = backends.into_iter().partition(|b| b.ready_endpoints == 0);
    told.extend(ready.into_iter().filter(|backend| backend.message.is_some()));
    told.truncate(MOST_TOLD);
    told
}

#[cfg(test)]
mod tests;
