//! What a new operator and new images do to proxies that carry traffic.

use std::collections::BTreeSet;

use causeway_testkit::Spawned;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubernetes::Image;
use causeway_testkit::server::program;
use serde_json::json;

use crate::load::Load;
use crate::replicas::{FIRST, HOST, SECOND, apply, patch, pods, until};
use crate::world::{IMAGE, PATIENCE, World, cluster};

const NEXT: &str = "causeway.dev/causeway:next";
const WRONG: &str = "causeway.dev/causeway:wrong";

/// Another image for the operator itself, and another one for proxies that name none.
fn upgrade(world: &World, operator: &str, proxies: &str) {
    let of = |verb: &[&str], what: &[&str]| {
        let operator = ["deployment/causeway-operator", "--namespace", "causeway-system"];
        world.kubectl.ok(&[verb, &operator, what].concat())
    };
    of(&["set", "image"], &[&format!("operator={operator}")]);
    of(&["set", "env"], &[&format!("CAUSEWAY_MANAGER_IMAGE={proxies}"), "CAUSEWAY_UPDATES_AT_ONCE=1"]);
    of(&["rollout", "status"], &["--timeout=60s"]);
    // One that is to end may still lead, with the image of before.
    let images = r#"jsonpath={.items[*].spec.containers[0].env[?(@.name=="CAUSEWAY_MANAGER_IMAGE")].value}"#;
    let operators =
        ["get", "pods", "--namespace", "causeway-system", "-l", "app=causeway-operator", "-o", images];
    eventually("no older operator is left", PATIENCE, || {
        let images = world.kubectl.ok(&operators);
        if images.split_whitespace().all(|image| image == proxies) { Ok(()) } else { Err(images) }
    });
}

/// Every reason for which pods of ProxyServers are not up to date, from now on, by their names: none is too short to be seen.
fn reasons(world: &World) -> Spawned {
    let path = r#"jsonpath={.metadata.name} {.status.conditions[?(@.type=="UpToDate")].reason}{"\n"}"#;
    let mut watch =
        world.kubectl.command(&["get", "proxyservers", "--all-namespaces", "--watch", "-o", path]);
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    Spawned::start(directory, &mut watch, || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("UpToDate"))
    })
}

/// Whether one has waited for its turn, or began when the other was done.
fn is_one_after_the_other(reasons: &str) -> bool {
    let mut rolling = BTreeSet::new();
    reasons.lines().filter_map(|line| line.split_once(' ')).all(|(name, reason)| {
        if reason == "RollingOut" {
            rolling.insert(name);
        } else {
            rolling.remove(name);
        }
        rolling.len() < 2
    }) || reasons.contains("WaitingForTurn")
}

#[test]
fn new_versions_under_load_fail_no_request_and_a_wrong_tag_changes_nothing() {
    let Some(world) = World::alone("updates") else { return };
    cluster().unwrap().load(&Image::of_program(NEXT, program().as_ref(), "causeway").unwrap()).unwrap();
    world.server("shop");
    apply(&world, &json!({}));
    world.proxy_server("other", "192.168.100.6/24", "Native", &["shop"]).ok();
    world.wait("proxyserver/edge", "Ready");
    world.wait("proxyserver/other", "UpToDate");
    until(&world, "UpToDate", "True", "UpToDate", "");
    let before = pods(&world);
    assert!(before.iter().all(|(_, image)| image == IMAGE), "{before:?}");

    let load = Load::start(&world, HOST, [FIRST, SECOND]);
    eventually("requests are answered", PATIENCE, || load.ended() > 100);
    let reasons = reasons(&world);
    upgrade(&world, NEXT, NEXT);
    eventually("every pod is of the new image", PATIENCE, || {
        let pods = pods(&world);
        if pods.len() == 2 && pods.iter().all(|(_, image)| image == NEXT) {
            Ok(())
        } else {
            Err(format!("{pods:?} {}", reasons.log()))
        }
    });
    let reasons = reasons.log();
    assert!(is_one_after_the_other(&reasons), "one ProxyServer after the other: {reasons}");
    world.wait("proxyserver/other", "UpToDate");
    until(&world, "UpToDate", "True", "UpToDate", "");
    load.stop().check("a new operator and a new image");

    let load = Load::start(&world, HOST, [FIRST, SECOND]);
    let before = pods(&world);
    upgrade(&world, NEXT, WRONG);
    let message = until(&world, "UpToDate", "False", "ImageNotReady", "causeway:wrong");
    assert!(message.contains("stays as it is"), "{message}");
    until(&world, "Ready", "True", "Ready", "causeway:wrong");
    // By its own spec, too.
    patch(&world, &json!({ "managerImage": "causeway.dev/causeway:mistyped" }));
    until(&world, "UpToDate", "False", "ImageNotReady", "causeway:mistyped");
    assert_eq!(pods(&world), before, "what works stays");
    load.stop().check("a wrong tag");

    // Whose owner decides is left alone.
    patch(&world, &json!({ "managerImage": null, "updatePolicy": "Manual" }));
    upgrade(&world, IMAGE, IMAGE);
    until(&world, "UpToDate", "False", "UpdateHeld", "spec.updatePolicy");
    assert_eq!(pods(&world), before);
    let checks = ["get", "pods", "-l", "app=image-check,causeway.dev/owner-name=edge", "-o", "name"];
    eventually("checks go when nobody needs them", PATIENCE, || world.kubectl.ok(&checks).is_empty());
}
