//! Answers, written into a slice that is as long as the client takes at most.

use super::query::Query;
use super::{DATAGRAM, HEADER, LONGEST, flag, kind, u16_at};
use crate::cookie::Cookie;

/// A pointer to the name of the question, which every answer begins with.
pub(crate) const QUESTION: [u8; 2] = [0xc0, HEADER as u8];
/// "This answer is older than it should be" (RFC 8914).
pub(crate) const STALE: u16 = 3;

const OPTION_COOKIE: [u8; 2] = [0, 10];
const OPTION_ERROR: [u8; 2] = [0, 15];

/// The end of an answer: our side of EDNS.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tail {
    /// Whether the client said anything of EDNS; if not, we do not either.
    pub(crate) edns: bool,
    pub(crate) dnssec: bool,
    pub(crate) cookie: Option<Cookie>,
    /// An extended error.
    pub(crate) error: Option<u16>,
}

impl Tail {
    pub(crate) fn len(&self) -> usize {
        if !self.edns {
            return 0;
        }
        11 + self.cookie.map_or(0, |_| 4 + Cookie::LEN) + self.error.map_or(0, |_| 6)
    }

    /// Writes it; the caller left as much room. `code` is the whole response code.
    fn write(&self, out: &mut [u8], code: u16) -> usize {
        let len = self.len();
        let Some(out) = out.get_mut(..len).filter(|_| self.edns) else { return 0 };
        out[0] = 0;
        out[1..3].copy_from_slice(&kind::OPT.to_be_bytes());
        out[3..5].copy_from_slice(&(DATAGRAM as u16).to_be_bytes());
        out[5] = (code >> 4) as u8;
        out[6..9].copy_from_slice(&[0, if self.dnssec { 0x80 } else { 0 }, 0]);
        out[9..11].copy_from_slice(&((len - 11) as u16).to_be_bytes());
        let mut at = 11;
        if let Some(cookie) = &self.cookie {
            out[at..at + 2].copy_from_slice(&OPTION_COOKIE);
            out[at + 2..at + 4].copy_from_slice(&(Cookie::LEN as u16).to_be_bytes());
            out[at + 4..at + 4 + Cookie::LEN].copy_from_slice(cookie.as_bytes());
            at += 4 + Cookie::LEN;
        }
        if let Some(error) = self.error {
            out[at..at + 2].copy_from_slice(&OPTION_ERROR);
            out[at + 2..at + 4].copy_from_slice(&[0, 2]);
            out[at + 4..at + 6].copy_from_slice(&error.to_be_bytes());
        }
        len
    }
}

/// An answer that is being written.
pub(crate) struct Response<'o> {
    out: &'o mut [u8],
    len: usize,
    flags: u16,
    code: u16,
    counts: [u16; 4],
    tail: Tail,
    fits: bool,
}

impl<'o> Response<'o> {
    /// Begins with the question as the client wrote it.
    pub(crate) fn to(query: &Query<'_>, tail: Tail, out: &'o mut [u8]) -> Self {
        let copied = flag::RD | flag::CD;
        let mut response = Self::bare(query.id, query.flags & copied, tail, out);
        response.counts[0] = 1;
        response.push(&query.packet[HEADER..query.question_end()]);
        response
    }

    /// An answer without a question.
    pub(crate) fn bare(id: u16, flags: u16, tail: Tail, out: &'o mut [u8]) -> Self {
        let most = out.len().min(LONGEST);
        let out = &mut out[..most];
        let fits = most >= HEADER + tail.len();
        if fits {
            out[..2].copy_from_slice(&id.to_be_bytes());
        }
        Self { out, len: HEADER, flags: flags | flag::QR, code: 0, counts: [0; 4], tail, fits }
    }

    pub(crate) fn set(&mut self, flags: u16) {
        self.flags |= flags;
    }

    pub(crate) fn code(&mut self, code: u16) {
        self.code = code;
    }

    /// Appends records to the answer section.
    pub(crate) fn answer(&mut self, count: u16, records: &[u8]) {
        if self.push(records) {
            self.counts[1] += count;
        }
    }

