//! What Envoy does not do as our engine does, in words for the user. What it can't run at all is in `problems`.

use causeway_ir::{Action, Listener, Plan, Policy, Protocol};

use super::filter_chains::shares;
use super::{Clusters, clusters, listener};

/// The differences that this plan would meet; empty when Envoy does all of it alike.
pub fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(limit) = plan.limits.connections {
        notes.push(format!(
            "limits.connections ({limit}) comes from Envoy's bootstrap: print it with `--print-bootstrap --config`, and \
             start Envoy anew when the limit changes"
        ));
    }
    let streams = plan.listeners.iter().filter(|listener| !listener.protocol.is_udp()).count();
    let rate = plan.limits.new_connections_per_second.is_some();
    if rate && streams > 1 {
        notes.push(format!(
            "limits.newConnectionsPerSecond counts for each of the {streams} TCP listeners by itself in Envoy"
        ));
    }
    let by_name = clusters(plan);
    for listener in &plan.listeners {
        match &listener.protocol {
            Protocol::Udp(route) => {
                let name = &listener.name;
                if rate {
                    notes.push(format!(
                        "limits.newConnectionsPerSecond does not count for the UDP listener {name}"
                    ));
                }
                if route.connection_limit.is_some() {
                    notes.push(format!(
                        "connectionLimit of route {name}/{} is not carried over: Envoy limits UDP sessions by cluster \
                         only",
                        route.name
                    ));
                }
            }
            Protocol::Tcp(_) | Protocol::Tls(_) | Protocol::Http(_) => {
                notes.extend(keepalive(listener, &by_name));
                notes.extend(shared(listener, &by_name));
            }
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

fn keepalive(listener: &Listener, clusters: &Clusters<'_>) -> Option<String> {
    let towards_clients = listener::client_keepalive(listener, clusters)?;
    let mut targets = listener::targets(listener).filter_map(|name| clusters.get(name));
    let other = targets.find(|cluster| cluster.keepalive != *towards_clients)?;
    Some(format!(
        "keepalive of cluster {} counts towards its endpoints only: towards clients, listener {} has that of its first \
         cluster",
        other.name, listener.name
    ))
}

/// Routes that share their connections among clusters that differ in what Envoy has once for all of them.
fn shared(listener: &Listener, clusters: &Clusters<'_>) -> Vec<String> {
    let actions = listener.actions().filter_map(|(route, action)| {
        let Action::Forward(targets) = action else { return None };
        let mut shares = shares(targets, clusters);
        let (first, _) = shares.next()?;
        let (other, _) = shares.find(|(cluster, _)| {
            (cluster.idle_timeout, cluster.retries) != (first.idle_timeout, first.retries)
        })?;
        Some(format!(
            "idleTimeout and retries of cluster {} do not count on route {}/{route}: Envoy takes those of its first \
             cluster, {}",
            other.name, listener.name, first.name
        ))
    });
    actions.collect()
}
