//! By which way a laptop came.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A way from a laptop to the cluster, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Way {
    /// A link to the port of the cluster's end.
    Link,
    /// A link through the API server.
    PortForward,
    /// WireGuard.
    WireGuard,
}

impl Way {
    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Link => "Link",
            Self::PortForward => "PortForward",
            Self::WireGuard => "WireGuard",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
