//! Whether a route may attach to a proxy, on which ports, and which of its references may be used. What a route may not do
//! is said in the words of the Gateway API, for its status.

use std::borrow::Cow;
use std::collections::BTreeMap;

use causeway_api::{ProxyServer, RouteKind, RouteNamespaces, RoutesFrom, SuppliedRoute, SuppliedTarget};
use k8s_openapi::api::core::v1::Service;
use kube::core::{Selector, SelectorExt as _};

use super::route::Route;
use crate::endpoints::Protocol;
use crate::grants::{Grants, Users};
use crate::proxy::valid::Valid;
use crate::references::{BackendRef, ParentRef, Verdict, check_backend};

/// What has to be known besides the proxy and its routes.
pub struct World<'a> {
    /// What namespaces grant; none where nobody asks.
    pub grants: Option<&'a Grants>,
    /// The labels of each namespace.
    pub namespaces: &'a BTreeMap<String, BTreeMap<String, String>>,
    /// The Service of this namespace and name.
    pub service: &'a dyn Fn(&str, &str) -> Option<Service>,
}

/// What became of one route at one proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Attached {
    /// For the proxies; none if it is attached nowhere.
    pub route: Option<SuppliedRoute>,
    /// What is to be said at each reference to the proxy.
    pub parents: Vec<Parent>,
}

/// What is to be said of a route at one of its parents.
#[derive(Debug, Clone, PartialEq)]
pub struct Parent {
    /// The reference.
    pub reference: ParentRef,
    /// The ports that it attached to.
    pub ports: Vec<u16>,
    /// `Accepted`.
    pub accepted: Verdict,
    /// `ResolvedRefs`.
    pub resolved: Verdict,
}

/// Attaches a route to a proxy that at least one of its references names.
pub fn attach(proxy: &ProxyServer, valid: &Valid, route: &Route, world: &World<'_>) -> Attached {
    let (targets, resolved) = targets(route, world);
    let name = proxy.metadata.name.as_deref().unwrap_or_default();
    let parents: Vec<Parent> = route
        .parents_of(&valid.namespace, name)
        .map(|reference| {
            let found = accept(proxy, valid, route, reference, world);
            let (ports, accepted) = match found {
                Ok(ports) => {
                    let each: Vec<_> = ports.iter().map(u16::to_string).collect();
                    let message = format!("attached to port {}", each.join(", "));
                    (ports, Verdict::yes("Accepted", message))
                }
                Err(verdict) => (Vec::new(), verdict),
            };
            Parent { reference: reference.clone(), ports, accepted, resolved: resolved.clone() }
        })
        .collect();
    let mut ports: Vec<u16> = parents.iter().flat_map(|parent| parent.ports.iter().copied()).collect();
    ports.sort_unstable();
    ports.dedup();
    let supplied = (!ports.is_empty()).then(|| SuppliedRoute {
        kind: route.kind,
        namespace: route.namespace.clone(),
        name: route.name.clone(),
        created: route.created.clone(),
        ports,
        hostnames: route.hostnames.clone(),
        targets,
    });
    Attached { route: supplied, parents }
}

fn accept(
    proxy: &ProxyServer,
    valid: &Valid,
    route: &Route,
    parent: &ParentRef,
    world: &World<'_>,
) -> Result<Vec<u16>, Verdict> {
    let allowed = proxy.spec.allowed_routes.clone().unwrap_or_default().namespaces;
    if !is_allowed(&allowed, &valid.namespace, &route.namespace, world) {
        let message = format!(
            "ProxyServer {}/{} takes no routes of namespace {}: its spec.allowedRoutes.namespaces says which",
            valid.namespace, parent.name, route.namespace
        );
        return Err(Verdict::no("NotAllowedByListeners", message));
    }
    if route.rules.len() > 1 {
        let message = "has several rules, and nothing tells their connections apart: write one";
        return Err(Verdict::no("UnsupportedValue", message));
    }
    if route.kind == RouteKind::Tls {
        check_hostnames(route)?;
    }
    let ports = valid.route_ports(route.kind, parent.section_name.as_deref(), parent.port);
    if ports.is_empty() {
        return Err(Verdict::no("NoMatchingParent", no_port(valid, route.kind, parent)));
    }
    Ok(ports)
}

