//! Where a laptop wants to go: an address, or a name that the cluster's end knows.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The longest name that DNS has.
const MAX_NAME: usize = 253;

/// A place in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// An address.
    Address(SocketAddr),
    /// A name, in small letters and without a dot at its end, and a port.
    Name(String, u16),
}

/// Why a text is no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPlace(String);

impl fmt::Display for BadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no place: write HOST:PORT, such as web.shop:80 or 10.0.0.7:80", self.0)
    }
}

impl std::error::Error for BadPlace {}

impl Place {
    /// A place by host, which is a name or an address, and port.
    ///
    /// # Errors
    /// When the host is neither.
    pub fn new(host: &str, port: u16) -> Result<Self, BadPlace> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Address(SocketAddr::new(address.to_canonical(), port)));
        }
        normal_name(host).map(|name| Self::Name(name, port)).ok_or_else(|| BadPlace(format!("{host}:{port}")))
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        match self {
            Self::Address(address) => address.port(),
            Self::Name(_, port) => *port,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

impl FromStr for Place {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Self, BadPlace> {
        let bad = || BadPlace(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(bad)?;
        let port = port.parse().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()));
        // An IPv6 address has brackets, or its last part would be taken for the port.
        if host.contains(':') && !host.starts_with('[') {
            return Err(bad());
        }
        Self::new(host, port.ok_or_else(bad)?).map_err(|_| bad())
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Self::Address(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }
}

/// A name as it is looked up: in small letters, without a dot at its end. None if no host can be called so.
pub(crate) fn normal_name(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    (name.len() <= MAX_NAME && name.split('.').all(is_label)).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_addresses() {
        for (text, wanted) in [
            ("web.shop:80", Place::Name("web.shop".into(), 80)),
            ("Web.Shop.svc.cluster.local.:80", Place::Name("web.shop.svc.cluster.local".into(), 80)),
            ("10.0.0.7:80", Place::Address(([10, 0, 0, 7], 80).into())),
            ("[::1]:80", Place::Address("[::1]:80".parse().unwrap())),
            ("[::ffff:10.0.0.7]:80", Place::Address(([10, 0, 0, 7], 80).into())),
        ] {
            let place: Place = text.parse().unwrap();
            assert_eq!(place, wanted, "{text}");
            assert_eq!(place.to_string().parse(), Ok(wanted), "{text} again");
        }
    }

    #[test]
    fn refuses_everything_else() {
        let long = format!("{}:80", "a.".repeat(127) + "aa");
        for text in ["", ":80", "web", "web:", "web:99999", "web:+80", "::1:80", "a b:80", "a..b:80", &long] {
            assert!(text.parse::<Place>().is_err(), "{text:?}");
        }
    }
}
