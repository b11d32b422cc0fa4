//! References between objects in the words of Gateway API: what routes attach to and where they lead. Routes of a
//! `ProxyServer` and of a Gateway are read and checked with the same.

use k8s_openapi::api::core::v1::Service;
use serde::{Deserialize, Serialize};

use crate::endpoints::{self, PortRef, Protocol};
use crate::grants::{self, Grants, Users};

/// What a route, or a ListenerSet, wants to attach to.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Group; the Gateway API's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Kind; Gateway if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace; the route's own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Name of a listener, or of a port as the Service in front of a proxy has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// Number of a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Where connections or requests of a route go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendRef {
    /// Group; the core group if left out.
    pub group: Option<String>,
    /// Kind; Service if left out.
    pub kind: Option<String>,
    /// Namespace; the route's own if left out.
    pub namespace: Option<String>,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// The Service's port.
    pub port: Option<u16>,
    /// Share of the traffic; 1 if left out.
    pub weight: Option<u32>,
}

/// Names a Secret with a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Group; the core group if left out.
    pub group: Option<String>,
    /// Kind; Secret if left out.
    pub kind: Option<String>,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Namespace; that of who refers if left out.
    pub namespace: Option<String>,
}

/// Names an object with certificates of authorities.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateAuthorityRef {
    /// Group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Namespace; that of who refers if left out.
    pub namespace: Option<String>,
}

/// A condition of the Gateway API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it holds.
    pub holds: bool,
    /// Why, for programs.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
}

impl Verdict {
    /// One that holds.
    pub fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self { holds: true, reason, message: message.into() }
    }

    /// One that does not hold.
    pub fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self { holds: false, reason, message: message.into() }
    }
}

impl BackendRef {
    /// Whether it is a Service, the only kind that there are endpoints of.
    pub fn is_service(&self) -> bool {
        self.group.as_deref().unwrap_or_default().is_empty()
            && self.kind.as_deref().unwrap_or("Service") == "Service"
    }
}

/// Why a route of these users may not, or can't, lead to this backend in `namespace`; `None` if all is well. Without `grants`
/// every Service may be used; `service` is asked only for what may be used.
pub fn check_backend<'s>(
    users: Users<'_>,
    reference: &BackendRef,
    namespace: &str,
    protocol: Protocol,
    grants: Option<&Grants>,
    service: impl FnOnce() -> Option<std::borrow::Cow<'s, Service>>,
) -> Option<Verdict> {
    let name = &reference.name;
    if !reference.is_service() {
        let kind = reference.kind.as_deref().unwrap_or_default();
        return Some(Verdict::no("InvalidKind", format!("{kind} {name} is no Service: name one")));
    }
    if grants.is_some_and(|grants| !grants.permit(users, namespace, name)) {
        let advice = grants::advice(users, namespace, &[name.as_str()].into());
        return Some(Verdict::no("RefNotPermitted", advice));
    }
    let not_found = |message: String| Some(Verdict::no("BackendNotFound", message));
    let Some(service) = service() else {
        return not_found(format!(
            "there is no Service {namespace}/{name}: create it, or correct the reference"
        ));
    };
    let Some(port) = reference.port.filter(|port| *port > 0) else {
        return not_found(format!("the reference to Service {namespace}/{name} has no port: write one"));
    };
    if endpoints::find_port(&service, protocol, PortRef::Number(port)).is_none() {
        return not_found(format!(
            "Service {namespace}/{name} has no {} port {port}: correct the reference",
            protocol.as_str()
        ));
    }
    None
}
