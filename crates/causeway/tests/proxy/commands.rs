//! `causeway routes` and `causeway doctor`.

use serde_json::Value;

use crate::harness::eventually::eventually;
use crate::harness::server::PATIENCE;
use crate::peer::TlsBackend;
use crate::world::{World, backend};

#[test]
fn routes_and_doctor_tell_where_names_lead() {
    let world = World::new();
    let one = TlsBackend::start("one", &["one.test"]);
    world.service("one", &one);
    world.proxy_server(&[backend("one", "one.test")]).ok();
    let _proxy = world.start();
    eventually("the proxy reports", PATIENCE, || world.replica()["serving"] == true);

    let table = world.causeway(&["routes", "proxy/edge", "-n", "crossing"]).ok();
    let line = table.lines().find(|l| l.contains("one.test")).unwrap();
    for part in ["8443", "one", &one.address.to_string(), "1 of 1 ready"] {
        assert!(line.contains(part), "{part} in {table}");
    }
    assert!(table.contains("(plaintext)") && table.contains("closed"), "{table}");
    let json = world.causeway(&["routes", "proxy/edge", "-n", "crossing", "-o", "json"]).ok();
    let rows: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows[0]["backend"], "one");
    assert_eq!(rows[0]["connections"], 0);

    let doctor = world.causeway(&["doctor", "proxy/edge", "-n", "crossing"]);
    for line in [
        "✓ the spec is valid, with 1 backends".to_owned(),
        format!("✓ proxy edge-0 serves on {}", world.at(8443)),
        "✓ backend one has 1 ready endpoints".to_owned(),
        format!("✓ one.test on {} reaches one, whose certificate is for one.test", world.at(8443)),
        format!("✓ an unknown name on {} is refused (TLS alert unrecognized_name)", world.at(8443)),
        format!("✓ plaintext on {} is refused", world.at(8443)),
    ] {
        assert!(doctor.stdout.contains(&line), "{line} in {doctor}");
    }

    let missing = world.causeway(&["doctor", "proxy/nobody", "-n", "crossing"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stdout.contains("✗ there is no ProxyServer crossing/nobody"), "{missing}");
    let missing = world.causeway(&["routes", "proxy/nobody", "-n", "crossing"]).fails();
    assert!(missing.contains("there is no ProxyServer nobody"), "{missing}");
}
