//! ProxyServers for tests.

use std::sync::Arc;

use causeway_api::ProxyServer;
use serde_json::{Value, json};

use crate::grants::Grants;

/// A ProxyServer `clusters/lab` of generation 2 with two backends, and these fields of the spec besides.
pub(crate) fn proxy(fields: &Value) -> ProxyServer {
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
pub(crate) fn backend(name: &str, hostname: &str, namespace: &str) -> Value {
    json!({
        "name": name, "hostname": hostname, "port": 443,
        "targetService": name, "targetPort": 8443, "targetNamespace": namespace,
    })
}

/// The grant of namespace `tools` that lets ProxyServers of `clusters` use this Service, or all of them.
pub(crate) fn grants(service: Option<&str>) -> Grants {
    let mut to = json!({ "group": "", "kind": "Service" });
    if let Some(service) = service {
        to["name"] = service.into();
    }
    let grant = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "ReferenceGrant",
        "metadata": { "name": "proxies", "namespace": "tools" },
        "spec": {
            "from": [{ "group": "causeway.dev", "kind": "ProxyServer", "namespace": "clusters" }],
            "to": [to],
        },
    });
    Grants::read(&[Arc::new(serde_json::from_value(grant).expect("the fixture is an object"))])
}
