//! `DHCPServer`: hands out addresses on an isolated network.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pod_template::PodTemplate;
use crate::proxy_server::UpdatePolicy;
use crate::rules::{bare, differ, inside, ordered, outside, rule};
use crate::server_replica::ServerReplica;

/// What a `DHCPServer` should do.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
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
    /// Addresses that are always the same client's; they may lie outside of the range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["ip".into()]))]
    pub reservations: Vec<DhcpReservation>,
    /// Who is served.
    #[serde(default)]
    pub clients: ClientSource,
    /// Number of servers, which share the range: with 2, one may be away. Each needs an address, so write one in
    /// networkConfig.additionalServerIPs.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 2))]
    pub replicas: i32,
    /// What a machine without a disk starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<DhcpBoot>,
    /// What IPv6 clients get. Left out: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<DhcpIpv6>,
    /// Rights of its pods beyond those of any other pod. Left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privileges: Option<DhcpPrivileges>,
    /// The server's image. Left out: the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image")]
    pub image: Option<String>,
    /// Whether its pods follow the operator's newer images by themselves. Left out: the operator's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<UpdatePolicy>,
    /// What its pods are given besides: resources, placement, pull secrets, labels. Left out: the operator's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
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
    /// Addresses of further replicas, one each.
    #[serde(rename = "additionalServerIPs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_with_prefix_set")]
    pub additional_server_ips: Vec<String>,
    /// The clients' own domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::hostname")]
    pub domain: Option<String>,
    /// Domains in which clients look up short names, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::hostname_list")]
    pub search_domains: Vec<String>,
    /// The largest packet on the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65535))]
    pub mtu: Option<u16>,
    /// Ways to other networks that clients are told, beside the gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub routes: Vec<DhcpRoute>,
    /// Servers of the time that clients are told, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_list")]
    pub ntp_servers: Vec<String>,
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
    /// When a client renews. Left out: after half of leaseTime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub renew_time: Option<String>,
    /// When a client that could not renew asks any server. Left out: after seven eighths of leaseTime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub rebind_time: Option<String>,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self {
            range_start: String::new(),
            range_end: String::new(),
            lease_time: default_lease_time(),
            renew_time: None,
            rebind_time: None,
        }
    }
}

/// A way to another network.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct DhcpRoute {
    /// The network.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub to: String,
    /// The router that leads there.
    #[schemars(schema_with = "crate::schema::ip")]
    pub via: String,
}

/// An address that is always the same client's, known by one of `mac` and `clientID`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DhcpReservation {
    /// The client's network card, for example 02:00:00:00:00:01.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 17), regex(pattern = "^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}$"))]
    pub mac: Option<String>,
    /// The identifier that the client sends (option 61), or its DUID in IPv6, as bytes: ff:00:01.
    #[serde(rename = "clientID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 767), regex(pattern = "^[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2})*$"))]
    pub client_id: Option<String>,
    /// Its address.
    #[schemars(schema_with = "crate::schema::ip")]
    pub ip: String,
    /// Its name, told to it and to DNS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub hostname: Option<String>,
}

/// Whom a DHCP server serves.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientSource {
    /// Whoever asks. One server on a network can be for everybody.
    #[default]
    All,
    /// Those that have a reservation.
    Reserved,
    /// KubeVirt's VirtualMachineInstances on this network, by their cards; a machine's name becomes its hostname.
    VirtualMachines,
}

/// What a machine without a disk starts from.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct DhcpBoot {
    /// The file's name.
    #[schemars(length(min = 1, max = 127))]
    pub file: String,
    /// The server that has the file. Left out: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub server: Option<String>,
}

/// What IPv6 clients get: addresses by DHCPv6, and router advertisements.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DhcpIpv6 {
    /// The network.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub cidr: String,
    /// First address that is handed out. Left out with rangeEnd: clients are told options only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub range_start: Option<String>,
    /// Last address that is handed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub range_end: Option<String>,
    /// The router's link-local address, for example fe80::1. Left out: clients reach their own network only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub gateway: Option<String>,
    /// Resolvers that clients are told, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_list")]
    pub dns_servers: Vec<String>,
    /// Advertise the router. Without it another router must tell clients to ask for addresses. Needs privileges.netRaw.
    #[serde(default)]
    pub advertise: bool,
}

/// Rights of a DHCP server's pods beyond those of any other pod.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DhcpPrivileges {
    /// Raw sockets (NET_RAW, as root of the pod): clients without an address are answered by unicast where they take it,
    /// and routers can be advertised. Such a pod needs a namespace that takes more than `restricted`.
    #[serde(default)]
    pub net_raw: bool,
}

/// One option for clients.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct DhcpOption {
    /// The option's number.
    #[schemars(range(min = 1, max = 254))]
    pub code: u8,
    /// Its value as text: addresses or names separated by commas, a number, a string, or bytes as 0x….
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
    /// What the value is. Left out: what the option's number says, and for one that is not known, text or 0x… bytes.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<OptionType>,
}

/// What the value of an option is.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionType {
    /// IPv4 addresses, separated by commas.
    Addresses,
    /// Text as it is.
    Text,
    /// Names of domains, separated by commas, in the form of DNS.
    Domains,
    /// A number of one byte.
    Uint8,
    /// A number of two bytes.
    Uint16,
    /// A number of four bytes.
    Uint32,
    /// Bytes, as 0x01ff or 01:ff.
    Bytes,
}

/// What was observed of a `DHCPServer`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DHCPServerStatus {
    /// Ready, ConfigurationValid, NetworkAttached, UpToDate, ClientsKnown.
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
    /// Addresses of the range that somebody uses who was not given them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined_leases: Option<i32>,
    /// Clients that asked lately and are not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_clients: Option<i32>,
    /// The generation of the last spec that the servers took; a new pod begins with that one while a newer one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_generation: Option<i64>,
    /// What each running server says of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub replicas: Vec<ServerReplica>,
    /// ConfigMap with what the operator tells the servers besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_name: Option<String>,
    /// Deployment that runs the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
}

impl Default for DHCPServerSpec {
    fn default() -> Self {
        Self {
            network_config: DhcpNetwork::default(),
            lease_config: LeaseConfig::default(),
            options: Vec::new(),
            reservations: Vec::new(),
            clients: ClientSource::default(),
            replicas: one(),
            boot: None,
            ipv6: None,
            privileges: None,
            image: None,
            update_policy: None,
            pod_template: None,
        }
    }
}

fn one() -> i32 {
    1
}

pub(crate) fn default_lease_time() -> String {
    "1h".to_owned()
}
