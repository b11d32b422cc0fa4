//! Protobuf's numbers of variable length, seven bits a byte, lowest first.

/// Why there is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes end before the number does.
    #[error("a varint is cut short")]
    Truncated,
    /// No number of 64 bits takes that many bytes.
    #[error("a varint is longer than ten bytes")]
    TooLong,
}

/// Takes a number off the front of `bytes`. Bits beyond 64 in the tenth byte are dropped, as Go does.
///
/// # Errors
/// When the bytes begin with no whole number; how much was taken of them is not said then.
pub fn take(bytes: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Error::Truncated)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_numbers_of_every_length() {
        let cases: [(&[u8], u64); 6] = [
            (&[0], 0),
            (&[0x7f], 127),
            (&[0x80, 1], 128),
            (&[0xac, 2], 300),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], u64::MAX),
            // Go drops the six bits that have no room.
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], u64::MAX),
        ];
        for (bytes, number) in cases {
            let with_more = [bytes, &[9]].concat();
            let mut rest = with_more.as_slice();
            assert_eq!(take(&mut rest), Ok(number), "{bytes:x?}");
            assert_eq!(rest, [9], "{bytes:x?}");
        }
    }

    #[test]
    fn refuses_what_is_cut_short_or_too_long() {
        for bytes in [&[][..], &[0x80], &[0xff; 9]] {
            assert_eq!(take(&mut { bytes }), Err(Error::Truncated), "{bytes:x?}");
        }
        assert_eq!(take(&mut [0x80; 10].as_slice()), Err(Error::TooLong));
    }
}
