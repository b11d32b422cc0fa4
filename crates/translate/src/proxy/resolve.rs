//! From a backend's Service to its endpoints, and to what is to be said of it.

use causeway_ir as ir;
use k8s_openapi::api::core::v1::Service;

use super::references;
use super::valid::{Backend, Valid};
use crate::endpoints::{self, PortRef, Protocol};
use crate::services::{ServiceRef, Services};

/// What stands behind one backend.
#[derive(Default)]
pub(super) struct Resolved {
    pub(super) endpoints: Vec<ir::Endpoint>,
    pub(super) message: Option<String>,
}

impl Resolved {
    fn none(message: String) -> Self {
        Self { endpoints: Vec::new(), message: Some(message) }
    }
}

/// A port of a Service.
pub(super) struct Wanted<'a> {
    pub(super) service: &'a ServiceRef,
    pub(super) port: u16,
    pub(super) protocol: Protocol,
}

/// What is behind a backend of the spec, if the proxy may use it.
pub(super) fn resolve(proxy: &Valid, backend: &Backend, services: &Services) -> Resolved {
    if !services.permit(references::users(&proxy.namespace), &backend.service) {
        return Resolved::none(references::refusal(&proxy.namespace, &backend.service, services));
    }
    let protocol = if backend.is_udp { Protocol::Udp } else { Protocol::Tcp };
    behind(&Wanted { service: &backend.service, port: backend.target_port, protocol }, services)
}

/// What is behind a port of a Service that may be used.
pub(super) fn behind(wanted: &Wanted<'_>, services: &Services) -> Resolved {
    let namespace = &wanted.service.namespace;
    let Some(why) = services.unread(namespace) else {
        return found(wanted, services);
    };
    let endpoints = found(wanted, services).endpoints;
    let which = if endpoints.is_empty() { "none are known" } else { "the last known are used" };
    let message = format!("endpoints in namespace {namespace}: {which}; {why}");
    Resolved { endpoints, message: Some(message) }
}

fn found(wanted: &Wanted<'_>, services: &Services) -> Resolved {
    let none = Resolved::none;
    let at = wanted.service;
    let Some(service) = services.get(at) else {
        return none(format!("there is no Service {at}: create it, or correct its name and namespace"));
    };
    if service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName") {
        return none(format!(
            "Service {at} is of type ExternalName and has no endpoints: use one with a selector"
        ));
    }
    let (protocol, number) = (wanted.protocol, wanted.port);
    let word = protocol.as_str();
    let port = endpoints::find_port(service, protocol, PortRef::Number(number));
    let (endpoints, remark) = if let Some(port) = port {
        (endpoints::behind_port(service, port, services.slices(at)), None)
    } else {
        let direct = endpoints::at_number(service, protocol, number, services.slices(at));
        let ports = port_list(service);
        if direct.is_empty() {
            return none(format!(
                "Service {at} has no {word} port {number}; its ports are {ports}: write one of them"
            ));
        }
        let remark = format!(
            "Service {at} has no {word} port {number}, but its endpoints do: they are used directly; better write one \
             of the Service's ports ({ports})"
        );
        (direct, Some(remark))
    };
    let ready = endpoints.iter().filter(|e| e.ready).count();
    let serving = endpoints.iter().filter(|e| e.serving && !e.ready).count();
    let message = match (ready, serving) {
        (0, 0) if endpoints.is_empty() => {
            Some(format!("Service {at} has no endpoints: start its pods, or check the Service's selector"))
        }
        (0, 0) => Some(format!(
            "none of the {} endpoints of Service {at} is ready: look at its pods",
            endpoints.len()
        )),
        (0, serving) => {
            Some(format!("no endpoint of Service {at} is ready; {serving} that are going away still serve"))
        }
        _ => remark,
    };
    Resolved { endpoints, message }
}

fn port_list(service: &Service) -> String {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    if ports.is_empty() {
        return "none".to_owned();
    }
    let text = |port: &k8s_openapi::api::core::v1::ServicePort| {
        format!("{}/{}", port.port, port.protocol.as_deref().unwrap_or("TCP"))
    };
    ports.iter().map(text).collect::<Vec<_>>().join(", ")
}
