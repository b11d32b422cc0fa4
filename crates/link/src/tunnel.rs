//! What a link is asked to carry: one tunnel is a port on the container's end and addresses on the host's.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A tunnel's number: from 1, chosen by whoever asks for the tunnel, and never used for another.
pub type TunnelId = u32;

/// Streams that a tunnel carries at most when nothing else is said.
const MAX_STREAMS: u32 = 10_000;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const STREAM_IDLE: Duration = Duration::from_hours(1);
const DATAGRAM_IDLE: Duration = Duration::from_mins(2);

/// One tunnel as the host's end is asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tunnel {
    /// Its number.
    pub id: TunnelId,
    /// Its name, for people.
    pub name: String,
    /// What it carries.
    #[serde(default)]
    pub protocol: Protocol,
    /// Where the container listens.
    #[serde(default)]
    pub port: Port,
    /// Who may use it; empty means everybody on the network.
    #[serde(default)]
    pub allowed_sources: Vec<IpNet>,
    /// Streams at the same time; 0 means 10,000.
    #[serde(default)]
    pub max_streams: u32,
    /// Where the host connects to, in turn; empty means that nobody is there and connections are refused.
    #[serde(default)]
    pub targets: Vec<SocketAddr>,
    /// How long the host tries one target, in milliseconds; 0 means 5 s.
    #[serde(default)]
    pub connect_timeout_millis: u64,
    /// How long a stream may be silent, in milliseconds; 0 means 1 hour for TCP, 2 minutes for UDP.
    #[serde(default)]
    pub idle_timeout_millis: u64,
}

impl Tunnel {
    /// A TCP tunnel on any port, with the usual limits and no target.
    pub fn new(id: TunnelId, name: impl Into<String>) -> Self {
        Self {
            id,
            name: name.into(),
            protocol: Protocol::Tcp,
            port: Port::Any,
            allowed_sources: Vec::new(),
            max_streams: 0,
            targets: Vec::new(),
            connect_timeout_millis: 0,
            idle_timeout_millis: 0,
        }
    }

    /// How long the host tries one target.
    pub fn connect_timeout(&self) -> Duration {
        match self.connect_timeout_millis {
            0 => CONNECT_TIMEOUT,
            millis => Duration::from_millis(millis),
        }
    }

    /// How long a stream may be silent.
    pub fn idle_timeout(&self) -> Duration {
        match (self.idle_timeout_millis, self.protocol) {
            (0, Protocol::Tcp) => STREAM_IDLE,
            (0, Protocol::Udp) => DATAGRAM_IDLE,
            (millis, _) => Duration::from_millis(millis),
        }
    }

    /// Streams at the same time.
    pub fn stream_limit(&self) -> u32 {
        if self.max_streams == 0 { MAX_STREAMS } else { self.max_streams }
    }
}

/// What a tunnel carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// Connections.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

/// Which port the container listens on.
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
