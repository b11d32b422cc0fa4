//! What Envoy can't do as our engine does, in words for the user.

use causeway_ir::{Plan, Policy, Protocol};

use super::{clusters, listener};

/// The differences that this plan would meet; empty when Envoy does all of it alike.
pub fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(limit) = plan.limits.connections {
        notes.push(format!(
            "limits.connections ({limit}) comes from Envoy's bootstrap: print it with `--print-bootstrap --config`, and \
             start Envoy anew when the limit changes"
        ));
    }
    let streams = plan.listeners.iter().filter(|l| l.protocol == Protocol::Tcp).count();
    if plan.limits.new_connections_per_second.is_some() && streams > 1 {
        notes.push(format!(
            "limits.newConnectionsPerSecond counts for each of the {streams} TCP listeners by itself in Envoy"
        ));
    }
    let by_name = clusters(plan);
    for listener in &plan.listeners {
        if listener.protocol == Protocol::Udp {
            if plan.limits.new_connections_per_second.is_some() {
                let name = &listener.name;
                notes.push(format!(
                    "limits.newConnectionsPerSecond does not count for the UDP listener {name}"
                ));
            }
            for route in listener.routes.iter().filter(|route| route.connection_limit.is_some()) {
                notes.push(format!(
                    "connectionLimit of route {}/{} is not carried over: Envoy limits UDP sessions by cluster only",
                    listener.name, route.name
                ));
            }
            continue;
        }
        let towards_clients = listener::client_keepalive(listener, &by_name);
        let other = listener::targets(listener)
            .filter_map(|name| by_name.get(name))
            .find(|cluster| towards_clients.is_some_and(|first| cluster.keepalive != *first));
        if let Some(cluster) = other {
            notes.push(format!(
                "keepalive of cluster {} counts towards its endpoints only: towards clients, listener {} has that of \
                 its first cluster",
                cluster.name, listener.name
            ));
        }
    }
    for cluster in plan.clusters.iter().filter(|c| c.policy == Policy::SourceHash && c.retries > 0) {
        if cluster.endpoints.len() > 1 {
            notes.push(format!(
                "cluster {}: with sourceHash Envoy retries on the same endpoint until it is ejected",
                cluster.name
            ));
        }
    }
    notes
}
