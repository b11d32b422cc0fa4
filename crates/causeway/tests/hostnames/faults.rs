//! What goes wrong, and whether `causeway doctor` names it.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::server::Server;
use serde_json::Value;

use crate::world::{World, request, request_in, route, route_of};

/// What the doctor says of a request of team shop, once it says these words.
fn names(world: &World, request: &str, words: &[&str]) {
    eventually(&format!("the doctor says {words:?}"), PATIENCE, || {
        let ran = world.causeway(&["doctor", &format!("hostname/{request}"), "-n", "shop"]);
        let said = words.iter().all(|word| ran.stdout.contains(word)) && ran.code == Some(1);
        if said { Ok(()) } else { Err(ran.to_string()) }
    });
}

#[test]
fn the_doctor_names_the_step_and_the_cause() {
    let mut world = World::start(&["--certificate-lifetime", "40s"]);
    world.kubectl.apply(&request("shop", "shop.apps.test")).ok();
    world.ready("shop", "shop");

    // Routes.
    names(
        &world,
        "shop",
        &["no route of namespace shop leads shop.apps.test anywhere", "parentRefs [{name: gw-01"],
    );
    let parent = "name: gw-01, namespace: causeway-edge";
    let lost = route_of("HTTPRoute", "shop", "shop", "shop.apps.test", parent)
        .replace("name: shop, port", "name: lost, port");
    world.kubectl.apply(&lost).ok();
    names(&world, "shop", &["HTTPRoute shop/shop leads nowhere", "there is no Service shop/lost"]);
    world.kubectl.apply(&route("shop", "shop.apps.test")).ok();
    eventually("nothing is wrong", PATIENCE, || {
        let ran = world.causeway(&["doctor", "hostname/shop", "-n", "shop"]);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.to_string()) }
    });

    // Steps that are stuck.
    world.kubectl.apply(&request_in("shop", "outside", "apps.test", "shop.other.test")).ok();
    names(&world, "outside", &["stuck at Claimed (InvalidSpec)", "is not in the zone"]);
    let unknown = request_in("shop", "unknown", "apps.test", "unknown.apps.test");
    world.kubectl.apply(&unknown.replace("hostname:", "gatewayClass: nobodys, hostname:")).ok();
    names(&world, "unknown", &["stuck at ListenerAttached (NotFound)", "nobodys"]);
    let class = "---\n{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: foreign}, spec: {controllerName: example.com/none}}";
    world.kubectl.apply(class).ok();
    let foreign = request_in("shop", "foreign", "apps.test", "foreign.apps.test");
    world.kubectl.apply(&foreign.replace("hostname:", "gatewayClass: foreign, hostname:")).ok();
    names(&world, "foreign", &["stuck at ListenerAttached", "gw-02"]);
    world.causeway(&["doctor", "hostname/nobody", "-n", "shop"]).fails();

    // Without an operator everything stays as it is broken.
    world.server.stop();
    world.server = Server::start_again_in(world.files.path(), &["--no-operator"]);
    world.kubectl = world.server.kubectl();
    names(&world, "shop", &["the certificate ended at", "does not show a good certificate"]);
    let edge = |args: &[&str]| world.kubectl.ok(&[&["-n", "causeway-edge"], args].concat());
    let plan = edge(&["get", "configmap", "hostnames-dns", "-o", "jsonpath={.data['plan\\.json']}"]);
    let address = world.value("ghr/shop", ".status.addresses[0]");
    assert!(plan.contains(&address), "{plan}");
    let broken: Value = plan.replace(&address, "192.0.2.99").into();
    let patch = serde_json::json!({"data": {"plan.json": broken}}).to_string();
    edge(&["patch", "configmap", "hostnames-dns", "--type=merge", "-p", &patch]);
    names(&world, "shop", &["leads shop.apps.test to 192.0.2.99, and not to"]);
    edge(&["delete", "deployment", "hostnames-dns"]);
    names(&world, "shop", &["does not answer", "get pods -l app=hostnames-dns"]);
    edge(&["delete", "deployments", "--all"]);
    names(&world, "shop", &["no pod of the gateway serves there"]);
}
