//! `causeway routes`.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use serde_json::{Value, json};

use crate::peer::TlsBackend;
use crate::world::{NAMESPACE, World, backend};

#[test]
fn routes_tell_where_names_lead() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let _proxy = world.start();
    eventually("the proxy reports", PATIENCE, || world.replica()["serving"] == true);

    let table = world.causeway(&["routes", "proxy/edge", "-n", NAMESPACE]).ok();
    let line = table.lines().find(|l| l.contains("one.test")).unwrap();
    for part in ["8443", "one", &one.address.to_string(), "1 of 1 ready"] {
        assert!(line.contains(part), "{part} in {table}");
    }
    assert!(table.contains("(plaintext)") && table.contains("closed"), "{table}");
    let json = world.causeway(&["routes", "proxy/edge", "-n", NAMESPACE, "-o", "json"]).ok();
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["routes"][0]["backend"], "one");
    assert!(answer.get("refused").is_none(), "{json}");

    let missing = world.causeway(&["routes", "proxy/nobody", "-n", NAMESPACE]).fails();
    assert!(missing.contains("there is no ProxyServer nobody"), "{missing}");
}

#[test]
fn with_a_refused_spec_routes_tell_what_stays_live_and_what_is_refused() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    // As the operator keeps it.
    let good: Value =
        serde_json::from_str(&world.kubectl().ok(&["get", "proxyserver", "edge", "-o", "json"])).unwrap();
    let kept = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "edge-proxy-accepted"},
        "data": {"proxyserver.json": good.to_string()},
    });
    world.kubectl().apply(&kept.to_string()).ok();
    world.proxy_server(&[backend("one", "one.test"), backend("copy", "one.test")]).ok();

    let ran = world.causeway(&["routes", "proxy/edge", "-n", NAMESPACE]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stdout.starts_with("the newest spec is refused:\n  spec.backends[1].hostname"), "{ran}");
    assert!(ran.stdout.contains("the last good one stays live:"), "{ran}");
    let live: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("8443")).collect();
    assert!(live.iter().any(|line| line.contains("one.test")), "{ran}");
    assert!(live.iter().all(|line| !line.contains("copy")), "{ran}");

    let ran = world.causeway(&["routes", "proxy/edge", "-n", NAMESPACE, "-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["refused"][0]["path"], "spec.backends[1].hostname");
    assert_eq!(answer["routes"][0]["name"], "one.test");

    // A spec that makes sense, and that the proxies can't run all the same.
    world.proxy_server(&[backend("one", "one.test"), backend("more", "more.test")]).ok();
    let status =
        json!({"status": {"replicas": [{"name": "edge-0", "refused": "Envoy refuses it"}]}}).to_string();
    let patch = ["patch", "proxyserver", "edge", "--subresource=status", "--type", "merge", "-p", &status];
    world.kubectl().ok(&patch);
    let ran = world.causeway(&["routes", "proxy/edge", "-n", NAMESPACE]);
    assert!(ran.stdout.contains("  proxy edge-0: Envoy refuses it\n"), "{ran}");
    assert!(ran.stdout.contains("one.test") && !ran.stdout.contains("more.test"), "{ran}");
}
