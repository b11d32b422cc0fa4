//! `causeway check` on faults that were made: each is named, and gone when it is mended.

use std::fs;

use causeway_testkit::blocking::eventually;
use serde_json::{Value, json};

use crate::bed::{Bed, IMAGE, NAMESPACE, NEXT_IMAGE, PATIENCE};

/// Waits until a check says it.
fn says(bed: &Bed, args: &[&str], words: &str) {
    eventually(&format!("check says {words:?}"), PATIENCE, || {
        let ran = bed.causeway(&[&["check"], args].concat());
        if ran.stdout.contains(words) { Ok(()) } else { Err(ran.to_string()) }
    });
}

fn is_well(bed: &Bed) {
    eventually("all is well again", PATIENCE, || {
        let ran = bed.causeway(&["check"]);
        if ran.code == Some(0) { Ok(()) } else { Err(ran.to_string()) }
    });
}

#[test]
fn each_fault_is_named() {
    let Some(bed) = Bed::new() else { return };
    let admin = &bed.kubectl;
    let kubectl = bed.cluster.kubectl(NAMESPACE);
    bed.install();
    is_well(&bed);
    let operator = "deployment/causeway-operator";

    // What is for the whole cluster does not become one for some namespaces, which would leave all others to nobody.
    let refused = bed.causeway(&["install", "--namespaces", "default"]);
    assert!(
        refused.stdout.contains("what is in namespace causeway-system is for the whole cluster"),
        "{refused}"
    );
    assert!(refused.fails().contains("nothing was changed"));
    admin.ok(&["get", "clusterrole/causeway-operator"]);

    // A definition that is missing, and an older policy that refuses routes for want of it: both are repaired.
    admin.ok(&["delete", "crd", "hostnamegrants.causeway.dev", "--timeout=60s"]);
    says(&bed, &[], "there is no hostnamegrants.causeway.dev");
    let said = bed.causeway(&["check"]).stdout;
    assert!(!said.contains("refuses every change of routes"), "today's policy lets them pass: {said}");
    let closed = r#"{"spec": {"failurePolicy": "Fail"}}"#;
    let policy = "validatingadmissionpolicy/causeway-hostnames";
    admin.ok(&["patch", policy, "--type=merge", "-p", closed]);
    says(&bed, &[], "it refuses every change of routes");
    bed.install();
    assert_eq!(admin.value(policy, ".spec.failurePolicy"), "Ignore");
    is_well(&bed);

    // One of a newer version: it is not written over.
    let label = |version: &str| {
        let version = format!("app.kubernetes.io/version={version}");
        admin.ok(&["label", "--overwrite", "crd", "infras.causeway.dev", &version]);
    };
    label("99.0.0");
    says(&bed, &[], "infras.causeway.dev is of version 99.0.0, newer than this program");
    assert!(bed.causeway(&["crds", "--apply"]).fails().contains("nothing was changed"));
    assert!(bed.causeway(&["install"]).stdout.contains("newer than this program"));
    // Who goes back keeps its fields.
    let place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/later";
    let later = json!([{"op": "add", "path": place, "value": {"type": "string"}}]).to_string();
    admin.ok(&["patch", "crd", "infras.causeway.dev", "--type=json", "-p", &later]);
    let back = bed.causeway(&["install", "--set", "proxies.engine=native", "--downgrade"]).ok();
    assert!(back.contains("0 objects made"), "{back}");
    let schema = ".spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.later.type";
    assert_eq!(admin.value("crd/infras.causeway.dev", schema), "string");
    label("0.0.1");
    says(&bed, &[], "1 definitions are older than this program");
    bed.causeway(&["crds", "--apply"]).ok();

    // One that waits for an object that nobody lets go of, without an operator.
    kubectl.ok(&["scale", operator, "--replicas=0"]);
    says(&bed, &[], "it is scaled to 0");
    let held = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "held", "namespace": "default", "finalizers": ["example.com/held"]}, "spec": {},
    });
    admin.apply(&held.to_string()).ok();
    admin.ok(&["delete", "crd", "gatewayparameters.causeway.dev", "--wait=false"]);
    says(&bed, &[], "gatewayparameters.causeway.dev is being deleted");
    says(&bed, &[], "would let go of what is being deleted: GatewayParameters default/held");
    let let_go = r#"{"metadata": {"finalizers": null}}"#;
    admin.ok(&["patch", "gatewayparameters/held", "-n", "default", "--type=merge", "-p", let_go]);
    admin.ok(&["wait", "--for=delete", "crd/gatewayparameters.causeway.dev", "--timeout=60s"]);
    bed.causeway(&["crds", "--apply"]).ok();
    kubectl.ok(&["scale", operator, "--replicas=2"]);
    is_well(&bed);

    // An image that can't be had, of the operator and by its label of another version.
    kubectl.ok(&["set", "image", operator, "operator=nowhere.invalid/causeway:1"]);
    says(&bed, &[], "its image nowhere.invalid/causeway:1 can't be had");
    kubectl.ok(&["set", "image", operator, &format!("operator={IMAGE}")]);
    kubectl.ok(&["rollout", "status", operator, "--timeout=90s"]);
    kubectl.ok(&["label", "--overwrite", operator, "app.kubernetes.io/version=0.0.1"]);
    says(&bed, &[], "it is of version 0.0.1, older than this program");
    kubectl.ok(&["label", "--overwrite", operator, "app.kubernetes.io/version=0.1.0"]);

    data_planes_of_another_version(&bed);
    nobody_leads(&bed);
    is_well(&bed);

    // Another installation: who may make a Deployment in his namespace can't pass one off as it.
    let other = bed.cluster.namespace("other");
    other.ok(&["create", "deployment", "causeway-operator", &format!("--image={IMAGE}"), "--replicas=0"]);
    other.ok(&["label", operator, "--overwrite", "app=causeway-operator"]);
    says(&bed, &[], "Deployment other/causeway-operator is called as an operator is");
    is_well(&bed);
    let binding = ["clusterrolebinding", "other-operator"];
    let role = ["--clusterrole=causeway-operator", "--serviceaccount=other:causeway-operator"];
    admin.ok(&[&["create"], &binding[..], &role].concat());
    says(&bed, &[], "there is another installation in namespace other");
    assert!(bed.causeway(&["install"]).stdout.contains("there is another installation in namespace other"));
    admin.ok(&[&["delete"], &binding[..]].concat());
    admin.ok(&["delete", "namespace", "other", "--timeout=60s"]);

    // A namespace that goes and does not get there.
    let going = bed.cluster.namespace("going");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/held"]},
    });
    going.apply(&map.to_string()).ok();
    admin.ok(&["delete", "namespace", "going", "--wait=false"]);
    says(&bed, &["--namespace", "going"], "namespace going is being deleted, and nothing can be made in it");
    let edge = ["install", "--set", "proxies.engine=native,hostnames.gatewayNamespace.name=going"];
    let refused = bed.causeway(&edge).stdout;
    assert!(refused.contains("namespace going is being deleted"), "{refused}");
    going.ok(&["patch", "configmap/held", "--type=merge", "-p", let_go]);
    admin.ok(&["wait", "--for=delete", "namespace/going", "--timeout=60s"]);

    // Somebody who may not.
    let weak = bed.cluster.namespace("weak");
    weak.ok(&["create", "serviceaccount", "ann"]);
    let token = weak.ok(&["create", "token", "ann"]);
    let text = fs::read_to_string(bed.cluster.kubeconfig()).unwrap();
    let server = text.split("server: \"").nth(1).unwrap().split('"').next().unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": server, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "x", "user": {"token": token.trim()}}],
    });
    let kubeconfig = bed.files.path().join("weak");
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let refused = Bed::causeway_as(&kubeconfig, &["install", "--namespace", "weak"]);
    assert_ne!(refused.code, Some(0), "{refused}");
    assert!(refused.stdout.contains("you may not create"), "{refused}");
    let seen = Bed::causeway_as(&kubeconfig, &["check"]);
    assert!(seen.stdout.contains("definitions can't be listed"), "{seen}");
    admin.ok(&["delete", "namespace", "weak", "--timeout=60s"]);

    is_well(&bed);
    bed.uninstall();
}

