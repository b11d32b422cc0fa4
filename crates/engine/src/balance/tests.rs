use std::collections::HashMap;
use std::time::Duration;

use causeway_ir::Endpoint as Planned;

use super::*;
use crate::cluster::Cluster;

fn cluster(policy: Policy, endpoints: Vec<Planned>) -> Cluster {
    let plan = causeway_ir::Cluster { policy, ..causeway_ir::Cluster::new("c", endpoints) };
    Cluster::new(&plan)
}

fn endpoint(last: u8) -> Planned {
    Planned::new(format!("10.0.0.{last}:1"))
}

fn client(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

fn counts(cluster: &Cluster, turns: usize) -> HashMap<String, usize> {
    let state = cluster.state();
    let mut counts = HashMap::new();
    for _ in 0..turns {
        let endpoint = cluster.pick(&state, client(1), &[]).unwrap();
        *counts.entry(endpoint.address.to_string()).or_default() += 1;
    }
    counts
}

#[test]
fn round_robin_is_even_and_follows_weights() {
    let even = counts(&cluster(Policy::RoundRobin, vec![endpoint(1), endpoint(2), endpoint(3)]), 300);
    assert!(even.values().all(|n| *n == 100), "{even:?}");
    let heavy = Planned { weight: 3, ..endpoint(2) };
    let counts = counts(&cluster(Policy::RoundRobin, vec![endpoint(1), heavy]), 400);
    assert!((295..=305).contains(&counts["10.0.0.2:1"]), "{counts:?}");
}

#[test]
fn least_connections_prefers_the_idle_one() {
    let cluster = cluster(Policy::LeastConnections, vec![endpoint(1), endpoint(2)]);
    cluster.state().members[0].endpoint.active.inc_by(5);
    assert_eq!(counts(&cluster, 50)["10.0.0.2:1"], 50);
}

#[test]
fn source_hash_keeps_clients_when_an_endpoint_leaves() {
    let all = cluster(Policy::SourceHash, (1..=5).map(endpoint).collect());
    let fewer = cluster(Policy::SourceHash, (1..=4).map(endpoint).collect());
    let mut used = HashMap::new();
    for last in 0..=255 {
        let before = all.pick(&all.state(), client(last), &[]).unwrap().address;
        assert_eq!(before, all.pick(&all.state(), client(last), &[]).unwrap().address);
        *used.entry(before).or_insert(0) += 1;
        let after = fewer.pick(&fewer.state(), client(last), &[]).unwrap().address;
        assert!(before == after || before == "10.0.0.5:1".parse().unwrap());
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
    assert!(none.pick(&none.state(), client(1), &[]).is_none());
}

#[test]
fn rests_a_failing_endpoint_but_not_the_last() {
    let cluster = cluster(Policy::RoundRobin, vec![endpoint(1), endpoint(2)]);
    let state = cluster.state();
    for _ in 0..5 {
        cluster.failed(&state, &state.members[0].endpoint);
    }
    assert_eq!(counts(&cluster, 10)["10.0.0.2:1"], 10);
    for _ in 0..5 {
        cluster.failed(&state, &state.members[1].endpoint);
    }
    assert_eq!(counts(&cluster, 10).values().sum::<usize>(), 10);
    assert_eq!(cluster.metrics.ejections.get(), 2);
}

#[test]
fn never_picks_what_was_tried() {
    let cluster = cluster(Policy::RoundRobin, vec![endpoint(1), endpoint(2)]);
    let state = cluster.state();
    let first = cluster.pick(&state, client(1), &[]).unwrap().address;
    let second = cluster.pick(&state, client(1), &[first]).unwrap().address;
    assert_ne!(first, second);
    assert!(cluster.pick(&state, client(1), &[first, second]).is_none());
}

#[test]
fn a_new_endpoint_starts_slowly_and_known_ones_keep_their_state() {
    let mut plan = causeway_ir::Cluster::new("c", vec![endpoint(1)]);
    plan.slow_start = Some(Duration::from_hours(1));
    let cluster = Cluster::new(&plan);
    cluster.state().members[0].endpoint.total.inc();
    plan.endpoints.push(endpoint(2));
    cluster.update(&plan);
    assert_eq!(cluster.state().members[0].endpoint.total.get(), 1);
    let counts = counts(&cluster, 220);
    assert!((15..=25).contains(&counts["10.0.0.2:1"]), "{counts:?}");
}
