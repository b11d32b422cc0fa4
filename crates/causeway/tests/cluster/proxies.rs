//! A `ProxyServer` on a VLAN, as a virtual machine there meets it.

use std::time::Instant;

use causeway_testkit::blocking::eventually;

use crate::world::{PATIENCE, World, has_envoy};

fn a_virtual_machine_reaches_services_by_name(namespace: &str, engine: &str) {
    let Some(world) = World::new(namespace) else { return };
    world.server("shop");
    world.server("mail");
    let since = Instant::now();
    world.proxy_server("edge", "192.168.100.4/24", engine, &["shop", "mail"]).ok();
    world.wait("proxyserver/edge", "Ready");
    println!("{engine}: Ready {:.1?} after it was applied", since.elapsed());
    for name in ["shop", "mail"] {
        let answer = world.ask(&format!("{name}.example.com"), "192.168.100.4").unwrap();
        assert!(answer.contains(name), "{answer}");
    }
    world.ask("other.example.com", "192.168.100.4").unwrap_err();
}

#[test]
fn a_virtual_machine_reaches_services_by_name_through_the_native_engine() {
    a_virtual_machine_reaches_services_by_name("by-name", "Native");
}

#[test]
fn a_virtual_machine_reaches_services_by_name_through_envoy() {
    if has_envoy() {
        a_virtual_machine_reaches_services_by_name("by-name-envoy", "Envoy");
    }
}

fn an_edit_is_live_without_a_new_pod(namespace: &str, engine: &str) {
    let Some(world) = World::new(namespace) else { return };
    world.server("shop");
    world.server("mail");
    world.proxy_server("edge", "192.168.100.4/24", engine, &["shop"]).ok();
    world.wait("proxyserver/edge", "Ready");
    let pods = || world.kubectl.ok(&["get", "pods", "-o", "name"]);
    let before = pods();
    world.proxy_server("edge", "192.168.100.4/24", engine, &["shop", "mail"]).ok();
    eventually("the new name is served", PATIENCE, || world.ask("mail.example.com", "192.168.100.4"));
    assert_eq!(pods(), before);
    let warnings = world.kubectl.ok(&[
        "get",
        "events",
        "--field-selector=type=Warning,reason=NotReady",
        "-o",
        "jsonpath={.items[*].message}",
    ]);
    assert_eq!(warnings, "", "an edit is no news");
}

#[test]
fn an_edit_is_live_without_a_new_pod_with_the_native_engine() {
    an_edit_is_live_without_a_new_pod("edit", "Native");
}

#[test]
fn an_edit_is_live_without_a_new_pod_with_envoy() {
    if has_envoy() {
        an_edit_is_live_without_a_new_pod("edit-envoy", "Envoy");
    }
}
