//! How a host end, its link and its tunnels stand: told by the host end, read by whoever asked for it.

use serde::{Deserialize, Serialize};

/// How the link stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LinkState {
    /// Not up; the host end goes on trying.
    Connecting {
        /// How often it has failed in a row.
        attempt: u32,
        /// How it failed last.
        error: Option<String>,
    },
    /// Both ends talk to each other.
    Up,
}

impl Default for LinkState {
    fn default() -> Self {
        Self::Connecting { attempt: 0, error: None }
    }
}

/// How a tunnel stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TunnelState {
    /// The link is not up, or the client end has not said anything about it yet.
    Pending,
    /// Clients are taken.
    Listening {
        /// The container's port.
        port: u16,
    },
    /// Clients are refused, since no endpoint answers; the host end looks again and again.
    Unreachable {
        /// The container's port.
        port: u16,
        /// What connecting said.
        error: String,
    },
    /// Clients are refused, since there is no endpoint.
    NoEndpoints {
        /// The container's port.
        port: u16,
    },
    /// The client end can't listen.
    Failed {
        /// Why not.
        error: String,
    },
}

/// A tunnel's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counters {
    /// Streams open now.
    pub streams: u64,
    /// Streams opened so far.
    pub opened: u64,
    /// Streams refused so far.
    pub refused: u64,
    /// Those of them that a limit refused: of the tunnel, or of what its processes can hold.
    pub limited: u64,
    /// Bytes carried to the host.
    pub to_host: u64,
    /// Bytes carried to containers.
    pub to_container: u64,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}
