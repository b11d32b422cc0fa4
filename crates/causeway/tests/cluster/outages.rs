//! Parts of the cluster that fail while proxies carry traffic.

use std::time::{Duration, Instant};

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubernetes::TestCluster;
use serde_json::json;

use crate::load::Load;
use crate::replicas::{FIRST, HOST, SECOND, apply, condition, patch};
use crate::world::{PATIENCE, World, cluster};

/// How long the API server is away.
const AWAY: Duration = Duration::from_mins(1);

#[test]
fn traffic_goes_on_without_the_control_plane_and_all_heals() {
    let Some(world) = World::alone("outages") else { return };
    let cluster = cluster().unwrap();
    world.server("shop");
    apply(&world, &json!({}));
    world.wait("proxyserver/edge", "Ready");
    let load = Load::start(&world, HOST, [FIRST, SECOND]);
    eventually("requests are answered", PATIENCE, || load.ended() > 100);
    let limits = std::cell::Cell::new(1000);
    let heals = |what: &str| {
        let since = Instant::now();
        eventually(&format!("the API answers after {what}"), PATIENCE, || {
            world.kubectl.run(&["get", "--raw", "/readyz"]).code == Some(0)
        });
        limits.set(limits.get() + 1);
        eventually("an edit is taken", PATIENCE, || {
            let patch = format!(r#"{{"spec":{{"connectionLimit":{}}}}}"#, limits.get());
            world.kubectl.run(&["patch", "proxyserver/edge", "--type=merge", "-p", &patch]).code == Some(0)
        });
        // Where nobody is left who leads, a lease has to run out first.
        eventually("the edit is out", 2 * PATIENCE, || {
            let (is, why, message) = condition(&world, "Ready");
            if is == "True" { Ok(()) } else { Err(format!("{why} {message}\n{}", operators_say(cluster))) }
        });
        println!("{what}: an edit is out {:.1?} later, {} requests so far", since.elapsed(), load.ended());
    };

    cluster.stop("kube-apiserver").unwrap();
    let (since, before) = (Instant::now(), load.ended());
    eventually("it is away for long enough", 2 * AWAY, || since.elapsed() > AWAY);
    assert!(load.ended() > before + 200, "requests go on meanwhile");
    cluster.restart("kube-apiserver").unwrap();
    heals("an API server that was away");

    cluster.stop("etcd").unwrap();
    cluster.restart("etcd").unwrap();
    heals("an etcd that was killed");

    let operators = |which: &str| {
        let kill = ["delete", "pod", "-n", "causeway-system", "--grace-period=0", "--force"];
        world.kubectl.run(&[&kill[..], &[which]].concat()).ok();
    };
    let lease =
        ["get", "lease/causeway-operator", "-n", "causeway-system", "-o", "jsonpath={.spec.holderIdentity}"];
    operators(&world.kubectl.ok(&lease));
    heals("a leader that was killed");
    // Kubernetes' own controllers take up to a minute to look again, and others need them, too.
    let replaced =
        ["rollout", "status", "deployment/causeway-operator", "-n", "causeway-system", "--timeout=180s"];
    world.kubectl.run(&replaced).ok();
    operators("--all");
    heals("two operators that were killed");
    patch(&world, &json!({ "logLevel": "debug" }));
    load.stop().check("while parts of the cluster failed");
}

/// How the operators are, and what they said last.
fn operators_say(cluster: &TestCluster) -> String {
    let kubectl = cluster.kubectl("causeway-system");
    let asked = [
        &["get", "pods,leases", "-o", "wide"][..],
        &["logs", "-l", "app=causeway-operator", "--prefix", "--tail=15"],
    ];
    asked.map(|arguments| kubectl.run(arguments).to_string()).concat()
}
