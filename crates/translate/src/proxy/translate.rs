//! From a checked `ProxyServer`, the addresses of one of its replicas and the Services behind it to the plan that this
//! replica runs, and to what is to be said of each backend. The same input gives the same plan, in the same order.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use causeway_api::{SuppliedRoute, SuppliedTarget};
use causeway_ir::{self as ir, Period};

use super::resolve::{Resolved, Wanted, behind, resolve};
use super::routes::{Claim, Claims};
use super::valid::{Listener, Valid};
use crate::endpoints::Protocol;
use crate::naming::name;
use crate::services::{ServiceRef, Services};

/// What routes leave open: as for a backend that says nothing.
const CONNECT: Period = Period::from_secs(30);
const IDLE: Period = Period::from_secs(3600);

/// An address that the proxy listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind {
    /// The address.
    pub address: IpAddr,
    /// Whose it is.
    pub network: Network,
}

/// Which of a proxy's networks an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The isolated network, where the address is the spec's.
    Isolated,
    /// The pod network.
    Pod,
}

/// What a `ProxyServer` means at this moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// What to run.
    pub plan: ir::Plan,
    /// Each backend, in the order of the spec.
    pub backends: Vec<BackendState>,
    /// Each route that has something to serve.
    pub routes: Vec<RouteState>,
}

/// What is to be said of one route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteState {
    /// NAMESPACE/NAME.
    pub name: String,
    /// Endpoints that take new connections.
    pub ready_endpoints: usize,
    /// What is wrong or remarkable, if anything.
    pub message: Option<String>,
}

/// What is to be said of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendState {
    /// The backend's name.
    pub name: String,
    /// Endpoints that take new connections.
    pub ready_endpoints: usize,
    /// What is wrong or remarkable, if anything.
    pub message: Option<String>,
}

/// The name of a backend's cluster in the plan, and so in metrics.
pub fn cluster_name(proxy: &str, backend: &str) -> String {
    format!("{proxy}-{backend}")
}

/// The plan of a replica that listens on these addresses, with these routes and the endpoints of these Services.
pub fn translate(proxy: &Valid, routes: &[SuppliedRoute], bind: &[Bind], services: &Services) -> Translation {
    let mut clusters = Vec::with_capacity(proxy.backends.len());
    let mut backends = Vec::with_capacity(proxy.backends.len());
    for backend in &proxy.backends {
        let found = resolve(proxy, backend, services);
        let ready_endpoints = found.endpoints.iter().filter(|e| e.ready).count();
        clusters.push(ir::Cluster { endpoints: found.endpoints, ..backend.cluster.clone() });
        backends.push(BackendState { name: backend.name.clone(), ready_endpoints, message: found.message });
    }
    let claims = Claims::of(proxy, routes);
    let behind = Behind::of(&claims, routes, services);
    let served: Vec<(&Listener, ir::Protocol)> = proxy
        .listeners
        .iter()
        .filter_map(|listener| Some((listener, with_routes(listener, claims.at(listener.port))?)))
        .collect();
    let mut listeners = Vec::new();
    for (i, at) in bind.iter().enumerate() {
        // On one machine both networks may have one address.
        if bind.iter().take(i).all(|before| before.address != at.address) {
            listeners.extend(served.iter().map(|(listener, protocol)| listen(listener, protocol, *at)));
        }
    }
    clusters.extend(behind.clusters.into_values());
    let plan = ir::Plan {
        listeners,
        clusters,
        limits: proxy.limits.clone(),
        drain_timeout: proxy.drain_timeout,
        ..ir::Plan::default()
    };
    Translation { plan, backends, routes: behind.states }
}

/// What is behind the routes of a proxy.
struct Behind {
    /// By name: routes that lead to the same port of a Service share a cluster.
    clusters: BTreeMap<ir::Name, ir::Cluster>,
    states: Vec<RouteState>,
}

