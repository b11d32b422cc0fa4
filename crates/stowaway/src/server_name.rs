//! The names that carriers ask the hub for in their TLS handshake: a port of a workstation, one of an address behind it, or
//! only whether it is there.

use std::fmt;
use std::net::IpAddr;

use crate::Uid;

/// Where these names live.
pub const DOMAIN: &str = ".workstation.causeway";

/// What a carrier asks for: `p<port>.<uid>` for bytes or `u<port>.<uid>` for datagrams, with `a<address>` between them for an
/// address behind the workstation, whose dots and colons are written as hyphens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// Whose machine.
    pub workstation: Uid,
    /// An address behind it; none is the machine itself.
    pub address: Option<IpAddr>,
    /// The port; 0 asks only whether the machine is there.
    pub port: u16,
    /// Whether datagrams are carried, each with its length in front (two bytes, the high one first).
    pub datagrams: bool,
}

impl Wanted {
    /// A port of the machine itself.
    pub fn port(workstation: impl Into<Uid>, port: u16) -> Self {
        Self { workstation: workstation.into(), address: None, port, datagrams: false }
    }

    /// Reads a server name.
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let mut labels = name.strip_suffix(DOMAIN)?.split('.');
        let port = labels.next()?;
        let (datagrams, port) = match port.split_at_checked(1)? {
            ("p", port) => (false, port),
            ("u", port) => (true, port),
            _ => return None,
        };
        // One way to write a port, so that a name means one thing.
        let port = port.parse::<u16>().ok().filter(|number| number.to_string() == port)?;
        let second = labels.next()?;
        let (address, workstation) = match labels.next() {
            None => (None, second),
            Some(workstation) => (Some(read_address(second.strip_prefix('a')?)?), workstation),
        };
        let is_whole = labels.next().is_none() && !workstation.is_empty() && !(port == 0 && datagrams);
        is_whole.then(|| Self { workstation: workstation.to_owned(), address, port, datagrams })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.datagrams { 'u' } else { 'p' };
        write!(f, "{kind}{}.", self.port)?;
        if let Some(address) = self.address {
            write!(f, "a{}.", write_address(address))?;
        }
        write!(f, "{}{DOMAIN}", self.workstation)
    }
}

fn write_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string().replace('.', "-"),
        // In full: a label must not end with a hyphen, as a short form may.
        IpAddr::V6(address) => address.segments().map(|segment| format!("{segment:x}")).join("-"),
    }
}

fn read_address(label: &str) -> Option<IpAddr> {
    let address = label.replace('-', ".").parse().or_else(|_| label.replace('-', ":").parse());
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UID: &str = "7f6f0c51-5d5a-4b86-9f3e-3f6f7c0d2a11";

    #[test]
    fn what_is_written_is_read() {
        let addresses = [None, Some("192.168.1.7"), Some("fd00::7"), Some("fd00::"), Some("::1")];
        for address in addresses.map(|address| address.map(|address| address.parse().unwrap())) {
            for (port, datagrams) in [(1, false), (3000, true), (65535, false), (0, false)] {
                let wanted = Wanted { workstation: UID.to_owned(), address, port, datagrams };
                let name = wanted.to_string();
                assert_eq!(Wanted::parse(&name), Some(wanted), "{name}");
                assert!(rustls::pki_types::ServerName::try_from(name.clone()).is_ok(), "{name}");
            }
        }
        assert_eq!(Wanted::port(UID, 3000).to_string(), format!("p3000.{UID}.workstation.causeway"));
        let short = Wanted::parse(&format!("p80.afd00--7.{UID}.workstation.causeway")).unwrap();
        assert_eq!(short.address, Some("fd00::7".parse().unwrap()));
    }

    #[test]
    fn everything_else_is_nothing() {
        for name in [
            "",
            "p80",
            ".workstation.causeway",
            "p80.workstation.causeway",
            "p80..workstation.causeway",
            "80.u.workstation.causeway",
            "p.u.workstation.causeway",
            "p080.u.workstation.causeway",
            "p+80.u.workstation.causeway",
            "p65536.u.workstation.causeway",
            "u0.u.workstation.causeway",
            "p80.a.u.workstation.causeway",
            "p80.a1-2-3.u.workstation.causeway",
            "p80.x1-2-3-4.u.workstation.causeway",
            "p80.a1-2-3-4.u.v.workstation.causeway",
            "p80.u.workstation.causeway.example",
            "é80.u.workstation.causeway",
        ] {
            assert_eq!(Wanted::parse(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_means_one_thing(front in "[pua0-9x.:é-]{0,40}") {
            if let Some(wanted) = Wanted::parse(&format!("{front}{DOMAIN}")) {
                prop_assert_eq!(Wanted::parse(&wanted.to_string()), Some(wanted));
            }
        }
    }
}
