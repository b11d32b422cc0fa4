//! Whether a route may attach to a listener: by name and port, by kind, by namespace and by host, in the words of the
//! specification.

use causeway_ir::Pattern;

use super::hosts;
use super::kinds::{ParentRef, RouteKind};
use super::listeners::{Bound, namespace_is_chosen};
use super::own::Own;
use super::routes::Route;
use super::world::World;
use crate::references::Verdict;

/// A listener that takes a route, by its place, and those of the route's hosts that it has; none for every host.
pub(super) type Taken = (usize, Vec<Pattern>);

/// The listeners that take a route by one of its references, or why none does.
pub(super) fn attach(
    route: &Route<'_>,
    own: &Own<'_>,
    set: Option<usize>,
    reference: &ParentRef,
    world: &World,
) -> Result<Vec<Taken>, Verdict> {
    let mut taken = Vec::new();
    let mut refused: Option<Verdict> = None;
    for (place, listener) in own.listeners.iter().enumerate().filter(|(_, listener)| listener.set == set) {
        let is_meant = reference.section_name.as_deref().is_none_or(|name| name == listener.spec.name)
            && reference.port.is_none_or(|port| port == listener.spec.port);
        if !is_meant {
            continue;
        }
        match takes(route, listener, world) {
            Ok(hosts) => taken.push((place, hosts)),
            Err(why) if refused.as_ref().is_none_or(|before| rank(&why) > rank(before)) => {
                refused = Some(why);
            }
            Err(_) => {}
        }
    }
    if taken.is_empty() {
        return Err(refused.unwrap_or_else(|| no_such_listener(own, set, reference)));
    }
    Ok(taken)
}

/// How near a route was to being taken: its author is told of the nearest miss.
fn rank(verdict: &Verdict) -> u8 {
    match verdict.reason {
        "NoMatchingListenerHostname" => 2,
        "NotAllowedByListeners" => 1,
        _ => 0,
    }
}

fn no_such_listener(own: &Own<'_>, set: Option<usize>, reference: &ParentRef) -> Verdict {
    let of_parent = own.listeners.iter().filter(|listener| listener.set == set);
    let there: Vec<String> =
        of_parent.map(|listener| format!("{} ({})", listener.spec.name, listener.spec.port)).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    let kind = if set.is_some() { "ListenerSet" } else { "Gateway" };
    let asked = match (&reference.section_name, reference.port) {
        (Some(name), Some(port)) => format!("{name} with port {port}"),
        (Some(name), None) => name.clone(),
        (None, Some(port)) => format!("with port {port}"),
        (None, None) => "that is accepted".to_owned(),
    };
    let message = format!("{kind} {} has no listener {asked}; it has {there}", reference.name);
    Verdict::no("NoMatchingParent", message)
}

fn takes(route: &Route<'_>, listener: &Bound<'_>, world: &World) -> Result<Vec<Pattern>, Verdict> {
    let name = &listener.spec.name;
    if !listener.accepted.holds {
        return Err(Verdict::no("NoMatchingParent", format!("listener {name} is not accepted itself")));
    }
    if !listener.kinds.contains(&route.kind) {
        let kinds: Vec<_> = listener.kinds.iter().map(|kind| kind.as_str()).collect();
        let kinds = if kinds.is_empty() { "no routes".to_owned() } else { kinds.join(", ") };
        let message = format!("listener {name} takes {kinds}, and this is a {}", route.kind);
        return Err(Verdict::no("NotAllowedByListeners", message));
    }
    let chosen = listener
        .spec
        .allowed_routes
        .as_ref()
        .and_then(|allowed| allowed.namespaces.clone())
        .unwrap_or_default();
    let there = &route.meta.at.namespace;
    if !namespace_is_chosen(&chosen, "Same", listener.namespace, there, world) {
        let message = format!(
            "listener {name} takes no routes of namespace {there}: its allowedRoutes.namespaces says which"
        );
        return Err(Verdict::no("NotAllowedByListeners", message));
    }
    let holds = |host: &Pattern| world.holdings.permit(there, host);
    let not_held = |host: &Pattern| {
        let message = format!(
            "namespace {there} does not hold {host}: ask for it with a GatewayHostnameRequest, and wait until that is claimed"
        );
        Verdict::no("NotAllowedByListeners", message)
    };
    if route.any_host || matches!(route.kind, RouteKind::Tcp | RouteKind::Udp) {
        return match &listener.host {
            Some(host) if !holds(host) => Err(not_held(host)),
            _ => Ok(Vec::new()),
        };
    }
    let fits = |host: &&Pattern| hosts::intersect(listener.host.as_ref(), Some(host)).is_ok();
    let fitting: Vec<&Pattern> = route.hosts.iter().filter(fits).collect();
    // What both have is what would be served.
    let both = |host: &Pattern| hosts::intersect(listener.host.as_ref(), Some(host)).ok().flatten();
    let is_held = |host: &Pattern| both(host).is_none_or(|host| holds(&host));
    let hosts: Vec<Pattern> =
        fitting.iter().filter(|host| is_held(host)).map(|host| (*host).clone()).collect();
    if let Some(host) = fitting.first().filter(|_| hosts.is_empty()) {
        return Err(not_held(host));
    }
    if hosts.is_empty() {
        let host = listener.host.as_ref().map_or_else(|| "every host".to_owned(), ToString::to_string);
        let message = format!("none of the route's hostnames is one of listener {name}, which is for {host}");
        return Err(Verdict::no("NoMatchingListenerHostname", message));
    }
    Ok(hosts)
}
