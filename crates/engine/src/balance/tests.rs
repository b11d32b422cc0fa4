use std::collections::HashMap;
use std::time::Duration;

use causeway_ir::{Endpoint as Planned, Limit, Name, Period};

use super::*;
use crate::clock;
use crate::cluster::{Cluster, SettingsPool};
use crate::metrics::Held;

fn planned(endpoints: Vec<Planned>) -> causeway_ir::Cluster {
    causeway_ir::Cluster::new(Name::parse("c").unwrap(), endpoints)
}

fn cluster(policy: Policy, endpoints: Vec<Planned>) -> Cluster {
    let plan = causeway_ir::Cluster { policy, ..planned(endpoints) };
    Cluster::new(&plan, &mut SettingsPool::default())
}

fn endpoint(last: u8) -> Planned {
    Planned::new(std::net::SocketAddr::from(([10, 0, 0, last], 1)))
}

fn picked(cluster: &Cluster, client: IpAddr, tried: &[Arc<Endpoint>]) -> Option<Arc<Endpoint>> {
    cluster.pick(&cluster.state(), client, tried, clock::now())
}

fn client(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn counts(cluster: &Cluster, turns: usize) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for _ in 0..turns {
        let endpoint = picked(cluster, client(1), &[]).unwrap();
        *counts.entry(endpoint.address.to_string()).or_default() += 1;
    }
    counts
}

#[test]
fn round_robin_is_even_and_follows_weights() {
    let even = counts(&cluster(Policy::RoundRobin, vec![endpoint(1), endpoint(2), endpoint(3)]), 300);
    assert!(even.values().all(|n| *n == 100), "{even:?}");
    let heavy = Planned { weight: Limit::new(3).unwrap(), ..endpoint(2) };
    let counts = counts(&cluster(Policy::RoundRobin, vec![endpoint(1), heavy]), 400);
    assert!((295..=305).contains(&counts["10.0.0.2:1"]), "{counts:?}");
}

#[test]
fn least_connections_prefers_the_idle_one() {
    let cluster = cluster(Policy::LeastConnections, vec![endpoint(1), endpoint(2)]);
    let busy = Arc::clone(&cluster.state().members[0].endpoint);
    let _held: Vec<_> = (0..5).map(|_| Held::new(Arc::clone(&busy))).collect();
    assert_eq!(counts(&cluster, 50)["10.0.0.2:1"], 50);
}

#[test]
fn source_hash_keeps_clients_when_an_endpoint_leaves() {
    let all = cluster(Policy::SourceHash, (1..=5).map(endpoint).collect());
    let fewer = cluster(Policy::SourceHash, (1..=4).map(endpoint).collect());
    let mut used = HashMap::new();
    for last in 0..=255 {
        let before = picked(&all, client(last), &[]).unwrap().address.to_string();
        assert_eq!(before, picked(&all, client(last), &[]).unwrap().address.to_string());
        let after = picked(&fewer, client(last), &[]).unwrap().address.to_string();
        assert!(before == after || before == "10.0.0.5:1");
        *used.entry(before).or_insert(0) += 1;
    }
    assert!(used.len() == 5 && used.values().all(|n| *n > 20), "{used:?}");
}

#[test]
fn prefers_ready_then_leaving_and_never_what_is_down() {
    let leaving = Planned { ready: false, terminating: true, ..endpoint(2) };
    let down = Planned { ready: false, serving: false, ..endpoint(3) };
    let both = cluster(Policy::RoundRobin, vec![endpoint(1), leaving.clone(), down.clone()]);
    assert_eq!(counts(&both, 10)["10.0.0.1:1"], 10);
    let left = cluster(Policy::RoundRobin, vec![leaving, down.clone()]);
    assert_eq!(counts(&left, 10)["10.0.0.2:1"], 10);
    let none = cluster(Policy::RoundRobin, vec![down]);
    assert!(picked(&none, client(1), &[]).is_none());
}

#[test]
fn rests_a_failing_endpoint_but_not_the_last() {
    let cluster = cluster(Policy::RoundRobin, vec![endpoint(1), endpoint(2)]);
    let state = cluster.state();
    for _ in 0..5 {
        cluster.connect_failed(&state, &state.members[0].endpoint, true);
    }
    assert_eq!(counts(&cluster, 10)["10.0.0.2:1"], 10);
    for _ in 0..5 {
        cluster.connect_failed(&state, &state.members[1].endpoint, true);
    }
    assert_eq!(counts(&cluster, 10).values().sum::<usize>(), 10);
    assert_eq!(cluster.metrics.ejections.get(), 2);
}

#[test]
fn never_picks_what_was_tried() {
    let cluster = cluster(Policy::RoundRobin, vec![endpoint(1), endpoint(2)]);
    let first = picked(&cluster, client(1), &[]).unwrap();
    let second = picked(&cluster, client(1), &[Arc::clone(&first)]).unwrap();
    assert_ne!(first.address, second.address);
    assert!(picked(&cluster, client(1), &[first, second]).is_none());
}

#[test]
fn a_new_endpoint_starts_slowly_and_known_ones_keep_their_state() {
    let mut plan = planned(vec![endpoint(1)]);
    plan.slow_start = Period::new(Duration::from_hours(1));
    let mut pool = SettingsPool::default();
    let cluster = Cluster::new(&plan, &mut pool);
    cluster.state().members[0].endpoint.total.inc();
    plan.endpoints.push(endpoint(2));
    cluster.update(&plan, &mut pool);
    assert_eq!(cluster.state().members[0].endpoint.total.get(), 1);
    let counts = counts(&cluster, 220);
    assert!((15..=25).contains(&counts["10.0.0.2:1"]), "{counts:?}");
}

#[test]
fn what_this_host_lacks_rests_no_endpoint() {
    let cluster = cluster(Policy::RoundRobin, vec![endpoint(1), endpoint(2)]);
    let state = cluster.state();
    for _ in 0..20 {
        cluster.connect_failed(&state, &state.members[0].endpoint, false);
    }
    assert_eq!(cluster.metrics.connect_failures.get(), 20);
    assert_eq!(cluster.metrics.ejections.get(), 0);
    assert_eq!(counts(&cluster, 10)["10.0.0.1:1"], 5);
}

#[test]
fn an_endpoint_that_left_the_plan_serves_no_longer() {
    let mut plan = planned(vec![endpoint(1), endpoint(2), endpoint(3)]);
    let mut pool = SettingsPool::default();
    let cluster = Cluster::new(&plan, &mut pool);
    let before = cluster.state();
    plan.endpoints.remove(0);
    plan.endpoints[0] = Planned { ready: false, serving: false, ..endpoint(2) };
    cluster.update(&plan, &mut pool);
    let serving: Vec<bool> = before.members.iter().map(|member| member.endpoint.is_serving()).collect();
    assert_eq!(serving, [false, false, true]);
}
