//! What endpoints hear of a client with each of its requests: `X-Forwarded-*`, `Forwarded` and what its certificate says. It
//! is written here and nowhere else; what clients say of themselves by these names goes no further, and what trusted
//! proxies say is continued.

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};

use causeway_ir::http::Scheme;
use http::HeaderMap;
use http::header::{FORWARDED, HeaderName, HeaderValue};

use super::answer::Arrival;
use super::edits::Edits;
use super::forwarded::Told;
use super::h1::bytes::is_token;

/// Where endpoints hear which host the client asked for.
const HOST: &[u8] = b"x-forwarded-host";
const ELEMENTS: &[u8] = b"forwarded";

/// Lines for endpoints. The last one, `forwarded`, is open: the host that it ends with is that of each request.
#[derive(Clone)]
pub(crate) struct Introduction(Box<[u8]>);

impl Introduction {
    /// Of a client that came in here by itself, or by the trusted proxies that told of it; with lines about its certificate.
    pub(crate) fn new(peer: SocketAddr, arrival: Arrival, told: Option<&Told>, certificate: &[u8]) -> Self {
        let seen = told.map_or(arrival, |told| told.arrival(arrival));
        let peer = peer.ip().to_canonical();
        let chain = told.map_or(&[][..], |told| &told.chain);
        let addresses: Vec<String> =
            chain.iter().copied().chain([peer]).map(|address| address.to_string()).collect();
        let own = format!("{};proto={}", element(peer), word(arrival.scheme));
        let elements = told.map_or(&[][..], |told| &told.elements).iter().map(String::as_str);
        let elements: Vec<&str> = elements.chain([own.as_str()]).collect();
        let mut lines = format!(
            "x-forwarded-for: {}\r\nx-forwarded-proto: {}\r\nx-forwarded-port: {}\r\n",
            addresses.join(", "),
            word(seen.scheme),
            seen.port
        )
        .into_bytes();
        lines.extend_from_slice(certificate);
        lines.extend_from_slice(ELEMENTS);
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(elements.join(", ").as_bytes());
        Self(lines.into())
    }

    /// Writes it for a request that names this host, but for lines that a route has other words for.
    pub(crate) fn write(&self, out: &mut Vec<u8>, authority: &str, edits: &Edits) {
        if edits.drops_nothing() {
            out.extend_from_slice(&self.0);
            write_host(out, authority);
            out.extend_from_slice(b"\r\n");
        } else {
            for line in self.0.split_inclusive(|byte| *byte == b'\n') {
                let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
                if edits.drops(name) {
                    continue;
                }
                out.extend_from_slice(line);
                if !line.ends_with(b"\n") {
                    write_host(out, authority);
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
        if !authority.is_empty() && !edits.drops(HOST) {
            for part in [HOST, b": ", authority.as_bytes(), b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
    }

    /// The names by which endpoints hear something; that of the host among them, whether there is one or not.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        let lines = self.0.split(|byte| *byte == b'\n');
        lines.filter_map(|line| line.split(|byte| *byte == b':').next()).chain([HOST])
    }

    /// The value that endpoints hear by a name, which is given in lower case.
    pub(crate) fn get<'a>(&'a self, name: &[u8], authority: &'a str) -> Option<Cow<'a, [u8]>> {
        if name == HOST {
            return Some(Cow::Borrowed(authority.as_bytes())).filter(|authority| !authority.is_empty());
        }
        let mut lines = self.0.split(|byte| *byte == b'\n');
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(b": "))?;
        if let Some(value) = value.strip_suffix(b"\r") {
            return Some(Cow::Borrowed(value));
        }
        let mut value = value.to_vec();
        write_host(&mut value, authority);
        Some(Cow::Owned(value))
    }
}

/// The same as fields of HTTP/2. What depends on the host is kept: the next request most often names the same.
pub(crate) struct Introducing {
    fixed: Box<[(HeaderName, HeaderValue)]>,
    elements: Box<[u8]>,
    last: RefCell<Option<ForHost>>,
}

struct ForHost {
    authority: Box<str>,
    elements: HeaderValue,
    host: HeaderValue,
}

impl Introducing {
    /// Nothing if one of its lines has no form in HTTP/2.
    pub(crate) fn new(introduction: &Introduction) -> Option<Self> {
        let mut fixed = Vec::new();
        for line in introduction.0.split_inclusive(|byte| *byte == b'\n') {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = (&line[..colon], line.get(colon + 2..)?);
            let Some(value) = value.strip_suffix(b"\r\n") else {
                let elements = value.into();
                return Some(Self { fixed: fixed.into(), elements, last: RefCell::default() });
            };
            fixed.push((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?));
        }
        None
    }

    /// Adds it to the fields of a request that names this host; nothing if that has no form in HTTP/2.
    pub(crate) fn put(&self, fields: &mut HeaderMap, authority: &str) -> Option<()> {
        const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|last| *last.authority != *authority) {
            let mut elements = self.elements.to_vec();
            write_host(&mut elements, authority);
            *last = Some(ForHost {
                authority: authority.into(),
                elements: HeaderValue::from_maybe_shared(bytes::Bytes::from(elements)).ok()?,
                host: HeaderValue::from_str(authority).ok()?,
            });
        }
        let last = last.as_ref()?;
        for (name, value) in &self.fixed {
            fields.append(name.clone(), value.clone());
        }
        fields.append(FORWARDED, last.elements.clone());
        if !authority.is_empty() {
            fields.append(X_FORWARDED_HOST, last.host.clone());
        }
        Some(())
    }
}

/// One element of `Forwarded` for a proxy or client at an address.
pub(crate) fn element(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("for={address}"),
        IpAddr::V6(address) => format!("for=\"[{address}]\""),
    }
}

pub(crate) fn word(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    }
}

