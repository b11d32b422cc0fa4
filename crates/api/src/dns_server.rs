//! `DNSServer`: answers an isolated network with the proxy's address and the pod network with another.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::pod_template::PodTemplate;
use crate::proxy_server::UpdatePolicy;
use crate::rules::{bare, differ, inside, rule};
use crate::server_replica::ServerReplica;

/// What a `DNSServer` should do.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "DNSServer",
    plural = "dnsservers",
    namespaced,
    status = "DNSServerStatus",
    shortname = "dnssrv",
    category = "causeway",
    doc = "Answers names differently on an isolated network and on the pod network.",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.hostedClusterDomain",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.hostedClusterDomain"),
    printcolumn(name = "ServerIP", type_ = "string", json_path = ".spec.networkConfig.serverIP"),
    printcolumn(name = "ProxyIP", type_ = "string", json_path = ".spec.networkConfig.proxyIP"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct DNSServerSpec {
    /// Where the server is found, and what it answers by default.
    pub network_config: DnsNetwork,
    /// The domain that this server knows; names in it are never asked upstream.
    #[schemars(schema_with = "crate::schema::hostname")]
    pub hosted_cluster_domain: String,
    /// Names and their addresses. A name may have several addresses; `*.apps.example.com` answers every name below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["hostname".into(), "ip".into()]))]
    pub static_entries: Vec<StaticEntry>,
    /// Resolvers for every other name, in order. Left out: the resolvers of the node.
    #[serde(rename = "upstreamDNS", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::resolver_list")]
    pub upstream_dns: Vec<String>,
    /// DHCPServer of this namespace whose clients are found here by their names, below hostedClusterDomain. A name that
    /// is listed is never a client's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub lease_names_of: Option<String>,
    /// The server's image. Left out: the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image")]
    pub image: Option<String>,
    /// How soon a change of this object is in effect at the latest.
    #[serde(default = "default_reload_interval")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub reload_interval: String,
    /// How long clients may keep an answer.
    #[serde(rename = "cacheTTL", default = "default_cache_ttl")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub cache_ttl: String,
    /// Whether its pods follow the operator's newer images by themselves. Left out: the operator's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<UpdatePolicy>,
    /// What its pods are given besides: resources, placement, pull secrets, labels. Left out: the operator's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
}

impl Default for DNSServerSpec {
    fn default() -> Self {
        Self {
            network_config: DnsNetwork::default(),
            hosted_cluster_domain: String::new(),
            static_entries: Vec::new(),
            upstream_dns: Vec::new(),
            lease_names_of: None,
            image: None,
            reload_interval: default_reload_interval(),
            cache_ttl: default_cache_ttl(),
            update_policy: None,
            pod_template: None,
        }
    }
}

/// Where a DNS server is found on the isolated network.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rule(
        format!("!has(self.secondaryNetworkCIDR) || {}", inside("self.secondaryNetworkCIDR", &bare("self.serverIP"))),
        ".serverIP",
        "must lie in secondaryNetworkCIDR",
    ),
    validation = rule(
        format!("!has(self.secondaryNetworkCIDR) || !has(self.proxyIP) || {}", inside("self.secondaryNetworkCIDR", "self.proxyIP")),
        ".proxyIP",
        "must lie in secondaryNetworkCIDR",
    ),
    validation = rule(
        format!("!has(self.proxyIP) || {}", differ("self.proxyIP", &bare("self.serverIP"))),
        ".proxyIP",
        "must differ from serverIP: the proxy has an address of its own",
    )
)]
pub struct DnsNetwork {
    /// The server's address on the isolated network, optionally with a prefix length.
    #[serde(rename = "serverIP")]
    #[schemars(schema_with = "crate::schema::ip_with_prefix")]
    pub server_ip: String,
    /// The proxy's address, which the isolated network is sent to.
    #[serde(rename = "proxyIP", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub proxy_ip: Option<String>,
    /// Address or Service name that clients on the pod network are sent to. Left out: they don't see the entries.
    #[serde(rename = "internalProxyIP", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::hostname_or_ip")]
    pub internal_proxy_ip: Option<String>,
    /// The isolated network; clients with an address in it get the proxy's address.
    #[serde(rename = "secondaryNetworkCIDR", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::cidr")]
    pub secondary_network_cidr: Option<String>,
    /// NetworkAttachmentDefinition that connects the pod to the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub network_attachment_name: Option<String>,
    /// Namespace of the NetworkAttachmentDefinition. Left out: this object's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub network_attachment_namespace: Option<String>,
    /// Port to answer on, UDP and TCP.
    #[serde(default = "default_dns_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub dns_port: u16,
}

impl Default for DnsNetwork {
    fn default() -> Self {
        Self {
            server_ip: String::new(),
            proxy_ip: None,
            internal_proxy_ip: None,
            secondary_network_cidr: None,
            network_attachment_name: None,
            network_attachment_namespace: None,
            dns_port: default_dns_port(),
        }
    }
}

/// A name and an address.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct StaticEntry {
    /// The name.
    #[schemars(schema_with = "crate::schema::wildcard_hostname")]
    pub hostname: String,
    /// Its address for the isolated network.
    #[schemars(schema_with = "crate::schema::ip")]
    pub ip: String,
}

/// What was observed of a `DNSServer`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DNSServerStatus {
    /// Ready, ConfigurationValid, NetworkAttached, UpToDate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Names that every server answers by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<i32>,
    /// Resolvers that do not answer one of the servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing_upstreams: Vec<String>,
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
    /// Service on the pod network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Cluster address of that Service, for a cluster resolver to forward to.
    #[serde(rename = "serviceClusterIP", default, skip_serializing_if = "Option::is_none")]
    pub service_cluster_ip: Option<String>,
}

fn default_reload_interval() -> String {
    "5s".to_owned()
}

fn default_cache_ttl() -> String {
    "30s".to_owned()
}

fn default_dns_port() -> u16 {
    53
}
