//! What trusted proxies say of their clients. Their word counts from the right: the first address that is not one of theirs
//! is the client's, and what stands before it is the client's own word.

use std::net::{IpAddr, SocketAddr};

use causeway_ir::http::{ForwardedHeader, Scheme, TrustedProxies};
use ipnet::IpNet;

use super::h1::fields::Fields;

/// The proxies whose word counts.
pub(crate) struct Trusted {
    from: Box<[IpNet]>,
    header: ForwardedHeader,
}

/// A client as trusted proxies tell of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// None if they say nothing that can be understood.
    pub(crate) client: Option<IpAddr>,
    pub(crate) scheme: Option<Scheme>,
    /// The client, if it is known, and all proxies after it, but the last.
    pub(crate) chain: Vec<IpAddr>,
}

impl Trusted {
    pub(crate) fn compile(planned: &TrustedProxies) -> Self {
        Self { from: planned.from.clone().into(), header: planned.header }
    }

    fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.from.iter().any(|network| network.contains(&address))
    }

    /// The client of a request that a trusted proxy has sent; nothing if whoever sent it is the client, as a proxy is that says
    /// nothing of another.
    pub(crate) fn told(&self, peer: IpAddr, fields: Fields<'_>) -> Option<Told> {
        if !self.has(peer) {
            return None;
        }
        let (said, scheme) = match self.header {
            ForwardedHeader::XForwardedFor => {
                let said = fields.get("x-forwarded-for")?;
                let said = String::from_utf8_lossy(&said).split(',').map(address).collect::<Vec<_>>();
                let scheme = fields.get("x-forwarded-proto").and_then(|scheme| scheme_of(&scheme));
                (said, scheme)
            }
            ForwardedHeader::Forwarded => {
                let said = fields.get("forwarded")?;
                let said = String::from_utf8_lossy(&said).into_owned();
                let elements: Vec<&str> = said.split(',').collect();
                let scheme = elements.last().and_then(|last| parameter(last, "proto"));
                let scheme = scheme.and_then(|scheme| scheme_of(scheme.as_bytes()));
                (elements.iter().map(|element| address(parameter(element, "for")?)).collect(), scheme)
            }
        };
        let mut chain = Vec::new();
        let mut is_known = true;
        for said in said.into_iter().rev() {
            // Who can't be told apart from nonsense is not looked beyond.
            let Some(address) = said else {
                is_known = false;
                break;
            };
            chain.insert(0, address);
            if !self.has(address) {
                break;
            }
        }
        Some(Told { client: chain.first().copied().filter(|_| is_known), scheme, chain })
    }
}

/// An address with or without a port, brackets and quotes.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let parsed = text.parse::<IpAddr>().ok();
    let parsed = parsed.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip())).or_else(bare);
    parsed.map(|address| address.to_canonical())
}

/// A parameter of one element of `Forwarded`.
fn parameter<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let mut found = pairs.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim().trim_matches('"'))
}

fn scheme_of(text: &[u8]) -> Option<Scheme> {
    match text {
        b"http" => Some(Scheme::Http),
        b"https" => Some(Scheme::Https),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(header: &str, peer: &str, lines: &str) -> Option<(String, usize, Option<Scheme>)> {
        let text = format!("{{from: [10.0.0.0/8, '2001:db8::/32'], header: {header}}}");
        let trusted = Trusted::compile(&serde_saphyr::from_str(&text).unwrap());
        let head = format!("{lines}\r\n");
        let mut index = Vec::new();
        let fields = Fields::parse(head.as_bytes(), 0, &mut index).unwrap();
        let told = trusted.told(peer.parse().unwrap(), fields)?;
        let client = told.client.map_or_else(|| "nobody".to_owned(), |client| client.to_string());
        Some((client, told.chain.len(), told.scheme))
    }

    #[test]
    fn the_first_stranger_from_the_right_is_the_client() {
        let of =
            |peer: &str, said: &str| told("xForwardedFor", peer, &format!("X-Forwarded-For: {said}\r\n"));
        let client = |address: &str, chain: usize| Some((address.to_owned(), chain, None));
        for (said, expected) in [
            ("192.0.2.1", client("192.0.2.1", 1)),
            ("6.6.6.6, 192.0.2.1, 10.1.1.1", client("192.0.2.1", 2)),
            ("10.2.2.2, 10.1.1.1", client("10.2.2.2", 2)),
            ("junk, 10.1.1.1", client("nobody", 1)),
            ("192.0.2.1:5000", client("192.0.2.1", 1)),
            ("[2001:db9::1]:5000", client("2001:db9::1", 1)),
            ("192.0.2.1, unknown", client("nobody", 0)),
            ("", client("nobody", 0)),
        ] {
            assert_eq!(of("10.9.9.9", said), expected, "{said}");
        }
        // A stranger speaks for itself.
        assert_eq!(of("192.0.2.7", "6.6.6.6"), None);
        assert_eq!(told("xForwardedFor", "10.9.9.9", "Forwarded: for=6.6.6.6\r\n"), None);
    }

    #[test]
    fn the_other_header_and_the_scheme() {
        let lines = "Forwarded: for=6.6.6.6;proto=http, For=\"[2001:db9::1]:9\"; proto=https\r\nX-Forwarded-For: 7.7.7.7\r\n";
        assert_eq!(
            told("forwarded", "2001:db8::5", lines),
            Some(("2001:db9::1".to_owned(), 1, Some(Scheme::Https)))
        );
        let lines = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";
        assert_eq!(
            told("xForwardedFor", "10.0.0.1", lines),
            Some(("192.0.2.1".to_owned(), 1, Some(Scheme::Https)))
        );
        assert_eq!(
            told("forwarded", "10.0.0.1", "Forwarded: by=x, proto=https\r\n"),
            Some(("nobody".to_owned(), 0, Some(Scheme::Https)))
        );
    }
}
