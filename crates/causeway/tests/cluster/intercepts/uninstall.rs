//! Causeway is taken out of the cluster while machines are connected: every target is as it was, and nothing is left.

use causeway_testkit::blocking::eventually;

use super::laptop::{Laptop, answers, others};
use super::nothing_is_left;
use crate::world::{Installed, PATIENCE, World};

#[test]
fn whoever_takes_it_out_puts_everything_back_first() {
    let Some(world) = World::alone("uninstall") else { return };
    let _installed = Installed;
    for name in ["web", "api"] {
        world.http_server(name);
    }
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let load = others(&address);
    let (ada, bob) = (Laptop::new(&world, "ada", 13_061), Laptop::new(&world, "bob", 13_062));
    for laptop in [&ada, &bob] {
        laptop.connect("link");
    }
    ada.intercept_mine("deploy/web").ok();
    bob.intercept("deploy/api", &["--mode", "container", "--timeout", "90"]).ok();
    let template = || world.kubectl.value("deployment/api", ".spec.template.spec.containers[0].args[0]");
    assert_eq!(template(), "carrier");
    let shown = eventually("nothing of other tests is left", PATIENCE, || {
        let ran = ada.run(&["uninstall"]);
        if ran.code == Some(0) { Ok(ran.stdout) } else { Err(ran.stderr) }
    });
    assert!(shown.contains("InterceptRequest uninstall/web-8080-ada") && shown.contains("--yes"), "{shown}");
    eventually("the rules of the node follow", PATIENCE, || answers(&address, Some("ada"), "ada"));

    load.note("uninstall");
    let done = ada.run(&["uninstall", "--yes"]).ok();
    assert!(done.contains("nothing is left"), "{done}");
    assert_eq!(world.kubectl.value("service/web", ".spec.selector.app"), "web");
    assert_eq!(world.kubectl.value("service/web", ".metadata.annotations.causeway\\.dev/original"), "");
    assert_eq!(template(), "echo");
    answers(&address, Some("ada"), "web").unwrap();
    nothing_is_left(&world);
    eventually("the operator is gone with all of it", PATIENCE, || {
        let kinds = "namespaces,clusterroles,clusterrolebindings";
        let left = world.kubectl.ok(&["get", kinds, "-o", "name"]);
        let left: Vec<&str> = left.lines().filter(|line| line.contains("causeway")).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
    });
    load.goes_on(50);
    load.end_well("of others");
}
