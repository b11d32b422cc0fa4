//! How connections are shared among endpoints.

use std::collections::HashMap;
use std::net::SocketAddr;

use causeway_ir::{AcceptProxyProtocol, Action, Limit, Plan, Policy, Target, Targets};
use tokio::io::AsyncWriteExt;

use crate::backend::Backend;
use crate::client;
use crate::plans::{cluster, name, one, set_action};
use crate::proxy::{Engine, Proxy};

on_both!(
    connections_go_round_the_endpoints,
    weights_give_shares,
    a_route_shares_its_connections_among_clusters,
    fewer_connections_attract_new_ones,
    a_client_stays_with_its_endpoint_by_source_hash,
    many_clients_spread_by_source_hash,
);

async fn backends() -> [Backend; 3] {
    [Backend::echo("a").await, Backend::echo("b").await, Backend::echo("c").await]
}

fn plan_of(backends: &[Backend], policy: Policy) -> Plan {
    let addresses: Vec<SocketAddr> = backends.iter().map(|backend| backend.address).collect();
    let mut plan = one(&addresses);
    plan.clusters[0].policy = policy;
    plan
}

/// The name of the backend that a new connection reaches.
async fn reached(proxy: &Proxy) -> String {
    String::from_utf8(proxy.ask("in", b"").await).unwrap()
}

async fn counts(proxy: &Proxy, connections: usize) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for _ in 0..connections {
        *counts.entry(reached(proxy).await).or_default() += 1;
    }
    counts
}

async fn connections_go_round_the_endpoints(engine: Engine) {
    let backends = backends().await;
    let proxy = Proxy::start(engine, plan_of(&backends, Policy::RoundRobin)).await;
    let counts = counts(&proxy, 30).await;
    for name in ["a", "b", "c"] {
        let share = counts.get(name).copied().unwrap_or_default();
        // Each of Envoy's threads goes round by itself.
        assert!((8..=12).contains(&share), "{counts:?}");
    }
}

async fn weights_give_shares(engine: Engine) {
    let backends = backends().await;
    let mut plan = plan_of(&backends, Policy::RoundRobin);
    for (endpoint, weight) in plan.clusters[0].endpoints.iter_mut().zip([1, 2, 5]) {
        endpoint.weight = Limit::new(weight).unwrap();
    }
    let proxy = Proxy::start(engine, plan).await;
    let counts = counts(&proxy, 80).await;
    for (name, share) in [("a", 10), ("b", 20), ("c", 50)] {
        let got = counts.get(name).copied().unwrap_or_default();
        assert!(got.abs_diff(share) <= 6, "{counts:?}");
    }
}

async fn a_route_shares_its_connections_among_clusters(engine: Engine) {
    let backends = backends().await;
    let mut plan = one(&[backends[0].address]);
    plan.clusters.push(cluster("d", &[backends[1].address]));
    plan.clusters.push(cluster("none", &[backends[2].address]));
    let target = |cluster: &str, weight| Target { cluster: name(cluster), weight, priority: 0 };
    let targets = Targets::new(vec![target("c", 3), target("d", 1), target("none", 0)]).unwrap();
    set_action(&mut plan, Action::Forward(targets));
    let proxy = Proxy::start(engine, plan).await;
    let counts = counts(&proxy, 200).await;
    let share = |name: &str| counts.get(name).copied().unwrap_or_default();
    assert_eq!(share("c"), 0, "no share, no connection: {counts:?}");
    // Drawn by lot: 50 in the mean, with a standard deviation of 6.
    assert!((20..=80).contains(&share("b")) && share("a") + share("b") == 200, "{counts:?}");
}

async fn fewer_connections_attract_new_ones(engine: Engine) {
    let backends = backends().await;
    let proxy = Proxy::start(engine, plan_of(&backends[..2], Policy::LeastConnections)).await;
    let mut held: HashMap<u8, Vec<_>> = HashMap::new();
    for _ in 0..40 {
        let mut stream = proxy.connect("in").await;
        let name = client::read(&mut stream, 1).await[0];
        held.entry(name).or_default().push(stream);
    }
    let counts: Vec<usize> = held.values().map(Vec::len).collect();
    // Envoy may draw the same endpoint twice and then has no choice.
    let tolerance = if engine == Engine::Envoy { 12 } else { 2 };
    assert!(counts.len() == 2 && counts[0].abs_diff(counts[1]) <= tolerance, "{counts:?}");
    // One becomes free of load: it gets what comes next.
    let freed = held.remove(&b'a').unwrap().len();
    for stream in held.values_mut().flatten() {
        client::say(stream, b"still").await;
    }
    let mut after = Vec::new();
    let mut right = 0;
    for _ in 0..freed / 2 {
        let mut stream = proxy.connect("in").await;
        right += usize::from(client::read(&mut stream, 1).await == b"a");
        after.push(stream);
    }
    let enough = if engine == Engine::Envoy { after.len() / 2 } else { after.len() };
    assert!(right >= enough, "{right} of {}", after.len());
}

async fn a_client_stays_with_its_endpoint_by_source_hash(engine: Engine) {
    let backends = backends().await;
    let proxy = Proxy::start(engine, plan_of(&backends, Policy::SourceHash)).await;
    let first = reached(&proxy).await;
    for _ in 0..20 {
        assert_eq!(reached(&proxy).await, first);
    }
}

async fn many_clients_spread_by_source_hash(engine: Engine) {
    let backends = backends().await;
    let mut plan = plan_of(&backends, Policy::SourceHash);
    plan.listeners[0].accept_proxy_protocol = Some(AcceptProxyProtocol::default());
    let mut proxy = Proxy::start(engine, plan).await;
    let before = homes(&proxy).await;
    assert_eq!(homes(&proxy).await, before, "the same client, the same endpoint");
    let mut counts: HashMap<u8, usize> = HashMap::new();
    for home in &before {
        *counts.entry(*home).or_default() += 1;
    }
    assert!(counts.len() == 3 && counts.values().all(|count| *count >= 5), "{counts:?}");
    // Only the clients of an endpoint that goes have to move.
    proxy.change(|plan| drop(plan.clusters[0].endpoints.pop())).await;
    let after = homes(&proxy).await;
    let moved = before.iter().zip(&after).filter(|(old, new)| **old != b'c' && old != new).count();
    // Envoy's tables disturb a few others.
    assert!(moved <= if engine == Engine::Envoy { 10 } else { 0 }, "{moved} moved without need");
}

/// The endpoint of each of sixty clients, which the PROXY header names.
async fn homes(proxy: &Proxy) -> Vec<u8> {
    let mut homes = Vec::new();
    for i in 1..=60 {
        let mut stream = proxy.connect("in").await;
        let header = format!("PROXY TCP4 192.0.2.{i} 198.51.100.1 4711 443\r\n");
        stream.write_all(header.as_bytes()).await.unwrap();
        homes.push(client::read(&mut stream, 1).await[0]);
    }
    homes
}
