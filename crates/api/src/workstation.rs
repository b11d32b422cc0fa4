//! `Workstation`: a developer's machine that may join the cluster's network.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a `Workstation` is.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "Workstation",
    plural = "workstations",
    namespaced,
    status = "WorkstationStatus",
    shortname = "ws",
    category = "causeway",
    doc = "A developer's machine that may join the cluster's network.",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.publicKey",
    printcolumn(name = "Owner", type_ = "string", json_path = ".spec.displayName"),
    printcolumn(name = "Address", type_ = "string", json_path = ".status.address"),
    printcolumn(
        name = "Connected",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Connected\")].status"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Last Handshake", type_ = "date", json_path = ".status.lastHandshake", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct WorkstationSpec {
    /// WireGuard public key of the machine. The private key never leaves it.
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$')")
        .message("must be a WireGuard public key: 44 characters of base64, as printed by wg pubkey"))]
    pub public_key: String,
    /// Certificate request (PKCS #10, PEM) for the key that the machine proves itself with on a link, as `causeway connect`
    /// makes it. Left out: the machine comes by WireGuard only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    #[x_kube(validation = Rule::new("self.startsWith('-----BEGIN CERTIFICATE REQUEST-----')")
        .message("must be a certificate request in PEM, as causeway connect writes it; never a private key"))]
    pub certificate_request: Option<String>,
    /// Whose machine it is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub display_name: Option<String>,
    /// The machine is removed when it has not connected for this long. Left out: it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::lease_duration")]
    pub ttl: Option<String>,
}

/// What was observed of a `Workstation`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkstationStatus {
    /// Ready, Connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The machine's address in the tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The cluster's WireGuard public key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_public_key: Option<String>,
    /// HOST:PORT where the cluster's end listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Networks that are reached through the tunnel.
    #[serde(rename = "allowedIPs", default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_ips: Vec<String>,
    /// When the machine last came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handshake: Option<Time>,
    /// The certificate for spec.certificateRequest, in PEM; signed again before it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The authority that the cluster's end and this machine prove themselves by, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// HOST:PORT where the cluster's end takes links; none where it is reached by port-forward only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub link_endpoints: Vec<String>,
    /// Where the cluster's end is, for a link through the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stowaway: Option<StowawayPods>,
    /// The ways by which the machine is connected, each written by the pod that it is connected to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["replica".into()]))]
    pub connections: Vec<WorkstationConnection>,
}

/// The pods of the cluster's end.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StowawayPods {
    /// Their namespace.
    pub namespace: String,
    /// Those that take links, by name.
    #[serde(default)]
    pub pods: Vec<String>,
    /// The port of links.
    pub port: u16,
}

/// One connection of a machine.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkstationConnection {
    /// The pod of the cluster's end.
    pub replica: String,
    /// How the machine came.
    pub way: ConnectionWay,
    /// The address that it came from.
    pub from: String,
    /// Since when.
    pub since: Time,
}

/// How a machine is connected.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionWay {
    /// A link to the port of the cluster's end.
    #[default]
    Link,
    /// A link through the API server.
    PortForward,
    /// WireGuard.
    WireGuard,
}
