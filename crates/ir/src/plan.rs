//! The plan's vocabulary: listeners with routes, clusters of endpoints, limits. Written in camelCase, as YAML or
//! JSON; a field that is not known here is an error.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;

/// Everything that an engine does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Where connections arrive.
    #[serde(default)]
    pub listeners: Vec<Listener>,
    /// Where they go.
    #[serde(default)]
    pub clusters: Vec<Cluster>,
    /// What the engine as a whole may take.
    #[serde(default)]
    pub limits: Limits,
    /// How long connections of a removed route or listener may stay; default 30s.
    #[serde(default = "seconds::<30>", with = "duration")]
    pub drain_timeout: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            clusters: Vec::new(),
            limits: Limits::default(),
            drain_timeout: seconds::<30>(),
        }
    }
}

/// An address to listen on and the routes behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Listener {
    /// Unique in the plan.
    pub name: String,
    /// `address:port`; port 0 takes a free one.
    pub bind: String,
    /// Default `TCP`.
    #[serde(default)]
    pub protocol: Protocol,
    /// What to look for in the first bytes; default nothing.
    #[serde(default)]
    pub sniff: Sniff,
    /// Every connection begins with a PROXY protocol header that names the true client; default false.
    #[serde(default)]
    pub accept_proxy_protocol: bool,
    /// With `sniff: tls` each has server names; without, there is exactly one and it has none.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// For a TLS client that names no server.
    #[serde(default)]
    pub no_server_name: Outcome,
    /// For a TLS client that names a server that no route has.
    #[serde(default)]
    pub unknown_server_name: Outcome,
    /// For a client that does not speak TLS.
    #[serde(default = "Outcome::close")]
    pub plaintext: Outcome,
}

impl Listener {
    /// The bind address; `None` in a plan that was not validated.
    pub fn address(&self) -> Option<SocketAddr> {
        self.bind.parse().ok()
    }
}

/// The transport of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// Streams.
    #[default]
    #[serde(rename = "TCP")]
    Tcp,
    /// Datagrams, kept together as sessions by client address.
    #[serde(rename = "UDP")]
    Udp,
}

/// How a listener looks at the first bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Sniff {
    /// Not at all, so that servers may speak first.
    #[default]
    None,
    /// As a TLS ClientHello, for the server name in it.
    Tls,
}

/// Names and the cluster that serves them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Route {
    /// Unique in its listener.
    pub name: String,
    /// Exact names, and `*.domain` for everything below a domain; the longest match wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_names: Vec<String>,
    /// The name of a cluster of the plan.
    pub cluster: String,
    /// Connections at a time; default unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_limit: Option<u32>,
}

/// What happens to a connection that no route matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It goes to this cluster.
    Cluster(String),
    /// It is refused.
    Refuse(Refusal),
}

impl Default for Outcome {
    fn default() -> Self {
        Self::Refuse(Refusal::Alert)
    }
}

impl Outcome {
    fn close() -> Self {
        Self::Refuse(Refusal::Close)
    }
}

/// How to refuse a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// With the TLS alert `unrecognized_name`.
    Alert,
    /// By closing.
    Close,
}

/// A set of endpoints and how to use them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cluster {
    /// Unique in the plan.
    pub name: String,
    /// May be empty: connections are then refused as `noEndpoint`.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
    /// Default round robin.
    #[serde(default)]
    pub policy: Policy,
    /// For one attempt; default 5s.
    #[serde(default = "seconds::<5>", with = "duration")]
    pub connect_timeout: Duration,
    /// Without a byte in either direction; default 1h, for UDP sessions 1m fits better.
    #[serde(default = "seconds::<3600>", with = "duration")]
    pub idle_timeout: Duration,
    /// Attempts on further endpoints when connecting fails; default 2.
    #[serde(default = "retries")]
    pub retries: u32,
    /// Rests an endpoint that keeps failing; default after 5 failures for 30s.
    #[serde(default)]
    pub ejection: Ejection,
    /// Asks endpoints by itself whether they answer; default not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// A new or recovered endpoint gets its full share only after this time; default at once.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<Duration>,
    /// Connections at a time; default unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_limit: Option<u32>,
    /// Tells the endpoint the true client with a PROXY protocol header; default not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_proxy_protocol: Option<ProxyVersion>,
    /// TCP keep-alive on both sides; default after 60s, each 15s, 4 times.
    #[serde(default)]
    pub keepalive: Keepalive,
}

impl Cluster {
    /// A cluster with every default.
    pub fn new(name: impl Into<String>, endpoints: Vec<Endpoint>) -> Self {
        Self {
            name: name.into(),
            endpoints,
            policy: Policy::default(),
            connect_timeout: seconds::<5>(),
            idle_timeout: seconds::<3600>(),
            retries: retries(),
            ejection: Ejection::default(),
            health_check: None,
            slow_start: None,
            connection_limit: None,
            send_proxy_protocol: None,
            keepalive: Keepalive::default(),
        }
    }
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoint {
    /// `address:port`; names are resolved before a plan is made.
    pub address: String,
    /// Share among the endpoints; default 1.
    #[serde(default = "one")]
    pub weight: u32,
    /// Takes new connections; default true.
    #[serde(default = "yes")]
    pub ready: bool,
    /// Still answers, though perhaps terminating; default true.
    #[serde(default = "yes")]
    pub serving: bool,
    /// Is going away: used only when nothing is ready; default false.
    #[serde(default)]
    pub terminating: bool,
}

impl Endpoint {
    /// A ready endpoint.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), weight: 1, ready: true, serving: true, terminating: false }
    }
}

