//! An `Infra` whose component is a proxy, as a virtual machine on its network meets it.

use causeway_testkit::blocking::eventually;
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

#[test]
fn an_infra_brings_its_proxy_and_takes_it_away() {
    let Some(world) = World::new("infra") else { return };
    world.server("shop");
    let standard = [
        "kube-apiserver",
        "kube-apiserver-internal",
        "kube-apiserver-kubernetes-hostname",
        "oauth-openshift",
        "ignition-server",
        "konnectivity-server",
    ];
    let mut backends: Vec<Value> =
        standard.iter().map(|name| json!({"name": name, "disabled": true})).collect();
    backends.push(json!({
        "name": "shop", "hostname": "shop.example.com", "port": 443, "targetService": "shop", "targetPort": 443,
    }));
    let infra = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "Infra", "metadata": {"name": "site"},
        "spec": {
            "networkConfig": {
                "cidr": "192.168.100.0/24", "gateway": "192.168.100.1", "networkAttachmentDefinition": "vlan",
            },
            "infraComponents": {
                "dns": {"enabled": false, "baseDomain": "example.com"},
                "proxy": {"engine": "Native", "controlPlaneNamespace": world.kubectl.namespace, "backends": backends},
            },
        },
    });
    world.kubectl.apply(&infra.to_string()).ok();
    world.wait("infra/site", "Ready");
    let address = world.kubectl.value("infra/site", ".status.addresses.proxy");
    let answer = world.ask("shop.example.com", &address).unwrap();
    assert!(answer.contains("shop"), "{answer}");

    world.kubectl.ok(&["delete", "infra/site", "--timeout=60s"]);
    eventually("what the Infra brought is gone", PATIENCE, || {
        let left = world.kubectl.ok(&["get", "causeway,deployments,pods", "-o", "name"]);
        let mut left = left.lines().filter(|name| name.contains("site"));
        left.next().map_or(Ok(()), |name| Err(name.to_owned()))
    });
}
