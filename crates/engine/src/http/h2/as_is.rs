//! Heads that go from stream to stream as they are: where a route changes nothing of them, what may not pass is taken out,
//! and what endpoints hear of clients is put in. What comes out is the same as by way of lines.

use http::header::{CONTENT_LENGTH, COOKIE, HeaderName, HeaderValue, TE};
use http::uri::{self, PathAndQuery, Scheme};
use http::{HeaderMap, Uri, request};

use crate::http::decision::{Client, Forward, Introduced};
use crate::http::h1::bytes::{decimal, trim};
use crate::http::h1::fields::{Known, MOST, known};
use crate::http::h1::framing::Framing;
use crate::http::h1::request::Request;

/// A request that goes on with the fields that it came with.
pub(crate) struct Asked {
    parts: request::Parts,
    framing: Framing,
    expects_continue: bool,
    /// Whether endpoints hear who the client is from us; else the request keeps what it says itself.
    introduces: bool,
}

/// Whether the head of a request means the same without its lines.
pub(crate) fn can_pass(request: &Request<'_>, parts: &request::Parts) -> bool {
    request.upgrade.is_none()
        && !request.connects()
        && request.fields.of(Known::Connection).next().is_none()
        && parts.headers.get_all(COOKIE).iter().nth(1).is_none()
        && parts.headers.values().all(is_trimmed)
        && request.target.path == parts.uri.path()
        && parts.uri.authority().is_some_and(|authority| authority.as_str() == request.target.authority)
}

impl Asked {
    /// Of a request that was decided on; nothing if it is changed on the way.
    pub(crate) fn new(parts: request::Parts, forward: &Forward) -> Option<Box<Self>> {
        let introduces = forward.unchanged? == Introduced::Here;
        let Forward { framing, expects_continue, .. } = *forward;
        Some(Box::new(Self { parts, framing, expects_continue, introduces }))
    }

