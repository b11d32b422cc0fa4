//! A node is drained under two replicas that carry traffic.

use causeway_testkit::blocking::eventually;
use serde_json::{Value, json};

use crate::load::Load;
use crate::replicas::{FIRST, HOST, SECOND, apply, patch};
use crate::world::{PATIENCE, World};

/// Takes pods again when this is dropped.
struct Cordoned<'a>(&'a World);

impl Drop for Cordoned<'_> {
    fn drop(&mut self) {
        let _ = self.0.kubectl.run(&["uncordon", "node-2"]);
    }
}

/// The names of the proxies' pods and of their nodes.
fn nodes(world: &World) -> Vec<(String, String)> {
    let text = world.kubectl.ok(&["get", "pods", "-l", "app=proxy-server", "-o", "json"]);
    let list: Value = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let living = list["items"].as_array().unwrap().iter();
    let living = living.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    living.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]))).collect()
}

#[test]
fn a_drained_node_takes_one_replica_at_a_time_and_no_request() {
    let Some(world) = World::new("drain") else { return };
    world.server("shop");
    // A node is drained of these alone: other tests have pods there.
    apply(&world, &json!({ "podTemplate": { "labels": { "drained": "yes" } } }));
    world.wait("proxyserver/edge", "Ready");
    let spread = nodes(&world);
    assert_ne!(spread[0].1, spread[1].1, "each on a node of its own");
    eventually("the budget is known", PATIENCE, || {
        world.kubectl.value("poddisruptionbudget/edge", ".status.disruptionsAllowed") == "1"
    });

    let load = Load::start(&world, HOST, [FIRST, SECOND]);
    eventually("requests are answered", PATIENCE, || load.ended() > 100);
    let cordoned = Cordoned(&world);
    // The state of a proxy is in an emptyDir, whose loss a drain wants to be told is fine.
    let drain = ["drain", "node-2", "--pod-selector=drained=yes", "--timeout=90s"];
    let refused = world.kubectl.run(&drain);
    assert!(refused.stderr.contains("--delete-emptydir-data"), "{refused}");
    world.kubectl.ok(&[&drain[..], &["--delete-emptydir-data"]].concat());
    world.wait("proxyserver/edge", "Ready");
    eventually("both are on the other node", PATIENCE, || {
        let nodes = nodes(&world);
        if nodes.len() == 2 && nodes.iter().all(|(_, node)| node == "node-1") {
            Ok(())
        } else {
            Err(format!("{nodes:?}"))
        }
    });
    load.stop().check("a drained node");

    // One after the other, wherever they are.
    eventually("the budget knows the new pod", PATIENCE, || {
        world.kubectl.value("poddisruptionbudget/edge", ".status.disruptionsAllowed") == "1"
    });
    let evict = |pod: &str| {
        let path = format!("/api/v1/namespaces/drain/pods/{pod}/eviction");
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod } });
        world.kubectl.with_input(&eviction.to_string(), &["create", "--raw", &path, "-f", "-"])
    };
    let now = nodes(&world);
    evict(&now[0].0).ok();
    let refused = evict(&now[1].0).fails();
    assert!(refused.contains("disruption budget"), "{refused}");
    drop(cordoned);

    // Its namespace goes soon after the last connection. Kubernetes looks again after 5 seconds, and then after half of the
    // longest time that a pod may take to end.
    world.wait("proxyserver/edge", "Ready");
    patch(&world, &json!({ "drainSeconds": 12 }));
    world.wait("proxyserver/edge", "Ready");
    let client = format!("sleep 60 | openssl s_client -connect {FIRST}:443 -servername {HOST} -quiet");
    let mut client = world.vm.command("sh").args(["-c", &client]).spawn().unwrap();
    eventually("somebody is connected", PATIENCE, || {
        let connected = world.on_vm("ss -Htn state established dst 192.168.100.4");
        if connected.is_empty() { Err(connected) } else { Ok(()) }
    });
    world.kubectl.ok(&["delete", "namespace", "drain", "--timeout=60s"]);
    client.kill().unwrap();
    client.wait().unwrap();
}
