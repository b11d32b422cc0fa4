//! Protobuf's wire: tags, varints, fixed numbers and runs of bytes, taken off the front of a slice.

use causeway_base::varint;

use super::Fault;

/// What is left of one message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// The value of one field, before its type is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field's number and value; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Token<'a>)>, Fault> {
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 {
            return Err(Fault::ZeroField);
        }
        let token = match (tag & 7) as u8 {
            0 => Token::Varint(self.varint()?),
            1 => Token::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Fault::Truncated)?;
                Token::Bytes(self.take(length)?)
            }
            5 => Token::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(Fault::WireType(other)),
        };
        Ok(Some((number, token)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        varint::take(&mut self.rest).map_err(|error| match error {
            varint::Error::Truncated => Fault::Truncated,
            varint::Error::TooLong => Fault::LongVarint,
        })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }
}

impl<'a> Token<'a> {
    pub(super) fn varint(self) -> Result<u64, Fault> {
        match self {
            Self::Varint(value) => Ok(value),
            _ => Err(Fault::Mismatch),
        }
    }

    pub(super) fn fixed64(self) -> Result<u64, Fault> {
        match self {
            Self::Fixed64(value) => Ok(value),
            _ => Err(Fault::Mismatch),
        }
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], Fault> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Fault::Mismatch),
        }
    }

    pub(super) fn text(self) -> Result<String, Fault> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Fault::NotText)
    }
}
