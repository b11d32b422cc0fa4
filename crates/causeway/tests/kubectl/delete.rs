//! `kubectl delete`: cascades, selectors, finalizers, namespaces.

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::Kubectl;

use crate::objects::{config_map, deployment, pod};
use crate::peer::shared;

/// A Deployment with its ReplicaSet and one running pod.
fn running(namespace: &str) -> Kubectl {
    let kubectl = shared().namespace(namespace);
    kubectl.apply(&deployment("web", 1)).ok();
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    kubectl
}

fn left(kubectl: &Kubectl) -> String {
    kubectl.ok(&["get", "deployments,replicasets,pods", "-o", "name"])
}

#[test]
fn background_removes_the_dependents_afterwards() {
    let kubectl = running("delete-background");
    assert_eq!(
        kubectl.ok(&["delete", "deployment", "web", "--cascade=background"]),
        "deployment.apps \"web\" deleted\n"
    );
    eventually("nothing is left", PATIENCE, || left(&kubectl).is_empty());
}

#[test]
fn foreground_removes_the_dependents_first() {
    let kubectl = running("delete-foreground");
    kubectl.ok(&["delete", "deployment", "web", "--cascade=foreground", "--timeout=60s"]);
    assert_eq!(left(&kubectl), "", "the owner goes last, so nothing is left once it is gone");
}

#[test]
fn orphan_leaves_the_dependents_without_owner() {
    let kubectl = running("delete-orphan");
    kubectl.ok(&["delete", "deployment", "web", "--cascade=orphan", "--timeout=60s"]);
    let rest = left(&kubectl);
    assert!(rest.contains("replicaset.apps/web-") && rest.contains("pod/web-"), "{rest}");
    assert!(!rest.contains("deployment"), "{rest}");
    assert_eq!(
        kubectl.ok(&["get", "replicasets", "-o", "jsonpath={.items[*].metadata.ownerReferences}"]),
        ""
    );
}

#[test]
fn by_force_still_ends_the_process() {
    let kubectl = shared().namespace("delete-force");
    kubectl.apply(&pod("one", &["main"])).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/one", "--timeout=60s"]);
    let mut address = String::new();
    eventually("it says where it listens", PATIENCE, || {
        kubectl
            .ok(&["logs", "one"])
            .trim_end()
            .rsplit(' ')
            .next()
            .unwrap_or_default()
            .clone_into(&mut address);
        std::net::TcpStream::connect(&address).is_ok()
    });
    kubectl.ok(&["delete", "pod", "one", "--force", "--grace-period=0"]);
    assert!(kubectl.fails(&["get", "pod", "one"]).contains("(NotFound)"));
    eventually("nobody listens any more", PATIENCE, || std::net::TcpStream::connect(&address).is_err());
}

#[test]
fn by_selector_and_all() {
    let kubectl = shared().namespace("delete-many");
    for name in ["a", "b", "c"] {
        kubectl.apply(&config_map(name, "x: z")).ok();
    }
    kubectl.ok(&["label", "configmap", "a", "b", "old=yes"]);
    kubectl.ok(&["delete", "configmap", "-l", "old=yes"]);
    let rest = kubectl.ok(&["get", "configmap", "-o", "name"]);
    assert!(
        rest.contains("configmap/c") && !rest.contains("configmap/a") && !rest.contains("configmap/b"),
        "{rest}"
    );
    kubectl.ok(&["delete", "configmap", "--all"]);
    assert!(kubectl.fails(&["get", "configmap", "c"]).contains("(NotFound)"));
    assert_eq!(kubectl.run(&["delete", "configmap", "c", "--ignore-not-found"]).code, Some(0));
}

#[test]
fn finalizers_keep_an_object() {
    let kubectl = shared().namespace("delete-finalizer");
    let kept = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, finalizers: [example.com/hold]}\n";
    kubectl.apply(kept).ok();
    let waiting = kubectl.run(&["delete", "configmap", "kept", "--timeout=1s"]);
    assert_ne!(waiting.code, Some(0), "{waiting}");
    assert!(waiting.stderr.contains("timed out waiting"), "{waiting}");
    assert_ne!(kubectl.value("configmap/kept", ".metadata.deletionTimestamp"), "");
    let added = r#"{"metadata": {"finalizers": ["example.com/hold", "example.com/late"]}}"#;
    let late = kubectl.run(&["patch", "configmap", "kept", "--type=merge", "-p", added]).fails();
    assert!(late.contains("no new finalizers can be added if the object is being deleted"), "{late}");
    kubectl.ok(&[
        "patch",
        "configmap",
        "kept",
        "--type=merge",
        "-p",
        r#"{"metadata": {"finalizers": null}}"#,
    ]);
    assert!(kubectl.fails(&["get", "configmap", "kept"]).contains("(NotFound)"));
}

#[test]
fn a_deleted_namespace_is_emptied() {
    let kubectl = running("delete-namespace");
    kubectl.apply(&config_map("inside", "a: b")).ok();
    let everywhere = shared().kubectl();
    everywhere.ok(&["delete", "namespace", "delete-namespace", "--timeout=60s"]);
    assert!(everywhere.fails(&["get", "namespace", "delete-namespace"]).contains("(NotFound)"));
    let rest = everywhere.ok(&["get", "cm,deploy,rs,pods,sa", "-n", "delete-namespace", "-o", "name"]);
    assert_eq!(rest, "");
    let refused = kubectl.apply(&config_map("late", "a: b")).fails();
    assert!(refused.contains("namespaces \"delete-namespace\" not found"), "{refused}");
}

#[test]
fn a_namespace_that_ends_takes_nothing_new() {
    let kubectl = shared().namespace("delete-ending");
    kubectl
        .apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept, finalizers: [example.com/hold]}\n")
        .ok();
    kubectl.ok(&["delete", "namespace", "delete-ending", "--wait=false"]);
    let refused = kubectl.apply(&config_map("late", "a: b")).fails();
    assert!(refused.contains("because it is being terminated"), "{refused}");
    assert_eq!(kubectl.value("namespace/delete-ending", ".status.phase"), "Terminating");
    kubectl.ok(&[
        "patch",
        "configmap",
        "kept",
        "--type=merge",
        "-p",
        r#"{"metadata": {"finalizers": null}}"#,
    ]);
    kubectl.ok(&["wait", "--for=delete", "namespace/delete-ending", "--timeout=60s"]);
}
