//! The resources of the demo: a network, and the `Infra` on it.

use serde_json::{Value, json};

use crate::commands::demo::proxy::manifests::NAMESPACE;

pub(super) const INFRA: &str = "lab";
pub(super) const DOMAIN: &str = "lab.demo.test";
pub(super) const BRIDGE: &str = "demo-lan";
const NETWORK: &str = "demo-lan";

/// The backends that every `Infra` has unless it says otherwise: those of a hosted control plane, which is not here.
const STANDARD: [&str; 6] = [
    "kube-apiserver",
    "kube-apiserver-internal",
    "kube-apiserver-kubernetes-hostname",
    "oauth-openshift",
    "ignition-server",
    "konnectivity-server",
];

pub(super) fn network() -> Value {
    let config = json!({"cniVersion": "1.0.0", "name": NETWORK, "type": "bridge", "bridge": BRIDGE, "ipam": {"type": "static"}});
    json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": NETWORK, "namespace": NAMESPACE}, "spec": {"config": config.to_string()},
    })
}

pub(super) fn infra() -> Value {
    let mut backends: Vec<Value> =
        STANDARD.iter().map(|name| json!({"name": name, "disabled": true})).collect();
    backends.push(json!({
        "name": "shop", "hostname": format!("shop.{DOMAIN}"), "port": 443, "targetService": "shop", "targetPort": 443,
    }));
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "Infra",
        "metadata": {"name": INFRA, "namespace": NAMESPACE},
        "spec": {
            "networkConfig": {
                "cidr": "192.168.100.0/24", "gateway": "192.168.100.1", "networkAttachmentDefinition": NETWORK,
            },
            "infraComponents": {
                "dhcp": {},
                "dns": {"baseDomain": "demo.test"},
                "proxy": {"engine": "Native", "controlPlaneNamespace": NAMESPACE, "backends": backends},
            },
        },
    })
}
