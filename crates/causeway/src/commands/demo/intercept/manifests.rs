//! The resources that the demo applies.

use serde_json::{Value, json};

pub(super) const NAMESPACE: &str = "demo";
/// The service in the cluster.
pub(super) const SHOP: &str = "shop";
/// Its port.
pub(super) const PORT: u16 = 80;
/// The developer's machine, and what the program on it calls itself.
pub(super) const LAPTOP: &str = "laptop";

pub(super) fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

/// Deployment and Service of an HTTP server whose answers name it.
pub(super) fn shop() -> [Value; 2] {
    let labels = json!({"app": SHOP});
    let metadata = json!({"name": SHOP, "namespace": NAMESPACE});
    let container = json!({
        "name": "server", "image": causeway_api::names::OWN_IMAGE,
        "args": ["echo", "--name", SHOP, "--listen", "$(POD_IP):8080"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    });
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    [
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"port": PORT, "targetPort": "http"}]},
        }),
    ]
}