    /// Appends such records to the answer section under another name than the question's.
    pub(crate) fn answer_as(&mut self, owner: &[u8], mut records: &[u8]) {
        const FIXED: usize = QUESTION.len() + 10;
        while let Some(length) = u16_at(records, FIXED - 2)
            && let Some((record, after)) = records.split_at_checked(FIXED + usize::from(length))
            && self.push(owner)
            && self.push(&record[QUESTION.len()..])
        {
            self.counts[1] += 1;
            records = after;
        }
    }

    /// Appends a record to the authority section, and gives its bytes to be finished.
    pub(crate) fn authority(&mut self, record: &[u8]) -> Option<&mut [u8]> {
        let start = self.len;
        if !self.push(record) {
            return None;
        }
        self.counts[2] += 1;
        Some(&mut self.out[start..self.len])
    }

    /// Appends one record to the answer section, and gives its bytes to be finished.
    pub(crate) fn answered(&mut self, record: &[u8]) -> Option<&mut [u8]> {
        let start = self.len;
        if !self.push(record) {
            return None;
        }
        self.counts[1] += 1;
        Some(&mut self.out[start..self.len])
    }

    /// Appends the records of the three sections at once, and gives their bytes to be finished.
    pub(crate) fn records(&mut self, counts: [u16; 3], records: &[u8]) -> Option<&mut [u8]> {
        let start = self.len;
        if !self.push(records) {
            return None;
        }
        self.counts[1..].copy_from_slice(&counts);
        Some(&mut self.out[start..self.len])
    }

    fn push(&mut self, bytes: &[u8]) -> bool {
        let end = self.len + bytes.len();
        self.fits &= end + self.tail.len() <= self.out.len();
        if self.fits {
            self.out[self.len..end].copy_from_slice(bytes);
            self.len = end;
        }
        self.fits
    }

    /// Writes the header and the end. What did not fit is left out and the client told to ask by TCP; none if not even that
    /// fits.
    pub(crate) fn finish(mut self) -> Option<Written> {
        let truncated = !self.fits;
        if truncated {
            let question = usize::from(self.counts[0] == 1);
            let after = if question == 1 { super::name::skip(self.out, HEADER)? + 4 } else { HEADER };
            if after + self.tail.len() > self.out.len() || self.len < after {
                return None;
            }
            self.len = after;
            self.counts = [question as u16, 0, 0, 0];
            self.flags |= flag::TC;
        }
        let tail = self.tail.write(&mut self.out[self.len..], self.code);
        self.counts[3] += u16::from(tail > 0);
        self.out[2..4].copy_from_slice(&(self.flags | self.code & flag::RCODE).to_be_bytes());
        for (at, count) in self.counts.iter().enumerate() {
            self.out[4 + 2 * at..6 + 2 * at].copy_from_slice(&count.to_be_bytes());
        }
        Some(Written { len: self.len + tail, code: self.code, truncated })
    }
}

/// An answer that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) len: usize,
    pub(crate) code: u16,
    /// Whether something was left out for want of room.
    pub(crate) truncated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::query::{Parsed, parse, tests::question};

    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        let packet = question("a.test", 1, Some(&[]));
        let Parsed::Query(query) = parse(&packet) else { panic!("not read") };
        let tail = Tail { edns: true, ..Tail::default() };
        for (room, fits) in [(24 + 16 + 11, true), (24 + 15 + 11, false)] {
            let mut out = vec![0; room];
            let mut response = Response::to(&query, tail, &mut out);
            response.answer(1, &[7; 16]);
            let written = response.finish().unwrap();
            assert_eq!((written.truncated, written.len), (!fits, if fits { room } else { 24 + 11 }));
            assert_eq!((out[2] & 2 != 0, out[7], out[11]), (!fits, u8::from(fits), 1));
        }
        assert!(Response::to(&query, tail, &mut [0; 34]).finish().is_none());
        assert!(Response::to(&query, tail, &mut [0; 8]).finish().is_none());
    }
}
