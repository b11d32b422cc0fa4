//! `ProxyServer`: takes TLS connections on an isolated network and forwards them, unopened, by the name they ask for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pod_template::PodTemplate;
use crate::rules::{required, rule};

/// What a `ProxyServer` should do.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "ProxyServer",
    plural = "proxyservers",
    namespaced,
    status = "ProxyServerStatus",
    shortname = "pxs",
    category = "causeway",
    doc = "Forwards TLS connections by the name they ask for, without opening them.",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.networkConfig.serverIP",
    printcolumn(name = "ServerIP", type_ = "string", json_path = ".spec.networkConfig.serverIP"),
    printcolumn(name = "Ports", type_ = "string", json_path = ".status.ports"),
    printcolumn(name = "Backends", type_ = "integer", json_path = ".status.backendCount"),
    printcolumn(name = "Routes", type_ = "integer", json_path = ".status.supply.routes"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Engine", type_ = "string", json_path = ".status.engine", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rule(
        "self.replicas == 1 || !has(self.networkConfig) || !has(self.networkConfig.serverIP) || self.replicas <= 1 + (has(self.networkConfig.additionalServerIPs) ? size(self.networkConfig.additionalServerIPs) : 0)",
        ".replicas",
        "needs one address per replica: list replicas - 1 addresses in networkConfig.additionalServerIPs",
    ),
    validation = rule(
        "!self.backends.exists(b, b.port == self.xdsPort)",
        ".xdsPort",
        "must differ from every backend's port: choose another xdsPort or backend port",
    ),
    validation = rule(
        "!self.backends.exists(b, b.port == self.adminPort)",
        ".adminPort",
        "must differ from every backend's port: choose another adminPort or backend port",
    ),
    validation = rule(
        "self.adminPort != self.xdsPort",
        ".adminPort",
        "must differ from xdsPort: choose another adminPort",
    )
)]
pub struct ProxyServerSpec {
    /// The proxy's addresses on the isolated network. Left out: the pod network only.
    #[serde(default, skip_serializing_if = "ProxyNetwork::is_empty")]
    pub network_config: ProxyNetwork,
    /// What to forward, and by which name. Two backends on one port must differ in their names. More than fit in here are
    /// written as TLSRoutes and TCPRoutes of the Gateway API that name this proxy as their parent.
    #[serde(default)]
    #[schemars(length(max = 2048))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub backends: Vec<Backend>,
    /// Which TLSRoutes and TCPRoutes may name this proxy as their parent. Left out: those of its own namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_routes: Option<AllowedRoutes>,
    /// What to do on a port with connections that no name matches. A port that is not listed refuses them. A port without
    /// a backend waits for routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["port".into()]))]
    pub ports: Vec<PortDefaults>,
    /// Which program carries the traffic. Left out, the operator's setting decides: Native on one machine, Envoy in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Number of proxies; each needs its own address on the isolated network, if they are on one.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 16))]
    pub replicas: i32,
    /// Envoy's image, for `engine: Envoy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image")]
    pub proxy_image: Option<String>,
    /// Image of the configuration server beside Envoy, or of the native engine. Left out: the operator's own image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::image")]
    pub manager_image: Option<String>,
    /// The main port, the one that the Service names `proxy`. Listeners come from the backends' ports.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// Port of the configuration server that Envoy asks, on the pod's loopback address only.
    #[serde(default = "default_xds_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub xds_port: u16,
    /// Port of metrics and state, on the pod's loopback address only.
    #[serde(default = "default_admin_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub admin_port: u16,
    /// Seconds that open connections may still take when a proxy stops, or when their backend is removed.
    #[serde(default = "default_drain_seconds")]
    #[schemars(range(min = 0, max = 3600))]
    pub drain_seconds: i32,
    /// Connections at a time for each proxy; further ones are refused. Left out: what its file descriptors allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub connection_limit: Option<i32>,
    /// Connections at a time for each client address at each proxy; further ones are refused. For `engine: Native`: Envoy
    /// can't count by address. Left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub connections_per_source: Option<i32>,
    /// How much the proxy logs.
    #[serde(default)]
    pub log_level: LogLevel,
    /// What its pods are given besides: resources, placement, pull secrets, labels. Left out: the operator's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
    /// Whether pods are replaced when the operator brings a newer image or another form of them. Automatic: one after the
    /// other, a few ProxyServers at a time. Manual: when what they are made of is edited here. Left out: the operator's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<UpdatePolicy>,
}

