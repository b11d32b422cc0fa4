//! Rules of a Service's spec.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::builtin::check::{Errors, join};
use crate::builtin::json::{int, is_set, items, text, texts};
use crate::builtin::syntax;
use crate::error::FieldError;

pub(super) fn validate(spec: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let headless = texts(spec, "clusterIPs").first() == Some(&"None");
    let kind = text(spec, "type");
    errors.one_of(spec, "spec", "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], true);
    if items(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        errors.required("spec.ports", "");
    }
    if headless && matches!(kind, "LoadBalancer" | "NodePort") {
        let detail = format!("may not be set to 'None' for {kind} services");
        errors.invalid("spec.clusterIPs[0]", "None", detail);
    }
    ports(spec, &mut errors);
    errors.labels(spec, "spec", "selector");
    errors.one_of(spec, "spec", "sessionAffinity", &["ClientIP", "None"], true);
    affinity(spec, &mut errors);
    if kind == "ExternalName" {
        external_name(spec, &mut errors);
    } else {
        addresses(spec, &mut errors);
    }
    for (i, ip) in texts(spec, "externalIPs").into_iter().enumerate() {
        errors.complain(&format!("spec.externalIPs[{i}]"), ip, syntax::ip(ip));
    }
    traffic(spec, &mut errors);
    if let Some(old) = old {
        unchanged_addresses(spec, old, &mut errors);
    }
    errors.into_vec()
}

fn ports(spec: &Value, errors: &mut Errors) {
    let (mut names, mut numbers, mut nodes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let list = items(spec, "ports");
    for (i, port) in list.iter().enumerate() {
        let path = format!("spec.ports[{i}]");
        let name = text(port, "name");
        if name.is_empty() {
            if list.len() > 1 {
                errors.required(join(&path, "name"), "");
            }
        } else {
            errors.complain(&join(&path, "name"), name, syntax::label(name));
            if !names.insert(name) {
                errors.duplicate(join(&path, "name"), name);
            }
        }
        let number = int(port, "port").unwrap_or_default();
        errors.complain(&join(&path, "port"), number, syntax::port_number(number));
        errors.one_of(port, &path, "protocol", &["SCTP", "TCP", "UDP"], true);
        errors.port_or_name(port, &path, "targetPort");
        let app = text(port, "appProtocol");
        if !app.is_empty() {
            errors.complain(&join(&path, "appProtocol"), app, syntax::qualified_name(app));
        }
        let protocol = text(port, "protocol");
        if !numbers.insert((protocol, number)) {
            errors.duplicate(path.clone(), json!({"protocol": protocol, "port": number, "targetPort": 0}));
        }
        let node = int(port, "nodePort").unwrap_or_default();
        if node != 0 && text(spec, "type") == "ClusterIP" {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(join(&path, "nodePort"), detail);
        }
        if node != 0 && !nodes.insert((protocol, node)) {
            errors.duplicate(join(&path, "nodePort"), node);
        }
    }
}

fn affinity(spec: &Value, errors: &mut Errors) {
    let (config, path) = (&spec["sessionAffinityConfig"], "spec.sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "None" if is_set(spec, "sessionAffinityConfig") => {
            errors.forbidden(path, "must not be set when session affinity is None");
        }
        "ClientIP" => {
            let seconds = int(&config["clientIP"], "timeoutSeconds").unwrap_or_default();
            if !(1..=86400).contains(&seconds) {
                let detail = "must be greater than 0 and less than 86400";
                errors.invalid(join(path, "clientIP.timeoutSeconds"), seconds, detail);
            }
        }
        _ => {}
    }
}

fn external_name(spec: &Value, errors: &mut Errors) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let set = !items(spec, field).is_empty() || spec[field].is_string();
        if set {
            errors.forbidden(join("spec", field), "may not be set for ExternalName services");
        }
    }
    let name = text(spec, "externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.required("spec.externalName", ""),
        name => errors.complain("spec.externalName", name, syntax::subdomain(name)),
    }
}