impl Behind {
    fn of(claims: &Claims<'_>, routes: &[SuppliedRoute], services: &Services) -> Self {
        let mut behind = Self { clusters: BTreeMap::new(), states: Vec::new() };
        let holders = claims.holders();
        for (_, route) in routes.iter().enumerate().filter(|(index, _)| holders.contains(index)) {
            let mut ready_endpoints = 0;
            let mut message = None;
            for target in &route.targets {
                let found = behind.add(target, services);
                if target.weight > 0 {
                    ready_endpoints += found.0;
                }
                message = message.or(found.1);
            }
            let name = format!("{}/{}", route.namespace, route.name);
            behind.states.push(RouteState { name, ready_endpoints, message });
        }
        behind
    }

    /// Sees to the cluster of a target; says how many endpoints are ready, and what is wrong.
    fn add(&mut self, target: &SuppliedTarget, services: &Services) -> (usize, Option<String>) {
        let Some(name) = target_name(target) else { return (0, None) };
        let service = ServiceRef { namespace: target.namespace.clone(), name: target.service.clone() };
        let found = if target.refused {
            let message = format!("the reference to {service} may not be used: the route's status says why");
            Resolved { endpoints: Vec::new(), message: Some(message) }
        } else {
            behind(&Wanted { service: &service, port: target.port, protocol: Protocol::Tcp }, services)
        };
        let ready = found.endpoints.iter().filter(|endpoint| endpoint.ready).count();
        self.clusters.entry(name.clone()).or_insert_with(|| ir::Cluster {
            connect_timeout: CONNECT,
            idle_timeout: IDLE,
            ..ir::Cluster::new(name, found.endpoints)
        });
        (ready, found.message)
    }
}

/// What becomes of a route's connections.
fn action(route: &SuppliedRoute, refusal: ir::Refusal) -> ir::Action {
    let target = |target: &SuppliedTarget| {
        Some(ir::Target { cluster: target_name(target)?, weight: target.weight, priority: 0 })
    };
    ir::Targets::new(route.targets.iter().filter_map(target).collect())
        .map_or(ir::Action::Refuse(refusal), ir::Action::Forward)
}

/// The cluster of a target. A refused one has none of those that may be used.
fn target_name(target: &SuppliedTarget) -> Option<ir::Name> {
    let SuppliedTarget { namespace, service, port, refused, .. } = target;
    let refused = if *refused { " (refused)" } else { "" };
    ir::Name::parse(&format!("{namespace}/{service}:{port}{refused}")).ok()
}

/// What a port does, with the routes that it has; none if it has nothing to do yet.
fn with_routes(listener: &Listener, claims: &[Claim<'_>]) -> Option<ir::Protocol> {
    match &listener.protocol {
        Some(ir::Protocol::Tls(tls)) => {
            let mut tls = tls.clone();
            tls.routes.extend(claims.iter().map(|claim| ir::TlsRoute {
                name: route_name(claim.route),
                server_names: claim.server_names.clone(),
                connection_limit: None,
                action: action(claim.route, ir::Refusal::Alert),
            }));
            (!tls.routes.is_empty()).then_some(ir::Protocol::Tls(tls))
        }
        Some(protocol) => Some(protocol.clone()),
        None => {
            let route = claims.first()?.route;
            Some(ir::Protocol::Tcp(ir::ConnectionRoute {
                name: route_name(route),
                connection_limit: None,
                action: action(route, ir::Refusal::Close),
            }))
        }
    }
}

/// A route's name in the plan, and so in logs and metrics.
fn route_name(route: &SuppliedRoute) -> ir::Name {
    name(&format!("{}/{}", route.namespace, route.name))
}

fn listen(listener: &Listener, protocol: &ir::Protocol, bind: Bind) -> ir::Listener {
    let name = match bind.network {
        Network::Isolated => &listener.name,
        Network::Pod => &listener.pod_name,
    };
    ir::Listener {
        name: name.clone(),
        bind: SocketAddr::new(bind.address, listener.port),
        allowed_sources: Vec::new(),
        port: None,
        accept_proxy_protocol: listener.accept_proxy_protocol.clone(),
        protocol: protocol.clone(),
    }
}

#[cfg(test)]
mod tests;
