//! Attachments that can't be made: the pod says why, and what to do.

use causeway_testkit::blocking::eventually;
use serde_json::json;

use crate::lan::{Lan, Vm};
use crate::world::{PATIENCE, World};

/// Waits until the pod of a proxy says this, in its condition and in an Event.
fn says(world: &World, proxy: &str, words: &[&str]) {
    eventually(&format!("{proxy} says {words:?}"), PATIENCE, || {
        let condition = ".status.conditions[?(@.type=='causeway.dev/Runnable')].message";
        let condition = world.pod_of(proxy, condition);
        let name = world.pod_of(proxy, ".metadata.name");
        let selector = format!("reason=FailedCreatePodSandBox,involvedObject.name={name}");
        let events = ["get", "events", "--field-selector", &selector, "-o", "jsonpath={.items[*].message}"];
        let events = world.kubectl.ok(&events);
        let is_said = words.iter().all(|word| condition.contains(word) && events.contains(word));
        if is_said { Ok(()) } else { Err(format!("{condition}\n{events}")) }
    });
}

#[test]
fn a_pod_that_cannot_be_attached_says_why() {
    let Some(world) = World::new() else { return };
    world.tls_server("shop");
    let lan = Lan::new();
    world.proxy_server("late", "lan", "192.168.100.4/24", "Native", &["shop"]);
    says(&world, "late", &["there is no NetworkAttachmentDefinition edge/lan: create it"]);
    world.attachment("odd", &json!({"type": "ipvlan", "master": "eth0"}));
    world.proxy_server("odd", "odd", "192.168.100.5/24", "Native", &["shop"]);
    says(&world, "odd", &["edge/odd can't be used", "\"ipvlan\" is not offered here"]);
    world.attachment("lost", &json!({"type": "macvlan", "master": "nowhere0", "ipam": {"type": "static"}}));
    world.proxy_server("lost", "lost", "192.168.100.6/24", "Native", &["shop"]);
    says(&world, "lost", &["there is no interface nowhere0", "correct master"]);
    let vm = Vm::beside(None);
    world.attachment("card", &json!({"type": "bridge", "bridge": vm.port(), "ipam": {"type": "static"}}));
    world.proxy_server("card", "card", "192.168.100.7/24", "Native", &["shop"]);
    says(&world, "card", &[&format!("the interface {} of this machine is not a bridge", vm.port())]);
    // It is tried again.
    world.bridge("lan", &lan.name);
    world.wait("proxyserver/late", "Ready");
    let trouble = world.pod_of("late", ".status.conditions[?(@.type=='causeway.dev/Runnable')].message");
    assert_eq!(trouble, "");
}
