//! One server of a cluster, and how its address is written.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Limit, Name};

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoint {
    /// Where it is; names are resolved before a plan is made.
    pub address: Address,
    /// Share among the endpoints; default 1.
    #[serde(default = "one")]
    pub weight: Limit,
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
    pub fn new(address: impl Into<Address>) -> Self {
        Self { address: address.into(), weight: Limit::ONE, ready: true, serving: true, terminating: false }
    }
}

/// Where an endpoint is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An address and port, written `10.0.0.1:443`; behind a link it is dialled from the link's other end.
    Socket(SocketAddr),
    /// A Unix socket, written `unix:/run/app.sock`.
    Unix(PathBuf),
    /// A place that the other end of the cluster's link knows by name, written `place:web`.
    Place(Name),
}

impl Address {
    /// The address and port, if it is one.
    pub fn socket(&self) -> Option<SocketAddr> {
        if let Self::Socket(address) = self { Some(*address) } else { None }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Socket(address)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if Path::new(path).is_absolute() {
                Ok(Self::Unix(path.into()))
            } else {
                Err(format!("`{text}`: the path of a Unix socket begins with /, as in unix:/run/app.sock"))
            };
        }
        if let Some(place) = text.strip_prefix("place:") {
            return Name::parse(place).map(Self::Place);
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() == 0 => Err(format!("`{text}`: port 0 can't be connected to")),
            Ok(address) => Ok(Self::Socket(address)),
            Err(_) => Err(format!(
                "`{text}` is not an address and port: write 10.0.0.1:443, [2001:db8::1]:443, unix:/run/app.sock or, \
                 behind a link, place:web"
            )),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(address) => fmt::Display::fmt(address, f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Place(name) => write!(f, "place:{name}"),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

const fn yes() -> bool {
    true
}

const fn one() -> Limit {
    Limit::ONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_every_kind_of_address() {
        for text in ["10.0.0.1:443", "[2001:db8::1]:443", "unix:/run/app.sock", "place:web"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn says_what_to_write_instead() {
        for (text, part) in [
            ("backend:1", "not an address and port"),
            ("10.0.0.1", "not an address and port"),
            ("10.0.0.1:0", "port 0"),
            ("unix:app.sock", "begins with /"),
            ("place:", "a name is needed"),
        ] {
            let message = text.parse::<Address>().unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
