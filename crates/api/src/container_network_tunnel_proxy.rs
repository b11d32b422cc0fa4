//! `ContainerNetworkTunnelProxy` (CNTP): containers on a network reach Services of the host under names.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{fixed, forbidden, rule};

/// What a `ContainerNetworkTunnelProxy` should do.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "ContainerNetworkTunnelProxy",
    plural = "containernetworktunnelproxies",
    namespaced,
    status = "ContainerNetworkTunnelProxyStatus",
    shortname = "cntp",
    category = "causeway",
    doc = "Lets containers on a network reach Services that listen on the host.",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.containerNetworkName",
    printcolumn(name = "Network", type_ = "string", json_path = ".spec.containerNetworkName"),
    printcolumn(name = "Address", type_ = "string", json_path = ".status.clientProxyAddress"),
    printcolumn(name = "Ports", type_ = "string", json_path = ".status.clientProxyPorts"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = forbidden(
        "self.containerNetworkName == oldSelf.containerNetworkName",
        ".containerNetworkName",
        "can't be changed: delete the object and create another",
    ),
    validation = forbidden(
        "has(self.aliases) == has(oldSelf.aliases) && (!has(self.aliases) || (size(self.aliases) == size(oldSelf.aliases) && self.aliases.all(a, a in oldSelf.aliases)))",
        ".aliases",
        "can't be changed: delete the object and create another",
    ),
    validation = forbidden(fixed("baseImage"), ".baseImage", "can't be changed: delete the object and create another")
)]
pub struct ContainerNetworkTunnelProxySpec {
    /// The ContainerNetwork to serve: NAME, or NAMESPACE/NAME.
    #[schemars(schema_with = "crate::schema::object_path")]
    pub container_network_name: String,
    /// Names under which containers find the proxy on the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::alias_set")]
    pub aliases: Vec<String>,
    /// What to carry. Entries may come and go; to change one, give it another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub tunnels: Vec<Tunnel>,
    /// Image to build the client from. Left out, nothing is pulled: the client's image holds only this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image")]
    pub base_image: Option<String>,
}

/// One way from the container network to a Service of the host.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self == oldSelf")
        .message("a tunnel can't be changed: remove it and add one under another name")
        .reason(Reason::FieldValueForbidden),
    validation = rule(
        "self.clientServiceName != self.serverServiceName || \
         (has(self.clientServiceNamespace) ? self.clientServiceNamespace : '') != (has(self.serverServiceNamespace) ? self.serverServiceNamespace : '')",
        ".clientServiceName",
        "must differ from serverServiceName: name the Service that containers use",
    ),
    validation = rule(
        "!has(self.clientPort) || self.protocol == 'UDP' || !(self.clientPort in [15049, 15050])",
        ".clientPort",
        "15049 and 15050 are the tunnel's own in the container: choose another port, or leave it out",
    )
)]
pub struct Tunnel {
    /// Name of the tunnel, unique in the list.
    #[schemars(schema_with = "crate::schema::label")]
    pub name: String,
    /// Service on the host to reach.
    #[schemars(schema_with = "crate::schema::label")]
    pub server_service_name: String,
    /// Its namespace. Left out: this object's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub server_service_namespace: Option<String>,
    /// Service without selector that gets the addresses on the container network.
    #[schemars(schema_with = "crate::schema::label")]
    pub client_service_name: String,
    /// Its namespace. Left out: this object's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub client_service_namespace: Option<String>,
    /// Port on the container network. Left out: the server Service's port if it is free, else one that stays the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub client_port: Option<u16>,
    /// Connections or datagrams.
    #[serde(default)]
    pub protocol: TunnelProtocol,
    /// Addresses or networks of the containers that may use this tunnel. Left out: all on the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::source_set")]
    pub allowed_sources: Vec<String>,
}

/// What a tunnel carries.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum TunnelProtocol {
    /// Connections.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

/// What was observed of a CNTP.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ContainerNetworkTunnelProxyStatus {
    /// Ready, RuntimeAvailable, ImageBuilt, LinkUp, TunnelsReady.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the proxy is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TunnelProxyState>,
    /// More about the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Each tunnel's state, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub tunnel_statuses: Vec<TunnelStatus>,
    /// Counts changes of the tunnels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel_configuration_version: Option<i32>,
    /// Image of the client container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_proxy_container_image: Option<String>,
    /// The client container's id in the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_proxy_container_id: Option<String>,
    /// Where containers find the proxy on their network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_proxy_address: Option<String>,
    /// The ports there that carry traffic, as people read them: 8080,53/UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_proxy_ports: Option<String>,
    /// Host port of the client's control listener, on loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_proxy_control_port: Option<i32>,
    /// Host port of the client's data listener, on loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_proxy_data_port: Option<i32>,
    /// Process that is the host end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_proxy_process_id: Option<i64>,
    /// When that process started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_proxy_startup_timestamp: Option<MicroTime>,
    /// File with its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_proxy_std_out_file: Option<String>,
    /// File with its standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_proxy_std_err_file: Option<String>,
    /// Its control port on loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_proxy_control_port: Option<i32>,
}

/// Where a CNTP is in its life.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TunnelProxyState {
    /// Waits for its network.
    #[default]
    Pending,
    /// The client's image is built.
    BuildingImage,
    /// Both ends start.
    Starting,
    /// Both ends talk to each other.
    Running,
    /// A person must fix something; the message says what.
    Failed,
}

/// What was observed of one tunnel.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TunnelStatus {
    /// The tunnel's name.
    pub name: String,
    /// Its id; 0 means none yet.
    #[serde(default)]
    pub tunnel_id: u32,
    /// Whether it carries traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TunnelState>,
    /// Why it carries nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Addresses on the container network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_proxy_addresses: Vec<String>,
    /// Port on the container network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_proxy_port: Option<i32>,
    /// When the state last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<MicroTime>,
}

/// Whether a tunnel carries traffic.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TunnelState {
    /// Not at the moment.
    #[default]
    NotReady,
    /// It does.
    Ready,
    /// It can't until a person fixes something.
    Failed,
}
