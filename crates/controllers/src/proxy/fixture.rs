//! ProxyServers for tests.

use causeway_api::ProxyServer;
use serde_json::{Value, json};

/// A ProxyServer `clusters/lab` of generation 2 with two backends, and these fields of the spec besides.
pub fn proxy(fields: &Value) -> ProxyServer {
    let mut spec = json!({
        "networkConfig": { "serverIP": "192.168.100.4/25", "networkAttachmentName": "vlan100" },
        "backends": [backend("api", "api.example.com", "clusters"), backend("web", "web.example.com", "tools")],
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1",
        "kind": "ProxyServer",
        "metadata": { "name": "lab", "namespace": "clusters", "uid": "u-1", "generation": 2 },
        "spec": spec,
    }))
    .expect("the fixture is a ProxyServer")
}

/// A backend of this name on port 443.
pub fn backend(name: &str, hostname: &str, namespace: &str) -> Value {
    json!({
        "name": name, "hostname": hostname, "port": 443,
        "targetService": name, "targetPort": 8443, "targetNamespace": namespace,
    })
}
