//! The language of a data link, without IO: frames of eight bytes (stream, kind, length) and a payload. Data comes
//! out of the decoder in the pieces it arrives in; everything else is small and comes out whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::tunnel::TunnelId;

/// The largest payload: the largest datagram fits.
pub const MAX_PAYLOAD: usize = 64 << 10;
const HEADER: usize = 8;
/// Nothing but data may be longer.
const MAX_SMALL: usize = 512;

/// What the other end says that breaks the rules; the link is closed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An unknown kind of frame.
    #[error("the other end sent a frame of unknown kind {0}: are both ends of the same version?")]
    Kind(u8),
    /// A frame longer than its kind may be.
    #[error("the other end sent a frame of {0} bytes, which is too long for its kind")]
    TooLong(usize),
    /// A payload that makes no sense.
    #[error("the other end sent a frame that makes no sense")]
    Malformed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Hello = 1,
    Open,
    Accept,
    Refuse,
    Data,
    Fin,
    Reset,
    Credit,
    Ping,
    Pong,
    Leave,
}

impl Kind {
    fn of(byte: u8) -> Result<Self, Error> {
        const ALL: [Kind; 11] = [
            Kind::Hello,
            Kind::Open,
            Kind::Accept,
            Kind::Refuse,
            Kind::Data,
            Kind::Fin,
            Kind::Reset,
            Kind::Credit,
            Kind::Ping,
            Kind::Pong,
            Kind::Leave,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte).ok_or(Error::Kind(byte))
    }
}

/// A frame, or a piece of one that carries data.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The first frame on a link: the session that it belongs to.
    Hello { session: &'a [u8] },
    /// The container has a client for a tunnel.
    Open { stream: u32, tunnel: TunnelId, source: SocketAddr },
    /// The host is connected.
    Accept { stream: u32 },
    /// The host is not, and why.
    Refuse { stream: u32, reason: &'a str },
    /// Bytes; `last` ends the frame, and with it a datagram.
    Data { stream: u32, piece: &'a [u8], last: bool },
    /// No more bytes this way.
    Fin { stream: u32 },
    /// The stream is broken.
    Reset { stream: u32 },
    /// So many more bytes may be sent.
    Credit { stream: u32, bytes: u32 },
    /// Are you there?
    Ping,
    /// Yes.
    Pong,
    /// No new streams on this link, please.
    Leave,
}

impl Frame<'_> {
    /// Writes the frame; a piece of data is written as a whole frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello { session } => put(out, 0, Kind::Hello, &[session]),
            Self::Open { stream, tunnel, source } => {
                let port = source.port().to_be_bytes();
                let tunnel = tunnel.to_be_bytes();
                match source.ip() {
                    IpAddr::V4(ip) => put(out, *stream, Kind::Open, &[&tunnel, &port, &ip.octets()]),
                    IpAddr::V6(ip) => put(out, *stream, Kind::Open, &[&tunnel, &port, &ip.octets()]),
                }
            }
            Self::Accept { stream } => put(out, *stream, Kind::Accept, &[]),
            Self::Refuse { stream, reason } => {
                let end = reason.floor_char_boundary(MAX_SMALL);
                put(out, *stream, Kind::Refuse, &[&reason.as_bytes()[..end]]);
            }
            Self::Data { stream, piece, .. } => put(out, *stream, Kind::Data, &[piece]),
            Self::Fin { stream } => put(out, *stream, Kind::Fin, &[]),
            Self::Reset { stream } => put(out, *stream, Kind::Reset, &[]),
            Self::Credit { stream, bytes } => put(out, *stream, Kind::Credit, &[&bytes.to_be_bytes()]),
            Self::Ping => put(out, 0, Kind::Ping, &[]),
            Self::Pong => put(out, 0, Kind::Pong, &[]),
            Self::Leave => put(out, 0, Kind::Leave, &[]),
        }
    }
}

fn put(out: &mut Vec<u8>, stream: u32, kind: Kind, payload: &[&[u8]]) {
    let length: usize = payload.iter().map(|part| part.len()).sum();
    debug_assert!(length <= MAX_PAYLOAD, "the caller cuts data into frames");
    out.extend_from_slice(&stream.to_be_bytes());
    let head = (u32::from(kind as u8) << 24) | length as u32;
    out.extend_from_slice(&head.to_be_bytes());
    for part in payload {
        out.extend_from_slice(part);
    }
}

/// Reads frames from bytes in any fragmentation.
#[derive(Debug, Default)]
pub struct Decoder {
    /// A header, or a small frame, of which only a part has come.
    partial: Vec<u8>,
    /// The data frame under way and how much of it is still to come.
    data: Option<(u32, usize)>,
}

