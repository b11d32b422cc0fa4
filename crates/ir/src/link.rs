//! Links: authenticated, encrypted pairs of ends that clusters may be reached through.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::diff::Keyed;
use crate::{CertificateRef, Name};

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Link {
    /// Unique in the plan.
    pub name: Name,
    /// How the two ends meet.
    pub meet: Meet,
    /// This end's certificate and key.
    pub identity: CertificateRef,
    /// Who the other end may be.
    pub authorities: CertificateRef,
}

/// How the two ends of a link meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Meet {
    /// This end dials one of these addresses.
    Dial(Vec<SocketAddr>),
    /// The other end dials this address.
    Listen(SocketAddr),
}

impl Keyed for Link {
    fn key(&self) -> &str {
        &self.name
    }
}
