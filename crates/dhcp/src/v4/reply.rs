//! A reply, written into a buffer that is used again. Options that do not fit the client's largest message go into the
//! fields of old (option 52); a long one is sent in pieces (RFC 3396).

use std::net::Ipv4Addr;

use super::message::{COOKIE, HEAD, Kind, Message, code};

const REPLY: u8 = 2;
/// Clients of old drop what is shorter (RFC 1542).
const LEAST: usize = 300;
/// What a message has for options if its client does not say: 576 bytes with IP's and UDP's heads.
pub(crate) const USUAL_SIZE: usize = 548;
/// Kept for option 52 and the end's mark.
const KEPT: usize = 4;

/// A message to a client.
pub(crate) struct Reply<'b> {
    bytes: &'b mut Vec<u8>,
    most: usize,
    /// What did not fit, in the form that it is sent.
    over: Vec<u8>,
    has_file: bool,
}

impl<'b> Reply<'b> {
    /// Begins the answer to a message; `most` is the size that its client takes.
    pub(crate) fn begin(bytes: &'b mut Vec<u8>, asked: &Message<'_>, kind: Kind, most: usize) -> Self {
        bytes.clear();
        bytes.extend_from_slice(asked.head());
        bytes.resize(HEAD, 0);
        bytes[0] = REPLY;
        // Hops and seconds are the request's own; so are the addresses that are set below.
        for place in [3, 8, 9].into_iter().chain(12..24) {
            bytes[place] = 0;
        }
        bytes[236..].copy_from_slice(&COOKIE);
        let mut reply = Self { bytes, most, over: Vec::new(), has_file: false };
        reply.option(code::KIND, &[kind.number()]);
        reply
    }

    /// The address that the client said it has.
    pub(crate) fn client(&mut self, address: Ipv4Addr) {
        self.bytes[12..16].copy_from_slice(&address.octets());
    }

    /// The address that it gets.
    pub(crate) fn yours(&mut self, address: Ipv4Addr) {
        self.bytes[16..20].copy_from_slice(&address.octets());
    }

    /// What it boots from, and where that is.
    pub(crate) fn boot(&mut self, server: Ipv4Addr, file: &str) {
        self.bytes[20..24].copy_from_slice(&server.octets());
        // The last byte of the field ends the name.
        let length = file.len().min(127);
        self.bytes[108..108 + length].copy_from_slice(&file.as_bytes()[..length]);
        self.has_file = true;
    }

    /// Adds an option; false if there is no room for it any more.
    pub(crate) fn option(&mut self, code: u8, value: &[u8]) -> bool {
        let pieces = value.len().div_ceil(255).max(1);
        let length = value.len() + 2 * pieces;
        let into = if self.bytes.len() + length + KEPT <= self.most {
            &mut *self.bytes
        } else if self.over.len() + length < self.room_over() {
            &mut self.over
        } else {
            return false;
        };
        if value.is_empty() {
            into.extend_from_slice(&[code, 0]);
        }
        for piece in value.chunks(255) {
            into.extend_from_slice(&[code, piece.len() as u8]);
            into.extend_from_slice(piece);
        }
        true
    }

    /// The field that takes what does not fit: the file's, if there is none, or else the server's name.
    fn room_over(&self) -> usize {
        if self.has_file { 64 } else { 128 }
    }

    /// Ends the message.
    pub(crate) fn end(self) {
        let Self { bytes, mut over, has_file, .. } = self;
        if !over.is_empty() {
            over.push(code::END);
            let (field, start) = if has_file { (2, 44) } else { (1, 108) };
            bytes[start..start + over.len()].copy_from_slice(&over);
            bytes.extend_from_slice(&[code::OVERLOAD, 1, field]);
        }
        bytes.push(code::END);
        if bytes.len() < LEAST {
            bytes.resize(LEAST, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        bytes[..3].copy_from_slice(&[1, 1, 6]);
        bytes[4..8].copy_from_slice(b"xid!");
        bytes[28] = 2;
        bytes[236..].copy_from_slice(&COOKIE);
        bytes.extend_from_slice(&[53, 1, 1, 255]);
        bytes
    }

    #[test]
    fn a_reply_repeats_who_asked_and_is_not_too_short() {
        let asked = asked();
        let mut bytes = vec![9; 10];
        let message = Message::parse(&asked).unwrap();
        let mut reply = Reply::begin(&mut bytes, &message, Kind::Offer, USUAL_SIZE);
        reply.yours(Ipv4Addr::new(10, 0, 0, 7));
        reply.end();
        assert_eq!((bytes.len(), bytes[0], &bytes[4..8], bytes[28]), (LEAST, REPLY, &b"xid!"[..], 2));
        assert_eq!(bytes[16..20], [10, 0, 0, 7]);
        assert_eq!(bytes[HEAD..HEAD + 4], [53, 1, 2, 255]);
    }

    #[test]
    fn what_does_not_fit_goes_into_the_fields_of_old() {
        for boots in [false, true] {
            let asked = asked();
            let mut bytes = Vec::new();
            let message = Message::parse(&asked).unwrap();
            let mut reply = Reply::begin(&mut bytes, &message, Kind::Ack, USUAL_SIZE);
            if boots {
                reply.boot(Ipv4Addr::LOCALHOST, "image");
            }
            assert!(reply.option(200, &[1; 290]));
            assert!(reply.option(201, &[2; 40]));
            assert!(!reply.option(202, &[3; 200]));
            reply.end();
            assert!(bytes.len() <= USUAL_SIZE);
            bytes[0] = 1;
            let message = Message::parse(&bytes).unwrap();
            assert_eq!(message.option(200).unwrap().as_ref(), [1; 290]);
            assert_eq!(message.option(201).unwrap().as_ref(), [2; 40]);
            assert_eq!(message.option(202), None);
        }
    }
}