/// When pods follow what the operator, and not the spec, has changed.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdatePolicy {
    /// By themselves, at the operator's pace.
    #[default]
    Automatic,
    /// When the object is edited.
    Manual,
}

/// Which routes may attach to a proxy.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AllowedRoutes {
    /// By the namespace that they are in.
    #[serde(default)]
    pub namespaces: RouteNamespaces,
}

/// The namespaces whose routes may attach to a proxy.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = required(
    "self.from != 'Selector' || has(self.selector)",
    ".selector",
    "is needed with from: Selector: write the labels of the namespaces",
))]
pub struct RouteNamespaces {
    /// Same: this object's namespace only. All: every one. Selector: those with these labels. None: no routes at all.
    #[serde(default)]
    pub from: RoutesFrom,
    /// Labels of the namespaces, for `from: Selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// Where routes may come from.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoutesFrom {
    /// The proxy's own namespace.
    #[default]
    Same,
    /// Every namespace.
    All,
    /// Namespaces with certain labels.
    Selector,
    /// Nowhere.
    None,
}

/// Where a proxy is found on the isolated network.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = required(
    "has(self.serverIP) || !(has(self.networkAttachmentName) || has(self.additionalServerIPs))",
    ".serverIP",
    "is needed with networkAttachmentName and additionalServerIPs: write the address of the first proxy",
))]
pub struct ProxyNetwork {
    /// Address of the first proxy. On a network attachment, with the prefix length of its network. Left out: the proxies listen
    /// on the pod network only.
    #[serde(rename = "serverIP", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip_with_prefix")]
    pub server_ip: Option<String>,
    /// Addresses of further replicas, one each. Without a prefix length, that of serverIP is theirs.
    #[serde(rename = "additionalServerIPs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::ip_with_prefix_set")]
    pub additional_server_ips: Vec<String>,
    /// NetworkAttachmentDefinition that connects the pod to the isolated network. Left out: the pod network only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub network_attachment_name: Option<String>,
    /// Namespace of the NetworkAttachmentDefinition. Left out: this object's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub network_attachment_namespace: Option<String>,
}

impl ProxyNetwork {
    /// Whether nothing is said: the pod network only.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The addresses of all proxies, as they are written.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.server_ip.iter().chain(&self.additional_server_ips).map(String::as_str)
    }
}

/// One service behind the proxy.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// Name of this entry, unique in the list.
    #[schemars(schema_with = "crate::schema::label")]
    pub name: String,
    /// The name that clients ask for. `*.example.com` matches every name below example.com.
    #[schemars(schema_with = "crate::schema::server_name")]
    pub hostname: String,
    /// Further names for the same service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::server_name_set")]
    pub alternate_hostnames: Vec<String>,
    /// Port to listen on.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// Service to forward to.
    #[schemars(schema_with = "crate::schema::label")]
    pub target_service: String,
    /// Port of that Service.
    #[schemars(range(min = 1, max = 65535))]
    pub target_port: u16,
    /// Namespace of that Service.
    #[schemars(schema_with = "crate::schema::label")]
    pub target_namespace: String,
    /// What is carried. TCP, TLS and HTTPS all mean TLS connections told apart by name; UDP carries datagrams.
    #[serde(default)]
    pub protocol: Protocol,
    /// Seconds to wait for the service to accept a connection.
    #[serde(default = "default_timeout_seconds")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: i32,
    /// Seconds without a byte in either direction after which a connection is closed. Left out: 3600, for UDP 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub idle_timeout_seconds: Option<i32>,
    /// How to choose among the service's endpoints.
    #[serde(default)]
    pub balancing: Balancing,
    /// Connections at a time to this backend, for each proxy; further ones are refused. Left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub connection_limit: Option<i32>,
    /// Ask each endpoint again and again whether it answers. Left out: only the Service's own readiness counts, and an
    /// endpoint that refuses connections rests for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// Seconds in which a new endpoint comes to its full share of connections. Left out: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub slow_start_seconds: Option<i32>,
    /// Tell the service the true client's address with a PROXY protocol header of this version, which the service must
    /// expect. Left out: no header. Not for UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_proxy_protocol: Option<ProxyProtocol>,
}