/// A pod of a data plane that runs another version than the operator gives.
fn data_planes_of_another_version(bed: &Bed) {
    let kubectl = bed.cluster.namespace("skew");
    let labels = "--labels=app.kubernetes.io/managed-by=causeway";
    let image = format!("--image={NEXT_IMAGE}");
    kubectl.ok(&["run", "old", &image, labels, "--", "echo", "--listen", "0.0.0.0:8080"]);
    says(bed, &[], &format!("1 run {NEXT_IMAGE}, and the operator gives {IMAGE}"));
    bed.kubectl.ok(&["delete", "namespace", "skew", "--timeout=60s"]);
}

/// Pods that are ready and none of which has the lease.
fn nobody_leads(bed: &Bed) {
    let kubectl = bed.cluster.kubectl(NAMESPACE);
    let operator = "deployment/causeway-operator";
    let args = json!([{
        "op": "replace", "path": "/spec/template/spec/containers/0/args",
        "value": ["echo", "--listen", "0.0.0.0:8081"],
    }]);
    kubectl.ok(&["patch", operator, "--type=json", "-p", &args.to_string()]);
    says(bed, &[], "no operator is at work: ");
    bed.install();
}

#[test]
fn what_others_bring_is_missed() {
    let Some(bed) = Bed::new() else { return };
    let admin = &bed.kubectl;
    let multus = "network-attachment-definitions.k8s.cni.cncf.io";
    let definition = admin.ok(&["get", "crd", multus, "-o", "json"]);
    let mut definition: Value = serde_json::from_str(&definition).unwrap();
    admin.ok(&["delete", "crd", multus, "gateways.gateway.networking.k8s.io", "--timeout=60s"]);
    let said = bed.causeway(&["check", "--pre"]).ok();
    // Who installs nevertheless is told of it, and so is a program.
    let install = ["install", "--set", "proxies.engine=native"];
    let told = bed.causeway(&install);
    let listed = bed.causeway(&[&install[..], &["-o", "json"]].concat()).ok();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let listed = listed["warnings"].to_string();
    for missing in ["the Gateway API is not there", "Multus is not there"] {
        for said in [&said, &told.stderr, &listed] {
            assert!(said.contains(missing), "{said}");
        }
    }
    told.ok();
    bed.causeway(&["uninstall", "--all", "--crds", "--yes"]).ok();
    bed.cluster.install_gateway_api().unwrap();
    definition["metadata"] = json!({"name": multus});
    definition["status"].take();
    admin.apply(&definition.to_string()).ok();
    let said = bed.causeway(&["check", "--pre"]).ok();
    for there in ["the Gateway API is v1", "Multus is there"] {
        assert!(said.contains(there), "{said}");
    }
    bed.is_as_before();
}
