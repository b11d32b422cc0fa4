//! Rows of namespaces, nodes, leases and volume claims.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, age, col, name, or, wide};
use crate::builtin::json::{flag, items, text, texts};
use crate::object;
use crate::resource::ColumnDef;

pub(crate) const NAMESPACE: &[ColumnDef] = &[NAME, col("Status", "string", "Active or Terminating."), AGE];

pub(crate) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["status"], "phase").into(), age(object, now)]
}

pub(crate) const NODE: &[ColumnDef] = &[
    NAME,
    col("Status", "string", "Whether the node is ready and takes pods."),
    col("Roles", "string", "The roles of the node, from its labels."),
    AGE,
    col("Version", "string", "Version of what runs the pods."),
    wide("Internal-IP", "Address inside the cluster."),
    wide("External-IP", "Address from outside."),
    wide("OS-Image", "The operating system."),
    wide("Kernel-Version", "The kernel."),
    wide("Container-Runtime", "What runs the containers."),
];

pub(crate) fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let info = &object["status"]["nodeInfo"];
    let address = |ty: &str| {
        items(&object["status"], "addresses")
            .iter()
            .find(|a| text(a, "type") == ty)
            .map_or("<none>", |a| text(a, "address"))
    };
    vec![
        name(object),
        node_status(object).into(),
        node_roles(object).into(),
        age(object, now),
        text(info, "kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        or(text(info, "osImage"), "<unknown>").into(),
        kernel(info).into(),
        or(text(info, "containerRuntimeVersion"), "<unknown>").into(),
    ]
}

/// With the processor that it is for.
fn kernel(info: &Value) -> String {
    match (text(info, "kernelVersion"), text(info, "architecture")) {
        ("", _) => "<unknown>".to_owned(),
        (version, "") => version.to_owned(),
        (version, architecture) => format!("{version} ({architecture})"),
    }
}

fn node_status(node: &Value) -> String {
    let ready = items(&node["status"], "conditions").iter().find(|c| text(c, "type") == "Ready");
    let mut status = match ready.map(|c| text(c, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(&node["spec"], "unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn node_roles(node: &Value) -> String {
    let mut roles: Vec<_> = object::labels(node)
        .into_iter()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role.to_owned()),
            None => (key == "kubernetes.io/role").then_some(value),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort();
    roles.dedup();
    or(&roles.join(","), "<none>").to_owned()
}

pub(crate) const LEASE: &[ColumnDef] = &[NAME, col("Holder", "string", "Who holds the lease."), AGE];

pub(crate) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(&object["spec"], "holderIdentity").into(), age(object, now)]
}

pub(crate) const CLAIM: &[ColumnDef] = &[
    NAME,
    col("Status", "string", "Whether the claim is bound."),
    col("Volume", "string", "The volume that is bound to the claim."),
    col("Capacity", "string", "Size of the volume."),
    col("Access Modes", "string", "How the volume can be mounted."),
    col("StorageClass", "string", "The storage class of the claim."),
    col("VolumeAttributesClass", "string", "The volume attributes class of the claim."),
    AGE,
    wide("VolumeMode", "File system or block device."),
];

pub(crate) fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let phase = if object::is_terminating(object) { "Terminating" } else { text(status, "phase") };
    let bound = !text(spec, "volumeName").is_empty();
    let class = text(&object["metadata"]["annotations"], "volume.beta.kubernetes.io/storage-class");
    vec![
        name(object),
        phase.into(),
        text(spec, "volumeName").into(),
        if bound { or(text(&status["capacity"], "storage"), "0") } else { "" }.into(),
        if bound { access_modes(status) } else { String::new() }.into(),
        or(class, text(spec, "storageClassName")).into(),
        spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>").into(),
        age(object, now),
        or(text(spec, "volumeMode"), "<unset>").into(),
    ]
}

fn access_modes(status: &Value) -> String {
    let modes = texts(status, "accessModes");
    [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .filter(|(mode, _)| modes.contains(mode))
    .map(|(_, short)| short)
    .collect::<Vec<_>>()
    .join(",")
}