/// How a backend's endpoints are asked whether they answer.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// TCP: whether it accepts a connection. TLS: whether it answers a TLS hello; certificates are not looked at.
    #[serde(default)]
    pub kind: HealthCheckKind,
    /// Seconds between two checks of an endpoint.
    #[serde(default = "default_check_interval")]
    #[schemars(range(min = 1, max = 3600))]
    pub interval_seconds: i32,
    /// Seconds that an endpoint has to answer.
    #[serde(default = "default_check_timeout")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: i32,
}

/// What a health check asks.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum HealthCheckKind {
    /// Whether a connection is accepted.
    #[default]
    Tcp,
    /// Whether a TLS hello is answered.
    Tls,
}

/// How to choose among endpoints.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balancing {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The one with fewer connections, of two taken at random.
    LeastConnections,
    /// Always the same for one client's address.
    SourceHash,
}

/// A version of the PROXY protocol.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Text.
    V1,
    /// Binary.
    V2,
}

/// What a port does with connections that no name matches.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct PortDefaults {
    /// The port that these defaults are for.
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// TLS: connections are told apart by the name they ask for. TCP: nothing is looked at, and all of them go to the one
    /// TCPRoute of this port; no backend may be on it. Left out: TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<PortProtocol>,
    /// Connections that do not start with TLS, such as plain-HTTP health checks. Left out: closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plaintext: Option<Outcome>,
    /// TLS connections that ask for no name. Left out: refused with a TLS alert.
    #[serde(rename = "noSNI", default, skip_serializing_if = "Option::is_none")]
    pub no_sni: Option<Outcome>,
    /// TLS connections that ask for a name that no backend has. Left out: refused with a TLS alert.
    #[serde(rename = "unknownSNI", default, skip_serializing_if = "Option::is_none")]
    pub unknown_sni: Option<Outcome>,
    /// Every connection to this port begins with a PROXY protocol header that names the true client, as a load balancer
    /// in front sends it. Without one the connection is closed.
    #[serde(rename = "acceptProxyProtocol", default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_proxy_protocol: bool,
}

/// What a port looks at.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum PortProtocol {
    /// The name in a TLS ClientHello.
    #[default]
    Tls,
    /// Nothing.
    Tcp,
}

/// Where unmatched connections go: to a backend, or nowhere.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[x_kube(validation = required(
    "has(self.backend) != has(self.refuse)",
    ".backend",
    "write either backend: NAME of a backend on this port, or refuse: Alert or Close",
))]
pub struct Outcome {
    /// Forward to the backend of this name; it must be on the same port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub backend: Option<String>,
    /// Refuse, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<Refusal>,
}

/// How a connection is refused.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusal {
    /// A TLS alert, then the end of the connection.
    #[default]
    Alert,
    /// The end of the connection.
    Close,
}

/// The program that carries the traffic.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Causeway's own engine.
    #[default]
    Native,
    /// Envoy, configured by Causeway.
    Envoy,
}

/// What a backend carries.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// Connections.
    #[default]
    Tcp,
    /// The same as TCP.
    Tls,
    /// The same as TCP.
    Https,
    /// Datagrams.
    Udp,
}

/// How much is logged.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Everything.
    Trace,
    /// Each connection.
    Debug,
    /// Changes of state.
    #[default]
    Info,
    /// What someone should look at.
    Warning,
    /// Failures.
    Error,
    /// Only what stops the proxy.
    Critical,
}

