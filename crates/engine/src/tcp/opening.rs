//! The first bytes of a connection, read until it is clear what the client wants: a PROXY protocol header, a
//! ClientHello, the beginning of a request. Without IO; bounded in bytes here, in time by the caller.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{client_hello, proxy_protocol};
use crate::close_reason::CloseReason;

/// What the client said first.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// The client and the address it asked for, by the PROXY protocol header.
    pub(super) addresses: Option<(SocketAddr, SocketAddr)>,
    /// Bytes that were read and belong to the endpoint.
    pub(super) bytes: Vec<u8>,
    pub(super) greeting: Greeting,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Nobody looked.
    #[default]
    Unread,
    Plaintext,
    Tls {
        server_name: Option<Arc<str>>,
    },
    /// It begins as a request does.
    Request,
    /// It begins as no request does.
    NoRequest,
}

/// What has to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) proxy_header: bool,
    pub(super) client_hello: bool,
    pub(super) request: bool,
}

impl Wanted {
    pub(super) fn nothing(self) -> bool {
        !(self.proxy_header || self.client_hello || self.request)
    }
}

/// Reads an opening piece by piece.
pub(super) struct Reader {
    wanted: Wanted,
    opening: Opening,
    hello: client_hello::Parser,
}

impl Reader {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self { wanted, opening: Opening::default(), hello: client_hello::Parser::default() }
    }

    /// How many bytes it keeps until the opening is complete.
    pub(super) fn kept(&self) -> u64 {
        self.opening.bytes.capacity() as u64
    }

    /// What a client has said that is waited for no longer, if its silence says what it wants: a server that speaks first
    /// is not sent requests.
    pub(super) fn give_up(&mut self) -> Option<Opening> {
        let is_silence = self.wanted.request && !self.wanted.proxy_header;
        is_silence.then(|| Opening { greeting: Greeting::NoRequest, ..std::mem::take(&mut self.opening) })
    }

    /// Takes the next bytes; the opening once it is complete, and not twice.
    ///
    /// # Errors
    /// If the client says what it must not, or left (there are no bytes).
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Option<Opening>, CloseReason> {
        if bytes.is_empty() {
            return Err(CloseReason::ClientLeft);
        }
        let mut kept = std::mem::take(&mut self.opening.bytes);
        let complete = if kept.is_empty() {
            // Most openings come in one piece, which is looked at where it lies.
            let (header, complete) = self.look(bytes)?;
            kept.extend_from_slice(&bytes[header..]);
            complete
        } else {
            kept.extend_from_slice(bytes);
            let (header, complete) = self.look(&kept)?;
            kept.drain(..header);
            complete
        };
        self.opening.bytes = kept;
        Ok(complete.then(|| std::mem::take(&mut self.opening)))
    }

    /// The length of the PROXY header in front, if it was read just now, and whether everything was read.
    fn look(&mut self, bytes: &[u8]) -> Result<(usize, bool), CloseReason> {
        let mut length = 0;
        if self.wanted.proxy_header {
            match proxy_protocol::parse(bytes) {
                proxy_protocol::Parsed::Header(header) => {
                    self.opening.addresses = header.addresses;
                    self.wanted.proxy_header = false;
                    length = header.length;
                }
                proxy_protocol::Parsed::NeedMore => return Ok((0, false)),
                proxy_protocol::Parsed::Absent | proxy_protocol::Parsed::Invalid(_) => {
                    return Err(CloseReason::InvalidProxyHeader);
                }
            }
        }
        if self.wanted.client_hello {
            self.opening.greeting = match self.hello.parse(&bytes[length..]) {
                client_hello::Parsed::NeedMore => return Ok((length, false)),
                client_hello::Parsed::NotTls => Greeting::Plaintext,
                client_hello::Parsed::Hello(hello) => Greeting::Tls { server_name: hello.server_name },
                client_hello::Parsed::Invalid(_) => return Err(CloseReason::InvalidHello),
            };
        }
        if self.wanted.request {
            self.opening.greeting = match begins_request(&bytes[length..]) {
                None => return Ok((length, false)),
                Some(true) => Greeting::Request,
                Some(false) => Greeting::NoRequest,
            };
        }
        Ok((length, true))
    }
}

