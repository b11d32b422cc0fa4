//! What a relay says of the client that it speaks for, and what it gets back.

use std::net::Ipv4Addr;

use crate::v4::message::{Message, code};

/// Parts of option 82.
const LINK_SELECTION: u8 = 5;
const SERVER_OVERRIDE: u8 = 11;
/// Messages that went through more relays go in circles.
const MOST_HOPS: u8 = 16;

/// What a relay says.
#[derive(Default)]
pub(super) struct Relayed {
    /// An address in the client's network.
    pub network: Option<Ipv4Addr>,
    /// The address that the relay poses as a server with (RFC 5107).
    pub server: Option<Ipv4Addr>,
}

impl Relayed {
    /// The client's network is the one that the relay selects (RFC 3527), the one that it or the client names
    /// (RFC 3011), or that of the relay's own address.
    pub(super) fn of(message: &Message<'_>, options: Option<&[u8]>) -> Self {
        let relay = message.relay().filter(|_| message.hops() <= MOST_HOPS);
        // Only a relay may say what a relay says.
        let options = options.filter(|_| relay.is_some()).unwrap_or_default();
        let named = message.address(code::SUBNET);
        Self {
            network: part(options, LINK_SELECTION).or(named).or(relay),
            server: part(options, SERVER_OVERRIDE),
        }
    }
}

fn part(mut options: &[u8], wanted: u8) -> Option<Ipv4Addr> {
    while let [code, length, rest @ ..] = options {
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        if *code == wanted {
            return Some(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?));
        }
        options = rest;
    }
    None
}

/// Puts a relay's options at the end of a reply, where RFC 3046 wants them.
pub(super) fn echo(reply: &mut Vec<u8>, options: &[u8]) {
    let end = reply.iter().rposition(|byte| *byte == code::END).unwrap_or(reply.len());
    reply.truncate(end);
    for piece in options.chunks(255) {
        reply.extend_from_slice(&[code::RELAY, piece.len() as u8]);
        reply.extend_from_slice(piece);
    }
    reply.push(code::END);
    if reply.len() < 300 {
        reply.resize(300, 0);
    }
}
