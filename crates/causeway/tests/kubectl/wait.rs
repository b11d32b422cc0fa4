//! `kubectl wait`.

use std::process::Stdio;

use crate::objects::{config_map, deployment, pod};
use crate::peer::shared;

#[test]
fn for_conditions_values_and_deletion() {
    let kubectl = shared().namespace("wait");
    kubectl.apply(&pod("one", &["main"])).ok();
    assert_eq!(
        kubectl.ok(&["wait", "--for=condition=Ready", "pod/one", "--timeout=60s"]),
        "pod/one condition met\n"
    );
    kubectl.ok(&["wait", "--for=jsonpath={.status.phase}=Running", "pod/one", "--timeout=60s"]);
    kubectl.apply(&deployment("web", 1)).ok();
    kubectl.ok(&["wait", "--for=condition=Available", "deployment", "--all", "--timeout=60s"]);
    let never = kubectl.fails(&["wait", "--for=condition=Never", "pod/one", "--timeout=1s"]);
    assert!(never.contains("timed out waiting for the condition on pods/one"), "{never}");

    kubectl.apply(&config_map("late", "a: b")).ok();
    let waiting = kubectl
        .command(&["wait", "--for=delete", "configmap/late", "--timeout=60s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    kubectl.ok(&["delete", "configmap", "late"]);
    assert!(waiting.wait_with_output().unwrap().status.success());
    kubectl.ok(&["delete", "pod", "one", "--timeout=60s"]);
    assert!(kubectl.fails(&["get", "pod", "one"]).contains("(NotFound)"), "delete waits until it is gone");
}
