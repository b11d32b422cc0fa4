//! NetworkPolicies.

use ipnet::IpNet;
use serde_json::{Value, json};

use super::check::{Errors, join};
use super::json::{child, fill, fill_empty, int, is_set, items, items_mut, text, texts};
use super::kind::Kind;
use super::print;
use super::syntax;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

pub(super) fn kinds() -> Vec<Resource> {
    vec![
        Kind::new("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
            .short(&["netpol"])
            .columns(print::NETWORK_POLICY, print::network_policy)
            .strategy(NetworkPolicy)
            .build(),
    ]
}

struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn default(&self, policy: &mut Value) {
        let Some(spec) = child(policy, "spec") else { return };
        fill(spec, "podSelector", json!({}));
        let types =
            if items(spec, "egress").is_empty() { json!(["Ingress"]) } else { json!(["Ingress", "Egress"]) };
        fill_empty(spec, "policyTypes", types);
        for direction in ["ingress", "egress"] {
            for rule in items_mut(spec, direction) {
                for port in items_mut(rule, "ports") {
                    fill(port, "protocol", "TCP");
                }
            }
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let spec = &new["spec"];
        errors.selector(&spec["podSelector"], "spec.podSelector");
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for (i, rule) in items(spec, direction).iter().enumerate() {
                let path = format!("spec.{direction}[{i}]");
                for (j, item) in items(rule, "ports").iter().enumerate() {
                    port(item, &format!("{path}.ports[{j}]"), &mut errors);
                }
                for (j, item) in items(rule, peers).iter().enumerate() {
                    peer(item, &format!("{path}.{peers}[{j}]"), &mut errors);
                }
            }
        }
        for (i, ty) in texts(spec, "policyTypes").into_iter().enumerate() {
            if !matches!(ty, "Ingress" | "Egress") {
                let path = format!("spec.policyTypes[{i}]");
                errors.push(FieldError::not_supported(path, &ty.into(), &["Ingress", "Egress"]));
            }
        }
        errors.into_vec()
    }
}

fn port(port: &Value, path: &str, errors: &mut Errors) {
    errors.one_of(port, path, "protocol", &["TCP", "UDP", "SCTP"], false);
    let (at, end) = (join(path, "endPort"), int(port, "endPort"));
    match (&port["port"], end) {
        (Value::Null, Some(end)) => {
            errors.invalid(at, end, "may not be specified when `port` is not specified");
        }
        (Value::String(_), Some(end)) => {
            errors.invalid(at, end, "may not be specified when `port` is non-numeric");
        }
        (start, Some(end)) => {
            if start.as_i64().is_some_and(|start| end < start) {
                errors.invalid(at.clone(), end, "must be greater than or equal to `port`");
            }
            errors.complain(&at, end, syntax::port_number(end));
        }
        (_, None) => {}
    }
    if is_set(port, "port") {
        errors.port_or_name(port, path, "port");
    }
}

fn peer(peer: &Value, path: &str, errors: &mut Errors) {
    let selectors: Vec<_> =
        ["podSelector", "namespaceSelector"].into_iter().filter(|s| is_set(peer, s)).collect();
    for selector in &selectors {
        errors.selector(&peer[*selector], &join(path, selector));
    }
    match (selectors.is_empty(), is_set(peer, "ipBlock")) {
        (true, false) => errors.required(path, "must specify a peer"),
        (false, true) => errors.forbidden(path, "may not specify both ipBlock and another peer"),
        (true, true) => block(&peer["ipBlock"], &join(path, "ipBlock"), errors),
        (false, false) => {}
    }
}

fn block(block: &Value, path: &str, errors: &mut Errors) {
    const COMPLAINT: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    if !errors.need(block, path, "cidr") {
        return;
    }
    let cidr = text(block, "cidr");
    let Ok(outer) = cidr.parse::<IpNet>() else {
        errors.invalid(join(path, "cidr"), cidr, COMPLAINT);
        return;
    };
    for (i, except) in texts(block, "except").into_iter().enumerate() {
        let at = format!("{path}.except[{i}]");
        match except.parse::<IpNet>() {
            Err(_) => errors.invalid(at, except, COMPLAINT),
            Ok(inner) if !outer.contains(&inner) || outer.prefix_len() >= inner.prefix_len() => {
                errors.invalid(at, except, "must be a strict subset of `cidr`");
            }
            Ok(_) => {}
        }
    }
}
