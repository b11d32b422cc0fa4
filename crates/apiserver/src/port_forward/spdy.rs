//! The frames of SPDY/3.1 as a server meets them, as far as `kubectl port-forward` needs them: streams that the client opens,
//! data, ends and pings. Nobody there heeds windows, so there are none here. No IO.

mod header_block;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::Violation;
use header_block::Decompressor;
pub(super) use header_block::{Compressor, Headers};

const CONTROL: u32 = 0x8000_0000;
/// The version in frames; 3.1 differs from 3 in windows alone.
const VERSION: u32 = 3;
const HEAD: usize = 8;
/// A control frame that is longer is not for forwarding ports.
const MOST_CONTROL: usize = 16 * 1024;

const SYN_STREAM: u32 = 1;
const SYN_REPLY: u32 = 2;
const RST_STREAM: u32 = 3;
const PING: u32 = 6;
const GOAWAY: u32 = 7;
const HEADERS: u32 = 8;
const FIN: u8 = 0x01;

/// Why a stream is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    ProtocolError = 1,
    RefusedStream = 3,
    Cancel = 5,
}

/// What came from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Open {
        id: u32,
        headers: Headers,
        /// The client says nothing on it.
        fin: bool,
    },
    /// A piece of what is said on a stream; it may be empty.
    Data {
        id: u32,
        bytes: Bytes,
        fin: bool,
    },
    Reset {
        id: u32,
    },
    /// To be answered with the same.
    Ping {
        id: u32,
    },
    /// Something that needs no answer.
    Other,
}

/// Reads frames; the bytes stay with the caller.
#[derive(Default)]
pub(super) struct Decoder {
    headers: Decompressor,
    data: Option<DataFrame>,
}

/// A data frame that is not all here.
struct DataFrame {
    id: u32,
    fin: bool,
    left: usize,
}

impl Decoder {
    /// The next event, if `input` has all of it; what was read is taken away from `input`.
    ///
    /// # Errors
    /// When the client breaks the rules; nothing after that means anything.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Event>, Violation> {
        if self.data.is_none() {
            let mut head = &input[..];
            let (Ok(first), Ok(second)) = (head.try_get_u32(), head.try_get_u32()) else { return Ok(None) };
            let (flags, length) = ((second >> 24) as u8, (second & 0x00ff_ffff) as usize);
            if first & CONTROL != 0 {
                return self.control(first, flags, length, input);
            }
            if first == 0 {
                return Err(Violation("data of no stream"));
            }
            input.advance(HEAD);
            self.data = Some(DataFrame { id: first, fin: flags & FIN != 0, left: length });
        }
        let Some(data) = &mut self.data else { return Ok(None) };
        if input.is_empty() && data.left > 0 {
            return Ok(None);
        }
        let length = data.left.min(input.len());
        data.left -= length;
        let (id, fin) = (data.id, data.fin && data.left == 0);
        if data.left == 0 {
            self.data = None;
        }
        Ok(Some(Event::Data { id, bytes: input.split_to(length).freeze(), fin }))
    }

    fn control(
        &mut self,
        first: u32,
        flags: u8,
        length: usize,
        input: &mut BytesMut,
    ) -> Result<Option<Event>, Violation> {
        if (first & !CONTROL) >> 16 != VERSION {
            return Err(Violation("a frame of another version than SPDY/3"));
        }
        if length > MOST_CONTROL {
            return Err(Violation("a control frame is too long"));
        }
        if input.len() < HEAD + length {
            return Ok(None);
        }
        input.advance(HEAD);
        let mut body = input.split_to(length).freeze();
        let short = Violation("a control frame is too short");
        let mut number = || body.try_get_u32().map_err(|_| short);
        let event = match first & 0xffff {
            SYN_STREAM => {
                let (id, _associated) = (number()?, number()?);
                // Priority and slot.
                body.try_get_u16().map_err(|_| short)?;
                let headers = self.headers.read(&body)?;
                Event::Open { id, headers, fin: flags & FIN != 0 }
            }
            // All headers go through one stream of compression, also those that nobody needs.
            SYN_REPLY | HEADERS => {
                number()?;
                self.headers.read(&body)?;
                Event::Other
            }
            RST_STREAM => Event::Reset { id: number()? },
            PING => Event::Ping { id: number()? },
            _ => Event::Other,
        };
        Ok(Some(event))
    }
}

/// The head of a data frame.
pub(super) fn data_head(id: u32, length: usize, fin: bool) -> [u8; HEAD] {
    let flags = if fin { u32::from(FIN) << 24 } else { 0 };
    pair(id, flags | (length as u32 & 0x00ff_ffff))
}

/// A stream is accepted.
pub(super) fn reply(id: u32, headers: &[u8]) -> Bytes {
    let mut body = BytesMut::with_capacity(4 + headers.len());
    body.put_u32(id);
    body.put_slice(headers);
    control(SYN_REPLY, &body)
}

pub(super) fn reset(id: u32, status: Status) -> Bytes {
    control(RST_STREAM, &pair(id, status as u32))
}

pub(super) fn ping(id: u32) -> Bytes {
    control(PING, &id.to_be_bytes())
}

/// The session is over; `last` was the last stream that was accepted.
pub(super) fn go_away(last: u32) -> Bytes {
    control(GOAWAY, &pair(last, 0))
}

fn control(kind: u32, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEAD + body.len());
    frame.put_slice(&pair(CONTROL | VERSION << 16 | kind, body.len() as u32));
    frame.put_slice(body);
    frame.freeze()
}

fn pair(first: u32, second: u32) -> [u8; HEAD] {
    ((u64::from(first) << 32) | u64::from(second)).to_be_bytes()
}

#[cfg(test)]
mod tests;
