//! `causeway routes` and `causeway doctor` of a Gateway: what it does, what is not served and why, and what to do.

use std::process::Command;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::server::{Server, program};

use crate::backend::{Authority, backend, service};
use crate::machine::{GATEWAY, address, route};

pub(crate) fn run(server: &Server, command: &str, object: &str) -> Ran {
    let mut causeway = Command::new(program());
    finish(causeway.args([command, object]).env("KUBECONFIG", server.kubeconfig()))
}

#[test]
fn what_a_gateway_does_is_told_and_what_is_wrong_with_what_to_do() {
    let server = Server::start(&[]);
    let kubectl = server.kubectl();
    let missing = run(&server, "doctor", "gateway/web");
    assert!(missing.stdout.contains("there is no Gateway default/web"), "{missing}");
    let objects = service("shop", backend("shop")) + &service("cart", backend("cart")) + GATEWAY;
    kubectl.apply(&(objects + &Authority::new().secret("site", "shop.test", 1))).ok();
    let weights = "hostnames: [shop.test]";
    let two = route("shop", "shop", weights, "matches: [{path: {value: /a}}]")
        .replace("port: 80}]", "port: 80, weight: 9}, {name: cart, port: 80, weight: 1}]");
    kubectl.apply(&two).ok();
    address(&kubectl, "web");

    let routes = |want: &[&str]| {
        eventually("the routes are shown", PATIENCE, || {
            let ran = run(&server, "routes", "gateway/web");
            let flat: Vec<String> =
                ran.stdout.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
            if want.iter().all(|line| flat.iter().any(|said| said == line)) {
                Ok(ran)
            } else {
                Err(ran.to_string())
            }
        })
    };
    let to = "HTTPRoute default/shop#0 default/shop:80 (1 of 1 ready, weight 9), default/cart:80 (1 of 1 ready, weight 1)";
    let ran =
        routes(&[&format!("8080/HTTP shop.test /a/* {to}"), &format!("8443/HTTPS shop.test /a/* {to}")]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let well = eventually("nothing is wrong", PATIENCE, || {
        let ran = run(&server, "doctor", "gateway/web");
        if ran.code == Some(0) { Ok(ran.stdout) } else { Err(ran.to_string()) }
    });
    for line in [
        "✓ class causeway is accepted",
        "✓ listeners that are programmed: http, https",
        "✓ certificate default/site is valid, with ",
        "✓ routes that are served as they are written: 1",
        "✓ Deployment web-causeway has 1 of 1 pods ready",
        " runs the newest plan, on ",
        "✓ backends with ready endpoints: 2",
        ":8443 takes connections",
        "nothing is wrong with Gateway default/web",
    ] {
        assert!(well.contains(line), "lacks {line:?}:\n{well}");
    }

    // The same as an older one, a Service that is not there, and one without endpoints.
    kubectl.apply(&route("twin", "shop", weights, "matches: [{path: {value: /a}}]")).ok();
    kubectl.apply(&route("gone", "nobody", "hostnames: [gone.test]", "")).ok();
    let idle = "apiVersion: v1\nkind: Service\nmetadata: {name: idle}\nspec: {ports: [{port: 80}]}\n";
    kubectl.apply(idle).ok();
    kubectl.apply(&route("idle", "idle", "hostnames: [idle.test]", "")).ok();
    let ran = routes(&[
        "8080/HTTP gone.test /* HTTPRoute default/gone#0 default/nobody:80 (invalid)",
        "8080/HTTP idle.test /* HTTPRoute default/idle#0 default/idle:80 (0 of 0 ready)",
        "not served as it is written:",
    ]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stdout.contains("HTTPRoute default/gone: BackendNotFound: there is no Service"), "{ran}");
    assert!(ran.stdout.contains("HTTPRoute default/twin: OtherRouteServes: "), "{ran}");
    let ill = run(&server, "doctor", "gateway/web");
    assert_eq!(ill.code, Some(1), "{ill}");
    for line in
        ["✗ HTTPRoute default/gone: BackendNotFound", "✗ backend default/idle:80 has no ready endpoint"]
    {
        assert!(ill.stdout.contains(line), "lacks {line:?}:\n{ill}");
    }
    kubectl.ok(&["delete", "secret", "site"]);
    eventually("the listener without a certificate is told", PATIENCE, || {
        run(&server, "doctor", "gateway/web").stdout.contains("✗ listener https: ")
    });
}
