//! Where connections and requests go: a set of endpoints and how to use them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::diff::Keyed;
use crate::tls::UpstreamTls;
use crate::{Endpoint, Limit, Name, Period, duration};

/// A set of endpoints and how to use them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cluster {
    /// Unique in the plan.
    pub name: Name,
    /// May be empty: connections are then refused as `noEndpoint`.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
    /// How endpoints are reached; default directly.
    #[serde(default)]
    pub transport: Transport,
    /// Default round robin.
    #[serde(default)]
    pub policy: Policy,
    /// For one attempt; default 5s.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Period,
    /// Without a byte in either direction; default 1h, for UDP sessions 1m fits better.
    #[serde(default = "idle_timeout")]
    pub idle_timeout: Period,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<Period>,
    /// Connections at a time; default unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_limit: Option<Limit>,
    /// Tells the endpoint the true client with a PROXY protocol header; default not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_proxy_protocol: Option<ProxyVersion>,
    /// TCP keep-alive on both sides; default after 60s, each 15s, 4 times.
    #[serde(default)]
    pub keepalive: Keepalive,
    /// What endpoints speak where requests are forwarded; default HTTP/1.1.
    #[serde(default)]
    pub http_version: HttpVersion,
    /// The answer to requests while there is no endpoint; default 503.
    #[serde(default = "no_endpoint_status", deserialize_with = "crate::http::status")]
    pub no_endpoint_status: u16,
}

impl Cluster {
    /// A cluster with every default.
    pub fn new(name: Name, endpoints: Vec<Endpoint>) -> Self {
        Self {
            name,
            endpoints,
            transport: Transport::default(),
            policy: Policy::default(),
            connect_timeout: connect_timeout(),
            idle_timeout: idle_timeout(),
            retries: retries(),
            ejection: Ejection::default(),
            health_check: None,
            slow_start: None,
            connection_limit: None,
            send_proxy_protocol: None,
            keepalive: Keepalive::default(),
            http_version: HttpVersion::default(),
            no_endpoint_status: no_endpoint_status(),
        }
    }

    /// Whether two clusters differ in nothing but their endpoints. The one place that says which fields are the
    /// cluster's head; a new field does not compile before it is sorted here.
    pub fn same_but_endpoints(&self, other: &Self) -> bool {
        let Self {
            name,
            endpoints: _,
            transport,
            policy,
            connect_timeout,
            idle_timeout,
            retries,
            ejection,
            health_check,
            slow_start,
            connection_limit,
            send_proxy_protocol,
            keepalive,
            http_version,
            no_endpoint_status,
        } = self;
        *name == other.name
            && *transport == other.transport
            && *policy == other.policy
            && *connect_timeout == other.connect_timeout
            && *idle_timeout == other.idle_timeout
            && *retries == other.retries
            && *ejection == other.ejection
            && *health_check == other.health_check
            && *slow_start == other.slow_start
            && *connection_limit == other.connection_limit
            && *send_proxy_protocol == other.send_proxy_protocol
            && *keepalive == other.keepalive
            && *http_version == other.http_version
            && *no_endpoint_status == other.no_endpoint_status
    }
}

impl Keyed for Cluster {
    fn key(&self) -> &str {
        &self.name
    }
}

/// How the endpoints of a cluster are reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Transport {
    /// As they are.
    #[default]
    Direct,
    /// With TLS to each endpoint.
    Tls(UpstreamTls),
    /// Through this link of the plan; its other end connects to the endpoints.
    Link(Name),
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

/// What endpoints speak where requests are forwarded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "1.1")]
    Http1,
    /// HTTP/2, in clear text with prior knowledge.
    #[serde(rename = "2")]
    Http2,
    /// What TLS agrees on; HTTP/1.1 in clear text.
    #[serde(rename = "auto")]
    Auto,
    /// The one in which the request came.
    #[serde(rename = "same")]
    Same,
}

/// When a failing endpoint is rested, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ejection {
    /// Failures to connect in a row; 0 switches this off; default 5.
    #[serde(default = "number::<5>")]
    pub consecutive_failures: u32,
    /// Connections in a row that it took and reset before it said a word; 0 switches this off; default 5.
    #[serde(default = "number::<5>")]
    pub consecutive_resets: u32,
    /// Default 30s.
    #[serde(default = "seconds::<30>", with = "duration")]
    pub time: Duration,
}

impl Default for Ejection {
    fn default() -> Self {
        Self { consecutive_failures: 5, consecutive_resets: 5, time: seconds::<30>() }
    }
}

/// An active health check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HealthCheck {
    /// What to ask.
    pub kind: HealthCheckKind,
    /// The name to ask for with kind `tls`; default none, which servers may refuse that have only certificates for names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<Name>,
    /// Between two checks of an endpoint; default 5s.
    #[serde(default = "interval")]
    pub interval: Period,
    /// For one check; default 2s.
    #[serde(default = "timeout")]
    pub timeout: Period,
    /// Failed checks in a row that make an endpoint unhealthy; default 3.
    #[serde(default = "unhealthy_after")]
    pub unhealthy_after: Limit,
    /// Good checks in a row that make it healthy again; default 2.
    #[serde(default = "healthy_after")]
    pub healthy_after: Limit,
}

impl HealthCheck {
    /// A check with every default.
    pub fn new(kind: HealthCheckKind) -> Self {
        Self {
            kind,
            server_name: None,
            interval: interval(),
            timeout: timeout(),
            unhealthy_after: unhealthy_after(),
            healthy_after: healthy_after(),
        }
    }
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
    #[serde(default = "number::<4>")]
    pub probes: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self { time: seconds::<60>(), interval: seconds::<15>(), probes: 4 }
    }
}

const fn seconds<const N: u64>() -> Duration {
    Duration::from_secs(N)
}
const fn number<const N: u32>() -> u32 {
    N
}
const fn connect_timeout() -> Period {
    const { Period::from_secs(5) }
}
const fn idle_timeout() -> Period {
    const { Period::from_secs(3600) }
}
const fn no_endpoint_status() -> u16 {
    503
}
const fn retries() -> u32 {
    2
}
const fn interval() -> Period {
    const { Period::from_secs(5) }
}
const fn timeout() -> Period {
    const { Period::from_secs(2) }
}
const fn unhealthy_after() -> Limit {
    const { Limit::new(3).expect("not 0") }
}
const fn healthy_after() -> Limit {
    const { Limit::new(2).expect("not 0") }
}
