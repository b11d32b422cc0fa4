//! Reads the server name out of a TLS ClientHello, without IO and without copying.
//! The hello may be cut into records and segments anywhere; an answer comes with the first byte that settles
//! it and never changes as more bytes arrive. Only what routing needs is judged: versions, ciphers and unknown
//! extensions (GREASE, ECH) pass unread, and with ECH the outer name is the one that counts.

mod body;
mod fragments;
mod name;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use fragments::Fragments;

/// The longest ClientHello message that is read, its four-byte header included.
pub const LIMIT: usize = 64 << 10;

/// The most bytes from the wire, record headers included, in which a ClientHello must end: a buffer never
/// needs to hold more, and a hello cut into needlessly small records is refused.
pub const WIRE_LIMIT: usize = LIMIT + (LIMIT >> 4);

/// RFC 5246 and RFC 8446 forbid empty handshake records; like OpenSSL we forgive a few, not a flood.
const EMPTY_RECORDS: usize = 32;

const RECORD_HEADER: usize = 5;
const RECORD_PAYLOAD: usize = 1 << 14;
const HANDSHAKE_RECORD: u8 = 22;
const HANDSHAKE_HEADER: usize = 4;
const CLIENT_HELLO: u8 = 1;

/// What the first bytes of a connection turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// So far it is the beginning of a ClientHello.
    NeedMore,
    /// Another protocol: plain text, SSLv2 or anything that does not open with a TLS handshake record.
    NotTls,
    /// A whole ClientHello.
    Hello(Hello),
    /// TLS, but not a ClientHello that a server may accept; the text says what is wrong.
    Invalid(&'static str),
}

/// The parts of a ClientHello that decide a route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hello {
    /// The name asked for: lower case, no trailing dot. Absent if the client sent none or an IP literal.
    pub server_name: Option<Arc<str>>,
}

/// Reads `bytes`, everything received so far, from the start.
pub fn parse(bytes: &[u8]) -> Parsed {
    Parser::default().parse(bytes)
}

/// A parser that remembers the records it has seen, so that a hello that trickles in costs linear time.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    /// Where the first record begins that was not whole in the last call.
    next: usize,
    /// Handshake bytes in the records before `next`.
    gathered: usize,
    /// Length of the whole handshake message, once its header is known.
    message: Option<usize>,
    empty_records: usize,
}

impl Parser {
    /// Reads `bytes`: everything received so far, the bytes of the earlier calls still at the front.
    pub fn parse(&mut self, bytes: &[u8]) -> Parsed {
        let bytes = &bytes[..bytes.len().min(WIRE_LIMIT)];
        match self.advance(bytes) {
            Parsed::NeedMore if bytes.len() == WIRE_LIMIT => {
                Parsed::Invalid("the ClientHello is spread over too many records")
            }
            parsed => parsed,
        }
    }

    fn advance(&mut self, bytes: &[u8]) -> Parsed {
        loop {
            let record = bytes.get(self.next..).unwrap_or_default();
            // The fixed bytes are judged one by one: a peer that waits for our side to speak must not hang.
            match record {
                [kind, ..] if *kind != HANDSHAKE_RECORD => {
                    return self.foreign("the ClientHello is interrupted by a record of another type");
                }
                [_, major, ..] if *major != 3 => {
                    return self.foreign("the ClientHello is interrupted by bytes that are not a TLS record");
                }
                _ => {}
            }
            let Some((header, payload)) = record.split_first_chunk::<RECORD_HEADER>() else {
                return Parsed::NeedMore;
            };
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            if length > RECORD_PAYLOAD {
                return Parsed::Invalid("a TLS record is longer than 16384 bytes");
            }
            if length == 0 {
                self.empty_records += 1;
                if self.empty_records > EMPTY_RECORDS {
                    return Parsed::Invalid("too many empty TLS records");
                }
            }

            let here = payload.len().min(length);
            let available = self.gathered + here;
            if let Err(reason) = self.read_message_header(bytes, available) {
                return Parsed::Invalid(reason);
            }
            if let Some(message) = self.message
                && available >= message
            {
                return match body::read(Fragments::new(bytes, message)) {
                    Ok(hello) => Parsed::Hello(hello),
                    Err(reason) => Parsed::Invalid(reason),
                };
            }
            if here < length {
                return Parsed::NeedMore;
            }
            self.gathered = available;
            self.next += RECORD_HEADER + length;
        }
    }

    /// Bytes that no ClientHello has: another protocol at the very start, a fault later on.
    fn foreign(&self, reason: &'static str) -> Parsed {
        if self.next == 0 { Parsed::NotTls } else { Parsed::Invalid(reason) }
    }

    fn read_message_header(&mut self, bytes: &[u8], available: usize) -> Result<(), &'static str> {
        if self.message.is_some() || available == 0 {
            return Ok(());
        }
        let mut message = Fragments::new(bytes, available);
        if message.u8() != Some(CLIENT_HELLO) {
            return Err("the first TLS message is not a ClientHello");
        }
        let Some(length) = message.u24() else { return Ok(()) };
        if HANDSHAKE_HEADER + length > LIMIT {
            return Err("the ClientHello is longer than 64 KiB");
        }
        self.message = Some(HANDSHAKE_HEADER + length);
        Ok(())
    }
}

/// The record that ends a connection whose server name is not known here: alert, fatal, unrecognized_name.
pub fn alert_unrecognized_name() -> [u8; 7] {
    [21, 3, 3, 0, 2, 2, 112]
}
