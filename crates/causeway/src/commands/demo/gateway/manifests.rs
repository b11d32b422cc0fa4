//! The resources that the demo applies: the Gateway is that of one team, the routes and Services are those of two others.

use serde_json::{Value, json};

use crate::commands::demo::proxy::manifests::Authority;

pub(super) const NAMESPACE: &str = "demo";
pub(super) const GATEWAY: &str = "web";
pub(super) const HTTP: u16 = 8080;
pub(super) const HTTPS: u16 = 8443;
const GROUP: &str = "gateway.networking.k8s.io/v1";

pub(in crate::commands::demo) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Deployment and Service of an HTTP server whose answers name it.
pub(in crate::commands::demo) fn service(namespace: &str, name: &str) -> [Value; 2] {
    let labels = json!({"app": name});
    let metadata = json!({"name": name, "namespace": namespace});
    let container = json!({
        "name": "server", "image": causeway_api::names::OWN_IMAGE,
        "args": ["echo", "--name", name, "--listen", "$(POD_IP):8080"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    });
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
    [
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
        }),
    ]
}

/// A certificate for all hosts of the demo.
pub(super) fn certificate(authority: &Authority) -> anyhow::Result<Value> {
    let (certificate, key) = authority.issue("*.demo.test")?;
    Ok(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "site", "namespace": NAMESPACE},
        "stringData": {"tls.crt": certificate, "tls.key": key},
    }))
}

/// The Gateway, which routes of every namespace may use.
pub(super) fn gateway() -> Value {
    let from_all = json!({"namespaces": {"from": "All"}});
    json!({
        "apiVersion": GROUP, "kind": "Gateway", "metadata": {"name": GATEWAY, "namespace": NAMESPACE},
        "spec": {"gatewayClassName": "causeway", "listeners": [
            {"name": "http", "port": HTTP, "protocol": "HTTP", "allowedRoutes": from_all},
            {"name": "https", "port": HTTPS, "protocol": "HTTPS", "allowedRoutes": from_all,
                "tls": {"certificateRefs": [{"name": "site"}]}},
        ]},
    })
}

/// A route for `NAME.demo.test` to these Services with their weights; a Service may be one of another namespace.
pub(super) fn route(namespace: &str, name: &str, to: &[(&str, &str, u32)]) -> Value {
    let backend = |(namespace, service, weight): &(&str, &str, u32)| json!({"name": service, "namespace": namespace, "port": 80, "weight": weight});
    json!({
        "apiVersion": GROUP, "kind": "HTTPRoute", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "parentRefs": [{"name": GATEWAY, "namespace": NAMESPACE}],
            "hostnames": [format!("{name}.demo.test")],
            "rules": [{"backendRefs": to.iter().map(backend).collect::<Vec<_>>()}],
        },
    })
}
