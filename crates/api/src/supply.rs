//! `Supply`: what the operator supplies to the pods of an object, so that they need no rights in other namespaces.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is supplied.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "Supply",
    plural = "supplies",
    namespaced,
    doc = "Written by the operator, for the pods of one object and nobody else: what other namespaces let the object use.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Part", type_ = "integer", json_path = ".spec.part"),
    printcolumn(name = "Parts", type_ = "integer", json_path = ".spec.parts"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct SupplySpec {
    /// Which of the parts this is, from 0.
    pub part: i32,
    /// How many parts there are: they count only together.
    pub parts: i32,
    /// Other namespaces that let the object use all their Services, so that its pods may read them there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Namespaces that the object names and that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_namespaces: Vec<String>,
    /// Services of other namespaces that the object may use, each with its endpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<SuppliedService>,
    /// Routes that are attached to the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<SuppliedRoute>,
    /// A part of the plan of a Gateway; the GatewayPlan says which of them count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanPart>,
}

/// A part of a plan, which never changes: another text is another part.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PlanPart {
    /// Of the text; by it the GatewayPlan names the part.
    pub digest: String,
    /// Lines of the plan, as JSON.
    pub text: String,
}

/// A Service of another namespace.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SuppliedService {
    /// The Service, as far as a plan needs it.
    #[schemars(schema_with = "crate::schema::free_object")]
    pub service: Service,
    /// Its EndpointSlices, as far as a plan needs them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::free_objects")]
    pub slices: Vec<EndpointSlice>,
}

/// A route of the Gateway API that is attached.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SuppliedRoute {
    /// TLSRoute or TCPRoute.
    pub kind: RouteKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was created: of two that claim the same, the older has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created: String,
    /// Ports of the proxy that it is attached to.
    pub ports: Vec<u16>,
    /// Names that clients ask for; none for a TCPRoute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// Where its connections go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<SuppliedTarget>,
}

/// A kind of route.
#[derive(
    JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub enum RouteKind {
    /// By the name in a TLS ClientHello.
    #[default]
    #[serde(rename = "TLSRoute")]
    Tls,
    /// Every connection of a port.
    #[serde(rename = "TCPRoute")]
    Tcp,
}

impl RouteKind {
    /// As the Gateway API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tls => "TLSRoute",
            Self::Tcp => "TCPRoute",
        }
    }
}

/// A Service that a route leads to, and its share.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SuppliedTarget {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service's name.
    pub service: String,
    /// The Service's port.
    pub port: u16,
    /// Share among the targets.
    pub weight: u32,
    /// The reference may not be used: its share of the connections is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}
