//! What WebSocket says in its handshake over HTTP/1.1 and not over HTTP/2: a key, and proof that the server understood.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway_base::random;

const KEY: &[u8] = b"sec-websocket-key";
const ACCEPT: &[u8] = b"sec-websocket-accept";

/// Whether a field is only for the handshake over HTTP/1.1.
pub(crate) fn is_of_handshake(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(KEY) || name.eq_ignore_ascii_case(ACCEPT)
}

/// Writes the line with a key of our own.
pub(crate) fn write_key(out: &mut Vec<u8>) {
    let random = [random::number(), random::number()].map(u64::to_be_bytes).concat();
    line(out, KEY, STANDARD.encode(random).as_bytes());
}

/// Writes the line that proves to a client that its key, in the head of its request, was seen.
pub(crate) fn write_accept(out: &mut Vec<u8>, request: &[u8]) {
    const APPENDED: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let lines = request.split(|b| *b == b'\n');
    let key = lines.filter_map(|line| {
        let (name, value) = line.split_at_checked(KEY.len())?;
        name.eq_ignore_ascii_case(KEY).then_some(value.strip_prefix(b":")?.trim_ascii())
    });
    for key in key.take(1) {
        let proof = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, APPENDED].concat());
        line(out, ACCEPT, STANDARD.encode(proof).as_bytes());
    }
}

fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455.
    #[test]
    fn a_key_is_accepted_as_the_protocol_says() {
        let mut out = Vec::new();
        write_accept(&mut out, b"GET / HTTP/1.1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
        assert_eq!(out, b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
        out.clear();
        write_accept(&mut out, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(out, b"");
    }

    #[test]
    fn keys_have_sixteen_bytes_and_differ() {
        let key = || {
            let mut out = Vec::new();
            write_key(&mut out);
            out
        };
        assert_eq!(key().len(), "sec-websocket-key: \r\n".len() + 24);
        assert_ne!(key(), key());
    }
}
