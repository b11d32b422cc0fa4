//! A ProxyServer: its spec, the pods that should run it, what they report, its network, its backends, and last real
//! connections through it. What can't work for a cause that was found is not tried.

mod access;
mod attachment;
mod probe;
mod probes;
mod workload;

use causeway_api::{ProxyServer, ProxyServerStatus, ReplicaStatus};
use causeway_translate::proxy::{BackendState, RouteState, Translation, validate};

use super::Examination;
use super::conditions::conditions;
use super::finding::{Finding, listed};
use super::vantage::Vantage;
use crate::parts::proxy_server::{NOT_KNOWN, services, translation};
pub(super) use attachment::Place;
use workload::Workload;
pub(super) use workload::waiting;

/// Looks at a ProxyServer, with connections from inside its own pod where that is possible.
pub(super) async fn examine(examination: &Examination<'_>, name: &str) -> anyhow::Result<Vec<Finding>> {
    examine_from(examination, name, None).await
}

/// The same, with connections from another place on its network.
pub(super) async fn examine_from(
    examination: &Examination<'_>,
    name: &str,
    vantage: Option<Vantage>,
) -> anyhow::Result<Vec<Finding>> {
    let client = &examination.client;
    let Some(proxy) = examination.object.find::<ProxyServer>(client, name).await? else {
        return Ok(vec![examination.missing::<ProxyServer>(name)]);
    };
    let status = proxy.status.clone().unwrap_or_default();
    let mut found = spec(&proxy);
    let workload = Workload::read(client, &proxy).await;
    let place = Place::of(client).await;
    let runs = workload.runs(&status.replicas);
    // What a proxy says is in its way is why its pod is not ready.
    found.extend(workload.findings(runs && status.replicas.iter().any(|replica| replica.trouble.is_some())));
    if runs {
        found.extend(replicas(&proxy, &status.replicas, place));
        found.extend(attachment::attachment(client, &proxy, &workload.pods, place).await);
    }
    let (services, unread) = services(client, &proxy).await;
    found.extend(unread.into_iter().map(|text| {
        Finding::bad(
            text,
            "you may not read them; ask for list on services, endpointslices and referencegrants",
        )
    }));
    // What is wrong with a spec that has no plan is said above.
    let translation = translation(&proxy, &services).ok();
    found.extend(translation.iter().flat_map(|translation| backends(&translation.backends)));
    found.extend(translation.iter().flat_map(|translation| routes(&translation.routes)));
    found.extend(access::access(client, &proxy, &workload, &services).await);
    match translation.filter(|_| examination.probes) {
        _ if !runs => found.push(Finding::skipped(
            "what the proxies report, their network and connections through them were not looked at: no proxy runs",
        )),
        Some(translation) => {
            let vantage = vantage.or_else(|| Vantage::of(&workload.pods));
            found.extend(connections(&proxy, &status, &translation, place, vantage).await);
        }
        None => {}
    }
    let generation = proxy.metadata.generation;
    found.extend(conditions(&status.conditions, status.observed_generation, generation, &found));
    Ok(found)
}

/// Real connections, from the isolated network if it can be got at.
async fn connections(
    proxy: &ProxyServer,
    status: &ProxyServerStatus,
    translation: &Translation,
    place: Place,
    vantage: Option<Vantage>,
) -> Vec<Finding> {
    let Some(vantage) = vantage else {
        return probes::probes(proxy, status, translation, (place, false)).await;
    };
    match vantage.work(|| probes::probes(proxy, status, translation, (place, true))) {
        Ok(found) => found,
        Err(error) => {
            vec![Finding::unchecked(format!("no connection was tried from pod {}: {error}", vantage.pod))]
        }
    }
}

fn spec(proxy: &ProxyServer) -> Vec<Finding> {
    match validate(proxy) {
        Ok(valid) => match valid.backends.len() {
            1 => vec![Finding::good("the spec is valid, with 1 backend")],
            count => vec![Finding::good(format!("the spec is valid, with {count} backends"))],
        },
        Err(problems) => {
            let bad = |p: &causeway_ir::Problem| {
                Finding::bad(format!("the spec is not valid: {}", p.path), p.message.clone())
            };
            problems.iter().map(bad).collect()
        }
    }
}