impl LogLevel {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// What was observed of a `ProxyServer`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ProxyServerStatus {
    /// Ready, ConfigurationValid, BackendsResolved, NetworkAttached, UpToDate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// ConfigMap with the start configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_name: Option<String>,
    /// Deployment that runs the proxies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
    /// Service in front of the proxies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Cluster address of that Service.
    #[serde(rename = "serviceIP", default, skip_serializing_if = "Option::is_none")]
    pub service_ip: Option<String>,
    /// The program that carries the traffic, also where the spec leaves it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// The ports that are listened on, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<String>,
    /// The generation of the last spec that proxies took; a new pod begins with that one while a newer one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_generation: Option<i64>,
    /// Number of backends in the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_count: Option<i32>,
    /// How many of them every proxy can reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_backends: Option<i32>,
    /// Routes that are attached, and what they need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supply: Option<SupplyStatus>,
    /// The backends that something is to be said of, those without a ready endpoint first, and no more than fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub backends: Vec<BackendStatus>,
    /// What each running proxy says of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub replicas: Vec<ReplicaStatus>,
}

/// What the proxies are supplied with.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SupplyStatus {
    /// Number of TLSRoutes and TCPRoutes that are attached.
    #[serde(default)]
    pub routes: i32,
    /// Ports that they are on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Namespaces whose Services the proxies read themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Namespaces that backends name and that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_namespaces: Vec<String>,
}

/// What one running proxy says of itself. Written by the proxy, removed by the operator when its pod is gone.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// Name of its pod.
    pub name: String,
    /// The generation of the spec that it last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation of the spec that it carries traffic for: an earlier one while the newest is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_generation: Option<i64>,
    /// Which program carries its traffic.
    #[serde(default)]
    pub engine: Engine,
    /// It carries the traffic that the generation asks for.
    #[serde(default)]
    pub serving: bool,
    /// Its address on the isolated network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Addresses and ports that it listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listening: Vec<String>,
    /// Whether the server address is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<bool>,
    /// Why it stays with an earlier configuration: problems of the spec, or Envoy's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What else keeps it from its work, such as a port that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Routes that it carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<i32>,
    /// How many of those have an endpoint that takes connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_routes: Option<i32>,
    /// How many backends have an endpoint that takes connections.
    #[serde(default)]
    pub ready_backends: i32,
    /// The backends that something is to be said of, those without a ready endpoint first, and no more than fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub backends: Vec<BackendStatus>,
}

/// What was observed of one backend.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BackendStatus {
    /// The backend's name.
    pub name: String,
    /// Endpoints that take connections: ready by their Service, and by the health check if there is one.
    #[serde(default)]
    pub ready_endpoints: i32,
    /// What is wrong with it, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Default for ProxyServerSpec {
    fn default() -> Self {
        Self {
            network_config: ProxyNetwork::default(),
            backends: Vec::new(),
            allowed_routes: None,
            ports: Vec::new(),
            engine: None,
            replicas: default_replicas(),
            proxy_image: None,
            manager_image: None,
            port: default_port(),
            xds_port: default_xds_port(),
            admin_port: default_admin_port(),
            drain_seconds: default_drain_seconds(),
            connection_limit: None,
            connections_per_source: None,
            log_level: LogLevel::default(),
            pod_template: None,
            update_policy: None,
        }
    }
}

impl Default for Backend {
    fn default() -> Self {
        Self {
            name: String::new(),
            hostname: String::new(),
            alternate_hostnames: Vec::new(),
            port: default_port(),
            target_service: String::new(),
            target_port: default_port(),
            target_namespace: String::new(),
            protocol: Protocol::default(),
            timeout_seconds: default_timeout_seconds(),
            idle_timeout_seconds: None,
            balancing: Balancing::default(),
            connection_limit: None,
            health_check: None,
            slow_start_seconds: None,
            send_proxy_protocol: None,
        }
    }
}

fn default_replicas() -> i32 {
    1
}

fn default_port() -> u16 {
    443
}

fn default_xds_port() -> u16 {
    18000
}

fn default_admin_port() -> u16 {
    9901
}

fn default_drain_seconds() -> i32 {
    30
}

fn default_check_interval() -> i32 {
    5
}

fn default_check_timeout() -> i32 {
    2
}

pub(crate) fn default_timeout_seconds() -> i32 {
    30
}
