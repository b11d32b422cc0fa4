//! Bodies in chunks. Extensions are read with care and go no further; so do trailers, unless they are asked for.

use super::bytes::{is_token, is_value};
use crate::http::fault::Fault;

/// Bytes of extensions and trailers in one body.
const EXTRAS: u32 = 8 << 10;
/// Digits of a chunk's size.
const DIGITS: u8 = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Size {
        digits: u8,
    },
    Extension,
    /// After the CR of the size's line.
    SizeEnd,
    Data,
    /// After the last byte of a chunk.
    DataCr,
    DataLf,
    Trailer,
    TrailerName,
    TrailerValue,
    TrailerEnd,
    /// After the CR of the empty line.
    LastLf,
    Done,
}

/// Reads chunks piece by piece.
#[derive(Debug, Clone)]
pub(crate) struct Decoder {
    state: State,
    /// Of the chunk, what is left.
    left: u64,
    extras: u32,
    trailers: Option<Vec<u8>>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { state: State::Size { digits: 0 }, left: 0, extras: 0, trailers: None }
    }
}

impl Decoder {
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    pub(super) fn keep_trailers(&mut self) {
        self.trailers = Some(Vec::new());
    }

    pub(super) fn trailers(&mut self) -> Option<Vec<u8>> {
        self.trailers.take().filter(|lines| lines.len() > 2)
    }

    /// Takes bytes up to the end of one run of data: how many they are, and the data among them, which are the last.
    /// Nothing is taken of what follows the body.
    ///
    /// # Errors
    /// If these are no proper chunks.
    pub(crate) fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<(usize, &'a [u8]), Fault> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.state == State::Data {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.left -= length as u64;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                return Ok((at + length, &bytes[at..at + length]));
            }
            if self.state == State::Done {
                return Ok((at, &[]));
            }
            self.step(*byte)?;
        }
        Ok((bytes.len(), &[]))
    }

    /// One byte that is not data.
    fn step(&mut self, byte: u8) -> Result<(), Fault> {
        const BAD: Fault = Fault::bad("a chunk is not framed as it should be");
        let after_data = !matches!(
            self.state,
            State::Size { .. } | State::Extension | State::SizeEnd | State::DataCr | State::DataLf
        );
        if after_data && let Some(trailers) = &mut self.trailers {
            trailers.push(byte);
        }
        self.state = match (self.state, byte) {
            (State::Size { digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if digits < DIGITS => {
                let digit = (byte as char).to_digit(16).ok_or(BAD)?;
                self.left = self.left * 16 + u64::from(digit);
                State::Size { digits: digits + 1 }
            }
            (State::Size { digits: 1.. } | State::Extension, b'\r') => State::SizeEnd,
            (State::Size { digits: 1.. }, b';') => State::Extension,
            (State::Extension, byte) if is_value(byte) => self.extra(State::Extension)?,
            (State::SizeEnd, b'\n') if self.left == 0 => State::Trailer,
            (State::SizeEnd, b'\n') => State::Data,
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size { digits: 0 },
            (State::Trailer, b'\r') => State::LastLf,
            (State::Trailer | State::TrailerName, byte) if is_token(byte) => {
                self.extra(State::TrailerName)?
            }
            (State::TrailerName, b':') => State::TrailerValue,
            (State::TrailerValue, b'\r') => State::TrailerEnd,
            (State::TrailerValue, byte) if is_value(byte) => self.extra(State::TrailerValue)?,
            (State::TrailerEnd, b'\n') => State::Trailer,
            (State::LastLf, b'\n') => State::Done,
            _ => return Err(BAD),
        };
        Ok(())
    }

    fn extra(&mut self, state: State) -> Result<State, Fault> {
        self.extras += 1;
        if self.extras > EXTRAS {
            return Err(Fault::bad("chunk extensions and trailers are too long"));
        }
        Ok(state)
    }
}

/// Writes the line before a chunk, whose data and CRLF follow.
pub(crate) fn write_size(out: &mut Vec<u8>, length: usize) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        out.push(HEX[length >> (digit * 4) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}

/// What ends a body in chunks.
pub(crate) const LAST: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// The data, and how many bytes the body took.
    fn read(bytes: &[u8], piece: usize) -> Result<Option<(Vec<u8>, usize)>, Fault> {
        let mut decoder = Decoder::default();
        let (mut data, mut taken) = (Vec::new(), 0);
        for end in (0..bytes.len()).step_by(piece).map(|start| (start + piece).min(bytes.len())) {
            while taken < end && !decoder.is_done() {
                let (count, some) = decoder.take(&bytes[taken..end])?;
                data.extend_from_slice(some);
                taken += count;
            }
        }
        Ok(decoder.is_done().then_some((data, taken)))
    }

    #[test]
    fn data_in_pieces_of_any_size_are_the_same() {
        let body = b"5\r\nhello\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\nChecksum: 1\r\n\r\nGET / next";
        for piece in 1..body.len() {
            let (data, taken) = read(body, piece).unwrap().unwrap();
            assert_eq!(data, b"hello0123456789", "pieces of {piece}");
            assert_eq!(&body[taken..], b"GET / next", "pieces of {piece}");
        }
        assert_eq!(read(b"0\r\n\r", 1).unwrap(), None);
    }

    #[test]
    fn trailers_are_kept_for_who_asks() {
        for (body, expected) in [
            (&b"1\r\nx\r\n0\r\na: b\r\nc: d\r\n\r\n"[..], Some(&b"a: b\r\nc: d\r\n\r\n"[..])),
            (b"1\r\nx\r\n0\r\n\r\n", None),
        ] {
            let mut decoder = Decoder::default();
            decoder.keep_trailers();
            let mut taken = 0;
            while !decoder.is_done() {
                taken += decoder.take(&body[taken..]).unwrap().0;
            }
            assert_eq!(decoder.trailers().as_deref(), expected);
        }
    }

    #[test]
    fn odd_framing_is_refused() {
        for body in [
            &b"\r\n"[..],
            b"5\nhello\r\n",
            b"5 \r\nhello\r\n",
            b" 5\r\nhello\r\n",
            b"0x5\r\nhello\r\n",
            b"+5\r\nhello\r\n",
            b"-1\r\n",
            b"5\r\nhello0\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"g\r\n",
            b"1000000000000000\r\n",
            b"5;a\nb\r\nhello\r\n",
            b"0\r\n\n",
            b"0\r\n bad: folded\r\n\r\n",
            b"0\r\na b: c\r\n\r\n",
            b"5;\x00\r\n",
            b"5\rhello\r\n",
            b"0\r\na\r\n\r\n",
        ] {
            assert!(read(body, 1).is_err(), "{}", body.escape_ascii());
        }
        let long = [b"1;".as_slice(), &[b'a'; 9000], b"\r\nx\r\n0\r\n\r\n"].concat();
        assert!(read(&long, 100).is_err());
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for length in [1, 15, 16, 255, 4096, 65_535, 1 << 20] {
            let mut bytes = Vec::new();
            write_size(&mut bytes, length);
            assert_eq!(bytes, format!("{length:x}\r\n").as_bytes());
        }
    }
}
