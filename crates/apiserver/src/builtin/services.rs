//! Services, Endpoints and EndpointSlices.

mod endpoints;
mod validation;

use std::net::IpAddr;

use serde_json::{Value, json};

use super::json::{child, fill, fill_empty, int, items, items_mut, text, texts};
use super::kind::Kind;
use super::print;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

pub(super) fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("", "v1", "Service", "services")
            .short(&["svc"])
            .in_all()
            .status()
            .selectable(&["spec.clusterIP", "spec.type"])
            .columns(print::SERVICE, print::service)
            .strategy(Service)
            .build(),
        Kind::new("", "v1", "Endpoints", "endpoints")
            .short(&["ep"])
            .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            .columns(print::ENDPOINTS, print::endpoints)
            .strategy(endpoints::Endpoints)
            .build(),
        Kind::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
            .columns(print::ENDPOINT_SLICE, print::endpoint_slice)
            .strategy(endpoints::EndpointSlice)
            .build(),
    ]
}

/// What a Service needs in the way of a virtual address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClusterIpWish {
    /// Any free one.
    Allocate,
    /// None, said with `clusterIP: None`.
    Headless,
    /// This one, if it is free.
    Fixed(IpAddr),
    /// None: the kind of Service has no address, or what it asks for is no address.
    None,
}

pub(crate) fn cluster_ip_wanted(service: &Value) -> ClusterIpWish {
    let spec = &service["spec"];
    if text(spec, "type") == "ExternalName" {
        return ClusterIpWish::None;
    }
    let first = texts(spec, "clusterIPs").first().copied().unwrap_or_default();
    match [text(spec, "clusterIP"), first].into_iter().find(|ip| !ip.is_empty()) {
        None => ClusterIpWish::Allocate,
        Some("None") => ClusterIpWish::Headless,
        Some(ip) => ip.parse().map_or(ClusterIpWish::None, ClusterIpWish::Fixed),
    }
}

struct Service;

impl Strategy for Service {
    fn default(&self, service: &mut Value) {
        if let Some(spec) = child(service, "spec") {
            defaults(spec);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validation::validate(&new["spec"], old.map(|o| &o["spec"]))
    }

    fn prepare(&self, new: &mut Value, old: Option<&Value>) {
        fill(new, "status", json!({"loadBalancer": {}}));
        let Some(spec) = child(new, "spec") else { return };
        match old {
            None => sync_cluster_ips(spec),
            Some(old) => {
                keep_allocated(spec, &old["spec"]);
                drop_unneeded(spec, &old["spec"]);
            }
        }
        choose_families(spec);
    }

    fn has_generation(&self) -> bool {
        false
    }
}

fn defaults(spec: &mut Value) {
    fill_empty(spec, "type", "ClusterIP");
    fill_empty(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "ClientIP" {
        fill(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
    } else if let Some(map) = spec.as_object_mut() {
        map.remove("sessionAffinityConfig");
    }
    for port in items_mut(spec, "ports") {
        fill_empty(port, "protocol", "TCP");
        let number = port["port"].clone();
        fill_empty(port, "targetPort", number);
    }
    let kind = text(spec, "type").to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
    if kind != "ExternalName" {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
}

/// The server's choice, which is no part of what the author said.
fn choose_families(spec: &mut Value) {
    if text(spec, "type") != "ExternalName" {
        let v6 = text(spec, "clusterIP").contains(':');
        fill_empty(spec, "ipFamilies", json!([if v6 { "IPv6" } else { "IPv4" }]));
        let dual = items(spec, "ipFamilies").len() > 1;
        fill(spec, "ipFamilyPolicy", if dual { "RequireDualStack" } else { "SingleStack" });
    }
}

/// The single address and the list say the same; who sets the first need not set the second.
fn sync_cluster_ips(spec: &mut Value) {
    let ip = text(spec, "clusterIP").to_owned();
    if !ip.is_empty() {
        fill_empty(spec, "clusterIPs", json!([ip]));
    }
}

/// An update that leaves out what the server allocated keeps it, as long as the new type needs it.
fn keep_allocated(spec: &mut Value, old: &Value) {
    let has_ip = |spec: &Value| text(spec, "type") != "ExternalName";
    if !has_ip(spec) {
        let Some(map) = spec.as_object_mut().filter(|_| has_ip(old)) else {
            return;
        };
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if map.get(field) == old.get(field) {
                map.remove(field);
            }
        }
        return;
    }
    if has_ip(old) {
        let (ip, old_ip) = (text(spec, "clusterIP").to_owned(), text(old, "clusterIP"));
        if ip.is_empty() && items(spec, "clusterIPs").is_empty() {
            for field in ["clusterIP", "clusterIPs"].into_iter().filter(|f| !old[*f].is_null()) {
                fill_empty(spec, field, old[field].clone());
            }
        } else if ip != old_ip && spec["clusterIPs"] == old["clusterIPs"] {
            // Only the single field was changed, so the list follows.
            spec["clusterIPs"] = if ip.is_empty() { json!([]) } else { json!([ip]) };
        }
    }
    sync_cluster_ips(spec);
    let on_node = |spec: &Value| matches!(text(spec, "type"), "NodePort" | "LoadBalancer");
    if on_node(spec) && on_node(old) {
        for port in items_mut(spec, "ports") {
            let protocol = |p: &Value| or_tcp(text(p, "protocol")).to_owned();
            let same = |p: &&Value| p["port"] == port["port"] && protocol(p) == protocol(port);
            let before = items(old, "ports").iter().find(same).and_then(|p| int(p, "nodePort"));
            if let Some(number) = before.filter(|&n| n != 0) {
                fill_empty(port, "nodePort", number);
            }
        }
    }
}

/// Fields that only the old type needed go with it, unless the update says something new about them.
fn drop_unneeded(spec: &mut Value, old: &Value) {
    let balanced = |spec: &Value| text(spec, "type") == "LoadBalancer";
    let on_node = |spec: &Value| balanced(spec) || text(spec, "type") == "NodePort";
    let mut fields = Vec::new();
    if on_node(old) && !on_node(spec) {
        fields.push("externalTrafficPolicy");
        for (i, port) in items_mut(spec, "ports").enumerate() {
            let same = port["nodePort"] == old["ports"][i]["nodePort"];
            if let Some(port) = port.as_object_mut().filter(|_| same) {
                port.remove("nodePort");
            }
        }
    }
    if balanced(old) && !balanced(spec) {
        fields.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"]);
    }
    if let Some(map) = spec.as_object_mut() {
        for field in fields {
            if map.get(field) == old.get(field) {
                map.remove(field);
            }
        }
    }
}

/// Runs before defaulting, so a protocol may be missing.
fn or_tcp(protocol: &str) -> &str {
    if protocol.is_empty() { "TCP" } else { protocol }
}

#[cfg(test)]
mod tests;