/// What the proxies say of themselves.
fn replicas(proxy: &ProxyServer, replicas: &[ReplicaStatus], place: Place) -> Vec<Finding> {
    let mut found = Vec::new();
    let wanted = usize::try_from(proxy.spec.replicas).unwrap_or_default();
    let reporting = replicas.len();
    if reporting < wanted {
        found.push(Finding::bad(
            format!("{reporting} of {wanted} proxies report"),
            "look at the pods' logs; a proxy reports as soon as it reached the API server",
        ));
    }
    for replica in replicas {
        let name = &replica.name;
        if replica.observed_generation != proxy.metadata.generation {
            found.push(Finding::bad(
                format!("proxy {name} has not read the newest spec"),
                "it can't reach the API server or may not watch ProxyServers: look at its log",
            ));
        }
        if let Some(refused) = &replica.refused {
            found.push(Finding::bad(
                format!("proxy {name} stays with an earlier configuration"),
                refused.clone(),
            ));
        }
        if let Some(trouble) = &replica.trouble {
            found.push(Finding::bad(format!("proxy {name} is in trouble"), trouble.clone()));
        }
        if replica.attached == Some(false) {
            found.push(Finding::bad(
                format!("proxy {name} has no address on the isolated network"),
                place.cure_of_lacking_address(proxy),
            ));
        }
        if replica.serving {
            found.push(Finding::good(format!("proxy {name} serves on {}", replica.listening.join(", "))));
        }
    }
    found
}

/// A line for each that can't be served, and one for all others.
fn backends(states: &[BackendState]) -> Vec<Finding> {
    let (mut found, mut well) = (Vec::new(), Vec::new());
    for state in states {
        match (&state.message, state.ready_endpoints) {
            (None, ready) => well.push(format!("{} ({ready})", state.name)),
            (Some(message), _) if message.starts_with(NOT_KNOWN) => {
                found.push(Finding::skipped(format!("backend {}: {message}", state.name)));
            }
            (Some(message), 0) => {
                found.push(Finding::bad(format!("backend {} can't be served", state.name), message.clone()));
            }
            (Some(message), _) => found.push(Finding::good(format!("backend {}: {message}", state.name))),
        }
    }
    if !well.is_empty() {
        found.push(Finding::good(format!("backends with ready endpoints: {}", listed(&well))));
    }
    found
}

/// TLSRoutes and TCPRoutes, which may be thousands: those that can't be served, as far as they fit, and a number.
fn routes(states: &[RouteState]) -> Vec<Finding> {
    const MOST: usize = 8;
    let unready: Vec<_> = states.iter().filter(|state| state.ready_endpoints == 0).collect();
    let bad = |state: &&RouteState| {
        let message = state.message.clone().unwrap_or_else(|| "none of its endpoints is ready".to_owned());
        Finding::bad(format!("route {} can't be served", state.name), message)
    };
    let mut found: Vec<_> = unready.iter().take(MOST).map(bad).collect();
    if unready.len() > MOST {
        let more = format!("{} more routes can't be served", unready.len() - MOST);
        found.push(Finding::bad(more, "each one's status says why"));
    }
    if states.len() > unready.len() {
        found.push(Finding::good(format!("routes with ready endpoints: {}", states.len() - unready.len())));
    }
    found
}

#[cfg(test)]
mod tests {
    use causeway_api::ProxyServerSpec;

    use super::*;

    #[test]
    fn a_replica_behind_refusing_or_detached_is_told() {
        let mut proxy = ProxyServer::new("edge", ProxyServerSpec::default());
        proxy.metadata.generation = Some(2);
        let replica = ReplicaStatus {
            name: "p".into(),
            observed_generation: Some(1),
            refused: Some("spec.backends[0].port: taken".into()),
            attached: Some(false),
            ..ReplicaStatus::default()
        };
        let found = replicas(&proxy, &[replica], Place::Cluster);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(Finding::is_bad), "{found:?}");
        let none = replicas(&proxy, &[], Place::Cluster);
        assert!(format!("{none:?}").contains("0 of 1 proxies report"), "{none:?}");
    }
}
