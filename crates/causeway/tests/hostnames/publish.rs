//! A request, a route, an answer; and nothing left of it.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;

use crate::world::{World, get, request, request_in, route, route_of};

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
        let name = format!("n{number}.apps.test");
        let request = request_in("shop", &format!("r{number}"), "apps.test", &name);
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

#[test]
fn a_team_on_two_gateways_is_answered_on_both_and_keeps_one_without_the_other() {
    let world = World::start(&[]);
    let inside = request_in("shop", "inside", "apps.test", "inside.apps.test");
    world.kubectl.apply(&request("shop", "shop.apps.test")).ok();
    world.kubectl.apply(&inside.replace("spec: {", "spec: {visibility: internal, ")).ok();
    let both = [("shop", "shop.apps.test"), ("inside", "inside.apps.test")];
    let answers = |(request, name): (&str, &str)| {
        let (address, port) = world.place_of(request);
        eventually(&format!("curl is answered for {name}"), PATIENCE, || {
            let ran = finish(&mut get(&world.authority(), name, &address, &port));
            if ran.stdout.starts_with("shop") { Ok(()) } else { Err(ran.to_string()) }
        });
    };
    let gateways = both.map(|(request, name)| {
        world.ready("shop", request);
        let gateway = world.value(&format!("ghr/{request}"), ".status.assignedGateway");
        let parent = format!("name: {gateway}, namespace: causeway-edge");
        world.kubectl.apply(&route_of("HTTPRoute", "shop", request, &format!("'{name}'"), &parent)).ok();
        gateway
    });
    assert_ne!(gateways[0], gateways[1]);
    world.trust();
    both.into_iter().for_each(answers);
    world.kubectl.ok(&["delete", "-n", "shop", "ghr/inside", "--timeout=60s"]);
    answers(both[0]);
}

#[test]
fn tops_wildcards_and_more_names_than_a_gateway_has_listeners_are_answered() {
    let world = World::start(&[]);
    // Five requests of sixteen names and more are more listeners than fit into a Gateway.
    let name = |request: usize, number: usize| format!("n{number}.r{request}.apps.test");
    let request = |number: usize| {
        let (first, others) = match number {
            0 => ("apps.test".to_owned(), "'*.wild.apps.test', ".to_owned()),
            _ => (name(number, 0), String::new()),
        };
        let more: Vec<String> = (1..16).map(|more| name(number, more)).collect();
        format!(
            "apiVersion: causeway.dev/v1alpha1\nkind: GatewayHostnameRequest\n\
             metadata: {{name: r{number}, namespace: shop}}\n\
             spec: {{zoneId: apps.test, hostname: '{first}', additionalHostnames: [{others}{}]}}\n",
            more.join(", ")
        )
    };
    let objects: Vec<String> = (0..5).map(request).collect();
    world.kubectl.apply(&objects.join("---\n")).ok();
    let mut parents = vec!["name: gw-01, namespace: causeway-edge".to_owned()];
    for number in 0..5 {
        world.ready("shop", &format!("r{number}"));
    }
    let sets = world.kubectl.ok(&["get", "listenersets", "-n", "causeway-edge", "-o", "name"]);
    assert!(!sets.trim().is_empty(), "there is none");
    for set in sets.lines() {
        let set = set.rsplit('/').next().unwrap_or_default();
        parents.push(format!(
            "group: gateway.networking.k8s.io, kind: ListenerSet, name: {set}, namespace: causeway-edge"
        ));
    }
    world.trust();
    for (number, parent) in parents.iter().enumerate() {
        let names = "apps.test, '*.wild.apps.test', '*.r0.apps.test', '*.r1.apps.test', '*.r2.apps.test', '*.r3.apps.test', '*.r4.apps.test'";
        // What a namespace holds is named one by one, not by wildcards that it has not.
        world.kubectl.apply(&route_of("HTTPRoute", "shop", &format!("wide{number}"), names, parent)).fails();
        let held: Vec<String> =
            (0..5).flat_map(|request| (1..16).map(move |more| name(request, more))).collect();
        for (part, names) in held.chunks(15).enumerate() {
            let route =
                route_of("HTTPRoute", "shop", &format!("p{number}-{part}"), &names.join(", "), parent);
            world.kubectl.apply(&route).ok();
        }
        let rest: Vec<String> = (1..5).map(|request| name(request, 0)).collect();
        let rest = format!("apps.test, '*.wild.apps.test', {}", rest.join(", "));
        world.kubectl.apply(&route_of("HTTPRoute", "shop", &format!("rest{number}"), &rest, parent)).ok();
    }
    // The first names, the last ones, and one in between; each of them is on the Gateway or in a set.
    let (address, port) = world.place_of("r0");
    let mut asked = vec!["apps.test".to_owned(), "any.wild.apps.test".to_owned()];
    asked.extend((0..5).map(|request| name(request, 15)).chain([name(2, 7), name(4, 0)]));
    for name in asked {
        eventually(&format!("curl is answered for {name}"), PATIENCE, || {
            let ran = finish(&mut get(&world.authority(), &name, &address, &port));
            if ran.stdout.starts_with("shop") { Ok(()) } else { Err(ran.to_string()) }
        });
    }
}
