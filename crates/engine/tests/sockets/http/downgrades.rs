//! Clients of HTTP/2 who want to be understood in two ways by an endpoint that speaks HTTP/1.1. One request in is exactly one
//! request out, or it is refused, and the connection to the endpoint is as good as before.

use super::backend::{HttpBackend, all_to};
use super::streams::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, RawClient, StreamClient, block, frame,
};
use crate::support::Running;

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// It reaches the endpoint as this first line, and nothing else does.
    Out(&'static str),
    /// 400, and nothing reaches the endpoint.
    Bad,
    /// Another answer that is not the endpoint's, which has heard of nothing.
    Refused,
    /// Its stream is reset, and nothing complete reaches the endpoint.
    Reset,
    /// So is the connection.
    Closed,
}

use Expected::{Bad, Closed, Out, Refused, Reset};

type Fields = &'static [(&'static str, &'static str)];

/// What every request is unless the case says otherwise; a field of a case takes the place of one of these.
const USUAL: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":path", "/a"), (":authority", "a.test")];
const SMUGGLED: &str = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// A name, fields, the data if there are any, fields after them, and what becomes of it. A field `-:path` leaves that out, and
/// `+:path` is there beside the usual one.
const CASES: &[(&str, Fields, &str, Fields, Expected)] = &[
    // Lines in what is no line.
    ("lines in a value", &[("x", "y\r\nTransfer-Encoding: chunked")], SMUGGLED, &[], Closed),
    ("a head in a value", &[("x", "y\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.test")], "", &[], Closed),
    ("LF in a value", &[("x", "y\nTransfer-Encoding: chunked")], SMUGGLED, &[], Closed),
    ("CR in a value", &[("x", "y\rTransfer-Encoding: chunked")], SMUGGLED, &[], Closed),
    ("NUL in a value", &[("x", "y\0z")], "", &[], Closed),
    ("lines in a name", &[("x\r\ntransfer-encoding", "chunked")], SMUGGLED, &[], Closed),
    ("a colon in a name", &[("transfer-encoding:x", "chunked")], SMUGGLED, &[], Closed),
    ("a colon and a value in a name", &[("transfer-encoding: chunked\r\nx", "y")], SMUGGLED, &[], Closed),
    ("a space in a name", &[("transfer-encoding ", "chunked")], SMUGGLED, &[], Closed),
    ("upper case in a name", &[("Transfer-Encoding", "chunked")], SMUGGLED, &[], Closed),
    ("no name", &[("", "y")], "", &[], Closed),
    ("LF in a cookie", &[("cookie", "a=1\nx: y")], "", &[], Closed),
    // First lines.
    ("a space in the path", &[(":path", "/a /smuggled")], "", &[], Reset),
    ("a line in the path", &[(":path", "/a HTTP/1.1\r\nX: y")], "", &[], Reset),
    ("a request in the path", &[(":path", "/a HTTP/1.1\r\nHost: a\r\n\r\nGET /smuggled")], "", &[], Reset),
    ("a tab in the path", &[(":path", "/a\tb")], "", &[], Reset),
    ("a fragment, which is not asked for", &[(":path", "/a#b")], "", &[], Out("POST /a")),
    ("no slash in the path", &[(":path", "a")], "", &[], Reset),
    ("an empty path", &[(":path", "")], "", &[], Reset),
    ("another host in the path", &[(":path", "http://b.test/smuggled")], "", &[], Reset),
    ("an authority in the path", &[(":path", "//b.test/smuggled")], "", &[], Out("POST /b.test/smuggled")),
    ("an asterisk that is no question", &[(":path", "*")], "", &[], Bad),
    ("above the root", &[(":path", "/a/../../smuggled")], "", &[], Bad),
    ("a backslash", &[(":path", "/a\\..\\smuggled")], "", &[], Bad),
    ("NUL in the path, escaped", &[(":path", "/a%00")], "", &[], Bad),
    ("a line in the path, escaped", &[(":path", "/a%0d%0aX:y")], "", &[], Out("POST /a%0D%0AX:y")),
    ("a space in the method", &[(":method", "GET /smuggled")], "", &[], Closed),
    (
        "a request in the method",
        &[(":method", "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\nGET")],
        "",
        &[],
        Closed,
    ),
    ("an empty method", &[(":method", "")], "", &[], Closed),
    ("a request in the scheme", &[(":scheme", "http://b.test/smuggled?")], "", &[], Reset),
    ("another scheme", &[(":scheme", "ftp")], "", &[], Out("POST /a")),
    // Pseudo-fields.
    ("two methods", &[("+:method", "GET")], "", &[], Reset),
    ("two paths", &[("+:path", "/smuggled")], "", &[], Reset),
    ("two schemes", &[("+:scheme", "http")], "", &[], Reset),
    ("two authorities", &[("+:authority", "b.test")], "", &[], Reset),
    ("no method", &[("-:method", "")], "", &[], Reset),
    ("no path", &[("-:path", "")], "", &[], Reset),
    ("no scheme", &[("-:scheme", "")], "", &[], Reset),
    ("one that nobody knows", &[("+:host", "b.test")], "", &[], Closed),
    ("one of answers", &[("+:status", "200")], "", &[], Reset),
    ("one after a field", &[("x", "y"), ("+:path", "/smuggled")], "", &[], Reset),
    // Hosts.
    ("another host", &[("host", "b.test")], "", &[], Bad),
    ("the same host", &[("host", "A.test")], "", &[], Out("POST /a")),
    ("two other hosts", &[("host", "a.test"), ("host", "b.test")], "", &[], Bad),
    ("a host alone", &[("-:authority", ""), ("host", "a.test")], "", &[], Out("POST /a")),
    ("two hosts alone", &[("-:authority", ""), ("host", "a.test"), ("host", "b.test")], "", &[], Bad),
    ("no host", &[("-:authority", "")], "", &[], Bad),
    ("an empty host", &[("-:authority", ""), ("host", "")], "", &[], Bad),
    ("a list of hosts", &[("-:authority", ""), ("host", "a.test, b.test")], "", &[], Bad),
    ("a line in the authority", &[(":authority", "a.test\r\nX: y")], "", &[], Reset),
    ("a path in the authority", &[(":authority", "a.test/smuggled")], "", &[], Reset),
    ("a space in the authority", &[(":authority", "a.test b.test")], "", &[], Reset),
    ("a user in the authority", &[(":authority", "b.test@a.test")], "", &[], Bad),
    ("letters for a port", &[(":authority", "a.test:b")], "", &[], Bad),
    // What is of one connection.
    ("chunks", &[("transfer-encoding", "chunked")], SMUGGLED, &[], Reset),
    ("no coding", &[("transfer-encoding", "identity")], SMUGGLED, &[], Reset),
    ("chunks spelt with _", &[("transfer_encoding", "chunked")], SMUGGLED, &[], Bad),
    ("options", &[("connection", "content-length")], SMUGGLED, &[], Reset),
    ("options of proxies", &[("proxy-connection", "keep-alive")], "", &[], Reset),
    ("time to stay", &[("keep-alive", "timeout=5")], "", &[], Reset),
    ("another protocol", &[("upgrade", "websocket")], "", &[], Reset),
    ("codings", &[("te", "chunked")], "", &[], Reset),
    ("trailers", &[("te", "trailers")], "", &[], Out("POST /a")),
    // Lengths.
    ("more than the length", &[("content-length", "3")], "hello", &[], Reset),
    ("less than the length", &[("content-length", "9")], "hello", &[], Reset),
    ("data beside a length of 0", &[("content-length", "0")], SMUGGLED, &[], Reset),
    ("a length without data", &[("content-length", "5")], "", &[], Reset),
    ("two lengths", &[("content-length", "5"), ("content-length", "0")], "hello", &[], Reset),
    ("the same length twice", &[("content-length", "5"), ("content-length", "5")], "hello", &[], Bad),
    ("a list of lengths", &[("content-length", "5, 5")], "hello", &[], Reset),
    ("a length with a sign", &[("content-length", "+5")], "hello", &[], Reset),
    ("a length in hexadecimal", &[("content-length", "0x5")], "hello", &[], Reset),
    ("an empty length", &[("content-length", "")], "hello", &[], Reset),
    ("a length beyond numbers", &[("content-length", "18446744073709551621")], "hello", &[], Reset),
    ("a length spelt with _", &[("content_length", "5")], "hello", &[], Bad),
    ("the length", &[("content-length", "5")], "hello", &[], Out("POST /a")),
    // What looks like requests in data.
    ("a request in data", &[], SMUGGLED, &[], Out("POST /a")),
    ("a request in data of a GET", &[(":method", "GET")], SMUGGLED, &[], Out("GET /a")),
    ("a request in data of a HEAD", &[(":method", "HEAD")], SMUGGLED, &[], Out("HEAD /a")),
    // After the data.
    ("trailers as they should be", &[], "hello", &[("x", "y")], Out("POST /a")),
    ("a length in trailers", &[], "hello", &[("content-length", "0")], Out("POST /a")),
    ("chunks in trailers", &[], "hello", &[("transfer-encoding", "chunked")], Reset),
    ("a path in trailers, which nobody reads", &[], "hello", &[(":path", "/smuggled")], Out("POST /a")),
    ("lines in trailers", &[], "hello", &[("x", "y\r\n\r\nGET /smuggled HTTP/1.1")], Closed),
    // Tunnels.
    ("a tunnel to no port", &[(":method", "CONNECT"), ("-:scheme", ""), ("-:path", "")], SMUGGLED, &[], Bad),
    (
        "a tunnel",
        &[(":method", "CONNECT"), (":authority", "a:443"), ("-:scheme", ""), ("-:path", "")],
        SMUGGLED,
        &[],
        Refused,
    ),
    ("a tunnel with a path", &[(":method", "CONNECT")], SMUGGLED, &[], Reset),
    (
        "another protocol in a stream",
        &[(":method", "CONNECT"), ("+:protocol", "h2c")],
        SMUGGLED,
        &[],
        Refused,
    ),
    (
        "a WebSocket with a length",
        &[(":method", "CONNECT"), ("+:protocol", "websocket"), ("content-length", "45")],
        SMUGGLED,
        &[],
        Bad,
    ),
    ("a protocol without a tunnel", &[("+:protocol", "websocket")], SMUGGLED, &[], Reset),
    ("another expectation", &[("expect", "200-ok")], "hello", &[], Refused),
];