/// Whether this is how a request begins: a method, a space, and a path, a URL or `*`; `None` if more has to be seen. The
/// preface of HTTP/2 begins like that, too.
fn begins_request(bytes: &[u8]) -> Option<bool> {
    const LONGEST_METHOD: usize = 32;
    // One empty line before a request is forgiven.
    let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    if bytes == b"\r" {
        return None;
    }
    let is_of_method = |b: &u8| b.is_ascii_uppercase() || matches!(b, b'-' | b'_');
    let Some(end) = bytes.iter().position(|b| !is_of_method(b)) else {
        return (bytes.len() > LONGEST_METHOD).then_some(false);
    };
    if end == 0 || end > LONGEST_METHOD || bytes[end] != b' ' {
        return Some(false);
    }
    bytes.get(end + 1).map(|first| matches!(first, b'/' | b'*' | b'h' | b'H'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Wanted = Wanted { proxy_header: false, client_hello: true, request: false };
    const HEADER: Wanted = Wanted { proxy_header: true, client_hello: false, request: false };
    const REQUEST: Wanted = Wanted { proxy_header: false, client_hello: false, request: true };
    const FROM: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 443\r\n";

    fn read(wanted: Wanted, bytes: &[u8]) -> Result<Option<Opening>, CloseReason> {
        Reader::new(wanted).feed(bytes)
    }

    #[test]
    fn tells_plaintext_and_keeps_its_bytes() {
        let opening = read(HELLO, b"GET / HTTP/1.1\r\n\r\n").unwrap().unwrap();
        assert_eq!(opening.greeting, Greeting::Plaintext);
        assert_eq!(opening.bytes, b"GET / HTTP/1.1\r\n\r\n");
    }

    #[test]
    fn tells_requests_from_everything_else_as_soon_as_it_can() {
        for (bytes, request) in [
            (&b"GET / HTTP/1.1\r\n"[..], Some(true)),
            (b"\r\nPOST /", Some(true)),
            (b"PRI * HTTP/2.0", Some(true)),
            (b"OPTIONS *", Some(true)),
            (b"GET http://a/", Some(true)),
            (b"GE", None),
            (b"GET ", None),
            (b"\r", None),
            (b"GET\r\n", Some(false)),
            (b"USER bob\r\n", Some(false)),
            (b"\x16\x03\x01", Some(false)),
            (b"get / HTTP/1.1", Some(false)),
            (b"*1\r\n$4\r\nPING", Some(false)),
            (b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", Some(false)),
        ] {
            let found = read(REQUEST, bytes).unwrap().map(|opening| {
                assert_eq!(opening.bytes, bytes);
                opening.greeting == Greeting::Request
            });
            assert_eq!(found, request, "{}", bytes.escape_ascii());
        }
        let mut reader = Reader::new(REQUEST);
        assert!(reader.feed(b"GE").unwrap().is_none());
        let silent = reader.give_up().unwrap();
        assert_eq!((silent.greeting, &silent.bytes[..]), (Greeting::NoRequest, &b"GE"[..]));
        assert!(Reader::new(HELLO).give_up().is_none());
    }

    #[test]
    fn takes_the_client_from_the_proxy_header() {
        let opening = read(HEADER, &[FROM, b"hello"].concat()).unwrap().unwrap();
        assert_eq!(opening.addresses.unwrap().0, "192.0.2.1:1000".parse().unwrap());
        assert_eq!(opening.bytes, b"hello");
        assert_eq!(read(HEADER, b"hello").unwrap_err(), CloseReason::InvalidProxyHeader);
    }

    #[test]
    fn an_early_end_is_the_client_leaving() {
        for start in [&b""[..], b"\x16\x03\x01"] {
            let mut reader = Reader::new(HELLO);
            if !start.is_empty() {
                assert!(reader.feed(start).unwrap().is_none());
            }
            assert_eq!(reader.feed(b"").unwrap_err(), CloseReason::ClientLeft);
        }
    }

    #[test]
    fn a_header_and_a_hello_in_pieces_of_any_size_are_the_same() {
        let all = [FROM, &causeway_ir::probe_hello::bytes(None)[..], b"more"].concat();
        let wanted = Wanted { proxy_header: true, client_hello: true, request: false };
        for size in [1, 2, 7, FROM.len(), FROM.len() + 1, all.len() - 4] {
            let mut reader = Reader::new(wanted);
            let mut pieces = all.chunks(size);
            let (mut fed, mut opening) = (0, None);
            while opening.is_none() {
                let piece = pieces.next().unwrap();
                fed += piece.len();
                opening = reader.feed(piece).unwrap();
            }
            let opening = opening.unwrap();
            assert!(opening.addresses.is_some());
            assert_eq!(opening.greeting, Greeting::Tls { server_name: None });
            assert_eq!(opening.bytes, all[FROM.len()..fed], "pieces of {size}");
        }
    }
}
