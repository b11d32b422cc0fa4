//! Classes, Gateways and sets of listeners.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::meta::field;
use super::{Object, Spec};
use crate::references::{CertificateAuthorityRef, SecretRef};

/// A GatewayClass.
pub type GatewayClass = Object<GatewayClassSpec>;
/// A Gateway.
pub type Gateway = Object<GatewaySpec>;
/// A ListenerSet.
pub type ListenerSet = Object<ListenerSetSpec>;

/// What a class asks for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// Whose Gateways are of this class.
    #[serde(default)]
    pub controller_name: String,
    /// How they are made.
    #[serde(default)]
    pub parameters_ref: Option<ParametersRef>,
}

impl Spec for GatewayClassSpec {
    fn outline(spec: &Value) -> Self {
        Self { controller_name: field(spec, "controllerName"), ..Self::default() }
    }
}

/// Names an object with parameters.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParametersRef {
    /// Its group.
    #[serde(default)]
    pub group: String,
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its namespace, which only a class writes.
    #[serde(default)]
    pub namespace: Option<String>,
}

/// What a Gateway asks for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// Its class.
    #[serde(default)]
    pub gateway_class_name: String,
    /// Its own listeners.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// The addresses that it wants.
    #[serde(default)]
    pub addresses: Vec<GatewayAddress>,
    /// What its pods and its Service are given.
    #[serde(default)]
    pub infrastructure: Option<Infrastructure>,
    /// Which ListenerSets may add to it; none if left out.
    #[serde(default)]
    pub allowed_listeners: Option<AllowedListeners>,
    /// TLS of all listeners, and to all backends.
    #[serde(default)]
    pub tls: Option<GatewayTls>,
}

impl Spec for GatewaySpec {
    fn outline(spec: &Value) -> Self {
        Self { gateway_class_name: field(spec, "gatewayClassName"), ..Self::default() }
    }
}

impl GatewaySpec {
    /// The namespaces whose ListenerSets may add listeners.
    pub fn listener_namespaces(&self) -> Namespaces {
        let written = self.allowed_listeners.as_ref().and_then(|allowed| allowed.namespaces.clone());
        let none = Namespaces { from: Some("None".to_owned()), selector: None };
        written.map_or(none.clone(), |written| if written.from.is_some() { written } else { none })
    }
}

/// Which ListenerSets may add to a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedListeners {
    /// By their namespaces.
    #[serde(default)]
    pub namespaces: Option<Namespaces>,
}

/// A choice of namespaces.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Namespaces {
    /// `All`, `Same`, `Selector` or `None`.
    #[serde(default)]
    pub from: Option<String>,
    /// With `Selector`: the labels of the namespace.
    #[serde(default)]
    pub selector: Option<LabelSelector>,
}

/// A listener of a Gateway or of a ListenerSet.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Unique in its object.
    #[serde(default)]
    pub name: String,
    /// The host that it is for; every host if left out or empty.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Its port.
    #[serde(default)]
    pub port: u16,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP` or `UDP`; others are not ours.
    #[serde(default)]
    pub protocol: String,
    /// With `HTTPS` and `TLS`.
    #[serde(default)]
    pub tls: Option<ListenerTls>,
    /// Which routes may attach.
    #[serde(default)]
    pub allowed_routes: Option<AllowedRoutes>,
    /// What would be changed before routes are looked at; only whether there are any matters here.
    #[serde(default)]
    pub filters: Vec<Value>,
}

impl Listener {
    /// The host that it is for, as it is written; none for every host.
    pub fn host(&self) -> Option<&str> {
        self.hostname.as_deref().filter(|host| !host.is_empty())
    }
}

/// TLS of a listener.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerTls {
    /// `Terminate`, which is the default, or `Passthrough`.
    #[serde(default)]
    pub mode: Option<String>,
    /// Secrets with certificates.
    #[serde(default)]
    pub certificate_refs: Vec<SecretRef>,
}

/// Which routes may attach to a listener.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedRoutes {
    /// Their namespaces; the listener's own if left out.
    #[serde(default)]
    pub namespaces: Option<Namespaces>,
    /// Their kinds; all that fit the protocol if empty.
    #[serde(default)]
    pub kinds: Vec<RouteGroupKind>,
}

/// A kind of routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteGroupKind {
    /// Its group; Gateway API's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its name.
    #[serde(default)]
    pub kind: String,
}

/// An address that a Gateway wants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayAddress {
    /// `IPAddress`, which is the default, `Hostname`, or a word of somebody's own.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Any of the kind if left out or empty.
    #[serde(default)]
    pub value: Option<String>,
}

/// What the pods and the Service of a Gateway are given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Infrastructure {
    /// Labels of all objects that are made.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Annotations of all objects that are made.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// How they are made.
    #[serde(default)]
    pub parameters_ref: Option<ParametersRef>,
}

/// TLS of a whole Gateway.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayTls {
    /// To backends.
    #[serde(default)]
    pub backend: Option<BackendTls>,
    /// From clients.
    #[serde(default)]
    pub frontend: Option<FrontendTls>,
}

/// TLS to backends.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTls {
    /// The certificate that is shown to them.
    #[serde(default)]
    pub client_certificate_ref: Option<SecretRef>,
}

/// TLS from clients.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendTls {
    /// On ports that have nothing of their own.
    #[serde(default)]
    pub default: FrontendPort,
    /// On single ports.
    #[serde(default)]
    pub per_port: Vec<PortTls>,
}

/// TLS from the clients of a port.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendPort {
    /// What is asked of their certificates; nothing if left out.
    #[serde(default)]
    pub validation: Option<FrontendValidation>,
}

/// TLS from the clients of one port.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortTls {
    /// Which one.
    #[serde(default)]
    pub port: u16,
    /// In place of the default.
    #[serde(default)]
    pub tls: FrontendPort,
}

/// What is asked of clients' certificates.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FrontendValidation {
    /// The authorities that are trusted.
    #[serde(default)]
    pub ca_certificate_refs: Vec<CertificateAuthorityRef>,
    /// `AllowValidOnly`, which is the default, or `AllowInsecureFallback`.
    #[serde(default)]
    pub mode: Option<String>,
}

/// What a ListenerSet asks for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSetSpec {
    /// The Gateway that the listeners are added to.
    #[serde(default)]
    pub parent_ref: crate::references::ParentRef,
    /// Its listeners.
    #[serde(default)]
    pub listeners: Vec<Listener>,
}

impl Spec for ListenerSetSpec {
    fn outline(spec: &Value) -> Self {
        Self { parent_ref: field(spec, "parentRef"), ..Self::default() }
    }
}
