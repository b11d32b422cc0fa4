//! From a backend's Service to its endpoints, and to what is to be said of it.

use causeway_ir as ir;
use k8s_openapi::api::core::v1::Service;

use super::references;
use super::valid::{Backend, Valid};
use crate::endpoints::{self, PortRef, Protocol};
use crate::services::Services;

/// What stands behind one backend.
#[derive(Default)]
pub(super) struct Resolved {
    pub(super) endpoints: Vec<ir::Endpoint>,
    pub(super) message: Option<String>,
}

pub(super) fn resolve(proxy: &Valid, backend: &Backend, services: &Services) -> Resolved {
    let Some(why) = services.unread(&backend.service.namespace) else {
        return found(proxy, backend, services);
    };
    let endpoints = found(proxy, backend, services).endpoints;
    let which = if endpoints.is_empty() { "none are known" } else { "the last known are used" };
    let message = format!("endpoints in namespace {}: {which}; {why}", backend.service.namespace);
    Resolved { endpoints, message: Some(message) }
}

fn found(proxy: &Valid, backend: &Backend, services: &Services) -> Resolved {
    let none = |message: String| Resolved { endpoints: Vec::new(), message: Some(message) };
    let at = &backend.service;
    if !services.permit(references::users(&proxy.namespace), at) {
        return none(references::refusal(&proxy.namespace, at));
    }
    let Some(service) = services.get(at) else {
        return none(format!(
            "there is no Service {at}: create it, or correct targetService and targetNamespace"
        ));
    };
    if service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName") {
        return none(format!(
            "Service {at} is of type ExternalName and has no endpoints: use one with a selector"
        ));
    }
    let protocol = if backend.is_udp { Protocol::Udp } else { Protocol::Tcp };
    let (word, number) = (protocol.as_str(), backend.target_port);
    let port = endpoints::find_port(service, protocol, PortRef::Number(number));
    let (endpoints, remark) = if let Some(port) = port {
        (endpoints::behind_port(service, port, services.slices(at)), None)
    } else {
        let direct = endpoints::at_number(service, protocol, number, services.slices(at));
        let ports = port_list(service);
        if direct.is_empty() {
            return none(format!(
                "Service {at} has no {word} port {number}; its ports are {ports}: correct targetPort"
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
