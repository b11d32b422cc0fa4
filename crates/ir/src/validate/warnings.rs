//! What runs, but perhaps not as its author thinks.

use std::collections::BTreeMap;

use super::Findings;
use crate::{Action, Limits, Listener, Pattern, networks};

/// Networks that are written with the address of a host in them.
pub(super) fn addresses_in_networks(found: &mut Findings, index: usize, listener: &Listener) {
    let trusted = listener.accept_proxy_protocol.iter().flat_map(|accept| accept.from.iter().enumerate());
    let trusted = trusted.map(|(n, network)| (format!("acceptProxyProtocol.from[{n}]"), network));
    let allowed = listener.allowed_sources.iter().enumerate();
    let allowed = allowed.map(|(n, network)| (format!("allowedSources[{n}]"), network));
    for (field, network) in allowed.chain(trusted) {
        if let Some(counts) = networks::truncated(*network) {
            found.add(
                format!("listeners[{index}].{field}"),
                format!(
                    "{network} is all of {counts}: write that, or {}/{} for the one address",
                    network.addr(),
                    network.max_prefix_len()
                ),
            );
        }
    }
}

/// Wildcards within wildcards that lead elsewhere.
pub(super) fn nested_wildcards(found: &mut Findings, index: usize, listener: &Listener) {
    let mut below: BTreeMap<&str, (String, &Action)> = BTreeMap::new();
    for (r, route) in listener.tls_routes().iter().enumerate() {
        for (n, name) in route.server_names.iter().enumerate() {
            if let Pattern::Below(domain) = name {
                let path = format!("listeners[{index}].protocol.tls.routes[{r}].serverNames[{n}]");
                below.insert(domain, (path, &route.action));
            }
        }
    }
    for (domain, (path, action)) in &below {
        let mut parent = *domain;
        while let Some((_, rest)) = parent.split_once('.') {
            parent = rest;
            let Some((other, other_action)) = below.get(parent) else { continue };
            if other_action != action {
                let leads_to = destination(action);
                let not = destination(other_action);
                found.add(
                    path,
                    format!(
                        "`*.{domain}` lies within `*.{parent}` of {other}: the longer one wins, so its names go to \
                         {leads_to}, not {not}"
                    ),
                );
            }
            break;
        }
    }
}

/// Rules by the client's address where every peer may say which that is.
pub(super) fn believed_headers(found: &mut Findings, index: usize, listener: &Listener, limits: &Limits) {
    let has_rules = !listener.allowed_sources.is_empty() || limits.connections_per_source.is_some();
    if has_rules && listener.accept_proxy_protocol.as_ref().is_some_and(|accept| accept.from.is_empty()) {
        found.add(
            format!("listeners[{index}].acceptProxyProtocol"),
            "whoever connects may name any client in the header, and so get around allowedSources and \
             connectionsPerSource: write the load balancer's networks as `from`",
        );
    }
}

fn destination(action: &Action) -> String {
    match action {
        Action::Forward(targets) => {
            let names: Vec<_> =
                targets.as_slice().iter().map(|target| format!("`{}`", target.cluster)).collect();
            format!("cluster {}", names.join(" and "))
        }
        Action::Terminate(_) => "where their TLS is terminated".to_owned(),
        Action::Refuse(_) => "nowhere".to_owned(),
    }
}