/// The frames of a case.
fn frames(fields: Fields, data: &str, after: Fields) -> Vec<u8> {
    let said = |name: &str| fields.iter().find(|(field, _)| field.trim_start_matches('-') == name);
    let mut all: Vec<(&str, &str)> = Vec::new();
    for (name, value) in USUAL {
        match said(name) {
            Some((left_out, _)) if left_out.starts_with('-') => {}
            Some((_, value)) => all.push((name, value)),
            None => all.push((name, value)),
        }
    }
    let more = fields.iter().filter(|(name, _)| !name.starts_with(['-', ':']));
    all.extend(more.map(|(name, value)| (name.trim_start_matches('+'), *value)));
    let last = |is_last: bool| if is_last { END_STREAM } else { 0 };
    let mut bytes = frame(HEADERS, END_HEADERS | last(data.is_empty()), 1, &block(&all));
    if !data.is_empty() {
        bytes.extend(frame(DATA, last(after.is_empty()), 1, data.as_bytes()));
    }
    if !after.is_empty() {
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(after)));
    }
    bytes
}

/// What the client hears of its request.
async fn heard(client: &mut RawClient) -> Expected {
    while let Some(frame) = client.next().await {
        match frame.kind {
            // 200 and 400 have a byte of their own.
            HEADERS if frame.payload[0] == 0x88 => return Out(""),
            HEADERS if frame.payload[0] == 0x8c => return Bad,
            HEADERS => return Refused,
            RST_STREAM => return Reset,
            GOAWAY => return Closed,
            _ => {}
        }
    }
    Closed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_stream_in_is_one_request_out_or_none() {
    let backend = HttpBackend::named("ok").await;
    let running = Running::start(&all_to(&[backend.address])).await;
    let witness = StreamClient::connect(&running).await;
    let mut wrong = Vec::new();
    assert!(CASES.len() >= 80, "{}", CASES.len());
    for (name, fields, data, after, expected) in CASES {
        let before = backend.asked().len();
        let mut client = RawClient::connect(&running).await;
        client.send(&frames(fields, data, after)).await;
        let found = heard(&mut client).await;
        assert_eq!(witness.get("a.test", "/after").await.body, "ok", "{name}");
        let lines: Vec<_> = backend.asked()[before..].iter().map(|asked| asked.line().to_owned()).collect();
        let (told, out) = match expected {
            Out(line) => (Out(""), vec![*line, "GET /after"]),
            other => (*other, vec!["GET /after"]),
        };
        if found != told || lines != out {
            wrong.push(format!("{name}: {found:?} and {lines:?}, expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    running.stop().await;
}
