//! A request, a route, an answer; and nothing left of it.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::world::{World, request, route};

#[test]
fn curl_answers_for_a_name_that_was_applied_and_nobody_else_can_have_it() {
    let world = World::published(&[], "shop.apps.test");
    let kubectl = &world.kubectl;
    let doctor = world.causeway(&["doctor", "hostname/shop", "-n", "shop"]);
    assert_eq!(doctor.code, Some(0), "{doctor}");
    for line in [
        "our own DNS server",
        "HTTPRoute shop/shop leads it to its Services",
        "shows a good certificate for shop.apps.test",
    ] {
        assert!(doctor.stdout.contains(line), "lacks {line:?}: {doctor}");
    }
    let table = world.causeway(&["hostnames", "-A"]);
    assert!(table.stdout.contains("shop.apps.test") && table.stdout.contains("gw-01"), "{table}");
    let json = world.causeway(&["hostnames", "-A", "-o", "json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let row = &json["hostnames"][0];
    assert_eq!((&row["ready"], &row["gateway"]), (&true.into(), &"gw-01".into()), "{json}");
    assert!(row["expires"].as_str().is_some_and(|end| end.ends_with('Z')), "{json}");

    // Another team: neither by a request, nor by a route.
    kubectl.apply(&request("rival", "SHOP.apps.test.")).ok();
    eventually("it is told who has it", PATIENCE, || {
        let said = world.said("rival", "shop");
        said.contains("AlreadyClaimed") && said.contains("shop/shop")
    });
    let refused = kubectl.apply(&route("rival", "shop.apps.test")).fails();
    assert!(refused.contains("does not hold shop.apps.test"), "{refused}");

    // Whoever waits gets it when it is free.
    kubectl.ok(&["delete", "-n", "shop", "ghr/shop", "--timeout=60s"]);
    world.ready("rival", "shop");
    kubectl.apply(&route("rival", "shop.apps.test")).ok();

    // Nothing is left.
    kubectl.ok(&["delete", "-n", "rival", "ghr/shop", "--timeout=60s"]);
    eventually("claims, gateways, certificates and records are gone", PATIENCE, || {
        let left = world.left();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
}

#[test]
fn who_is_killed_carries_on() {
    let mut world = World::start(&[]);
    for number in 0..5 {
        let request = crate::world::request_in(
            "shop",
            &format!("r{number}"),
            "apps.test",
            &format!("n{number}.apps.test"),
        );
        world.kubectl.apply(&request).ok();
    }
    world.server.kill();
    world.server = causeway_testkit::server::Server::start_again_in(world.files.path(), &[]);
    world.kubectl = world.server.kubectl();
    for number in 0..5 {
        world.ready("shop", &format!("r{number}"));
    }
    let claims = world.kubectl.ok(&["get", "domainclaims", "-o", "name"]);
    assert_eq!(claims.lines().count(), 5, "{claims}");
    let gateways = world.kubectl.ok(&["get", "gateways", "-n", "causeway-edge", "-o", "name"]);
    assert_eq!(gateways.lines().count(), 1, "{gateways}");
}
