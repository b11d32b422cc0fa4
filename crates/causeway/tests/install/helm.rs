//! By Helm: under load, from one version to the next and back.

use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Ran, finish};
use causeway_testkit::{deploy, environment};
use serde_json::{Value, json};

use crate::bed::{Bed, IMAGE, NAMESPACE, NEXT_IMAGE, PATIENCE, proxy_server};

/// A chart as an earlier version had it: definitions with a field less, rights and arguments that differ.
fn previous_chart() -> String {
    let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/install/releases");
    releases.join("causeway-0.0.9.tgz").display().to_string()
}

fn helm(bed: &Bed, program: &PathBuf, args: &[&str]) -> Ran {
    let mut command = Command::new(program);
    command.env("HOME", bed.files.path()).env("KUBECONFIG", bed.cluster.kubeconfig());
    finish(command.args(["--namespace", NAMESPACE]).args(args))
}

#[test]
fn helm_upgrades_the_previous_chart_under_load_rolls_back_and_uninstalls() {
    let Some(program) = environment::program("helm") else { return };
    let Some(bed) = Bed::new() else { return };
    let (previous, chart) = (previous_chart(), deploy("chart").display().to_string());
    let usual = ["--set", "proxies.engine=native", "--wait", "--timeout", "3m"];
    let (here, next) = (["--set", "image.tag=0.1.0"], ["--set", "image.tag=0.1.1"]);
    let run = |args: &[&[&str]]| helm(&bed, &program, &args.concat()).ok();
    run(&[&["install", "edge", &previous, "--create-namespace"], &usual, &here]);
    let definition = "crd/proxyservers.causeway.dev";
    let version = ".metadata.labels.app\\.kubernetes\\.io/version";
    assert_eq!(bed.kubectl.value(definition, version), "0.0.9");
    let addresses = [bed.gateway("shop"), bed.proxy("shop")];
    bed.cluster.kubectl("shop").apply(&two_pods("front").to_string()).ok();
    let parameters = json!({"group": "causeway.dev", "kind": "GatewayParameters", "name": "front"});
    let refers = json!({"spec": {"infrastructure": {"parametersRef": parameters}}}).to_string();
    bed.kubectl.ok(&["patch", "gateway/front", "-n", "shop", "--type=merge", "-p", &refers]);
    // Two pods each, wherever they are.
    let all_run = |image: &str| {
        let wanted = format!("{image} True");
        for app in ["app=gateway", "app=proxy-server"] {
            eventually(&format!("{app} runs {image}"), PATIENCE, || {
                let images = "-o=jsonpath={range .items[*]}{.spec.containers[0].image} {.status.conditions[?(@.type=='Ready')].status}{'\\n'}{end}";
                let pods = bed.kubectl.ok(&["get", "pods", "-n", "shop", "-l", app, images]);
                let is_done = pods.lines().count() == 2 && pods.lines().all(|pod| pod == wanted);
                if is_done { Ok(()) } else { Err(pods) }
            });
        }
    };
    all_run(IMAGE);
    let refused = bed.causeway(&["install"]).stdout;
    assert!(refused.contains("helm upgrade edge --namespace causeway-system"), "{refused}");

    let load = bed.load(&addresses.each_ref().map(String::as_str));
    run(&[&["upgrade", "edge", &chart], &usual, &next]);
    assert_eq!(bed.kubectl.value(definition, version), "0.1.0");
    all_run(NEXT_IMAGE);
    run(&[&["rollback", "edge", "1", "--wait", "--timeout", "3m"]]);
    all_run(IMAGE);
    run(&[&["upgrade", "edge", &chart], &usual, &here]);
    goes_back_with_all_fields(&bed, &|chart_and_more| {
        run(&[&["upgrade", "edge"], chart_and_more, &usual, &here]);
    });
    let so_far = load.answered();
    run(&[&["uninstall", "edge", "--wait", "--timeout", "3m"]]);
    eventually("what runs goes on without an operator", PATIENCE, || {
        let now = load.answered();
        if now > so_far + 500 { Ok(()) } else { Err(now) }
    });
    load.stop("upgrade, rollback and uninstall");

    // Definitions and objects have outlived the release; Causeway's own command removes them, but not as if somebody were
    // there who puts things back.
    let said = bed.causeway(&["check"]).stdout;
    assert!(said.contains("there is no operator"), "{said}");
    let refused = bed.causeway(&["uninstall", "--all", "--crds", "--yes"]).fails();
    assert!(refused.contains("no operator is at work in namespace causeway-system"), "{refused}");
    assert_eq!(bed.cluster.kubectl("shop").value("pxs/px", ".metadata.deletionTimestamp"), "");
    bed.kubectl.ok(&["delete", "httproute,gateway", "--all", "-n", "shop", "--timeout=60s"]);
    let done = bed.causeway(&["uninstall", "--all", "--crds", "--force", "--yes"]).ok();
    assert!(done.contains("Namespace causeway-system: it was not made by"), "{done}");
    bed.kubectl.ok(&["delete", "namespace", NAMESPACE, "shop", "--timeout=120s"]);
    bed.is_as_before();
}

/// What a Gateway is to have more than one pod by.
fn two_pods(name: &str) -> Value {
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": name}, "spec": {"replicas": 2},
    })
}

/// The previous chart without its definitions: a field that it does not know stays.
fn goes_back_with_all_fields(bed: &Bed, upgrade: &dyn Fn(&[&str])) {
    let shop = bed.cluster.kubectl("shop");
    let mut object = proxy_server("shop", "newer");
    object["spec"]["updatePolicy"] = "Manual".into();
    shop.apply(&object.to_string()).ok();
    upgrade(&[&previous_chart(), "--set", "crds.enabled=false"]);
    assert_eq!(shop.value("pxs/newer", ".spec.updatePolicy"), "Manual");
    shop.ok(&["delete", "pxs/newer", "--timeout=60s"]);
}