fn addresses(spec: &Value, errors: &mut Errors) {
    let path = "spec.clusterIPs";
    let (ip, ips) = (text(spec, "clusterIP"), texts(spec, "clusterIPs"));
    let list = || Value::from(ips.clone());
    match (ip, ips.first()) {
        ("", Some(_)) => {
            errors.invalid(path, list(), "must be empty when `clusterIP` is not specified");
        }
        ("", None) => {}
        (_, None) => errors.required(path, ""),
        (ip, Some(first)) if ip != *first => {
            errors.invalid(path, list(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    for (i, family) in texts(spec, "ipFamilies").into_iter().enumerate() {
        let at = format!("spec.ipFamilies[{i}]");
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(FieldError::not_supported(at, &family.into(), &["IPv4", "IPv6"]));
        } else if texts(spec, "ipFamilies")[..i].contains(&family) {
            errors.duplicate(at, family);
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    errors.one_of(spec, "spec", "ipFamilyPolicy", &policies, false);
    if ips.first() == Some(&"None") {
        if ips.len() > 1 {
            errors.invalid(path, list(), "'None' must be the first and only value");
        }
        return;
    }
    if ips.len() > 2 {
        errors.invalid(path, list(), "may only hold up to 2 values");
    }
    let families = texts(spec, "ipFamilies");
    for (i, ip) in ips.iter().enumerate() {
        let at = format!("{path}[{i}]");
        let complaints = syntax::ip(ip);
        if complaints.is_empty()
            && let Some(family) = families.get(i)
            && (*family == "IPv6") != ip.contains(':')
        {
            // The server gives out IPv4 addresses, so this one need not be the writer's.
            if *family == "IPv6" {
                let at = format!("spec.ipFamilies[{i}]");
                errors.invalid(at, *family, "not configured on this cluster");
            } else {
                let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
                errors.invalid(at.clone(), *ip, detail);
            }
        }
        errors.complain(&at, *ip, complaints);
    }
    if let [a, b] = ips[..]
        && a.contains(':') == b.contains(':')
    {
        errors.invalid(path, list(), "may specify no more than one IP for each IP family");
    }
}

fn traffic(spec: &Value, errors: &mut Errors) {
    let balanced = text(spec, "type") == "LoadBalancer";
    let external = balanced || text(spec, "type") == "NodePort" || !items(spec, "externalIPs").is_empty();
    if !external && !text(spec, "externalTrafficPolicy").is_empty() {
        let value = text(spec, "externalTrafficPolicy");
        let detail = "may only be set for externally-accessible services";
        errors.invalid("spec.externalTrafficPolicy", value, detail);
    }
    errors.one_of(spec, "spec", "externalTrafficPolicy", &["Cluster", "Local"], false);
    errors.one_of(spec, "spec", "internalTrafficPolicy", &["Cluster", "Local"], false);
    if is_set(spec, "allocateLoadBalancerNodePorts") && !balanced {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.forbidden("spec.allocateLoadBalancerNodePorts", detail);
    }
    if !items(spec, "loadBalancerSourceRanges").is_empty() && !balanced {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.forbidden("spec.LoadBalancerSourceRanges", detail);
    }
}

/// The primary address stays for as long as the Service has one at all.
fn unchanged_addresses(spec: &Value, old: &Value, errors: &mut Errors) {
    let external = |spec: &Value| text(spec, "type") == "ExternalName";
    if external(spec) || external(old) {
        return;
    }
    let (new, old) = (texts(spec, "clusterIPs"), texts(old, "clusterIPs"));
    let list = Value::from(new.clone());
    match (new.first(), old.first()) {
        (None, Some(_)) => errors.invalid("spec.clusterIPs[0]", list, "primary clusterIP can not be unset"),
        (Some(a), Some(b)) if a != b => errors.invalid("spec.clusterIPs[0]", list, "may not change once set"),
        _ => {}
    }
}
