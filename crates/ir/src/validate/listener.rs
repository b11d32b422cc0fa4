//! Routes that lead nowhere, or that their listener can't tell apart or carry out.

use std::collections::HashMap;

use super::{Findings, Named, http};
use crate::{Action, ConnectionRoute, Listener, Pattern, Protocol, Refusal, Then, Tls, Transport};

/// Checks one listener.
pub(super) fn check(found: &mut Findings, path: &str, listener: &Listener, named: &Named<'_>) {
    match &listener.protocol {
        Protocol::Tcp(route) => check_plain(found, &format!("{path}.protocol.tcp"), route, named),
        Protocol::Udp(route) => {
            if listener.accept_proxy_protocol.is_some() {
                found.add(format!("{path}.acceptProxyProtocol"), "is for TCP only");
            }
            let path = format!("{path}.protocol.udp");
            check_plain(found, &path, route, named);
            check_datagrams(found, &path, route, named);
        }
        Protocol::Tls(tls) => check_tls(found, &format!("{path}.protocol.tls"), tls, named),
        Protocol::Http(http) => {
            let path = format!("{path}.protocol.http");
            http::check(found, &path, http, named);
            if let Some(otherwise) = &http.otherwise {
                check_plain(found, &format!("{path}.otherwise"), otherwise, named);
            }
        }
    }
}

fn check_targets(found: &mut Findings, path: &dyn Fn() -> String, action: &Action, named: &Named<'_>) {
    for target in action.targets() {
        if named.cluster(&target.cluster).is_none() {
            found.unknown_cluster(format!("{}.forward", path()), &target.cluster);
        }
    }
}

/// A port that is not looked into.
fn check_plain(found: &mut Findings, path: &str, route: &ConnectionRoute, named: &Named<'_>) {
    let at = || format!("{path}.action");
    match &route.action {
        Action::Forward(_) => check_targets(found, &at, &route.action, named),
        Action::Terminate(_) => {
            found.add(at(), "only `protocol: tls` can terminate TLS: it looks at the ClientHello first");
        }
        Action::Refuse(Refusal::Alert) => {
            found.add(at(), "only a TLS client understands an alert: write `refuse: close`");
        }
        Action::Refuse(Refusal::Close) => {}
    }
}

/// A datagram has no room for the PROXY header, and does not go, from here, through a link.
fn check_datagrams(found: &mut Findings, path: &str, route: &ConnectionRoute, named: &Named<'_>) {
    for target in route.action.targets() {
        let Some(cluster) = named.cluster(&target.cluster) else { continue };
        if let Some(what) = unfit_for_datagrams(cluster) {
            found.add(
                format!("{path}.action.forward"),
                format!("`{}` has {what}, which is for TCP only: give UDP its own cluster", cluster.name),
            );
        }
    }
}

/// What of a cluster datagrams can't use.
pub(super) fn unfit_for_datagrams(cluster: &crate::Cluster) -> Option<&'static str> {
    if cluster.send_proxy_protocol.is_some() {
        return Some("sendProxyProtocol");
    }
    if matches!(cluster.transport, Transport::Link(_)) {
        return Some("a link");
    }
    cluster.endpoints.iter().any(|endpoint| endpoint.address.socket().is_none()).then_some("a Unix socket")
}

fn check_tls(found: &mut Findings, path: &str, tls: &Tls, named: &Named<'_>) {
    let count = tls.routes.len();
    let mut route_names = HashMap::with_capacity(count);
    let mut server_names: HashMap<&Pattern, (usize, usize)> = HashMap::with_capacity(count);
    let name_path = |(r, n): (usize, usize)| format!("{path}.routes[{r}].serverNames[{n}]");
    for (r, route) in tls.routes.iter().enumerate() {
        found.unique(&mut route_names, &route.name, r, |r| format!("{path}.routes[{r}].name"));
        check_action(found, &|| format!("{path}.routes[{r}].action"), &route.action, named);
        if route.server_names.is_empty() {
            found.add(
                format!("{path}.routes[{r}].serverNames"),
                "a route needs a name: for the rest use unknownServerName, noServerName and plaintext",
            );
        }
        for (n, name) in route.server_names.iter().enumerate() {
            if let Some(first) = server_names.get(name) {
                let first = name_path(*first);
                found.add(name_path((r, n)), format!("`{name}` is already at {first}"));
            } else {
                server_names.insert(name, (r, n));
            }
        }
    }
    for (field, action) in
        [("noServerName", &tls.no_server_name), ("unknownServerName", &tls.unknown_server_name)]
    {
        check_action(found, &|| format!("{path}.{field}"), action, named);
    }
    match &tls.plaintext {
        Action::Terminate(_) => {
            found.add(format!("{path}.plaintext"), "there is no TLS to terminate: forward or refuse it");
        }
        action => check_targets(found, &|| format!("{path}.plaintext"), action, named),
    }
}

/// What is done with a TLS connection.
fn check_action(found: &mut Findings, path: &dyn Fn() -> String, action: &Action, named: &Named<'_>) {
    let Action::Terminate(terminate) = action else { return check_targets(found, path, action, named) };
    if terminate.certificates.is_empty() {
        found.add(format!("{}.terminate.certificates", path()), "name at least one certificate");
    }
    let inside = format!("{}.terminate.then", path());
    match &terminate.then {
        Then::Tcp(route) => check_plain(found, &format!("{inside}.tcp"), route, named),
        Then::Http(http) => http::check(found, &format!("{inside}.http"), http, named),
    }
}
