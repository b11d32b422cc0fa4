//! Where a body ends, and reading it up to there.

use super::bytes::decimal;
use super::chunked::Decoder;
use super::fields::{Fields, Known};
use crate::http::fault::Fault;

/// How a body is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none.
    None,
    Length(u64),
    Chunked,
    /// It ends with the connection.
    UntilClose,
}

impl Framing {
    /// What the fields of a message say; `None` if nothing. One field says it, in one way, or the message is refused.
    pub(crate) fn of(fields: Fields<'_>) -> Result<Option<Self>, Fault> {
        let mut found = None;
        for (known, _, value) in fields.iter() {
            let framing = match known {
                Known::ContentLength => {
                    Framing::Length(decimal(value).ok_or(Fault::bad("Content-Length is not a number"))?)
                }
                Known::TransferEncoding if value.eq_ignore_ascii_case(b"chunked") => Framing::Chunked,
                Known::TransferEncoding => return Err(Fault::bad("Transfer-Encoding is not chunked alone")),
                _ => continue,
            };
            if found.replace(framing).is_some() {
                return Err(Fault::bad("the length of the body is told twice"));
            }
        }
        Ok(found)
    }
}

/// What is left of a body.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Length(u64),
    Chunked(Decoder),
    UntilClose,
}

impl Body {
    /// Keeps the trailers, for a reader who has a use for them.
    pub(crate) fn keep_trailers(&mut self) {
        if let Self::Chunked(decoder) = self {
            decoder.keep_trailers();
        }
    }

    /// The lines of the trailers, with the empty one at the end; nothing if there are none or they were not kept.
    pub(crate) fn trailers(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Chunked(decoder) => decoder.trailers(),
            _ => None,
        }
    }

    pub(crate) fn new(framing: Framing) -> Self {
        match framing {
            Framing::None => Self::Length(0),
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(Decoder::default()),
            Framing::UntilClose => Self::UntilClose,
        }
    }

    /// Whether nothing is left; a body that ends with its connection never says so.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(decoder) => decoder.is_done(),
            Self::UntilClose => false,
        }
    }

    /// Whether the end of the connection is its end.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self, Self::UntilClose)
    }

    /// Takes bytes up to the end of one run of data: how many they are, and the data among them.
    ///
    /// # Errors
    /// If the body is not what its framing says.
    pub(crate) fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<(usize, &'a [u8]), Fault> {
        match self {
            Self::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= length as u64;
                Ok((length, &bytes[..length]))
            }
            Self::Chunked(decoder) => decoder.take(bytes),
            Self::UntilClose => Ok((bytes.len(), bytes)),
        }
    }
}
