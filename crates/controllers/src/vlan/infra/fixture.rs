//! Infras for tests.

use causeway_api::Infra;
use serde_json::{Value, json};

/// An Infra `clusters/lab` on 192.168.100.0/24 with these components.
pub(crate) fn infra(components: &Value) -> Infra {
    serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1",
        "kind": "Infra",
        "metadata": { "name": "lab", "namespace": "clusters", "uid": "u-1", "generation": 1 },
        "spec": {
            "networkConfig": {
                "cidr": "192.168.100.0/24",
                "gateway": "192.168.100.1",
                "networkAttachmentDefinition": "vlan100",
                "dnsServers": ["10.0.0.53"],
            },
            "infraComponents": components,
        },
    }))
    .expect("the fixture is an Infra")
}

/// All three components with nothing but the domain written.
pub(crate) fn all() -> Value {
    json!({ "dhcp": {}, "dns": { "baseDomain": "example.com" }, "proxy": {} })
}
