//! Endpoints and EndpointSlices: the addresses behind a Service.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use crate::builtin::check::{Errors, join};
use crate::builtin::json::{fill, fill_empty, int, items, items_mut, text, texts};
use crate::builtin::syntax;
use crate::error::{FieldError, FieldErrorKind};
use crate::resource::Strategy;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) struct Endpoints;

impl Strategy for Endpoints {
    fn default(&self, endpoints: &mut Value) {
        for subset in items_mut(endpoints, "subsets") {
            for port in items_mut(subset, "ports") {
                fill_empty(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        for (i, subset) in items(new, "subsets").iter().enumerate() {
            let path = format!("subsets[{i}]");
            let lists = ["addresses", "notReadyAddresses"];
            if lists.iter().all(|l| items(subset, l).is_empty()) {
                errors.required(path.clone(), "must specify `addresses` or `notReadyAddresses`");
            }
            for list in lists {
                for (j, address) in items(subset, list).iter().enumerate() {
                    endpoint_ip(text(address, "ip"), &format!("{path}.{list}[{j}].ip"), &mut errors);
                    let name = text(address, "hostname");
                    if !name.is_empty() {
                        let at = format!("{path}.{list}[{j}].hostname");
                        errors.complain(&at, name, syntax::label(name));
                    }
                }
            }
            let ports = items(subset, "ports");
            for (j, port) in ports.iter().enumerate() {
                let path = format!("{path}.ports[{j}]");
                match text(port, "name") {
                    "" if ports.len() > 1 => errors.required(join(&path, "name"), ""),
                    "" => {}
                    name => errors.complain(&join(&path, "name"), name, syntax::label(name)),
                }
                let number = int(port, "port").unwrap_or_default();
                errors.complain(&join(&path, "port"), number, syntax::port_number(number));
                errors.one_of(port, &path, "protocol", &PROTOCOLS, true);
            }
        }
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }
}

pub(super) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn default(&self, slice: &mut Value) {
        for port in items_mut(slice, "ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        errors.one_of(new, "", "addressType", &["FQDN", "IPv4", "IPv6"], true);
        slice_ports(new, &mut errors);
        slice_endpoints(new, &mut errors);
        if let Some(old) = old {
            errors.unchanged(new, old, "", "addressType");
        }
        errors.into_vec()
    }
}

fn slice_ports(slice: &Value, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (i, port) in items(slice, "ports").iter().enumerate() {
        let path = format!("ports[{i}]");
        let name = text(port, "name");
        if !name.is_empty() {
            errors.complain(&join(&path, "name"), name, syntax::label(name));
        }
        if !names.insert(name) {
            errors.duplicate(join(&path, "name"), name);
        }
        errors.one_of(port, &path, "protocol", &PROTOCOLS, true);
        let app = text(port, "appProtocol");
        if !app.is_empty() {
            errors.complain(&join(&path, "appProtocol"), app, syntax::qualified_name(app));
        }
    }
}

fn slice_endpoints(slice: &Value, errors: &mut Errors) {
    let endpoints = items(slice, "endpoints");
    if endpoints.len() > 1000 {
        errors.push(too_many("endpoints", endpoints.len(), 1000));
        return;
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        let path = format!("endpoints[{i}].addresses");
        let addresses = texts(endpoint, "addresses");
        if addresses.is_empty() {
            errors.required(path.clone(), "must contain at least 1 address");
        } else if addresses.len() > 100 {
            errors.push(too_many(&path, addresses.len(), 100));
        }
        for (j, address) in addresses.into_iter().enumerate() {
            let at = format!("{path}[{j}]");
            match (text(slice, "addressType"), address.parse::<IpAddr>()) {
                ("FQDN", _) => errors.complain(&at, address, syntax::subdomain(address)),
                ("IPv4", Ok(IpAddr::V6(_))) => {
                    errors.invalid(path.clone(), address, "must be an IPv4 address");
                }
                ("IPv6", Ok(IpAddr::V4(_))) => {
                    errors.invalid(path.clone(), address, "must be an IPv6 address");
                }
                ("IPv4" | "IPv6", _) => endpoint_ip(address, &at, errors),
                _ => {}
            }
        }
        let hostname = text(endpoint, "hostname");
        if !hostname.is_empty() {
            errors.complain(&format!("endpoints[{i}].hostname"), hostname, syntax::label(hostname));
        }
    }
}

/// An endpoint is somewhere traffic can be sent to. Unlike in a cluster that may be a loopback address: the pods of
/// this server's node are processes of the same machine.
fn endpoint_ip(text: &str, path: &str, errors: &mut Errors) {
    let Ok(ip) = text.parse::<IpAddr>() else {
        errors.complain(path, text, syntax::ip(text));
        return;
    };
    let multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[0] == 224 && ip.octets()[1] == 0 && ip.octets()[2] == 0,
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    if ip.is_unspecified() {
        errors.invalid(path, text, format!("may not be unspecified ({text})"));
    }
    if link_local {
        errors.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.invalid(path, text, detail);
    }
}

fn too_many(path: &str, count: usize, max: usize) -> FieldError {
    FieldError::new(FieldErrorKind::TooMany, path, format!("must have at most {max} items"))
        .with_value(&count.into())
}
