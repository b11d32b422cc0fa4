//! `kubectl describe` and `kubectl events`.

use crate::objects::{deployment, pod};
use crate::peer::shared;

fn contains_all(text: &str, parts: &[&str]) {
    let squeezed: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in parts {
        assert!(squeezed.contains(part), "lacks {part:?}:\n{text}");
    }
}

#[test]
fn pods_and_their_events() {
    let kubectl = shared().namespace("describe-pod");
    kubectl.apply(&pod("one", &["main"])).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/one", "--timeout=60s"]);
    let parts = [
        "Name: one",
        "Namespace: describe-pod",
        "Status: Running",
        "IP: 127.1",
        "Image: causeway.dev/causeway:1",
        "State: Running",
        "Ready: True",
        "Restart Count: 0",
        "PodScheduled True",
        "Scheduled",
        "Started",
    ];
    contains_all(&kubectl.ok(&["describe", "pod", "one"]), &parts);
    let events = kubectl.ok(&["events", "--for", "pod/one"]);
    contains_all(&events, &["LAST SEEN TYPE REASON OBJECT MESSAGE", "Normal Started Pod/one"]);
    contains_all(&kubectl.ok(&["events", "--types=Normal"]), &["Pod/one"]);
}

#[test]
fn deployments_and_services() {
    let kubectl = shared().namespace("describe-web");
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}\n";
    kubectl.apply(&format!("{}---\n{service}", deployment("web", 1))).ok();
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let parts = [
        "Replicas: 1 desired | 1 updated | 1 total | 1 available | 0 unavailable",
        "StrategyType: RollingUpdate",
        "Available True MinimumReplicasAvailable",
        "Progressing True NewReplicaSetAvailable",
        "NewReplicaSet: web-",
        "ScalingReplicaSet",
    ];
    contains_all(&kubectl.ok(&["describe", "deployment", "web"]), &parts);
    contains_all(
        &kubectl.ok(&["describe", "replicaset", "-l", "app=web"]),
        &["Controlled By: Deployment/web", "SuccessfulCreate"],
    );
    let parts = [
        "Selector: app=web",
        "Type: ClusterIP",
        "Port: http 80/TCP",
        "TargetPort: 8080/TCP",
        "Endpoints: 127.1",
    ];
    contains_all(&kubectl.ok(&["describe", "service", "web"]), &parts);
}

#[test]
fn nodes() {
    let kubectl = shared().kubectl();
    let node = kubectl.ok(&["get", "nodes", "-o", "name"]);
    let parts = [
        "Roles: control-plane",
        "KubeletReady the local node is running pods",
        "InternalIP: 127.0.0.1",
        "Allocatable:",
        "Non-terminated Pods:",
    ];
    contains_all(&kubectl.ok(&["describe", node.trim()]), &parts);
}
