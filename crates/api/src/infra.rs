//! `Infra`: DHCP, DNS and proxy for one isolated network, as one object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dhcp_server::{ClientSource, DhcpIpv6, DhcpOption, DhcpPrivileges, DhcpReservation};
use crate::pod_template::PodTemplate;
use crate::proxy_server::{Engine, PortDefaults, Protocol, UpdatePolicy};
use crate::rules::{inside, required, rule};

mod rules;

/// What an `Infra` should provide.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "Infra",
    plural = "infras",
    namespaced,
    status = "InfraStatus",
    shortname = "infra",
    category = "causeway",
    doc = "DHCP, DNS and proxy that connect one isolated network with the control plane of a hosted cluster.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    ),
    printcolumn(name = "CIDR", type_ = "string", json_path = ".spec.networkConfig.cidr", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rules::server_inside("dhcp"),
    validation = rules::server_inside("dns"),
    validation = rules::server_inside("proxy"),
    validation = rules::additional_inside(),
    validation = rules::range_inside("rangeStart"),
    validation = rules::range_inside("rangeEnd"),
    validation = rules::range_excludes_gateway(),
    validation = rules::range_excludes("dhcp"),
    validation = rules::range_excludes("dns"),
    validation = rules::range_excludes("proxy"),
    validation = rules::addresses_differ(),
    validation = rules::domain_for("dns"),
    validation = rules::domain_for("proxy"),
    validation = rules::plain_resolvers()
)]
pub struct InfraSpec {
    /// The isolated network.
    pub network_config: InfraNetwork,
    /// What to run there. A component that is left out is not wanted; `{}` asks for it with defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra_components: Option<InfraComponents>,
}

/// The isolated network.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rule(inside("self.cidr", "self.gateway"), ".gateway", "must lie in cidr"),
    validation = rule(
        "!(self.networkAttachmentDefinition.contains('/') && has(self.networkAttachmentNamespace))",
        ".networkAttachmentNamespace",
        "leave it out when networkAttachmentDefinition already is NAMESPACE/NAME",
    )
)]
pub struct InfraNetwork {
    /// The network.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub cidr: String,
    /// Its router.
    #[schemars(schema_with = "crate::schema::ip")]
    pub gateway: String,
    /// NetworkAttachmentDefinition that connects pods to the network: NAME or NAMESPACE/NAME.
    #[schemars(schema_with = "crate::schema::object_path")]
    pub network_attachment_definition: String,
    /// Namespace of the NetworkAttachmentDefinition. Left out: this object's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub network_attachment_namespace: Option<String>,
    /// Resolvers for names outside the cluster's domain, in order. Left out: the resolvers of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::resolver_list")]
    pub dns_servers: Vec<String>,
}

/// The components of an `Infra`.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct InfraComponents {
    /// Hand out addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhcp: Option<DhcpComponent>,
    /// Answer names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsComponent>,
    /// Forward to the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyComponent>,
}

/// The DHCP server of an `Infra`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = required(
        "has(self.rangeStart) == has(self.rangeEnd)",
        ".rangeEnd",
        "write rangeStart and rangeEnd together, or neither to have the range chosen",
    ),
    validation = rule(
        format!("!has(self.rangeStart) || !has(self.rangeEnd) || {}", crate::rules::ordered("self.rangeStart", "self.rangeEnd")),
        ".rangeEnd",
        "must not come before rangeStart: swap the two",
    )
)]
pub struct DhcpComponent {
    /// False stops and removes the server.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The server's address in the network. Left out: a free one is chosen and kept.
    #[serde(rename = "serverIP", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip_with_prefix")]
    pub server_ip: Option<String>,
    /// First address to hand out. Left out: the range is chosen around the servers' addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub range_start: Option<String>,
    /// Last address to hand out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub range_end: Option<String>,
    /// How long a client may keep an address without renewing.
    #[serde(default = "crate::dhcp_server::default_lease_time")]
    #[schemars(schema_with = "crate::schema::lease_duration")]
    pub lease_time: String,
    /// Number of servers, which share the range: with 2, one may be away.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 2))]
    pub replicas: i32,
    /// Address of the second server, for replicas: 2.
    #[serde(rename = "additionalServerIPs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_with_prefix_set")]
    pub additional_server_ips: Vec<String>,
    /// Who is served.
    #[serde(default)]
    pub clients: ClientSource,
    /// Addresses that are always the same client's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["ip".into()]))]
    pub reservations: Vec<DhcpReservation>,
    /// Further options for clients, by their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["code".into()]))]
    pub options: Vec<DhcpOption>,
    /// The largest packet on the network, which clients are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 576, max = 65535))]
    pub mtu: Option<u16>,
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
    /// What its pods are given besides: resources, placement, pull secrets, labels. Left out: the operator's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
}

/// The DNS server of an `Infra`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DnsComponent {
    /// False stops and removes the server.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The server's address in the network. Left out: a free one is chosen and kept.
    #[serde(rename = "serverIP", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip_with_prefix")]
    pub server_ip: Option<String>,
    /// Domain above the cluster's own, for example `example.com`. Needed by DNS and proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::hostname")]
    pub base_domain: Option<String>,
    /// The cluster's name below the base domain. Left out: this object's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub cluster_name: Option<String>,
    /// Further names to answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub extra_entries: Vec<ExtraEntry>,
    /// The server's image. Left out: the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image")]
    pub image: Option<String>,
    /// What its pods are given besides: resources, placement, pull secrets, labels. Left out: the operator's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
}