impl Decoder {
    /// Hands every frame in `bytes` to `each`, and keeps what is incomplete.
    pub fn feed<E: From<Error>>(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            if let Some((stream, left)) = self.data {
                let (piece, rest) = bytes.split_at(left.min(bytes.len()));
                bytes = rest;
                let left = left - piece.len();
                self.data = (left > 0).then_some((stream, left));
                each(Frame::Data { stream, piece, last: left == 0 })?;
            } else if self.partial.is_empty() {
                // The common case: the frame is here, whole or at least its head, and nothing has to be copied.
                match Head::read(bytes)? {
                    Some(head) if head.kind == Kind::Data => {
                        bytes = &bytes[HEADER..];
                        self.begin(&head, &mut each)?;
                    }
                    Some(head) if bytes.len() >= HEADER + head.length => {
                        each(head.small(&bytes[HEADER..HEADER + head.length])?)?;
                        bytes = &bytes[HEADER + head.length..];
                    }
                    _ => {
                        self.partial.extend_from_slice(bytes);
                        return Ok(());
                    }
                }
            } else {
                let wanted = match Head::read(&self.partial)? {
                    None => HEADER,
                    Some(head) if head.kind == Kind::Data => HEADER,
                    Some(head) => HEADER + head.length,
                };
                let (more, rest) = bytes.split_at((wanted - self.partial.len()).min(bytes.len()));
                self.partial.extend_from_slice(more);
                bytes = rest;
                let Some(head) = Head::read(&self.partial)? else { continue };
                if head.kind == Kind::Data {
                    self.partial.clear();
                    self.begin(&head, &mut each)?;
                } else if self.partial.len() == HEADER + head.length {
                    let whole = std::mem::take(&mut self.partial);
                    each(head.small(&whole[HEADER..])?)?;
                }
            }
        }
        Ok(())
    }

    fn begin<E: From<Error>>(
        &mut self,
        head: &Head,
        each: &mut impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if head.length == 0 {
            // An empty datagram is a datagram.
            return each(Frame::Data { stream: head.stream, piece: &[], last: true });
        }
        self.data = Some((head.stream, head.length));
        Ok(())
    }
}

struct Head {
    stream: u32,
    kind: Kind,
    length: usize,
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Option<Self>, Error> {
        let Some((stream, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let Some((kind, length)) = rest.first_chunk::<4>().and_then(|word| word.split_first()) else {
            return Ok(None);
        };
        let kind = Kind::of(*kind)?;
        let length = length.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
        let limit = if kind == Kind::Data { MAX_PAYLOAD } else { MAX_SMALL };
        if length > limit {
            return Err(Error::TooLong(length));
        }
        Ok(Some(Self { stream: u32::from_be_bytes(*stream), kind, length }))
    }

    /// The meaning of everything but data.
    fn small<'a>(&self, payload: &'a [u8]) -> Result<Frame<'a>, Error> {
        let stream = self.stream;
        Ok(match self.kind {
            Kind::Hello => Frame::Hello { session: payload },
            Kind::Open => {
                let (tunnel, rest) = payload.split_first_chunk::<4>().ok_or(Error::Malformed)?;
                let (port, ip) = rest.split_first_chunk::<2>().ok_or(Error::Malformed)?;
                let ip: IpAddr = if let Ok(octets) = <[u8; 4]>::try_from(ip) {
                    Ipv4Addr::from(octets).into()
                } else {
                    Ipv6Addr::from(<[u8; 16]>::try_from(ip).map_err(|_| Error::Malformed)?).into()
                };
                let source = SocketAddr::new(ip, u16::from_be_bytes(*port));
                Frame::Open { stream, tunnel: u32::from_be_bytes(*tunnel), source }
            }
            Kind::Accept => Frame::Accept { stream },
            Kind::Refuse => {
                Frame::Refuse { stream, reason: str::from_utf8(payload).map_err(|_| Error::Malformed)? }
            }
            Kind::Fin => Frame::Fin { stream },
            Kind::Reset => Frame::Reset { stream },
            Kind::Credit => {
                let bytes = payload.try_into().map_err(|_| Error::Malformed)?;
                Frame::Credit { stream, bytes: u32::from_be_bytes(bytes) }
            }
            Kind::Ping => Frame::Ping,
            Kind::Pong => Frame::Pong,
            Kind::Leave => Frame::Leave,
            Kind::Data => return Err(Error::Malformed),
        })
    }
}

#[cfg(test)]
mod tests;
