//! The plan of a container tunnel's host end: which client end to dial, and what to carry. A tunnel is a listener at the
//! client end and a cluster of endpoints at the host end. Beside the plan stands what the host end says of itself, and how
//! it and the operator talk: one is a data plane, the other must not see any.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::diff::Keyed;
use crate::{Endpoint, Limit, Name, Period, Problem, networks};

mod any_version;
pub mod files;
pub mod protocol;
mod status;

pub use status::{Counters, LinkState, TunnelState};

/// A tunnel's number: from 1, chosen by whoever asks for the tunnel, and never used for another.
pub type TunnelId = u32;

/// Everything that a host end does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TunnelPlan {
    /// The client end; none while it has no address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dial: Option<Dial>,
    /// The file with the authority that both ends' certificates are from.
    pub authority: PathBuf,
    /// What to carry.
    #[serde(default)]
    pub tunnels: Vec<Tunnel>,
}

/// Where the client end listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dial {
    /// For the control connection.
    pub control: SocketAddr,
    /// For data connections.
    pub data: SocketAddr,
}

/// One tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tunnel {
    /// Its number.
    pub id: TunnelId,
    /// Its name, for people.
    pub name: Name,
    /// What it carries; default TCP.
    #[serde(default)]
    pub protocol: TunnelProtocol,
    /// Where the client end listens; default any port.
    #[serde(default)]
    pub port: Port,
    /// Who may use it; default everybody on the network.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "networks::some")]
    pub allowed_sources: Vec<IpNet>,
    /// Streams at a time; default 10,000.
    #[serde(default = "max_streams")]
    pub max_streams: Limit,
    /// Where the host end connects to, in turn; without any, connections are refused.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
    /// For one attempt; default 5s.
    #[serde(default = "connect_timeout")]
    pub connect_timeout: Period,
    /// Without a byte in either direction; default 1h for TCP, 2m for UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Period>,
}

impl Tunnel {
    /// A TCP tunnel on any port, with every default and no endpoint.
    pub fn new(id: TunnelId, name: Name) -> Self {
        Self {
            id,
            name,
            protocol: TunnelProtocol::Tcp,
            port: Port::Any,
            allowed_sources: Vec::new(),
            max_streams: max_streams(),
            endpoints: Vec::new(),
            connect_timeout: connect_timeout(),
            idle_timeout: None,
        }
    }

    /// How long a stream may be silent.
    pub fn idle_timeout(&self) -> Duration {
        match (self.idle_timeout, self.protocol) {
            (Some(timeout), _) => timeout.get(),
            (None, TunnelProtocol::Tcp) => Duration::from_hours(1),
            (None, TunnelProtocol::Udp) => Duration::from_mins(2),
        }
    }
}

impl Keyed for Tunnel {
    fn key(&self) -> &str {
        &self.name
    }
}

/// What a tunnel carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TunnelProtocol {
    /// Connections.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

/// Which port the client end listens on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Port {
    /// This one or none.
    Fixed(u16),
    /// This one, or any other if it is taken.
    Preferred(u16),
    /// Any.
    #[default]
    Any,
}

impl TunnelPlan {
    /// Everything that makes this plan impossible to run; empty when it is fine.
    pub fn validate(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        for (i, tunnel) in self.tunnels.iter().enumerate() {
            let mut add = |field: &str, message: String| {
                found.push(Problem { path: format!("tunnels[{i}].{field}"), message });
            };
            if tunnel.id == 0 {
                add("id", "numbers begin with 1".into());
            }
            let before = &self.tunnels[..i];
            if let Some(first) = before.iter().position(|other| other.id == tunnel.id) {
                add("id", format!("{} is already that of tunnels[{first}]", tunnel.id));
            }
            if let Some(first) = before.iter().position(|other| other.name == tunnel.name) {
                add("name", format!("`{}` is already that of tunnels[{first}]", tunnel.name));
            }
            for (e, endpoint) in tunnel.endpoints.iter().enumerate() {
                if endpoint.address.socket().is_none() {
                    let message = format!(
                        "{} can't be dialled by a host end: write an address and port",
                        endpoint.address
                    );
                    add(&format!("endpoints[{e}].address"), message);
                }
            }
        }
        found
    }
}

const fn max_streams() -> Limit {
    const { Limit::new(10_000).expect("not 0") }
}

const fn connect_timeout() -> Period {
    const { Period::from_secs(5) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_fills_in_defaults() {
        let text = "authority: /keys/authority.pem\ntunnels: [{id: 1, name: web, endpoints: [{address: '127.0.0.1:80'}]}]";
        let plan: TunnelPlan = serde_saphyr::from_str(text).unwrap();
        assert_eq!((plan.dial, plan.tunnels[0].port), (None, Port::Any));
        assert_eq!(plan.tunnels[0].idle_timeout(), Duration::from_hours(1));
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<TunnelPlan>(&json).unwrap(), plan);
        assert_eq!(plan.validate(), []);
    }

    #[test]
    fn names_what_clashes() {
        let text = "authority: /a\ntunnels: [{id: 1, name: a}, {id: 1, name: b}, {id: 0, name: a, endpoints: [{address: 'unix:/a'}]}]";
        let plan: TunnelPlan = serde_saphyr::from_str(text).unwrap();
        let paths: Vec<_> = plan.validate().into_iter().map(|problem| problem.path).collect();
        assert_eq!(
            paths,
            ["tunnels[1].id", "tunnels[2].id", "tunnels[2].name", "tunnels[2].endpoints[0].address"]
        );
    }
}
