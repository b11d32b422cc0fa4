//! What trusted proxies say of their clients. Their word counts from the right: the first address that is not one of theirs
//! is the client's, and what stands before it is the client's own word.

use std::net::{IpAddr, SocketAddr};

use causeway_ir::http::{ForwardedHeader, Scheme, TrustedProxies};
use ipnet::IpNet;

use super::answer::Arrival;
use super::h1::fields::Fields;
use super::introduction::{element, word};

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
    scheme: Option<Scheme>,
    port: Option<u16>,
    /// The client, if it is known, and all proxies after it, but the last.
    pub(crate) chain: Vec<IpAddr>,
    /// The same as elements of `Forwarded`; in their own words, if they have said it so.
    pub(crate) elements: Vec<String>,
}

impl Told {
    /// Where the request came in, in the client's eyes; `here` is where the last proxy brought it.
    pub(crate) fn arrival(&self, here: Arrival) -> Arrival {
        let scheme = self.scheme.unwrap_or(here.scheme);
        let usual = match scheme {
            _ if scheme == here.scheme => here.port,
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        Arrival { scheme, port: self.port.unwrap_or(usual) }
    }
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
        let in_forwarded = self.header == ForwardedHeader::Forwarded;
        let said = fields.get(if in_forwarded { "forwarded" } else { "x-forwarded-for" })?;
        let said = String::from_utf8_lossy(&said);
        let said: Vec<&str> = said.split(',').map(str::trim).collect();
        let (scheme, port) = if in_forwarded {
            (said.last().and_then(|last| scheme_of(parameter(last, "proto")?.as_bytes())), None)
        } else {
            let port = fields.get("x-forwarded-port");
            let port = port.and_then(|port| std::str::from_utf8(&port).ok()?.parse().ok());
            (fields.get("x-forwarded-proto").and_then(|scheme| scheme_of(&scheme)), port)
        };
        let mut told = Told { client: None, scheme, port, chain: Vec::new(), elements: Vec::new() };
        for said in said.into_iter().rev() {
            // Who can't be told apart from nonsense is not looked beyond.
            let Some(address) = address_in(said, in_forwarded) else {
                told.client = None;
                break;
            };
            told.client = Some(address);
            told.chain.insert(0, address);
            told.elements.insert(0, if in_forwarded { said.to_owned() } else { element(address) });
            if !self.has(address) {
                break;
            }
        }
        // What the first of them saw is said of the client alone.
        if let (Some(scheme), Some(first), false) = (scheme, told.elements.first_mut(), in_forwarded) {
            first.push_str(";proto=");
            first.push_str(word(scheme));
        }
        Some(told)
    }
}

/// The address of one entry of either header.
fn address_in(said: &str, in_forwarded: bool) -> Option<IpAddr> {
    address(if in_forwarded { parameter(said, "for")? } else { said })
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

    fn read(header: &str, peer: &str, lines: &str) -> Option<Told> {
        let text = format!("{{from: [10.0.0.0/8, '2001:db8::/32'], header: {header}}}");
        let trusted = Trusted::compile(&serde_saphyr::from_str(&text).unwrap());
        let head = format!("{lines}\r\n");
        let mut index = Vec::new();
        let fields = Fields::parse(head.as_bytes(), 0, &mut index).unwrap();
        trusted.told(peer.parse().unwrap(), fields)
    }

    fn told(header: &str, peer: &str, lines: &str) -> Option<(String, usize, Option<Scheme>)> {
        let told = read(header, peer, lines)?;
        let client = told.client.map_or_else(|| "nobody".to_owned(), |client| client.to_string());
        assert_eq!(told.chain.len(), told.elements.len());
        Some((client, told.chain.len(), told.scheme))
    }

    #[test]
    fn what_proxies_say_is_continued_from_the_client_on() {
        for (header, lines, expected) in [
            (
                "xForwardedFor",
                "X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.1.1.1\r\nX-Forwarded-Proto: https\r\nForwarded: for=7.7.7.7\r\n",
                &["for=192.0.2.1;proto=https", "for=10.1.1.1"][..],
            ),
            ("xForwardedFor", "X-Forwarded-For: 2001:db9::1\r\n", &["for=\"[2001:db9::1]\""]),
            ("xForwardedFor", "X-Forwarded-For: unknown\r\nX-Forwarded-Proto: https\r\n", &[]),
            (
                "forwarded",
                "Forwarded: for=6.6.6.6, For=192.0.2.1;by=_edge;host=a ,for=10.1.1.1;proto=https\r\n",
                &["For=192.0.2.1;by=_edge;host=a", "for=10.1.1.1;proto=https"],
            ),
        ] {
            assert_eq!(read(header, "10.9.9.9", lines).unwrap().elements, expected, "{lines}");
        }
    }

    #[test]
    fn clients_come_in_where_their_proxy_says() {
        let here = Arrival { scheme: Scheme::Http, port: 8080 };
        for (lines, scheme, port) in [
            ("", Scheme::Http, 8080),
            ("X-Forwarded-Proto: http\r\n", Scheme::Http, 8080),
            ("X-Forwarded-Proto: https\r\n", Scheme::Https, 443),
            ("X-Forwarded-Proto: https\r\nX-Forwarded-Port: 8443\r\n", Scheme::Https, 8443),
            ("X-Forwarded-Port: 99999\r\n", Scheme::Http, 8080),
        ] {
            let lines = format!("X-Forwarded-For: 192.0.2.1\r\n{lines}");
            let arrival = read("xForwardedFor", "10.9.9.9", &lines).unwrap().arrival(here);
            assert_eq!((arrival.scheme, arrival.port), (scheme, port), "{lines}");
        }
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
