//! Names in servers of others, with certificates of another authority: as the program itself asks for them.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::finish;
use causeway_testkit::name_server::{NameServer, Software, dig};
use causeway_testkit::pebble::Pebble;
use causeway_testkit::server::Server;

use crate::world::{World, get, request_in, route};

const NAME: &str = "shop.lab.test";

fn published(software: Software) {
    let Some(names) = NameServer::start(software, "lab.test", "") else { return };
    let Some(pebble) = Pebble::start(names.address, false) else { return };
    let mut world = World::start(&[]);
    world.kubectl.apply(&pebble.manifest("pebble")).ok();
    world.kubectl.apply(&names.manifests("lab", &pebble.issuer("pebble"))).ok();
    world.kubectl.apply(&request_in("shop", "shop", "lab.test", NAME)).ok();
    // Whoever dies while a certificate is asked for carries on with what it asked for.
    eventually("a proof is written", PATIENCE, || {
        let names = names.names();
        let is_there = names.iter().any(|name| name.starts_with("_acme-challenge"));
        if is_there { Ok(()) } else { Err(format!("{names:?} {}", world.said("shop", "shop"))) }
    });
    world.server.kill();
    world.server = Server::start_again_in(world.files.path(), &[]);
    world.kubectl = world.server.kubectl();
    world.ready("shop", "shop");
    world.kubectl.apply(&route("shop", NAME)).ok();

    let (address, port) = world.place();
    let answer = dig(names.address, &["+short", "a", NAME]);
    assert_eq!(answer.trim(), address, "what the server says of the name");
    // Pebble makes a root for each start: whoever trusts who signed trusts what was signed.
    let secret = world.value("ghr/shop", ".status.certificate.secretName");
    let chain = format!("secret/{secret}");
    let path = "-o=go-template={{index .data \"tls.crt\" | base64decode}}";
    let chain = world.kubectl.ok(&["get", "-n", "causeway-edge", &chain, path]);
    std::fs::write(world.authority(), chain).unwrap();
    eventually("curl is answered by the service", PATIENCE, || {
        let ran = finish(&mut get(&world.authority(), NAME, &address, &port));
        if ran.stdout.starts_with("shop") { Ok(()) } else { Err(ran.to_string()) }
    });
    let issuer = world.value("ghr/shop", ".status.certificate.issuer");
    assert!(issuer.contains("Pebble"), "{issuer}");
    let doctor = world.causeway(&["doctor", "hostname/shop", "-n", "shop"]);
    assert!(doctor.stdout.contains(NAME), "{doctor}");

    world.kubectl.ok(&["delete", "-n", "shop", "ghr/shop", "--timeout=60s"]);
    assert_eq!(names.names(), [""; 0], "a request that is gone has nothing in DNS");
    eventually("claims, gateways and certificates are gone", PATIENCE, || {
        let left = world.left();
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    });
}

#[test]
fn a_name_in_knot_with_a_certificate_of_pebble_is_answered_and_leaves_nothing() {
    published(Software::Knot);
}

#[test]
fn a_name_in_bind_with_a_certificate_of_pebble_is_answered_and_leaves_nothing() {
    published(Software::Bind);
}