    /// As it goes to an endpoint. `trailers`: the client takes them.
    pub(crate) fn onward(self, client: &Client, secure: bool, trailers: bool) -> Option<http::Request<()>> {
        let request::Parts { method, uri, mut headers, .. } = self.parts;
        let mut refused = Vec::new();
        for name in headers.keys() {
            let passes = match known(name.as_str().as_bytes()).ok()? {
                Known::Other | Known::ContentLength => true,
                Known::Forwarded => !self.introduces,
                Known::Expect => self.expects_continue,
                // It is said anew, if at all.
                Known::HopByHop if *name == TE => true,
                _ => false,
            };
            if !passes {
                refused.push(name.clone());
            }
        }
        for name in &refused {
            headers.remove(name);
        }
        if trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        } else {
            headers.remove(TE);
        }
        if let Framing::Length(length) = self.framing {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let uri::Parts { authority, path_and_query, .. } = uri.into_parts();
        if self.introduces {
            client.introduce(&mut headers, authority.as_ref()?.as_str())?;
        }
        let mut parts = uri::Parts::default();
        parts.scheme = Some(if secure { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = authority;
        parts.path_and_query = path_and_query.or_else(|| Some(PathAndQuery::from_static("/")));
        let mut request = http::Request::new(());
        *request.version_mut() = http::Version::HTTP_2;
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from_parts(parts).ok()?;
        *request.headers_mut() = headers;
        Some(request)
    }
}

/// Takes out of an answer's fields what may not pass; how its body is framed. Nothing, with the fields as they were, if that is
/// better found out line by line.
pub(crate) fn pass_answer(fields: &mut HeaderMap, status: u16, to_head: bool) -> Option<Framing> {
    let mut refused: Vec<HeaderName> = Vec::new();
    let mut length = None;
    if fields.len() > MOST {
        return None;
    }
    for (name, value) in &*fields {
        match known(name.as_str().as_bytes()).ok()? {
            Known::Other if *name == COOKIE => return None,
            Known::Other | Known::Forwarded | Known::Expect | Known::Host => {}
            Known::ContentLength => {
                let digits = value.as_bytes();
                if length.is_some() || digits.len() > 1 && digits.starts_with(b"0") {
                    return None;
                }
                length = Some(decimal(digits)?);
            }
            Known::HopByHop => refused.push(name.clone()),
            Known::Connection | Known::TransferEncoding | Known::Upgrade => return None,
        }
        if !is_trimmed(value) {
            return None;
        }
    }
    for name in &refused {
        fields.remove(name);
    }
    if status == 204 {
        fields.remove(CONTENT_LENGTH);
    }
    Some(match status {
        204 | 304 => Framing::None,
        _ if to_head => Framing::None,
        _ => length.map_or(Framing::UntilClose, Framing::Length),
    })
}

fn is_trimmed(value: &HeaderValue) -> bool {
    trim(value.as_bytes()).len() == value.len()
}

#[cfg(test)]
mod tests {
    use causeway_ir::http::Scheme;

    use super::*;
    use crate::http::edits::Edits;
    use crate::http::h1::response::Response;
    use crate::http::h2::head;
    use crate::http::onward;
    use crate::http::route::Changes;

    fn sorted(fields: &HeaderMap) -> Vec<(String, Vec<u8>)> {
        let mut all: Vec<_> =
            fields.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        all.sort();
        all
    }

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        let mut map = HeaderMap::new();
        for (name, value) in fields.iter().map(pair) {
            map.append(name, value);
        }
        map
    }

    const ALL: [(&str, &str); 22] = [
        ("accept", "text/plain"),
        ("x", "1"),
        ("x", "2"),
        ("x", ""),
        ("cookie", "a=1"),
        ("te", "trailers"),
        ("te", "gzip"),
        ("trailer", "x"),
        ("proxy", "http://b"),
        ("keep-alive", "1"),
        ("expect", "100-continue"),
        ("forwarded", "for=1.2.3.4"),
        ("x-forwarded-for", "1.2.3.4"),
        ("x_forwarded_proto", "https"),
        ("x-real-ip", "1.2.3.4"),
        ("ssl-client-verify", "SUCCESS"),
        ("upgrade", "websocket"),
        ("http2-settings", "x"),
        ("host", "a.test:80"),
        ("content-length", "5"),
        ("traceparent", "00-1-2-01"),
        ("user-agent", "\u{e9}"),
    ];

    /// Every subset of a few, and all together.
    fn subsets() -> impl Iterator<Item = Vec<(&'static str, &'static str)>> {
        let pick = |mask: u32| {
            let mut chosen = Vec::new();
            for (place, field) in ALL.iter().enumerate() {
                if mask & (1 << place) != 0 {
                    chosen.push(*field);
                }
            }
            chosen
        };
        let pairs = (0..ALL.len()).flat_map(|a| (0..ALL.len()).map(move |b| (1 << a) | (1 << b)));
        pairs.chain([0, u32::MAX]).map(pick)
    }

    #[test]
    fn requests_are_the_same_by_way_of_lines_and_without() {
        let client = Client::new(
            "192.0.2.1:7".parse().unwrap(),
            Scheme::Http,
            80,
            b"ssl-client-verify: SUCCESS\r\nx-forwarded-client-cert: x\r\n",
        );
        let mut passed = 0;
        for fields in subsets() {
            for (method, uri, ended) in [
                ("POST", "http://a.test:80/p/q?r=%2", false),
                ("POST", "https://a.test:80/p", true),
                ("GET", "http://a.test:80/", true),
                ("OPTIONS", "http://a.test:80/x/../p", true),
                ("PUT", "http://a.test:80?q", false),
            ] {
                let mut parts =
                    http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts().0;
                parts.headers = map(&fields);
                let (mut lines, mut index) = (Vec::new(), Vec::new());
                head::write_lines(&mut lines, &parts.headers);
                let Ok(request) = head::request(&parts, &lines, &mut index, ended) else { continue };
                if !can_pass(&request, &parts) {
                    continue;
                }
                passed += 1;
                for introduces in [false, true] {
                    let mut text = Vec::new();
                    let introduction = client.introduction(None);
                    let changes = Changes::default();
                    let introduction = introduces.then_some(&*introduction);
                    onward::write_request(&mut text, &request, &changes, 0, introduction, None);
                    let trailers = request.takes_trailers();
                    let expected = head::onward(&text, &mut Vec::new(), true, trailers).unwrap();
                    let (framing, expects_continue) = (request.framing, request.expects_continue);
                    let asked = Asked { parts: parts.clone(), framing, expects_continue, introduces };
                    let found = asked.onward(&client, true, trailers).unwrap();
                    assert_eq!(found.method(), expected.method(), "{uri} {fields:?}");
                    assert_eq!(found.uri(), expected.uri(), "{uri} {fields:?}");
                    assert_eq!(found.version(), expected.version());
                    assert_eq!(sorted(found.headers()), sorted(expected.headers()), "{uri} {fields:?}");
                }
            }
        }
        assert!(passed > 500, "{passed}");
    }

    #[test]
    fn answers_are_the_same_by_way_of_lines_and_without() {
        let mut passed = 0;
        for fields in subsets() {
            for (status, to_head) in [(200, false), (200, true), (204, false), (304, false), (500, false)] {
                let came = map(&fields);
                let mut found = came.clone();
                let Some(framing) = pass_answer(&mut found, status, to_head) else { continue };
                passed += 1;
                let (mut lines, mut index) = (Vec::new(), Vec::new());
                head::write_lines(&mut lines, &came);
                let response = Response::of_stream(status, b"", &lines, &mut index, to_head).unwrap();
                assert_eq!(framing, response.framing, "{status} {fields:?}");
                let mut text = Vec::new();
                onward::write_answer(&mut text, &response, &Edits::default(), false, framing);
                onward::write_framing(&mut text, framing);
                text.extend_from_slice(b"\r\n");
                let (expected, _) = head::response(&text, &mut Vec::new()).unwrap();
                assert_eq!(sorted(&found), sorted(expected.headers()), "{status} {fields:?}");
            }
        }
        assert!(passed > 500, "{passed}");
    }

    #[test]
    fn what_has_another_meaning_in_lines_goes_by_way_of_them() {
        for fields in [
            &[("connection", "x")][..],
            &[("transfer-encoding", "chunked")],
            &[("upgrade", "x")],
            &[("content-length", "5"), ("content-length", "5")],
            &[("content-length", "05")],
            &[("content-length", "+5")],
            &[("content_length", "5")],
            &[("x", " 1")],
            &[("x", "1\t")],
            &[("cookie", "a"), ("cookie", "b")],
        ] {
            assert_eq!(pass_answer(&mut map(fields), 200, false), None, "{fields:?}");
        }
        let mut parts = http::Request::builder().uri("http://a.test/").body(()).unwrap().into_parts().0;
        for (fields, uri) in [
            (&[("connection", "x")][..], "http://a.test/"),
            (&[("cookie", "a"), ("cookie", "b")], "http://a.test/"),
            (&[("x", " 1")], "http://a.test/"),
            (&[], "http://a.test/x/../y"),
            (&[], "http://a.test/%61"),
            (&[("host", "a.test")], "/"),
        ] {
            parts.headers = map(fields);
            parts.uri = uri.parse().unwrap();
            let (mut lines, mut index) = (Vec::new(), Vec::new());
            head::write_lines(&mut lines, &parts.headers);
            let request = head::request(&parts, &lines, &mut index, true).unwrap();
            assert!(!can_pass(&request, &parts), "{uri} {fields:?}");
        }
    }
}
