//! The plan of a DNS server: which view a client gets, the zones that are answered from the plan, and where everything
//! else is asked.

mod validate;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::diff::Keyed;
use crate::{Limit, Name, Pattern, Period, Size, duration, networks};

/// Everything that a DNS server does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DnsPlan {
    /// Where it listens, for UDP and TCP.
    pub binds: Vec<SocketAddr>,
    /// The first whose sources have the client answers it; a client of none is refused.
    pub views: Vec<View>,
    /// Where names outside of the zones are asked.
    #[serde(default)]
    pub forward: Forward,
    /// What is remembered of forwarded answers.
    #[serde(default)]
    pub cache: Cache,
    /// What it may take, and what clients may ask of it.
    #[serde(default)]
    pub limits: DnsLimits,
}

/// What one kind of clients gets to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct View {
    /// For logs and metrics.
    pub name: Name,
    /// The clients; default everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "networks::some")]
    pub sources: Vec<IpNet>,
    /// The clients whose questions for names outside of the zones are forwarded; default the sources, and private networks
    /// only where everybody is a source. An empty list: nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recursion: Option<Vec<IpNet>>,
    /// Networks whose addresses are led back to names here and nowhere else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reverse: Vec<IpNet>,
    /// What is answered with authority.
    #[serde(default)]
    pub zones: Vec<Zone>,
}

impl Keyed for View {
    fn key(&self) -> &str {
        &self.name
    }
}

/// A domain that is answered from the plan alone: a name in it that has no record does not exist, and is never asked
/// elsewhere, unless the zone is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Zone {
    /// The domain.
    pub domain: Name,
    /// How long answers may be kept; default 30s.
    #[serde(default = "ttl", with = "duration")]
    pub ttl: Duration,
    /// How long the absence of a name may be kept; default 30s.
    #[serde(default = "ttl", with = "duration")]
    pub negative_ttl: Duration,
    /// Its name server's name; default `ns.` and the domain, which has the addresses that the server binds among the view's
    /// sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_server: Option<Name>,
    /// Whether nothing but its records is answered here, and all other names of the domain are asked elsewhere; default false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open: bool,
    /// What there is.
    #[serde(default)]
    pub records: Vec<Record>,
}

impl Keyed for Zone {
    fn key(&self) -> &str {
        &self.domain
    }
}

/// A name and its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// A full name in the zone, or `*.domain` for the names below that do not exist otherwise (RFC 4592).
    pub name: Pattern,
    /// A and AAAA.
    pub addresses: Vec<IpAddr>,
    /// Whether these addresses lead back to the name; default true, and never for `*.domain`.
    #[serde(default = "yes")]
    pub reverse: bool,
    /// How long answers may be kept; default as the zone says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Period>,
}

/// Where names are asked that no zone has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forward {
    /// Resolvers; default those of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstreams: Vec<Upstream>,
    /// Whom to ask first; default the first that is healthy.
    #[serde(default)]
    pub order: ForwardOrder,
    /// For one attempt; default 2s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Period>,
}

/// A resolver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Upstream {
    /// Where it is.
    pub address: SocketAddr,
    /// The name in its certificate, for DNS over TLS; default in clear text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<Name>,
    /// The authorities that may have signed its certificate, as a file of PEM; default those of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_ca_file: Option<PathBuf>,
}

/// Whom to ask first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ForwardOrder {
    /// The first that is healthy.
    #[default]
    Sequential,
    /// The one that answers fastest.
    Fastest,
}

/// What is remembered of forwarded answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cache {
    /// Memory for answers; default 16Mi.
    #[serde(default = "cache_size")]
    pub size: Size,
    /// The longest that an answer is kept, whatever it says; default 1h.
    #[serde(default = "max_ttl", with = "duration")]
    pub max_ttl: Duration,
    /// How long an answer may be given after its time when nobody answers; default 1h.
    #[serde(default = "max_ttl", with = "duration")]
    pub stale: Duration,
    /// Whether names that are asked often are asked again before their time is over; default true.
    #[serde(default = "yes")]
    pub prefetch: bool,
}

impl Default for Cache {
    fn default() -> Self {
        Self { size: cache_size(), max_ttl: max_ttl(), stale: max_ttl(), prefetch: true }
    }
}

/// What a DNS server may take, and what clients may ask of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DnsLimits {
    /// Datagrams a second to one network of clients (/24 or /56) that shows no cookie; beyond it every second question is
    /// answered with the advice to ask by TCP, the others not at all. Default unlimited; refusals are always limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub responses_per_second: Option<Limit>,
    /// TCP connections at a time; default 1,000.
    #[serde(default = "tcp_connections")]
    pub tcp_connections: Limit,
    /// How long a TCP connection may be without a question; default 10s.
    #[serde(default = "tcp_idle_timeout")]
    pub tcp_idle_timeout: Period,
    /// Questions that wait for a resolver at a time, at most half of them of one client; default 4,096.
    #[serde(default = "forwarded")]
    pub forwarded: Limit,
}

impl Default for DnsLimits {
    fn default() -> Self {
        Self {
            responses_per_second: None,
            tcp_connections: tcp_connections(),
            tcp_idle_timeout: tcp_idle_timeout(),
            forwarded: forwarded(),
        }
    }
}

const fn ttl() -> Duration {
    Duration::from_secs(30)
}
const fn max_ttl() -> Duration {
    Duration::from_hours(1)
}
const fn cache_size() -> Size {
    Size::from_mebibytes(16)
}
const fn tcp_connections() -> Limit {
    const { Limit::new(1000).expect("not 0") }
}
const fn tcp_idle_timeout() -> Period {
    const { Period::from_secs(10) }
}
const fn forwarded() -> Limit {
    const { Limit::new(4096).expect("not 0") }
}
const fn yes() -> bool {
    true
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_plan_with_two_views() {
        let plan: DnsPlan = serde_saphyr::from_str(
            "binds: ['10.0.0.2:53']\n\
             views:\n\
             - {name: vlan, sources: [10.0.0.0/24], zones: [{domain: lab.test, records: [{name: '*.apps.lab.test', addresses: [10.0.0.3]}]}]}\n\
             - {name: pods}",
        )
        .unwrap();
        assert_eq!(plan.views[0].zones[0].ttl, Duration::from_secs(30));
        assert_eq!(plan.forward, Forward::default());
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<DnsPlan>(&json).unwrap(), plan);
    }
}
