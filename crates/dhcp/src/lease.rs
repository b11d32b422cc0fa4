//! A lease as it is kept and shown: an address, whose it is, and until when.

use std::net::IpAddr;

use causeway_ir::dhcp::hex;
use serde::{Deserialize, Serialize, Serializer};

/// Seconds since 1970.
pub type Seconds = u64;

/// An address, and whose it is or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The address.
    pub address: IpAddr,
    /// What became of it.
    pub state: State,
    /// Until when; from then on it may become another's.
    pub until: Seconds,
    /// By what the client is known again: an identifier, or the kind and address of its card.
    #[serde(serialize_with = "as_hex")]
    pub client: Box<[u8]>,
    /// The address of the client's card; empty if it is not known.
    #[serde(serialize_with = "as_hex")]
    pub hardware: Box<[u8]>,
    /// The client's name: the plan's, or else the one that it gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
}

/// What became of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// A client has it, as long as its time is not over.
    Leased,
    /// Its client gave it back.
    Released,
    /// Somebody else uses it: it is left alone for a while.
    Declined,
}

impl Lease {
    /// Whether a client has the address at this time.
    pub fn is_active(&self, now: Seconds) -> bool {
        self.state == State::Leased && self.until > now
    }
}

fn as_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex(bytes))
}
