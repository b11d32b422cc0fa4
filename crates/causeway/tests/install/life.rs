//! By Causeway's own commands: from nothing to nothing.

use causeway_testkit::blocking::eventually;
use serde_json::{Value, json};

use crate::bed::{Bed, IMAGE, NAMESPACE, PATIENCE};

const OPERATOR: &str = "deployment/causeway-operator";

#[test]
fn a_fresh_cluster_gets_it_and_is_as_it_was_when_it_goes() {
    let Some(bed) = Bed::new() else { return };
    let kubectl = bed.cluster.kubectl(NAMESPACE);
    let before = bed.causeway(&["check", "--pre"]).ok();
    assert!(before.contains("nothing fails") || before.contains("all is as it should be"), "{before}");
    bed.install();
    println!("{} objects more", bed.objects());
    let check: Value = serde_json::from_str(&bed.causeway(&["check", "-o", "json"]).ok()).unwrap();
    assert_ne!(check["result"], "fail", "{check}");
    bed.gateway("life");

    // The same again changes nothing; other values take away what they no longer ask for.
    let again = bed.causeway(&["install", "--set", "proxies.engine=native", "-o", "json"]).ok();
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!((&again["created"], &again["changed"]), (&json!(0), &json!(0)), "{again}");
    let fewer = bed.causeway(&["install", "--set", "proxies.engine=native,replicas=1"]).ok();
    assert!(fewer.contains("removed PodDisruptionBudget causeway-system/causeway-operator"), "{fewer}");

    // What does not start is taken back, and what ran goes on.
    let ran =
        bed.causeway(&["install", "--set", "proxies.engine=native,image.tag=nowhere", "--timeout", "60"]);
    let said = ran.fails();
    assert!(said.contains("nowhere can't be had") && said.contains("taken back"), "{said}");
    assert_eq!(kubectl.value(OPERATOR, ".spec.template.spec.containers[0].image"), IMAGE);
    assert_eq!(kubectl.value(OPERATOR, ".spec.replicas"), "1");
    eventually("one pod is there and ready", PATIENCE, || {
        let status = kubectl.value(OPERATOR, ".status");
        let status: Value = serde_json::from_str(&status).unwrap_or_default();
        if status["readyReplicas"] == 1 && status["replicas"] == 1 { Ok(()) } else { Err(status.to_string()) }
    });

    // A Gateway is somebody's; who goes on nevertheless is told of it.
    let refused = bed.causeway(&["uninstall", "--yes"]).fails();
    assert!(refused.contains("Gateways of class causeway") && refused.contains("life/front"), "{refused}");
    bed.kubectl.ok(&["delete", "namespace", "life", "--timeout=120s"]);
    bed.uninstall();
}

#[test]
fn what_is_somebody_elses_stays_his() {
    let Some(bed) = Bed::new() else { return };
    let admin = &bed.kubectl;
    let labels = |namespace: &str| admin.value(&format!("namespace/{namespace}"), ".metadata.labels");
    // Namespaces that are there already, with what somebody has in one of them.
    let edge = bed.cluster.namespace("causeway-edge");
    bed.cluster.namespace(NAMESPACE);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "somebodys"}});
    edge.apply(&config.to_string()).ok();
    let before = [NAMESPACE, "causeway-edge"].map(labels);
    bed.install();
    assert_eq!([NAMESPACE, "causeway-edge"].map(labels), before);

    // Another namespace than the operator's: nothing of it is touched, with and without force.
    for force in [&[][..], &["--force"]] {
        let args = [&["uninstall", "--all", "--yes", "--namespace", "default"], force].concat();
        let refused = bed.causeway(&args).fails();
        assert!(refused.contains("an operator is at work in namespace causeway-system"), "{refused}");
    }
    let kubectl = bed.cluster.kubectl(NAMESPACE);
    kubectl.ok(&["scale", OPERATOR, "--replicas=0"]);
    eventually("no operator is ready", PATIENCE, || {
        let ready = kubectl.value(OPERATOR, ".status.readyReplicas");
        if ready.is_empty() { Ok(()) } else { Err(ready) }
    });
    let shown = bed.causeway(&["uninstall", "--all", "--namespace", "default"]).ok();
    assert!(!shown.contains("ClusterRole") && !shown.contains("Namespace causeway"), "{shown}");

    kubectl.ok(&["scale", OPERATOR, "--replicas=2"]);
    kubectl.ok(&["rollout", "status", OPERATOR, "--timeout=90s"]);
    let done = bed.causeway(&["uninstall", "--all", "--crds", "--yes"]).ok();
    assert!(done.contains("Namespace causeway-edge: it was not made by"), "{done}");
    edge.ok(&["get", "configmap", "somebodys"]);
    admin.ok(&["delete", "namespace", NAMESPACE, "causeway-edge", "--timeout=120s"]);
    bed.is_as_before();
}

#[test]
fn what_fails_at_first_leaves_nothing() {
    let Some(bed) = Bed::new() else { return };
    for (set, says) in [
        ("image.repository=nowhere.invalid/causeway,image.pullPolicy=Never", "can't be had"),
        ("metrics.serviceMonitor.enabled=true", "does not know this kind"),
        ("replica=1", "there is no such value here"),
        ("resources.requests.cpu=lots", "quantities must match"),
        ("priorityClassName=nobodys", "nobodys"),
    ] {
        let said = bed.causeway(&["install", "--set", set, "--timeout", "20"]);
        assert_ne!(said.code, Some(0), "{set}: {said}");
        assert!(format!("{}{}", said.stdout, said.stderr).contains(says), "{set}: {said}");
        bed.is_as_before();
    }
}

#[test]
fn whoever_removed_the_operator_first_gets_rid_of_the_rest() {
    let Some(bed) = Bed::new() else { return };
    bed.install();
    let kubectl = bed.cluster.namespace("alone");
    let held = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "held", "finalizers": ["causeway.dev/routes"]}, "spec": {},
    });
    kubectl.apply(&held.to_string()).ok();
    let refused = bed.causeway(&["uninstall", "--all", "--force", "--yes"]).fails();
    assert!(refused.contains("an operator is at work"), "{refused}");
    bed.kubectl.ok(&["delete", "namespace", NAMESPACE, "--timeout=120s"]);
    kubectl.ok(&["delete", "gatewayparameters", "--all", "--wait=false"]);
    let said = bed.causeway(&["check"]).stdout;
    assert!(
        said.contains("there is no operator") && said.contains("no operator runs that would let go"),
        "{said}"
    );
    let done = bed.causeway(&["uninstall", "--all", "--crds", "--force", "--yes"]).ok();
    assert!(done.contains("removed, but for what is left") && done.contains("alone/"), "{done}");
    bed.kubectl.ok(&["delete", "namespace", "alone", "--timeout=60s"]);
    bed.is_as_before();
}
