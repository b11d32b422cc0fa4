//! A dry run: what would be done is said, and nothing is.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;

use crate::world::{World, request, request_in};

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let world = World::start(&["--hostname-dry-run"]);
    world.kubectl.apply(&request("shop", "shop.apps.test")).ok();
    world.kubectl.apply(&request_in("shop", "waits", "apps.test", "SHOP.apps.test")).ok();
    world.kubectl.apply(&request_in("rival", "lost", "apps.test", "shop.other.test")).ok();
    for line in [
        "plan: + claim of shop.apps.test for shop/shop",
        "plan: + certificate for shop.apps.test by local",
        "plan: + Gateway gw-01 of class causeway",
        "plan: + shop.apps.test → the address of Gateway gw-01",
        "plan: ! shop/waits: shop.apps.test is held by GatewayHostnameRequest shop/shop",
        "plan: ! rival/lost: spec.hostname: shop.other.test is not in the zone",
    ] {
        eventually("the plan is logged", PATIENCE, || {
            let log = world.server.log();
            if log.contains(line) { Ok(()) } else { Err(format!("{line:?} is not in {log}")) }
        });
    }
    assert_eq!(world.left(), Vec::<String>::new());
    assert_eq!(world.value("ghr/shop", ".metadata.finalizers"), "");
    assert_eq!(world.value("ghr/shop", ".status"), "");
    let grants = world.kubectl.ok(&["get", "hostnamegrants", "-A", "-o", "name"]);
    assert_eq!(grants, "");
}