fn is_allowed(allowed: &RouteNamespaces, own: &str, there: &str, world: &World<'_>) -> bool {
    match allowed.from {
        RoutesFrom::None => false,
        RoutesFrom::Same => own == there,
        RoutesFrom::All => true,
        RoutesFrom::Selector => {
            let selector = allowed.selector.clone().and_then(|selector| Selector::try_from(selector).ok());
            let labels = world.namespaces.get(there);
            selector.zip(labels).is_some_and(|(selector, labels)| selector.matches(labels))
        }
    }
}

fn check_hostnames(route: &Route) -> Result<(), Verdict> {
    if route.hostnames.is_empty() {
        let message = "has no hostnames: name at least one that clients ask for";
        return Err(Verdict::no("UnsupportedValue", message));
    }
    for name in &route.hostnames {
        super::claims::server_name(name).map_err(|message| Verdict::no("UnsupportedValue", message))?;
    }
    Ok(())
}

fn no_port(valid: &Valid, kind: RouteKind, parent: &ParentRef) -> String {
    let there: Vec<String> = valid
        .listeners
        .iter()
        .filter(|listener| listener.takes(kind))
        .map(|listener| format!("{} ({})", listener.port, valid.section(listener.port)))
        .collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    let wanted = match (&parent.section_name, parent.port) {
        (Some(section), Some(port)) => format!("{section} with port {port}"),
        (Some(section), None) => section.clone(),
        (None, Some(port)) => port.to_string(),
        (None, None) => "without a number".to_owned(),
    };
    let cure = match kind {
        RouteKind::Tls => "name one of them, or list the port in the ProxyServer's spec.ports",
        RouteKind::Tcp => "list the port in the ProxyServer's spec.ports with protocol: TCP",
    };
    format!(
        "ProxyServer {} has no port {wanted} for a {}; it has {there}: {cure}",
        parent.name,
        kind.as_str()
    )
}

/// Where the connections go, and whether all references may be used and exist.
fn targets(route: &Route, world: &World<'_>) -> (Vec<SuppliedTarget>, Verdict) {
    let mut targets = Vec::new();
    let mut wrong: Option<Verdict> = None;
    for reference in route.rules.first().into_iter().flatten() {
        let namespace = reference.namespace.clone().unwrap_or_else(|| route.namespace.clone());
        let problem = check_reference(route, reference, &namespace, world);
        let refused = problem
            .as_ref()
            .is_some_and(|verdict| ["InvalidKind", "RefNotPermitted"].contains(&verdict.reason));
        wrong = wrong.or(problem);
        targets.push(SuppliedTarget {
            namespace,
            service: reference.name.clone(),
            port: reference.port.unwrap_or_default(),
            weight: reference.weight.unwrap_or(1),
            refused,
        });
    }
    if targets.is_empty() {
        let message = "has no backendRefs: its connections are refused";
        return (targets, Verdict::no("BackendNotFound", message));
    }
    (targets, wrong.unwrap_or_else(|| Verdict::yes("ResolvedRefs", "every backend is there and may be used")))
}

fn check_reference(
    route: &Route,
    reference: &BackendRef,
    namespace: &str,
    world: &World<'_>,
) -> Option<Verdict> {
    let users =
        Users { group: "gateway.networking.k8s.io", kind: route.kind.as_str(), namespace: &route.namespace };
    check_backend(users, reference, namespace, Protocol::Tcp, world.grants, || {
        (world.service)(namespace, &reference.name).map(Cow::Owned)
    })
}
