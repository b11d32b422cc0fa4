//! By Helm: under load, from one version to the next and back.

use std::path::PathBuf;
use std::process::Command;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::{deploy, environment};

use crate::bed::{Bed, IMAGE, NAMESPACE, NEXT_IMAGE, PATIENCE};

fn helm(bed: &Bed, program: &PathBuf, args: &[&str]) -> Ran {
    let mut command = Command::new(program);
    command.env("HOME", bed.files.path()).env("KUBECONFIG", bed.cluster.kubeconfig());
    finish(command.args(["--namespace", NAMESPACE]).args(args))
}

#[test]
fn helm_installs_upgrades_under_load_rolls_back_and_uninstalls() {
    let Some(program) = environment::program("helm") else { return };
    let Some(bed) = Bed::new() else { return };
    let chart = deploy("chart").display().to_string();
    let native = "proxies.engine=native";
    let usual = ["--set", native, "--wait", "--timeout", "3m"];
    helm(&bed, &program, &[&["install", "edge", &chart, "--create-namespace"], &usual[..]].concat()).ok();
    let address = bed.gateway("shop");
    // Two pods, wherever they are.
    let pods = || {
        let images = "-o=jsonpath={range .items[*]}{.spec.containers[0].image} {.status.conditions[?(@.type=='Ready')].status}{'\\n'}{end}";
        bed.kubectl.ok(&["get", "pods", "-n", "shop", "-l", "app=gateway", images])
    };
    let all_run = |image: &str| {
        eventually(&format!("the data planes run {image}"), PATIENCE, || {
            let pods = pods();
            let wanted = format!("{image} True");
            if !pods.is_empty() && pods.lines().all(|pod| pod == wanted) { Ok(()) } else { Err(pods) }
        });
    };
    all_run(IMAGE);
    let refused = bed.causeway(&["install"]).stdout;
    assert!(refused.contains("helm upgrade edge --namespace causeway-system"), "{refused}");

    let load = bed.load(&address);
    let next = ["--set", "image.tag=0.1.1"];
    helm(&bed, &program, &[&["upgrade", "edge", &chart], &usual[..], &next].concat()).ok();
    all_run(NEXT_IMAGE);
    helm(&bed, &program, &["rollback", "edge", "1", "--wait", "--timeout", "3m"]).ok();
    all_run(IMAGE);
    let so_far = load.answered();
    helm(&bed, &program, &["uninstall", "edge", "--wait", "--timeout", "3m"]).ok();
    eventually("what runs goes on without an operator", PATIENCE, || {
        let now = load.answered();
        if now > so_far + 100 { Ok(()) } else { Err(now) }
    });
    load.stop("upgrade, rollback and uninstall");

    // Definitions and objects have outlived the release; Causeway's own command removes them.
    let said = bed.causeway(&["check"]).stdout;
    assert!(said.contains("there is no operator"), "{said}");
    bed.kubectl.ok(&["delete", "httproute,gateway", "--all", "-n", "shop", "--timeout=60s"]);
    let done = bed.causeway(&["uninstall", "--all", "--crds", "--force", "--yes"]).ok();
    assert!(done.contains("Namespace causeway-system: it was not made by"), "{done}");
    bed.kubectl.ok(&["delete", "namespace", NAMESPACE, "shop", "--timeout=120s"]);
    bed.is_as_before();
}
