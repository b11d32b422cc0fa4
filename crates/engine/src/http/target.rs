//! What a request is for: the host and the path, told once.

use std::borrow::Cow;

use super::fault::Fault;
use super::h1::Version;
use super::h1::fields::{Fields, Known};
use super::h1::framing::Framing;
use super::h1::request::CONNECT;
use super::path;

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// Host and port as the client wrote them; empty if it named none.
    pub(crate) authority: &'a str,
    /// The host in lower case, without port and dot at the end.
    pub(crate) host: Cow<'a, str>,
    /// Normalised; `*` for a question about the server as a whole.
    pub(crate) path: Cow<'a, str>,
    /// After the `?`, as it was sent.
    pub(crate) query: Option<&'a [u8]>,
}

impl<'a> Target<'a> {
    /// Reads the target of a request's first line together with its `Host`.
    pub(crate) fn parse(
        target: &'a [u8],
        method: &str,
        version: Version,
        fields: Fields<'a>,
    ) -> Result<Self, Fault> {
        let (absolute, rest) = split(target)?;
        Self::of_parts(absolute, rest, method, version, fields)
    }

    /// Of a request for a stream of bytes, which names a host and a port, and has no body. Routes see it as one for `/`.
    pub(crate) fn of_tunnel(
        target: &'a [u8],
        framing: Option<Framing>,
        fields: Fields<'a>,
    ) -> Result<Self, Fault> {
        if framing.is_some() {
            return Err(Fault::bad("a request for a tunnel has no body"));
        }
        let told = Self::of_parts(Some(target), b"/", CONNECT, Version::Http11, fields)?;
        if told.authority.rsplit_once(':').is_none_or(|(_, port)| port.ends_with(']')) {
            return Err(Fault::bad("a request for a tunnel names a host and a port"));
        }
        Ok(told)
    }

    /// The same of an authority that stands by itself, if there is one, and the rest.
    pub(crate) fn of_parts(
        absolute: Option<&'a [u8]>,
        rest: &'a [u8],
        method: &str,
        version: Version,
        fields: Fields<'a>,
    ) -> Result<Self, Fault> {
        let mut hosts = fields.of(Known::Host);
        let named = hosts.next();
        if hosts.next().is_some() {
            return Err(Fault::bad("there are two Host fields"));
        }
        let authority = match (absolute, named) {
            (None, None) if version != Version::Http10 => return Err(Fault::bad("there is no Host")),
            (Some(absolute), Some(named)) if !absolute.eq_ignore_ascii_case(named) => {
                return Err(Fault::bad("the target and Host name two hosts"));
            }
            (Some(authority), _) | (None, Some(authority)) => authority,
            (None, None) => b"",
        };
        // HTTP/1.1 lets a client say that there is none.
        if authority.is_empty() && version == Version::Http2 {
            return Err(Fault::bad("the Host is empty"));
        }
        let (authority, host) = host(authority)?;
        if rest == b"*" {
            if method != "OPTIONS" || absolute.is_some() && version != Version::Http2 {
                return Err(Fault::bad("only OPTIONS asks for *"));
            }
            return Ok(Self { authority, host, path: Cow::Borrowed("*"), query: None });
        }
        let (path, query) = match rest.iter().position(|b| *b == b'?') {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        // `http://host?query` has an empty path.
        let path = if path.is_empty() && absolute.is_some() && version != Version::Http2 {
            Cow::Borrowed("/")
        } else {
            path::normalise(path)?
        };
        Ok(Self { authority, host, path, query })
    }
}

/// The authority of an absolute target, if it is one, and what follows.
fn split(target: &[u8]) -> Result<(Option<&[u8]>, &[u8]), Fault> {
    if target.starts_with(b"/") || target == b"*" {
        return Ok((None, target));
    }
    let after = |scheme: &[u8]| {
        let start = target.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &target[scheme.len()..])
    };
    let Some(rest) = after(b"http://").or_else(|| after(b"https://")) else {
        return Err(Fault::bad("the target is neither a path nor a URL"));
    };
    let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
    if end == 0 {
        return Err(Fault::bad("the URL has no host"));
    }
    Ok((Some(&rest[..end]), &rest[end..]))
}

