//! `DHCPServer`: hands out addresses on an isolated network.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::rules::{bare, differ, inside, ordered, outside, rule};

/// What a `DHCPServer` should do.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "DHCPServer",
    plural = "dhcpservers",
    namespaced,
    status = "DHCPServerStatus",
    shortname = "dhcpserver",
    category = "causeway",
    doc = "Hands out addresses on an isolated network.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Active Leases", type_ = "integer", json_path = ".status.activeLeases"),
    printcolumn(
        name = "Range Start",
        type_ = "string",
        json_path = ".spec.leaseConfig.rangeStart",
        priority = 1
    ),
    printcolumn(
        name = "Range End",
        type_ = "string",
        json_path = ".spec.leaseConfig.rangeEnd",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rule(
        inside("self.networkConfig.cidr", "self.leaseConfig.rangeStart"),
        ".leaseConfig.rangeStart",
        "must lie in networkConfig.cidr",
    ),
    validation = rule(
        inside("self.networkConfig.cidr", "self.leaseConfig.rangeEnd"),
        ".leaseConfig.rangeEnd",
        "must lie in networkConfig.cidr",
    ),
    validation = rule(
        outside("self.leaseConfig.rangeStart", "self.leaseConfig.rangeEnd", &bare("self.networkConfig.serverIP")),
        ".networkConfig.serverIP",
        "must not be one of the addresses from leaseConfig.rangeStart to rangeEnd: choose an address outside, or a shorter range",
    ),
    validation = rule(
        outside("self.leaseConfig.rangeStart", "self.leaseConfig.rangeEnd", "self.networkConfig.gateway"),
        ".networkConfig.gateway",
        "must not be one of the addresses from leaseConfig.rangeStart to rangeEnd: choose a range without the gateway",
    )
)]
pub struct DHCPServerSpec {
    /// The network that is served.
    pub network_config: DhcpNetwork,
    /// The addresses that are handed out.
    pub lease_config: LeaseConfig,
    /// Further options for clients, by their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["code".into()]))]
    pub options: Vec<DhcpOption>,
    /// The server's image. Left out: the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image")]
    pub image: Option<String>,
}

/// The network that a DHCP server serves.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rule(inside("self.cidr", "self.gateway"), ".gateway", "must lie in cidr"),
    validation = rule(inside("self.cidr", &bare("self.serverIP")), ".serverIP", "must lie in cidr"),
    validation = rule(
        differ("self.gateway", &bare("self.serverIP")),
        ".serverIP",
        "must differ from gateway",
    )
)]
pub struct DhcpNetwork {
    /// The network.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub cidr: String,
    /// Router that clients are told.
    #[schemars(schema_with = "crate::schema::ip")]
    pub gateway: String,
    /// The server's own address in the network, optionally with a prefix length.
    #[serde(rename = "serverIP")]
    #[schemars(schema_with = "crate::schema::ip_with_prefix")]
    pub server_ip: String,
    /// Resolvers that clients are told, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_list")]
    pub dns_servers: Vec<String>,
    /// NetworkAttachmentDefinition that connects the pod to the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub network_attachment_name: Option<String>,
    /// Namespace of the NetworkAttachmentDefinition. Left out: this object's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub network_attachment_namespace: Option<String>,
}

/// The addresses that are handed out.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule(
    ordered("self.rangeStart", "self.rangeEnd"),
    ".rangeEnd",
    "must not come before rangeStart: swap the two",
))]
pub struct LeaseConfig {
    /// First address of the range.
    #[schemars(schema_with = "crate::schema::ip")]
    pub range_start: String,
    /// Last address of the range.
    #[schemars(schema_with = "crate::schema::ip")]
    pub range_end: String,
    /// How long a client may keep an address without renewing.
    #[serde(default = "default_lease_time")]
    #[schemars(schema_with = "crate::schema::lease_duration")]
    pub lease_time: String,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self { range_start: String::new(), range_end: String::new(), lease_time: default_lease_time() }
    }
}

/// One option for clients.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct DhcpOption {
    /// The option's number.
    #[schemars(range(min = 1, max = 254))]
    pub code: u8,
    /// Its value as text: addresses separated by commas, a number, a string, or bytes as 0x….
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
}

/// What was observed of a `DHCPServer`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DHCPServerStatus {
    /// Ready, ConfigurationValid, NetworkAttached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Addresses in use at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_leases: Option<i32>,
    /// Addresses in the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_leases: Option<i32>,
    /// ConfigMap with the server's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_name: Option<String>,
    /// Deployment that runs the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
}

pub(crate) fn default_lease_time() -> String {
    "1h".to_owned()
}
