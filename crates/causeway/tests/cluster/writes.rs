//! What the operator asks of the API server: for an edit what the edit is worth, and at the start of a term nothing, where
//! nothing has changed. Counted by the API server.

use std::time::{Duration, Instant};

use causeway_testkit::blocking::eventually;
use serde_json::json;

use crate::replicas::{apply, condition, patch, until};
use crate::world::{PATIENCE, World};

/// Kinds that nobody but Causeway applies to.
const OURS: [&str; 7] =
    ["serviceaccounts", "roles", "rolebindings", "configmaps", "deployments", "services", "proxyservers"];

/// Server-side applies so far, by resource.
fn applies(world: &World) -> Vec<(&'static str, u64)> {
    let metrics = world.kubectl.ok(&["get", "--raw", "/metrics"]);
    let count = |resource: &str| {
        let is_of = |line: &&str| {
            line.starts_with("apiserver_request_total{")
                && line.contains(r#"verb="APPLY""#)
                && line.contains(&format!(r#"resource="{resource}""#))
        };
        let values = metrics.lines().filter(is_of);
        values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
    };
    OURS.iter().map(|resource| (*resource, count(resource))).collect()
}

fn since(before: &[(&'static str, u64)], after: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
    let more = before.iter().zip(after).map(|((resource, before), (_, after))| (*resource, after - before));
    more.filter(|(_, count)| *count > 0).collect()
}

fn leader(world: &World) -> String {
    let lease =
        ["get", "lease/causeway-operator", "-n", "causeway-system", "-o", "jsonpath={.spec.holderIdentity}"];
    world.kubectl.ok(&lease)
}

/// How many reconciles of ProxyServers an operator has ended.
fn reconciles(world: &World, pod: &str) -> u64 {
    let raw = format!("/api/v1/namespaces/causeway-system/pods/{pod}:8081/proxy/metrics");
    let metrics = world.kubectl.run(&["get", "--raw", &raw]).stdout;
    let is_of = |line: &&str| {
        line.starts_with("causeway_operator_reconciles_total{") && line.contains(r#"controller="proxy""#)
    };
    metrics.lines().filter(is_of).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn an_edit_costs_a_few_requests_and_a_new_leader_begins_at_once_and_writes_nothing() {
    let Some(world) = World::alone("writes") else { return };
    world.server("shop");
    let begin = applies(&world);
    apply(&world, &json!({}));
    world.wait("proxyserver/edge", "Ready");
    until(&world, "UpToDate", "True", "UpToDate", "");
    println!("a proxy of two replicas: {:?}", since(&begin, &applies(&world)));
    let events = world.kubectl.ok(&[
        "get",
        "events",
        "--field-selector",
        "type=Warning,involvedObject.kind=ProxyServer",
    ]);
    assert_eq!(events, "", "nothing was refused on the way");

    let before = applies(&world);
    patch(&world, &json!({ "connectionLimit": 1000 }));
    eventually("the edit is out", PATIENCE, || condition(&world, "Ready").0 == "True");
    let edit = since(&before, &applies(&world));
    println!("an edit of it: {edit:?}");
    let of = |name: &str| edit.iter().find(|(resource, _)| *resource == name).map_or(0, |(_, count)| *count);
    // Each replica tells that it has the edit, and the operator that both have; the last good spec is kept.
    assert!(of("proxyservers") <= 5 && of("configmaps") <= 1, "{edit:?}");
    assert!(edit.iter().all(|(resource, _)| ["proxyservers", "configmaps"].contains(resource)), "{edit:?}");

    let proxies = world.kubectl.ok(&["get", "proxyservers", "-A", "-o", "name"]).lines().count() as u64;
    let before = applies(&world);
    let old = leader(&world);
    world.kubectl.ok(&["delete", "pod", &old, "-n", "causeway-system", "--wait=false"]);
    let new = eventually("another operator leads", PATIENCE, || {
        let now = leader(&world);
        if now.is_empty() || now == old { Err(now) } else { Ok(now) }
    });
    let led = Instant::now();
    eventually("it has looked at every proxy", PATIENCE, || reconciles(&world, &new) >= proxies);
    println!("a new leader has looked at {proxies} proxies after {:.1?}", led.elapsed());
    assert!(led.elapsed() < Duration::from_secs(20), "it begins at once");
    assert_eq!(since(&before, &applies(&world)), [], "nothing has changed");
}
