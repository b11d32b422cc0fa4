//! A `ProxyServer` of two replicas on the VLAN, as several tests need it, and what it says of itself.

use causeway_testkit::blocking::eventually;
use serde_json::{Value, json};

use crate::world::{PATIENCE, World};

pub const FIRST: &str = "192.168.100.4";
pub const SECOND: &str = "192.168.100.5";
pub const HOST: &str = "shop.example.com";

/// Applies ProxyServer `edge` for Service `shop` with two replicas, and these fields of the spec besides.
pub fn apply(world: &World, fields: &Value) {
    let namespace = &world.kubectl.namespace;
    let mut spec = json!({
        "networkConfig": {
            "serverIP": format!("{FIRST}/24"), "additionalServerIPs": [format!("{SECOND}/24")],
            "networkAttachmentName": "vlan",
        },
        "replicas": 2, "engine": "Native", "drainSeconds": 5,
        "backends": [{
            "name": "shop", "hostname": HOST, "port": 443,
            "targetService": "shop", "targetPort": 443, "targetNamespace": namespace,
        }],
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let object = json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer",
        "metadata": {"name": "edge"}, "spec": spec,
    });
    world.kubectl.apply(&object.to_string()).ok();
}

pub fn patch(world: &World, spec: &Value) {
    let patch = json!({ "spec": spec }).to_string();
    world.kubectl.ok(&["patch", "proxyserver/edge", "--type=merge", "-p", &patch]);
}

/// Status, reason and message of a condition, of the newest spec.
pub fn condition(world: &World, kind: &str) -> (String, String, String) {
    let object: Value =
        serde_json::from_str(&world.kubectl.ok(&["get", "proxyserver/edge", "-o", "json"])).unwrap();
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| {
        condition["type"] == kind && condition["observedGeneration"] == object["metadata"]["generation"]
    });
    let text = |field: &str| found.map_or("", |c| c[field].as_str().unwrap_or_default()).to_owned();
    (text("status"), text("reason"), text("message"))
}

/// Waits until a condition of the newest spec has this status and reason, and `text` in its message; the message.
pub fn until(world: &World, kind: &str, status: &str, reason: &str, text: &str) -> String {
    eventually(&format!("{kind} is {status} ({reason}): {text}"), PATIENCE, || {
        let (is, why, message) = condition(world, kind);
        if is == status && why == reason && message.contains(text) {
            Ok(message)
        } else {
            let state = world.kubectl.run(&["get", "pods,deployments", "-o", "wide"]).stdout;
            Err(format!("{is} {why} {message}\n{state}"))
        }
    })
}

/// Names and images of its pods that are not about to go.
pub fn pods(world: &World) -> Vec<(String, String)> {
    let text = world.kubectl.ok(&[
        "get",
        "pods",
        "-l",
        "app=proxy-server,causeway.dev/owner-name=edge",
        "-o",
        "json",
    ]);
    let list: Value = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let living = list["items"].as_array().unwrap().iter();
    let living = living.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    living.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["spec"]["containers"][0]["image"]))).collect()
}
