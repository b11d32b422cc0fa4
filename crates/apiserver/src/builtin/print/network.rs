//! Rows of Services, their endpoints and network policies.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, NAME, SELECTOR, age, col, first, labels, name, or, selector};
use crate::builtin::json::{int, items, text, texts};
use crate::resource::ColumnDef;

pub(crate) const SERVICE: &[ColumnDef] = &[
    NAME,
    col("Type", "string", "How the Service is reached."),
    col("Cluster-IP", "string", "The virtual address of the Service."),
    col("External-IP", "string", "Addresses from outside the cluster."),
    col("Port(s)", "string", "Ports, their node ports and protocols."),
    AGE,
    SELECTOR,
];

pub(crate) fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let ip = texts(spec, "clusterIPs").first().copied().unwrap_or_else(|| text(spec, "clusterIP"));
    let ports: Vec<_> = items(spec, "ports").iter().map(port).collect();
    vec![
        name(object),
        text(spec, "type").into(),
        or(ip, "<none>").into(),
        external_ip(object).into(),
        or(&ports.join(","), "<none>").into(),
        age(object, now),
        labels(spec, "selector").into(),
    ]
}

fn port(port: &Value) -> String {
    let number = int(port, "port").unwrap_or_default();
    let protocol = text(port, "protocol");
    match int(port, "nodePort").unwrap_or_default() {
        0 => format!("{number}/{protocol}"),
        node => format!("{number}:{node}/{protocol}"),
    }
}

fn external_ip(service: &Value) -> String {
    let spec = &service["spec"];
    let mut addresses = Vec::new();
    match text(spec, "type") {
        "ExternalName" => return text(spec, "externalName").to_owned(),
        "LoadBalancer" => addresses.extend(
            items(&service["status"]["loadBalancer"], "ingress")
                .iter()
                .map(|i| or(text(i, "ip"), text(i, "hostname")))
                .filter(|a| !a.is_empty()),
        ),
        "ClusterIP" | "NodePort" => {}
        _ => return "<unknown>".to_owned(),
    }
    addresses.extend(texts(spec, "externalIPs"));
    let none = if text(spec, "type") == "LoadBalancer" { "<pending>" } else { "<none>" };
    or(&addresses.join(","), none).to_owned()
}

pub(crate) const ENDPOINTS: &[ColumnDef] =
    &[NAME, col("Endpoints", "string", "Addresses and ports that are ready."), AGE];

pub(crate) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut list = Vec::new();
    for subset in items(object, "subsets") {
        let ips = items(subset, "addresses").iter().map(|a| text(a, "ip"));
        if items(subset, "ports").is_empty() {
            list.extend(ips.clone().map(str::to_owned));
        }
        for port in items(subset, "ports") {
            let port = int(port, "port").unwrap_or_default();
            list.extend(
                ips.clone().map(|ip| {
                    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
                }),
            );
        }
    }
    vec![name(object), first(list, 3, ",", "<none>").into(), age(object, now)]
}

pub(crate) const ENDPOINT_SLICE: &[ColumnDef] = &[
    NAME,
    col("AddressType", "string", "What the addresses are: IPv4, IPv6 or names."),
    col("Ports", "string", "Ports of every endpoint."),
    col("Endpoints", "string", "Addresses of the endpoints."),
    AGE,
];

pub(crate) fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let port = |p: &Value| match int(p, "port") {
        Some(number) => number.to_string(),
        None => or(text(p, "name"), "*").to_owned(),
    };
    let ports = items(object, "ports").iter().map(port).collect();
    let addresses =
        items(object, "endpoints").iter().flat_map(|e| texts(e, "addresses")).map(str::to_owned).collect();
    vec![
        name(object),
        text(object, "addressType").into(),
        first(ports, 3, ",", "<unset>").into(),
        first(addresses, 3, ",", "<unset>").into(),
        age(object, now),
    ]
}

pub(crate) const NETWORK_POLICY: &[ColumnDef] =
    &[NAME, col("Pod-Selector", "string", "Labels of the pods the policy is for."), AGE];

pub(crate) fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), selector(&object["spec"]["podSelector"]).into(), age(object, now)]
}
