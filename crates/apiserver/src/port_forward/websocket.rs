//! The frames of WebSocket (RFC 6455) as a server meets them. A message is handed on piece by piece as it comes, so none has
//! to fit into memory. No IO.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::Violation;

/// What a server adds to the key of a client to show that it understood.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
/// Of a frame that says something about the connection.
const MOST_CONTROL: u64 = 125;

/// What came from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// A piece of a message; `first` when a message begins with it. It may be empty.
    Piece {
        bytes: Bytes,
        first: bool,
    },
    /// To be answered with the same bytes.
    Ping(Bytes),
    Pong,
    /// Nothing more will come.
    Close,
}

/// Reads frames; the bytes stay with the caller.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Further frames belong to a message that has begun.
    in_message: bool,
    frame: Option<Frame>,
}

/// A data frame whose payload is not all here.
#[derive(Debug)]
struct Frame {
    left: u64,
    mask: [u8; 4],
    first: bool,
}

impl Decoder {
    /// The next event, if `input` has all of it; what was read is taken away from `input`.
    ///
    /// # Errors
    /// When the client breaks the rules; nothing after that means anything.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Event>, Violation> {
        if self.frame.is_none() {
            let Some(head) = Head::read(input)? else { return Ok(None) };
            if head.opcode >= CLOSE {
                return Self::control(&head, input);
            }
            self.begin(&head)?;
            input.advance(head.length);
        }
        let Some(frame) = &mut self.frame else { return Ok(None) };
        if input.is_empty() && frame.left > 0 {
            return Ok(None);
        }
        let length = usize::try_from(frame.left).map_or(input.len(), |left| left.min(input.len()));
        let mut bytes = input.split_to(length);
        unmask(&mut bytes, frame.mask);
        frame.mask.rotate_left(length % 4);
        frame.left -= length as u64;
        let first = std::mem::take(&mut frame.first);
        if frame.left == 0 {
            self.frame = None;
        }
        Ok(Some(Event::Piece { bytes: bytes.freeze(), first }))
    }

    fn begin(&mut self, head: &Head) -> Result<(), Violation> {
        let first = match head.opcode {
            TEXT | BINARY if self.in_message => {
                return Err(Violation("a message begins inside of another one"));
            }
            TEXT | BINARY => true,
            CONTINUATION if !self.in_message => {
                return Err(Violation("a message goes on that never began"));
            }
            CONTINUATION => false,
            _ => return Err(Violation("a frame of an unknown kind")),
        };
        self.in_message = !head.fin;
        self.frame = Some(Frame { left: head.payload, mask: head.mask, first });
        Ok(())
    }

    fn control(head: &Head, input: &mut BytesMut) -> Result<Option<Event>, Violation> {
        if !head.fin || head.payload > MOST_CONTROL {
            return Err(Violation("a control frame is too long or in parts"));
        }
        let payload = head.payload as usize;
        if input.len() < head.length + payload {
            return Ok(None);
        }
        input.advance(head.length);
        let mut bytes = input.split_to(payload);
        unmask(&mut bytes, head.mask);
        match head.opcode {
            CLOSE => Ok(Some(Event::Close)),
            PING => Ok(Some(Event::Ping(bytes.freeze()))),
            PONG => Ok(Some(Event::Pong)),
            _ => Err(Violation("a frame of an unknown kind")),
        }
    }
}

/// What a frame begins with.
struct Head {
    fin: bool,
    opcode: u8,
    payload: u64,
    mask: [u8; 4],
    /// Of the head itself.
    length: usize,
}

impl Head {
    /// Looks without taking anything; nothing while it is not all there.
    fn read(input: &[u8]) -> Result<Option<Self>, Violation> {
        let mut rest = input;
        let Ok(first) = rest.try_get_u8() else { return Ok(None) };
        let Ok(second) = rest.try_get_u8() else { return Ok(None) };
        if first & RESERVED != 0 {
            return Err(Violation("a frame uses an extension that nobody agreed to"));
        }
        if second & MASKED == 0 {
            return Err(Violation("a client's frame is not masked"));
        }
        let payload = match second & !MASKED {
            126 => rest.try_get_u16().map(u64::from),
            127 => rest.try_get_u64(),
            short => Ok(u64::from(short)),
        };
        let Ok(payload) = payload else { return Ok(None) };
        if payload > u64::MAX >> 1 {
            return Err(Violation("a frame says that it is longer than it can be"));
        }
        let Ok(mask) = rest.try_get_u32() else { return Ok(None) };
        Ok(Some(Self {
            fin: first & FIN != 0,
            opcode: first & 0x0f,
            payload,
            mask: mask.to_be_bytes(),
            length: input.len() - rest.len(),
        }))
    }
}

fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        if let Ok(word) = <[u8; 8]>::try_from(&*chunk) {
            chunk.copy_from_slice(&(u64::from_ne_bytes(word) ^ wide).to_ne_bytes());
        }
    }
    for (byte, key) in chunks.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

/// The head of a binary message of this many bytes.
pub(super) fn message_head(length: usize, out: &mut BytesMut) {
    head(BINARY, length, out);
}

pub(super) fn ping(out: &mut BytesMut) {
    head(PING, 0, out);
}

pub(super) fn pong(payload: &[u8], out: &mut BytesMut) {
    head(PONG, payload.len(), out);
    out.put_slice(payload);
}

pub(super) fn close(code: u16, out: &mut BytesMut) {
    head(CLOSE, 2, out);
    out.put_u16(code);
}

fn head(opcode: u8, length: usize, out: &mut BytesMut) {
    out.put_u8(FIN | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => out.put_u8(short),
        (_, Ok(middling)) => {
            out.put_u8(126);
            out.put_u16(middling);
        }
        _ => {
            out.put_u8(127);
            out.put_u64(length as u64);
        }
    }
}

/// What `Sec-WebSocket-Accept` says to a client's `Sec-WebSocket-Key`.
pub(super) fn accept_key(key: &str) -> String {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{KEY_SUFFIX}").as_bytes());
    BASE64_STANDARD.encode(hash)
}

#[cfg(test)]
mod tests;
