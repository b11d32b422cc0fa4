//! What the engine as a whole may take.

use serde::{Deserialize, Serialize};

use crate::{Limit, Period};

/// What the engine as a whole may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Connections at a time; default what the process's file descriptors allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Limit>,
    /// Connections at a time from one client address; default unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_per_source: Option<Limit>,
    /// For the PROXY header and the ClientHello; default 10s.
    #[serde(default = "handshake_timeout")]
    pub handshake_timeout: Period,
    /// Default unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_connections_per_second: Option<Limit>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: None,
            connections_per_source: None,
            handshake_timeout: handshake_timeout(),
            new_connections_per_second: None,
        }
    }
}

const fn handshake_timeout() -> Period {
    const { Period::from_secs(10) }
}
