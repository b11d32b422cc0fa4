//! A cursor over handshake bytes that lie scattered in TLS records: reads across record headers, in place.

use super::RECORD_HEADER;

/// The next `left` handshake bytes of a run of whole, checked records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragments<'a> {
    /// From the cursor on.
    bytes: &'a [u8],
    /// Payload bytes before the next record header.
    in_record: usize,
    left: usize,
}

impl<'a> Fragments<'a> {
    /// The first `left` handshake bytes in `records`, which start with a record header.
    pub(super) fn new(records: &'a [u8], left: usize) -> Self {
        Self { bytes: records, in_record: 0, left }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    pub(super) fn len(&self) -> usize {
        self.left
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.chunk(1)?.first().copied()
    }

    pub(super) fn u16(&mut self) -> Option<usize> {
        Some(usize::from(self.u8()?) << 8 | usize::from(self.u8()?))
    }

    pub(super) fn u24(&mut self) -> Option<usize> {
        Some(self.u16()? << 8 | usize::from(self.u8()?))
    }

    /// Moves past `count` bytes.
    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        self.each_chunk(count, |_| ())
    }

    /// Moves past `count` bytes and returns a cursor over them.
    pub(super) fn split(&mut self, count: usize) -> Option<Self> {
        let head = Self { left: count, ..*self };
        self.skip(count)?;
        Some(head)
    }

    /// Fills `target` with the next bytes.
    pub(super) fn copy_to(&mut self, target: &mut [u8]) -> Option<()> {
        let mut filled = 0;
        self.each_chunk(target.len(), |chunk| {
            target[filled..filled + chunk.len()].copy_from_slice(chunk);
            filled += chunk.len();
        })
    }

    fn each_chunk(&mut self, mut count: usize, mut take: impl FnMut(&'a [u8])) -> Option<()> {
        if count > self.left {
            return None;
        }
        while count > 0 {
            let chunk = self.chunk(count)?;
            count -= chunk.len();
            take(chunk);
        }
        Some(())
    }

    /// The next bytes that lie together: at least one, at most `most`; `None` at the end.
    fn chunk(&mut self, most: usize) -> Option<&'a [u8]> {
        if self.left == 0 {
            return None;
        }
        while self.in_record == 0 {
            let (header, payload) = self.bytes.split_first_chunk::<RECORD_HEADER>()?;
            self.in_record = usize::from(u16::from_be_bytes([header[3], header[4]]));
            self.bytes = payload;
        }
        let (chunk, rest) = self.bytes.split_at_checked(most.min(self.in_record).min(self.left))?;
        self.bytes = rest;
        self.in_record -= chunk.len();
        self.left -= chunk.len();
        Some(chunk)
    }
}
