//! What each condition of a `ProxyServer` says, and why.

use causeway_api::{
    BackendStatus, ReplicaStatus,
    conditions::{Reason, Status},
};
use kube::ResourceExt;

use super::{Input, Seen};
use crate::{
    framework::{apply::Error, finding::Finding},
    vlan::fleet::summary::{self, Summary},
};

/// `BackendsResolved`: every backend has a Service with endpoints that take connections. One that has none harms no other.
pub(crate) fn backends_resolved(input: &Input<'_>, seen: &Seen) -> Finding {
    // Without its rights a proxy can't see what is behind a backend.
    if let Some(failed) = failed(input, false) {
        return failed;
    }
    let all = input.proxy.spec.backends.len();
    // One refusal may be for several backends, by their names.
    let is_refused = |backend: &BackendStatus| {
        let mut named = input.refusals.iter().filter_map(|refusal| refusal.split_once(": "));
        named.any(|(names, _)| names.split(", ").any(|name| name == backend.name))
    };
    let missing = seen.told.iter().filter(|backend| backend.ready_endpoints == 0 && !is_refused(backend));
    let (routes, ready_routes) = seen.routes;
    let unready_routes = (ready_routes < routes).then(|| {
        let unready = routes - ready_routes;
        format!("{unready} of {} without a ready endpoint: their status says why", count(routes, "route"))
    });
    let each = input.refusals.iter().cloned().chain(missing.map(explain)).chain(unready_routes);
    let each: Vec<_> = each.collect();
    let reason = match input.refusals.as_slice() {
        [] => Reason::NoReadyEndpoints,
        _ => Reason::RefNotPermitted,
    };
    let unready = seen.ready.map_or(0, |ready| all.saturating_sub(ready));
    match (seen.ready, each.len()) {
        (Some(ready), 0) if ready == all => {
            let message = format!("every one of {} has ready endpoints", carried(all, routes));
            Finding::new(Status::True, Reason::Resolved, message)
        }
        (Some(ready), 0) => {
            let message = format!("{ready} of {} are reported as ready", count(all, "backend"));
            Finding::new(Status::Unknown, Reason::Progressing, message)
        }
        (None, 0) => Finding::new(Status::Unknown, Reason::Progressing, "no proxy has reported yet"),
        (_, told) => {
            // First, because a long message is cut.
            let more =
                (unready > told).then(|| format!("{unready} of {}, among them ", count(all, "backend")));
            Finding::new(Status::False, reason, format!("{}{}", more.unwrap_or_default(), each.join("; ")))
        }
    }
}

/// `NetworkAttached`: every proxy has its address on the isolated network, if it is to have one.
pub(crate) fn network_attached(input: &Input<'_>, summary: &Summary<'_, ReplicaStatus>) -> Finding {
    let network = &input.proxy.spec.network_config;
    let remedy = match network.network_attachment_name {
        Some(_) => "look at the pod's Events and at the NetworkAttachmentDefinition",
        None => {
            "name a NetworkAttachmentDefinition in spec.networkConfig.networkAttachmentName, or write an address that \
             the machine has"
        }
    };
    let missing = summary.withheld().or_else(|| summary.unattached(remedy)).or_else(|| summary.unreached());
    missing.or_else(|| summary.silent()).unwrap_or_else(|| {
        Finding::yes(
            Reason::Attached,
            match network.server_ip {
                Some(_) => "every proxy has its address on the isolated network",
                None => "the pod network is all that is asked for",
            },
        )
    })
}

/// `Ready`: traffic would pass.
pub(crate) fn ready(input: &Input<'_>, summary: &Summary<'_, ReplicaStatus>, seen: &Seen) -> Finding {
    let wrong = summary.invalid().or_else(|| failed(input, true)).or_else(|| summary.refused());
    if let Some(wrong) = wrong.or_else(|| summary.withheld()) {
        return wrong;
    }
    let attached_routes =
        input.proxy.status.as_ref().and_then(|status| Some(status.supply.as_ref()?.routes)).unwrap_or(0);
    if input.proxy.spec.backends.is_empty() && attached_routes == 0 {
        let message = "there is nothing to forward to: list backends, or attach a TLSRoute or TCPRoute";
        return Finding::new(Status::False, Reason::NoReadyEndpoints, message);
    }
    if let Some(waits) = summary.waits_for() {
        return waits;
    }
    let attached = network_attached(input, summary);
    if attached.status == Status::False {
        return attached;
    }
    let ready = seen.ready.unwrap_or(0);
    let (routes, ready_routes) = seen.routes;
    if ready == 0 && ready_routes == 0 {
        return Finding { status: Status::False, ..backends_resolved(input, seen) };
    }
    let (total, proxies) = (input.proxy.spec.backends.len(), summary.replicas.len());
    let message = if ready == total && ready_routes == routes {
        format!("{} serving {}", count(proxies, "proxy"), carried(total, routes))
    } else {
        let of = ready + ready_routes;
        format!("{} serving {of} of {}", count(proxies, "proxy"), carried(total, routes))
    };
    let each: Vec<_> = std::iter::once(message).chain(summary.remarks()).collect();
    Finding::new(Status::True, Reason::Ready, each.join("; "))
}

/// The objects in the proxy's own namespace, or in others, that could not be made or removed.
fn failed(input: &Input<'_>, own_namespace: bool) -> Option<Finding> {
    let prefix = format!("{}/", input.proxy.namespace().unwrap_or_default());
    let is_there = |error: &&Error| error.object().starts_with(&prefix) == own_namespace;
    summary::failed(input.failures.iter().copied().filter(is_there))
}

fn explain(backend: &BackendStatus) -> String {
    match &backend.message {
        Some(message) => format!("{}: {message}", backend.name),
        None => format!("{}: has no ready endpoint", backend.name),
    }
}

/// What is carried, in words.
fn carried(backends: usize, routes: usize) -> String {
    match (backends, routes) {
        (backends, 0) => count(backends, "backend"),
        (0, routes) => count(routes, "route"),
        (backends, routes) => format!("{} and {}", count(backends, "backend"), count(routes, "route")),
    }
}

fn count(number: usize, noun: &str) -> String {
    match (number, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "proxy") => format!("{number} proxies"),
        _ => format!("{number} {noun}s"),
    }
}
