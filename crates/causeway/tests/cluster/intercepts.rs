//! Developers on a real Kubernetes: machines outside of the cluster that connect, take requests of a workload, and go.

mod containers;
pub mod laptop;
#[path = "../intercepts/peer.rs"]
mod peer;
mod protocols;
mod rights;
#[path = "../intercepts/speakers.rs"]
mod speakers;
#[path = "../intercepts/thief.rs"]
mod thief;
mod uninstall;
mod wireguard;

use std::time::{Duration, Instant};

use causeway_testkit::blocking::eventually;
use serde_json::{Value, json};

use self::laptop::{Laptop, answers, died, others};
use crate::world::{PATIENCE, World};

/// How long the target's traffic may take to come back from a laptop that is gone.
const FALLBACK: Duration = Duration::from_secs(3);

/// Waits for a condition of a request; what it says.
fn says(world: &World, request: &str, condition: &str, reason: &str) -> String {
    let path = format!(".status.conditions[?(@.type==\"{condition}\")]");
    eventually(&format!("{request}: {condition} {reason}"), PATIENCE, || {
        // In one look: it may say something else in the next.
        let found = world.kubectl.value(&format!("interceptrequest/{request}"), &path);
        let found: Value = serde_json::from_str(&found).unwrap_or_default();
        let message = found["message"].as_str().unwrap_or_default().to_owned();
        if found["reason"] == reason { Ok(message) } else { Err(found.to_string()) }
    })
}

/// Evicts a pod with this label, as a drain of its node does.
fn evict(world: &World, label: &str) {
    let namespace = &world.kubectl.namespace;
    // One that goes already may be gone before it is evicted.
    eventually("a pod is evicted", PATIENCE, || {
        let pods = world.kubectl.ok(&["get", "pods", "-l", label, "-o", "json"]);
        let pods: Value = serde_json::from_str(&pods).unwrap();
        let mut pods = pods["items"].as_array().unwrap().iter();
        let stays = pods.find(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let pod = stays.map(|pod| pod["metadata"]["name"].as_str().unwrap()).ok_or("there is none")?;
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
        let ran = world.kubectl.with_input(&eviction.to_string(), &["create", "--raw", &path, "-f", "-"]);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.stderr) }
    });
}

/// Waits until nothing of intercepts is left in a namespace.
fn nothing_is_left(world: &World) {
    eventually("nothing is left", PATIENCE, || {
        let kinds = "pods,deployments,services,secrets,roles,rolebindings,serviceaccounts,networkpolicies,\
                     poddisruptionbudgets,gatewayplans,supplies,workstations,interceptrequests";
        let left = world.kubectl.ok(&["get", kinds, "-o", "name"]);
        let ours = |line: &&str| ["carrier", "causeway.dev/", "swap"].iter().any(|word| line.contains(word));
        let left: Vec<&str> = left.lines().filter(ours).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
    });
}

#[test]
fn two_developers_share_a_workload_and_nothing_is_left_of_them() {
    let Some(world) = World::new("intercepts") else { return };
    world.http_server("web");
    let before = world.kubectl.value("service/web", ".spec.selector");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");

    let load = others(&address);
    load.goes_on(20);
    let (ada, bob) = (Laptop::new(&world, "ada", 13_001), Laptop::new(&world, "bob", 13_002));
    load.note("connect");
    let since = Instant::now();
    let connected = ada.connect("link");
    println!("connected {:.1?} after the first Workstation: {connected}", since.elapsed());
    load.note("create");
    let since = Instant::now();
    ada.intercept_mine("deploy/web").ok();
    println!("active after {:.1?}", since.elapsed());
    eventually("the rules of the node follow", PATIENCE, || answers(&address, Some("ada"), "ada"));
    answers(&address, None, "web").unwrap();

    load.note("the second one");
    // The second one comes through the API server, and the first one is not touched.
    bob.connect("port-forward");
    bob.intercept_mine("deployment/web").ok();
    eventually("the second developer's requests arrive", PATIENCE, || answers(&address, Some("bob"), "bob"));
    answers(&address, Some("ada"), "ada").unwrap();
    // What can't be told apart is refused, with both names.
    let overlapping = bob.intercept("deploy/web", &["--path", "/x*", "--name", "wide", "--timeout", "20"]);
    assert!(overlapping.code != Some(0) && overlapping.stderr.contains("web-8080-ada"), "{overlapping}");
    world.kubectl.run(&["delete", "interceptrequest", "wide", "--ignore-not-found"]).ok();

    load.note("rollout and scale");
    // A rollout and more replicas while it is intercepted.
    world.kubectl.ok(&["rollout", "restart", "deployment/web"]);
    world.kubectl.ok(&["scale", "deployment/web", "--replicas=2"]);
    world.kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    answers(&address, Some("ada"), "ada").unwrap();
    // As an autoscaler does, up and down.
    for replicas in ["--replicas=4", "--replicas=2"] {
        world.kubectl.ok(&["scale", "deployment/web", replicas]);
        world.kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    }
    load.note("eviction");
    for label in ["app=web", "causeway.dev/owner-name=web-carrier"] {
        evict(&world, label);
        load.goes_on(50);
    }
    eventually("the carrier has both of its pods again", PATIENCE, || {
        world.kubectl.value("deployment/web-carrier", ".status.availableReplicas") == "2"
    });
    load.note("both pods of the carrier are killed");
    world.kubectl.ok(&["delete", "pods", "-l", "causeway.dev/owner-name=web-carrier", "--wait=false"]);
    load.goes_on(100);
    eventually("the carrier is back", PATIENCE, || answers(&address, Some("ada"), "ada"));
    load.note("the request is edited");
    ada.intercept("deploy/web", &["--header", "x-user=ada", "--path", "/*"]).ok();
    eventually("it counts", PATIENCE, || answers(&address, Some("ada"), "ada"));

    load.note("the laptop dies");
    // A laptop that dies.
    died(&ada, || answers(&address, Some("ada"), "web"));
    answers(&address, Some("bob"), "bob").unwrap();
    ada.connect("link");
    eventually("it is back", PATIENCE, || answers(&address, Some("ada"), "ada"));

    load.note("the cluster's end and the operator die");
    // The cluster's end and the operator die.
    let system = ["-n", "causeway-system"];
    world.kubectl.ok(&[&["delete", "pods", "-l", "app=stowaway", "--wait=false"], &system[..]].concat());
    world
        .kubectl
        .ok(&[&["delete", "pods", "-l", "app=causeway-operator", "--wait=false"], &system[..]].concat());
    eventually("both are back", PATIENCE, || {
        answers(&address, Some("ada"), "ada").and_then(|()| answers(&address, Some("bob"), "bob"))
    });

    load.note("leave");
    for laptop in [&ada, &bob] {
        laptop.run(&["leave", "--all"]).ok();
        laptop.run(&["disconnect"]).ok();
    }
    answers(&address, Some("ada"), "web").unwrap();
    assert_eq!(world.kubectl.value("service/web", ".spec.selector"), before);
    assert_eq!(world.kubectl.value("service/web", ".metadata.annotations.causeway\\.dev/original"), "");
    nothing_is_left(&world);
    load.goes_on(50);
    load.end_well("of others");
    eventually("the cluster's end is gone, too", PATIENCE, || {
        let left = ["get", "deployments,services", "-l", "app=stowaway", "-o", "name"];
        let left = world.kubectl.ok(&[&left, &system[..]].concat());
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}