/// Writes the end of an element of `Forwarded`.
fn write_host(out: &mut Vec<u8>, authority: &str) {
    if authority.is_empty() {
        return;
    }
    // An authority that was read has nothing in it that quotes would have to keep apart.
    let quote: &[u8] = if authority.bytes().all(is_token) { b"" } else { b"\"" };
    for part in [b";host=", quote, authority.as_bytes(), quote] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAR: Arrival = Arrival { scheme: Scheme::Http, port: 8080 };

    fn written(introduction: &Introduction, authority: &str, change: &str) -> Vec<String> {
        let change: causeway_ir::http::HeaderChange = serde_saphyr::from_str(change).unwrap();
        let mut out = Vec::new();
        introduction.write(&mut out, authority, &Edits::compile([&change].into_iter()));
        let text = String::from_utf8(out).unwrap();
        assert!(text.is_empty() || text.ends_with("\r\n"), "{text:?}");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_client_is_told_of_in_every_form() {
        let of = |peer: &str| {
            Introduction::new(peer.parse().unwrap(), CLEAR, None, b"ssl-client-verify: NONE\r\n")
        };
        let expected = [
            "x-forwarded-for: 192.0.2.1",
            "x-forwarded-proto: http",
            "x-forwarded-port: 8080",
            "ssl-client-verify: NONE",
            "forwarded: for=192.0.2.1;proto=http;host=a.test",
            "x-forwarded-host: a.test",
        ];
        assert_eq!(written(&of("192.0.2.1:7"), "a.test", "{}"), expected);
        assert_eq!(written(&of("[::ffff:192.0.2.1]:7"), "a.test", "{}"), expected);
        let six = written(&of("[2001:db8::1]:7"), "[::1]:80", "{}");
        assert_eq!(six[4], "forwarded: for=\"[2001:db8::1]\";proto=http;host=\"[::1]:80\"");
        assert_eq!(written(&of("192.0.2.1:7"), "", "{}")[4..], ["forwarded: for=192.0.2.1;proto=http"]);
        let one = of("192.0.2.1:7");
        for line in expected {
            let (name, value) = line.split_once(": ").unwrap();
            assert_eq!(one.get(name.as_bytes(), "a.test").as_deref(), Some(value.as_bytes()), "{name}");
        }
        assert_eq!(one.get(b"x-forwarded-user", "a.test"), None);
    }

    #[test]
    fn a_route_has_the_last_word() {
        let one = Introduction::new("192.0.2.1:7".parse().unwrap(), CLEAR, None, b"");
        let change =
            "{set: [{name: X-Forwarded-Proto, value: https}], remove: [Forwarded, X-Forwarded-Host]}";
        assert_eq!(written(&one, "a", change), ["x-forwarded-for: 192.0.2.1", "x-forwarded-port: 8080"]);
        assert_eq!(
            written(
                &one,
                "a",
                "{remove: [X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Port, Forwarded, X-Forwarded-Host]}"
            ),
            [""; 0]
        );
    }
}