/// Checks an authority; the host in it, normalised.
fn host(authority: &[u8]) -> Result<(&str, Cow<'_, str>), Fault> {
    const BAD: Fault = Fault::bad("the host is not a name or an address, with or without a port");
    let text = std::str::from_utf8(authority).map_err(|_| BAD)?;
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let end = text.len() - rest.len() + rest.find(']').ok_or(BAD)? + 1;
            let (address, port) = text.split_at(end);
            address[1..end - 1].parse::<std::net::Ipv6Addr>().map_err(|_| BAD)?;
            (address, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or(BAD)?) })
        }
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    if port.is_some_and(|port| port.is_empty() || port.len() > 5 || !port.bytes().all(|b| b.is_ascii_digit()))
    {
        return Err(BAD);
    }
    let is_of_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if !name.starts_with('[') && !name.bytes().all(is_of_name) || name.len() > 255 {
        return Err(BAD);
    }
    if name.is_empty() && !text.is_empty() {
        return Err(BAD);
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let normal = if name.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    };
    Ok((text, normal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(target: &str, host: &str) -> Result<(String, String, Option<String>), Fault> {
        let head = if host == "-" { "\r\n".to_owned() } else { format!("Host: {host}\r\n\r\n") };
        let mut index = Vec::new();
        let fields = Fields::parse(head.as_bytes(), 0, &mut index).unwrap();
        let target = Target::parse(target.as_bytes(), "GET", Version::Http11, fields)?;
        let query = target.query.map(|query| String::from_utf8_lossy(query).into_owned());
        Ok((target.host.into_owned(), target.path.into_owned(), query))
    }

    #[test]
    fn host_path_and_query_of_every_form() {
        for (target, named, host, path, query) in [
            ("/a?b=c?d", "x.test", "x.test", "/a", Some("b=c?d")),
            ("/", "X.Test.:8080", "x.test", "/", None),
            ("http://x.test:80/a", "x.test:80", "x.test", "/a", None),
            ("HTTPS://X.test?q", "x.test", "x.test", "/", Some("q")),
            ("http://x.test", "-", "x.test", "/", None),
            ("/", "[::1]:8080", "[::1]", "/", None),
            ("/?", "a_b.test", "a_b.test", "/", Some("")),
            ("/", "", "", "/", None),
        ] {
            let expected = (host.to_owned(), path.to_owned(), query.map(str::to_owned));
            assert_eq!(read(target, named).unwrap(), expected, "{target} {named}");
        }
    }

    #[test]
    fn a_tunnel_is_for_a_host_and_a_port() {
        let read = |target: &str, lines: &str| {
            let head = format!("{lines}\r\n");
            let mut index = Vec::new();
            let fields = Fields::parse(head.as_bytes(), 0, &mut index).unwrap();
            let framing = Framing::of(fields)?;
            let target = Target::of_tunnel(target.as_bytes(), framing, fields)?;
            Ok::<_, Fault>((target.host.into_owned(), target.path.into_owned()))
        };
        for (target, lines, host) in [
            ("A.test:443", "Host: a.test:443\r\n", "a.test"),
            ("a.test:22", "", "a.test"),
            ("[::1]:22", "Host: [::1]:22\r\n", "[::1]"),
        ] {
            assert_eq!(read(target, lines).unwrap(), (host.to_owned(), "/".to_owned()), "{target}");
        }
        for (target, lines) in [
            ("a.test", "Host: a.test\r\n"),
            ("[::1]", "Host: [::1]\r\n"),
            ("a.test:443", "Host: b.test:443\r\n"),
            ("a.test:443", "Host: a.test\r\n"),
            ("a.test:443", "Host: a.test:443\r\nHost: a.test:443\r\n"),
            ("a.test:443", "Host: a.test:443\r\nContent-Length: 0\r\n"),
            ("a.test:443", "Host: a.test:443\r\nTransfer-Encoding: chunked\r\n"),
            ("http://a.test:443/", "Host: a.test:443\r\n"),
            ("/", "Host: a.test:443\r\n"),
            ("*", "Host: a.test:443\r\n"),
            ("u@a.test:443", ""),
            ("a.test:", ""),
            (":443", ""),
        ] {
            assert_eq!(read(target, lines).unwrap_err().status, 400, "{target} {lines}");
        }
    }

    #[test]
    fn what_is_no_host_or_target_is_refused() {
        for (target, named) in [
            ("/", "-"),
            ("/", "a b"),
            ("/", "a,b"),
            ("/", "a/b"),
            ("/", "user@a"),
            ("/", "a:b"),
            ("/", "a:"),
            ("/", ":80"),
            ("/", "[::1"),
            ("/", "[x]"),
            ("/", "[::1]x"),
            ("/", "a:80:90"),
            ("*", "a"),
            ("a", "a"),
            ("ftp://a/", "a"),
            ("http:///a", "a"),
            ("http://b/", "a"),
            ("http://u@a/", "u@a"),
        ] {
            assert_eq!(read(target, named).unwrap_err().status, 400, "{target} {named}");
        }
    }
}
