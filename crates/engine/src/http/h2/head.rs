//! Heads of HTTP/2 from and to the lines of HTTP/1.1.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Uri, request};
use memchr::memchr;
use memchr::memmem;

use super::websocket;
use crate::http::fault::Fault;
use crate::http::h1::Version;
use crate::http::h1::fields::{Field, Fields, Known, known};
use crate::http::h1::framing::Framing;
use crate::http::h1::request::{CONNECT, Request};
use crate::http::target::Target;

/// Writes fields as lines, with the empty one at the end. Cookies, which may come one by one, are one line.
pub(crate) fn write_lines(out: &mut Vec<u8>, fields: &HeaderMap) {
    for name in fields.keys() {
        let mut values = fields.get_all(name).iter();
        if *name == http::header::COOKIE
            && let Some(first) = values.next()
        {
            for part in [b"cookie: ", first.as_bytes()] {
                out.extend_from_slice(part);
            }
            for more in values.by_ref() {
                out.extend_from_slice(b"; ");
                out.extend_from_slice(more.as_bytes());
            }
            out.extend_from_slice(b"\r\n");
        }
        for value in values {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// A request of a client; `lines` are its fields, `ended`: it has no body.
///
/// # Errors
/// If it is no proper request: with the status that says so.
pub(crate) fn request<'a>(
    parts: &'a request::Parts,
    lines: &'a [u8],
    index: &'a mut Vec<Field>,
    ended: bool,
) -> Result<Request<'a>, Fault> {
    let fields = Fields::parse(lines, 0, index)?;
    let protocol = parts.extensions.get::<::h2::ext::Protocol>();
    let (method, upgrade) = match protocol {
        // The same that a GET with an upgrade asks for.
        Some(protocol) if protocol.as_str() == "websocket" => ("GET", Some(&b"websocket"[..])),
        Some(_) => return Err(Fault::new(501, "no protocol but WebSocket is spoken in a stream")),
        None => (parts.method.as_str(), None),
    };
    if method.len() > 32 {
        return Err(Fault::bad("the method is too long"));
    }
    let path = parts.uri.path_and_query().map_or("", PathAndQuery::as_str).as_bytes();
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    let framing = Framing::of(fields)?;
    if method == CONNECT {
        let target = Target::of_tunnel(authority.unwrap_or_default(), framing, fields)?;
        return Request::of_stream(method, target, fields, Framing::None, None);
    }
    let target = Target::of_parts(authority, path, method, Version::Http2, fields)?;
    let framing = match (framing, ended || upgrade.is_some()) {
        (Some(Framing::Length(length)), true) if length > 0 => {
            return Err(Fault::bad("a body was announced and does not come"));
        }
        (Some(framing), _) => framing,
        (None, false) => Framing::Chunked,
        (None, true) if matches!(method, "POST" | "PUT" | "PATCH") => Framing::Length(0),
        (None, true) => Framing::None,
    };
    Request::of_stream(method, target, fields, framing, upgrade)
}

/// The head of an answer that was written as lines, and how many bytes it is; what follows is its body.
pub(crate) fn response(text: &[u8], index: &mut Vec<Field>) -> Option<(http::Response<()>, usize)> {
    let length = memmem::find(text, b"\r\n\r\n")? + 4;
    let start = memchr(b'\n', text)? + 1;
    let digits = text.get(9..12)?;
    let status = http::StatusCode::from_bytes(digits).ok()?;
    let mut response = http::Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = fields(&text[..length], start, index, |known, _| {
        matches!(known, Known::Other | Known::ContentLength | Known::Forwarded | Known::Expect | Known::Host)
    })?;
    Some((response, length))
}

/// The head of a request that was written as lines, as it goes to an endpoint. `trailers`: the client takes them.
pub(crate) fn onward(
    text: &[u8],
    index: &mut Vec<Field>,
    secure: bool,
    trailers: bool,
) -> Option<http::Request<()>> {
    let start = memchr(b'\n', text)? + 1;
    let mut words = text[..start].split(|b| *b == b' ');
    let (method, path) = (words.next()?, words.next()?);
    let (mut authority, mut upgrade) = (None, None);
    for (known, _, value) in Fields::parse(text, start, index).ok()?.iter() {
        match known {
            // Only HTTP/1.0 asks nobody for a path.
            Known::Host if !value.is_empty() => authority = Some(Authority::try_from(value).ok()?),
            Known::Upgrade => upgrade = Some(::h2::ext::Protocol::from(std::str::from_utf8(value).ok()?)),
            _ => {}
        }
    }
    let mut request = http::Request::new(());
    let mut fields = fields(text, start, index, |known, name| match known {
        Known::Other => upgrade.is_none() || !websocket::is_of_handshake(name),
        Known::ContentLength | Known::Expect | Known::Forwarded => true,
        _ => false,
    })?;
    if trailers {
        fields.insert(http::header::TE, HeaderValue::from_static("trailers"));
    }
    *request.headers_mut() = fields;
    let mut parts = http::uri::Parts::default();
    parts.path_and_query = Some(path_and_query(path)?);
    if authority.is_some() {
        *request.version_mut() = http::Version::HTTP_2;
        parts.scheme = Some(if secure { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = authority;
    }
    *request.uri_mut() = Uri::from_parts(parts).ok()?;
    match upgrade {
        None => *request.method_mut() = Method::from_bytes(method).ok()?,
        Some(protocol) => {
            *request.method_mut() = Method::CONNECT;
            request.extensions_mut().insert(protocol);
        }
    }
    Some(request)
}

/// What HTTP/1.1 lets pass in a target and a URI does not have is escaped.
fn path_and_query(path: &[u8]) -> Option<PathAndQuery> {
    if let Ok(path) = PathAndQuery::try_from(path) {
        return Some(path);
    }
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut escaped = Vec::with_capacity(path.len() + 16);
    for byte in path {
        if byte.is_ascii_graphic()
            && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
        {
            escaped.push(*byte);
        } else {
            escaped.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    PathAndQuery::try_from(escaped).ok()
}

/// The fields of lines that pass; the values share one copy of the lines.
fn fields(
    text: &[u8],
    start: usize,
    index: &mut Vec<Field>,
    passes: impl Fn(Known, &[u8]) -> bool,
) -> Option<HeaderMap> {
    let shared = Bytes::copy_from_slice(text);
    let lines = Fields::parse(&shared, start, index).ok()?;
    let mut map = HeaderMap::with_capacity(16);
    for (known, name, value) in lines.iter() {
        if passes(known, name) {
            let name = HeaderName::from_bytes(name).ok()?;
            let value = HeaderValue::from_maybe_shared(shared.slice_ref(value)).ok()?;
            map.try_append(name, value).ok()?;
        }
    }
    Some(map)
}

/// Trailers as they go on: nothing that tells how a message is read, who sent it or where it goes.
pub(crate) fn pass_trailers(trailers: HeaderMap) -> Option<HeaderMap> {
    let passes = |name: &HeaderName| matches!(known(name.as_str().as_bytes()), Ok(Known::Other));
    let mut passed = trailers;
    let refused: Vec<HeaderName> = passed.keys().filter(|name| !passes(name)).cloned().collect();
    for name in refused {
        passed.remove(name);
    }
    Some(passed).filter(|passed| !passed.is_empty())
}

/// Trailers that came as lines, with the empty one at the end.
pub(crate) fn read_trailers(lines: &[u8]) -> Option<HeaderMap> {
    let map = fields(lines, 0, &mut Vec::new(), |known, _| known == Known::Other)?;
    Some(map).filter(|map| !map.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(uri: &str, method: &str, fields: &[(&str, &str)]) -> request::Parts {
        let mut builder = http::Request::builder().uri(uri).method(method);
        for (name, value) in fields {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    #[test]
    fn cookies_are_one_line_and_other_fields_stay_several() {
        let parts =
            parts("http://a.test/", "GET", &[("cookie", "a=1"), ("x", "1"), ("cookie", "b=2"), ("x", "2")]);
        let mut lines = Vec::new();
        write_lines(&mut lines, &parts.headers);
        let text = String::from_utf8(lines).unwrap();
        assert!(text.contains("cookie: a=1; b=2\r\n") && text.contains("x: 1\r\nx: 2\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\n"));
    }

    #[test]
    fn a_request_names_one_host() {
        for (uri, fields, expected) in [
            ("http://A.test:80/x?y", &[][..], Ok("a.test")),
            ("http://a.test/", &[("host", "A.TEST")], Ok("a.test")),
            ("/x", &[("host", "b.test")], Ok("b.test")),
            ("http://a.test/", &[("host", "b.test")], Err(400)),
            ("/x", &[], Err(400)),
            ("http://u@a.test/", &[], Err(400)),
        ] {
            let parts = parts(uri, "GET", fields);
            let (mut lines, mut index) = (Vec::new(), Vec::new());
            write_lines(&mut lines, &parts.headers);
            let read = request(&parts, &lines, &mut index, true);
            let host = read.map(|request| request.target.host.into_owned()).map_err(|fault| fault.status);
            assert_eq!(host.as_deref().map_err(|status| *status), expected, "{uri} {fields:?}");
        }
    }

    #[test]
    fn bodies_are_framed_as_the_head_says() {
        for (method, fields, ended, expected) in [
            ("GET", &[][..], true, Some(Framing::None)),
            ("POST", &[], true, Some(Framing::Length(0))),
            ("POST", &[], false, Some(Framing::Chunked)),
            ("POST", &[("content-length", "5")], false, Some(Framing::Length(5))),
            ("POST", &[("content-length", "5")], true, None),
        ] {
            let parts = parts("http://a.test/", method, fields);
            let (mut lines, mut index) = (Vec::new(), Vec::new());
            write_lines(&mut lines, &parts.headers);
            let read = request(&parts, &lines, &mut index, ended);
            assert_eq!(read.ok().map(|request| request.framing), expected, "{method} {fields:?} {ended}");
        }
    }

    #[test]
    fn lines_become_fields_without_those_of_a_connection() {
        let mut index = Vec::new();
        let text =
            b"GET /a<b?c HTTP/1.1\r\nhost: a.test\r\nX-A: 1\r\ntransfer-encoding: chunked\r\nx-a: 2\r\n\r\n";
        let request = onward(text, &mut index, false, true).unwrap();
        assert_eq!(request.uri(), "http://a.test/a%3Cb?c");
        let values: Vec<_> = request.headers().get_all("x-a").iter().collect();
        assert_eq!(values, ["1", "2"]);
        assert_eq!(request.headers()["te"], "trailers");
        assert_eq!(request.headers().len(), 3);
        let text = b"GET /ws HTTP/1.1\r\nhost: a.test\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                     sec-websocket-key: x\r\nsec-websocket-version: 13\r\n\r\n";
        let request = onward(text, &mut index, true, false).unwrap();
        assert_eq!(request.method(), Method::CONNECT);
        assert_eq!(request.uri(), "https://a.test/ws");
        assert_eq!(request.headers().len(), 1);
        let text = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi";
        let (response, length) = response(text, &mut index).unwrap();
        assert_eq!((response.status().as_u16(), &text[length..]), (404, &b"hi"[..]));
        assert_eq!(response.headers().len(), 1);
    }

    #[test]
    fn trailers_lose_what_would_change_the_message() {
        let lines = b"grpc-status: 0\r\ncontent-length: 5\r\nx-forwarded-for: 1.2.3.4\r\n\r\n";
        let read = read_trailers(lines).unwrap();
        assert_eq!((read.len(), &read["grpc-status"]), (1, &HeaderValue::from_static("0")));
        let mut map = HeaderMap::new();
        map.insert("content-length", HeaderValue::from_static("5"));
        assert!(pass_trailers(map).is_none());
    }
}