/// A further name that the DNS server answers.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct ExtraEntry {
    /// The name, in full.
    #[schemars(schema_with = "crate::schema::wildcard_hostname")]
    pub hostname: String,
    /// Its address. Left out: the proxy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub ip: Option<String>,
}

/// The proxy of an `Infra`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rule(
    "self.replicas == 1 || self.replicas <= 1 + (has(self.additionalServerIPs) ? size(self.additionalServerIPs) : 0)",
    ".replicas",
    "needs one address per replica: list replicas - 1 addresses in additionalServerIPs",
))]
pub struct ProxyComponent {
    /// False stops and removes the proxy.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The proxy's address in the network. Left out: a free one is chosen and kept.
    #[serde(rename = "serverIP", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip_with_prefix")]
    pub server_ip: Option<String>,
    /// Addresses of further replicas, one each.
    #[serde(rename = "additionalServerIPs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_with_prefix_set")]
    pub additional_server_ips: Vec<String>,
    /// Number of proxies.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 16))]
    pub replicas: i32,
    /// Which program carries the traffic. Left out: the operator's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Address or Service name that clients on the pod network are sent to. Left out: the proxy's own Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::hostname_or_ip")]
    pub internal_proxy_service: Option<String>,
    /// Namespace of the control plane's Services. Left out: NAMESPACE-NAME of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub control_plane_namespace: Option<String>,
    /// Service of the API server, the target of the three kube-apiserver backends.
    #[serde(default = "kube_apiserver")]
    #[schemars(schema_with = "crate::schema::label")]
    pub api_server_service: String,
    /// Changes to the standard backends, by name, and further backends. The standard ones are kube-apiserver,
    /// kube-apiserver-internal, oauth-openshift, ignition-server, kube-apiserver-kubernetes-hostname and
    /// konnectivity-server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub backends: Vec<BackendOverride>,
    /// What to do with connections that no name matches, by port; an entry replaces the standard one of its port.
    /// Standard: 6443 sends everything unmatched to kube-apiserver, 443 to konnectivity-server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["port".into()]))]
    pub ports: Vec<PortDefaults>,
    /// Envoy's image, for `engine: Envoy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image")]
    pub proxy_image: Option<String>,
    /// Image of the configuration server, or of the native engine. Left out: the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image")]
    pub manager_image: Option<String>,
    /// What its pods are given besides: resources, placement, pull secrets, labels. Left out: the operator's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
    /// Whether the proxy's pods follow the operator's newer images by themselves. Left out: the operator's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<UpdatePolicy>,
}

/// A change to a standard backend, or a further one.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::override_is_complete())]
pub struct BackendOverride {
    /// Name of the backend; a standard one's name changes that one.
    #[schemars(schema_with = "crate::schema::label")]
    pub name: String,
    /// True drops the standard backend of this name.
    #[serde(default)]
    pub disabled: bool,
    /// The name that clients ask for, in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::wildcard_hostname")]
    pub hostname: Option<String>,
    /// Further names for the same service; they replace the standard ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::wildcard_hostname_set")]
    pub alternate_hostnames: Option<Vec<String>>,
    /// Port to listen on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// Service to forward to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub target_service: Option<String>,
    /// Port of that Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub target_port: Option<u16>,
    /// Namespace of that Service. Left out: the control plane's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub target_namespace: Option<String>,
    /// What is carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Seconds to wait for the service to accept a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<i32>,
}

/// What was observed of an `Infra`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InfraStatus {
    /// Ready, Accepted, DHCPReady, DNSReady, ProxyReady.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Which components are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_status: Option<ComponentStatus>,
    /// The addresses in use, written or chosen; chosen ones stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<ServerAddresses>,
}

/// Which components of an `Infra` are ready.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// The DHCP server is wanted and ready.
    #[serde(default)]
    pub dhcp_ready: bool,
    /// The DNS server is wanted and ready.
    #[serde(default)]
    pub dns_ready: bool,
    /// The proxy is wanted and ready.
    #[serde(default)]
    pub proxy_ready: bool,
}

/// The addresses of an `Infra` in its network.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ServerAddresses {
    /// The DHCP server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhcp: Option<String>,
    /// The DNS server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<String>,
    /// The first proxy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// First address that is handed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_start: Option<String>,
    /// Last address that is handed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_end: Option<String>,
}

impl Default for DhcpComponent {
    fn default() -> Self {
        Self {
            enabled: true,
            server_ip: None,
            range_start: None,
            range_end: None,
            lease_time: crate::dhcp_server::default_lease_time(),
            replicas: one(),
            additional_server_ips: Vec::new(),
            clients: ClientSource::default(),
            reservations: Vec::new(),
            options: Vec::new(),
            mtu: None,
            ipv6: None,
            privileges: None,
            image: None,
            pod_template: None,
        }
    }
}

impl Default for DnsComponent {
    fn default() -> Self {
        Self {
            enabled: true,
            server_ip: None,
            base_domain: None,
            cluster_name: None,
            extra_entries: Vec::new(),
            image: None,
            pod_template: None,
        }
    }
}

impl Default for ProxyComponent {
    fn default() -> Self {
        Self {
            enabled: true,
            server_ip: None,
            additional_server_ips: Vec::new(),
            replicas: one(),
            engine: None,
            internal_proxy_service: None,
            control_plane_namespace: None,
            api_server_service: kube_apiserver(),
            backends: Vec::new(),
            ports: Vec::new(),
            proxy_image: None,
            manager_image: None,
            pod_template: None,
            update_policy: None,
        }
    }
}

fn yes() -> bool {
    true
}

fn one() -> i32 {
    1
}

fn kube_apiserver() -> String {
    "kube-apiserver".to_owned()
}