/// How a cluster chooses among its endpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Policy {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// Of two at random the one with fewer connections.
    LeastConnections,
    /// By the client's address, so that a client stays with its endpoint.
    SourceHash,
}

/// When a failing endpoint is rested, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ejection {
    /// Failures to connect in a row; 0 switches this off; default 5.
    #[serde(default = "five")]
    pub consecutive_failures: u32,
    /// Connections in a row that it took and reset before it said a word; 0 switches this off; default 5.
    #[serde(default = "five")]
    pub consecutive_resets: u32,
    /// Default 30s.
    #[serde(default = "seconds::<30>", with = "duration")]
    pub time: Duration,
}

impl Default for Ejection {
    fn default() -> Self {
        Self { consecutive_failures: five(), consecutive_resets: five(), time: seconds::<30>() }
    }
}

/// An active health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HealthCheck {
    /// What to ask.
    pub kind: HealthCheckKind,
    /// Between two checks of an endpoint; default 5s.
    #[serde(default = "seconds::<5>", with = "duration")]
    pub interval: Duration,
    /// For one check; default 2s.
    #[serde(default = "seconds::<2>", with = "duration")]
    pub timeout: Duration,
    /// Failed checks in a row that make an endpoint unhealthy; default 3.
    #[serde(default = "three")]
    pub unhealthy_after: u32,
    /// Good checks in a row that make it healthy again; default 2.
    #[serde(default = "two")]
    pub healthy_after: u32,
}

/// What a health check asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HealthCheckKind {
    /// Whether it accepts a connection.
    Tcp,
    /// Whether it answers a ClientHello with a handshake; certificates are not looked at.
    Tls,
}

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProxyVersion {
    /// Text.
    V1,
    /// Binary.
    V2,
}

/// TCP keep-alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Keepalive {
    /// Silence before the first probe; 0s switches keep-alive off; default 60s.
    #[serde(default = "seconds::<60>", with = "duration")]
    pub time: Duration,
    /// Between probes; default 15s.
    #[serde(default = "seconds::<15>", with = "duration")]
    pub interval: Duration,
    /// Unanswered probes that end the connection; default 4.
    #[serde(default = "four")]
    pub probes: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self { time: seconds::<60>(), interval: seconds::<15>(), probes: four() }
    }
}

/// What the engine as a whole may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Connections at a time; default what the process's file descriptors allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// For the PROXY header and the ClientHello; default 10s.
    #[serde(default = "seconds::<10>", with = "duration")]
    pub handshake_timeout: Duration,
    /// Default unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_connections_per_second: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: None, handshake_timeout: seconds::<10>(), new_connections_per_second: None }
    }
}

const fn seconds<const N: u64>() -> Duration {
    Duration::from_secs(N)
}
const fn yes() -> bool {
    true
}
const fn one() -> u32 {
    1
}
const fn two() -> u32 {
    2
}
const fn three() -> u32 {
    3
}
const fn four() -> u32 {
    4
}
const fn five() -> u32 {
    5
}
const fn retries() -> u32 {
    2
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"
listeners:
- name: https
  bind: 0.0.0.0:443
  sniff: tls
  routes:
  - name: api
    serverNames: [api.example.test, "*.api.example.test"]
    cluster: api
  noServerName: {cluster: api}
  unknownServerName: {refuse: alert}
  plaintext: {refuse: close}
clusters:
- name: api
  policy: leastConnections
  connectTimeout: 2s
  healthCheck: {kind: tls, interval: 1s}
  endpoints:
  - address: 10.0.0.1:6443
  - {address: "[2001:db8::1]:6443", weight: 2, ready: false, terminating: true}
drainTimeout: 1m
"#;

    #[test]
    fn reads_yaml_and_writes_what_it_read() {
        let plan: Plan = serde_saphyr::from_str(FULL).unwrap();
        assert_eq!(plan.listeners[0].no_server_name, Outcome::Cluster("api".into()));
        assert_eq!(plan.clusters[0].endpoints[1].weight, 2);
        assert_eq!(plan.clusters[0].connect_timeout, Duration::from_secs(2));
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }

    #[test]
    fn rejects_unknown_field() {
        let error =
            serde_saphyr::from_str::<Plan>("listeners:\n- name: a\n  bnd: 1").unwrap_err().to_string();
        assert!(error.contains("bnd"), "{error}");
    }

    #[test]
    fn defaults_are_the_same_read_or_made() {
        let read: Cluster = serde_saphyr::from_str("name: a\nendpoints: [{address: '1.2.3.4:5'}]").unwrap();
        assert_eq!(read, Cluster::new("a", vec![Endpoint::new("1.2.3.4:5")]));
        assert_eq!(serde_saphyr::from_str::<Plan>("{}").unwrap(), Plan::default());
    }
}
