//! The language of a link, without IO: frames of eight bytes (stream, kind, length) and a payload. Data comes out of
//! the decoder in the pieces it arrives in; everything else is small and comes out whole.

/// The largest payload: with its header it fills four TLS records, and the largest UDP datagram fits.
pub(crate) const MAX_PAYLOAD: usize = (64 << 10) - HEADER;
/// The longest payload of every other kind.
pub(crate) const MAX_SMALL: usize = 512;
const HEADER: usize = 8;

/// What the other end sends against the rules; the link is closed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An unknown kind of frame.
    #[error("the other end sent a frame of unknown kind {0}")]
    Kind(u8),
    /// A frame longer than its kind may be.
    #[error("the other end sent a frame of {0} bytes, which is too long for its kind")]
    TooLong(usize),
    /// A payload that can't be read.
    #[error("the other end sent a frame that can't be read")]
    Malformed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Hello = 1,
    Open,
    Data,
    Fin,
    Reset,
    Credit,
    Ping,
    Pong,
    Leave,
    Close,
}

impl Kind {
    fn of(byte: u8) -> Result<Self, Error> {
        const ALL: [Kind; 10] = [
            Kind::Hello,
            Kind::Open,
            Kind::Data,
            Kind::Fin,
            Kind::Reset,
            Kind::Credit,
            Kind::Ping,
            Kind::Pong,
            Kind::Leave,
            Kind::Close,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte).ok_or(Error::Kind(byte))
    }
}

/// What a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Content {
    /// Bytes in order, with flow control.
    Bytes = 1,
    /// Datagrams: each arrives whole or not at all.
    Datagrams,
}

/// A frame, or a piece of one that carries data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// The first frame each way: the greeting of the end that dialled, and the answer.
    Hello { greeting: &'a [u8] },
    /// A new stream, and what it is for.
    Open { stream: u32, content: Content, request: &'a [u8] },
    /// Bytes; `last` ends the frame, and with it a datagram.
    Data { stream: u32, piece: &'a [u8], last: bool },
    /// No more bytes this way.
    Fin { stream: u32 },
    /// The stream is broken; the reason may be empty.
    Reset { stream: u32, reason: &'a str },
    /// So many more bytes may be sent.
    Credit { stream: u32, bytes: u32 },
    /// Are you there? The answer repeats the stamp.
    Ping { stamp: u64 },
    /// Yes.
    Pong { stamp: u64 },
    /// No new streams on this link, please.
    Leave,
    /// The link ends now, and why.
    Close { reason: &'a str },
}

impl Frame<'_> {
    /// Writes the frame; a piece of data is written as a whole frame.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello { greeting } => put(out, 0, Kind::Hello, &[greeting]),
            Self::Open { stream, content, request } => {
                put(out, *stream, Kind::Open, &[&[*content as u8], request]);
            }
            Self::Data { stream, piece, .. } => put(out, *stream, Kind::Data, &[piece]),
            Self::Fin { stream } => put(out, *stream, Kind::Fin, &[]),
            Self::Reset { stream, reason } => put(out, *stream, Kind::Reset, &[cut(reason)]),
            Self::Credit { stream, bytes } => put(out, *stream, Kind::Credit, &[&bytes.to_be_bytes()]),
            Self::Ping { stamp } => put(out, 0, Kind::Ping, &[&stamp.to_be_bytes()]),
            Self::Pong { stamp } => put(out, 0, Kind::Pong, &[&stamp.to_be_bytes()]),
            Self::Leave => put(out, 0, Kind::Leave, &[]),
            Self::Close { reason } => put(out, 0, Kind::Close, &[cut(reason)]),
        }
    }

    /// The first frame of `bytes` and how long it is, if it is whole; for the greeting, before anything else is said.
    pub(crate) fn first(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Error> {
        let Some(head) = Head::read(bytes)? else { return Ok(None) };
        let length = HEADER + head.length;
        let Some(payload) = bytes.get(HEADER..length) else { return Ok(None) };
        Ok(Some((head.small(payload)?, length)))
    }
}

/// A reason as long as a frame may be, cut between characters.
fn cut(reason: &str) -> &[u8] {
    &reason.as_bytes()[..reason.floor_char_boundary(MAX_SMALL)]
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
pub(crate) struct Decoder {
    /// A header, or a small frame, of which only a part has come.
    partial: Vec<u8>,
    /// The data frame under way and how much of it is still to come.
    data: Option<(u32, usize)>,
}

impl Decoder {
    /// Hands every frame in `bytes` to `each`, and keeps what is incomplete.
    pub(crate) fn feed<E: From<Error>>(
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
        let text = || str::from_utf8(payload).map_err(|_| Error::Malformed);
        let number = || payload.try_into().map(u64::from_be_bytes).map_err(|_| Error::Malformed);
        Ok(match self.kind {
            Kind::Hello => Frame::Hello { greeting: payload },
            Kind::Open => {
                let (content, request) = payload.split_first().ok_or(Error::Malformed)?;
                let content = [Content::Bytes, Content::Datagrams]
                    .into_iter()
                    .find(|known| *known as u8 == *content)
                    .ok_or(Error::Malformed)?;
                Frame::Open { stream, content, request }
            }
            Kind::Fin => Frame::Fin { stream },
            Kind::Reset => Frame::Reset { stream, reason: text()? },
            Kind::Credit => {
                let bytes = payload.try_into().map_err(|_| Error::Malformed)?;
                Frame::Credit { stream, bytes: u32::from_be_bytes(bytes) }
            }
            Kind::Ping => Frame::Ping { stamp: number()? },
            Kind::Pong => Frame::Pong { stamp: number()? },
            Kind::Leave => Frame::Leave,
            Kind::Close => Frame::Close { reason: text()? },
            Kind::Data => return Err(Error::Malformed),
        })
    }
}

#[cfg(test)]
mod tests;
