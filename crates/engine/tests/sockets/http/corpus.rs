//! What clients send who want to be understood in two ways. One request in is exactly one request out, or it is refused.

/// What becomes of the bytes of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// So many complete requests reach the endpoint, none of them for `/smuggled`.
    Out(usize),
    /// So many reach it, then the client is refused with this status.
    Refused(usize, u16),
}

use Expected::{Out, Refused};

/// A name, the bytes, and what becomes of them. `{next}` is a request that must not be seen, `{body}` a body of 5.
pub(crate) const CASES: &[(&str, &str, Expected)] = &[
    // The length of the body is told twice, or oddly.
    (
        "length and chunks",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "chunks and length",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "chunks and no length",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "two lengths",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    (
        "the same length twice",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        Refused(0, 400),
    ),
    ("a list of lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello", Refused(0, 400)),
    (
        "a length with a sign",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    (
        "a negative length",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    (
        "a length in hexadecimal",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    (
        "a length with a space",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 0\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    (
        "a length with a point",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5.0\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    ("an empty length", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n{next}", Refused(0, 400)),
    (
        "a length beyond numbers",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    (
        "a length spelt with _",
        "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    // Transfer codings.
    (
        "chunked twice",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "two codings",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "chunked first",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "identity",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    (
        "almost chunked",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "chunked with a parameter",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "chunked in quotes",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "chunked after a vertical tab",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \u{b}chunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "an empty coding",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\nContent-Length: 5\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    (
        "two fields of codings",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "chunked in the second field",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "a coding spelt with _",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "chunks in HTTP/1.0",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    // Lines.
    (
        "a space before the colon",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "a tab before the colon",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 5\r\n\r\nhello{next}",
        Refused(0, 400),
    ),
    (
        "a space before the name",
        "POST / HTTP/1.1\r\n Transfer-Encoding: chunked\r\nHost: a\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "a folded line",
        "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    (
        "a folded value",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    ("a folded host", "GET / HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n{next}", Refused(0, 400)),
    ("LF after the first line", "GET / HTTP/1.1\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    (
        "LF after a field",
        "GET / HTTP/1.1\r\nHost: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{next}",
        Refused(0, 400),
    ),
    ("LF after the head", "GET / HTTP/1.1\r\nHost: a\r\n\n{next}", Refused(0, 400)),
    (
        "CR in a value",
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n{next}",
        Refused(0, 400),
    ),
    ("CR CR LF", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\r\n\r\n{next}", Refused(0, 400)),
    ("NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n{next}", Refused(0, 400)),
    ("NUL in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n{next}", Refused(0, 400)),
    ("DEL in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\u{7f}: y\r\n\r\n{next}", Refused(0, 400)),
    (
        "a letter beyond ASCII in a name",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encod\u{131}ng: chunked\r\n\r\n{next}",
        Refused(0, 400),
    ),
    ("a name of two words", "GET / HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n{next}", Refused(0, 400)),
    ("no colon", "GET / HTTP/1.1\r\nHost: a\r\nGET /smuggled HTTP/1.1\r\n\r\n{next}", Refused(0, 400)),
    ("no name", "GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n{next}", Refused(0, 400)),
    // Hosts.
    ("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n{next}", Refused(0, 400)),
    ("no host", "GET / HTTP/1.1\r\nX: y\r\n\r\n{next}", Refused(0, 400)),
    ("a list of hosts", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n{next}", Refused(0, 400)),
    ("a host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n{next}", Refused(0, 400)),
    ("a host with a user", "GET / HTTP/1.1\r\nHost: b@a\r\n\r\n{next}", Refused(0, 400)),
    ("a port of letters", "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n{next}", Refused(0, 400)),
    ("another host in the target", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    // First lines.
    ("a target without a slash", "GET a HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("a target with a space", "GET /a /smuggled HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("a tab for a space", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("a space in front", " GET / HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("a space at the end", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("HTTP/0.9", "GET /\r\n\r\n{next}", Refused(0, 400)),
    ("no version", "GET / \r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("a version in lower case", "GET / http/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("a version of two digits", "GET / HTTP/1.10\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("a version to come", "GET / HTTP/1.2\r\nHost: a\r\n\r\n{next}", Refused(0, 505)),
    (
        "the preface of HTTP/2 after a request",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{next}",
        Refused(1, 505),
    ),
    ("a control character in the target", "GET /a\u{1}b HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("a fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("a method that is no token", "GE<T / HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("an asterisk that is no question", "GET * HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("a tunnel", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n{next}", Refused(0, 405)),
    ("what is no letter", "\u{15}\u{3}\u{1}\0\u{5}", Refused(0, 400)),
    ("two empty lines in front", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Refused(0, 400)),
    (
        "another expectation",
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 5\r\n\r\nhello",
        Refused(0, 417),
    ),
    // Paths.
    ("NUL in the path", "GET /a%00 HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    ("above the root", "GET /a/../../smuggled HTTP/1.1\r\nHost: a\r\n\r\n", Refused(0, 400)),
    ("a backslash", "GET /a\\..\\smuggled HTTP/1.1\r\nHost: a\r\n\r\n", Refused(0, 400)),
    ("hidden dots", "GET /a/..%2fsmuggled HTTP/1.1\r\nHost: a\r\n\r\n", Refused(0, 400)),
    ("dots with a parameter", "GET /a/..;/smuggled HTTP/1.1\r\nHost: a\r\n\r\n", Refused(0, 400)),
    ("half an escape", "GET /%2 HTTP/1.1\r\nHost: a\r\n\r\n{next}", Refused(0, 400)),
    // Chunks.
    ("LF after a size", "{chunked}5\nhello\r\n0\r\n\r\n{next}", Refused(0, 400)),
    ("a space after a size", "{chunked}5 \r\nhello\r\n0\r\n\r\n{next}", Refused(0, 400)),
    ("a space before a size", "{chunked} 5\r\nhello\r\n0\r\n\r\n{next}", Refused(0, 400)),
    ("a size with 0x", "{chunked}0x5\r\nhello\r\n0\r\n\r\n{next}", Refused(0, 400)),
    ("a negative size", "{chunked}-1\r\nhello\r\n0\r\n\r\n{next}", Refused(0, 400)),
    ("an empty size", "{chunked}\r\n{next}", Refused(0, 400)),
    ("a size beyond numbers", "{chunked}ffffffffffffffff5\r\nhello\r\n0\r\n\r\n{next}", Refused(0, 400)),
    ("more than the size", "{chunked}5\r\nhello!\r\n0\r\n\r\n{next}", Refused(0, 400)),
    ("LF after the data", "{chunked}5\r\nhello\n0\r\n\r\n{next}", Refused(0, 400)),
    ("LF in an extension", "{chunked}5;a\nb\r\nhello\r\n0\r\n\r\n{next}", Refused(0, 400)),
    ("CR in an extension", "{chunked}5;a\rb\r\nhello\r\n0\r\n\r\n{next}", Refused(0, 400)),
    ("LF after the last chunk", "{chunked}0\n\n{next}", Refused(0, 400)),
    ("LF after the trailers", "{chunked}0\r\n\n{next}", Refused(0, 400)),
    ("a folded trailer", "{chunked}0\r\nX: y\r\n z\r\n\r\n{next}", Refused(0, 400)),
    ("a trailer without a colon", "{chunked}0\r\n{next}", Refused(0, 400)),
    // What is as it should be.
    (
        "a request in a body",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n",
        Out(1),
    ),
    (
        "a body of a GET",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n",
        Out(1),
    ),
    (
        "three in a row",
        "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        Out(3),
    ),
    (
        "chunks, extensions and trailers",
        "{chunked}5;a=\"b\"\r\nhello\r\n0\r\nX: y\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        Out(2),
    ),
    (
        "spaces around a value",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \t Chunked \t\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n{next}",
        Out(1),
    ),
    ("a request after the last one", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n{next}", Out(1)),
    ("HTTP/1.0 says goodbye", "GET / HTTP/1.0\r\nHost: a\r\n\r\n{next}", Out(1)),
    (
        "an upgrade to HTTP/2",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        Out(1),
    ),
    (
        "a connection of its own length",
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close, Content-Length\r\nContent-Length: 5\r\n\r\nhello",
        Out(1),
    ),
    ("an empty line in front", "\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Out(1)),
    (
        "the host in the target",
        "GET http://A.test:80/x HTTP/1.1\r\nHost: a.test:80\r\nConnection: close\r\n\r\n",
        Out(1),
    ),
    (
        "nothing twice",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        Out(2),
    ),
    (
        "two requests and a bad one",
        "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\nHost: a\r\n\r\n{next}",
        Refused(2, 400),
    ),
];

/// The bytes of a case.
pub(crate) fn bytes(case: &str) -> Vec<u8> {
    const NEXT: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    case.replace("{next}", NEXT).replace("{chunked}", CHUNKED).into_bytes()
}
