//! Finds the end of a head that may come in pieces of any size. Every byte is looked at once, and what can't become a
//! head is refused as soon as it shows.

use memchr::memchr;

use super::bytes::is_token;
use crate::http::fault::Fault;

/// How far a head was looked at.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    seen: usize,
    /// Where the line begins that is not complete.
    line: usize,
}

impl Scan {
    /// Takes all bytes so far; the length of the head with its empty line, once that is there.
    ///
    /// # Errors
    /// If no proper head begins like this.
    pub(crate) fn end(&mut self, bytes: &[u8], limit: usize) -> Result<Option<usize>, Fault> {
        if bytes.first().is_some_and(|first| !is_token(*first)) {
            return Err(Fault::bad("the first byte begins no message"));
        }
        while let Some(next) = memchr(b'\n', &bytes[self.seen..]) {
            let at = self.seen + next;
            if at == 0 || bytes[at - 1] != b'\r' {
                return Err(Fault::bad("a line ends without CR"));
            }
            let is_empty = at - 1 == self.line;
            self.seen = at + 1;
            self.line = at + 1;
            if self.seen > limit {
                break;
            }
            if is_empty {
                return Ok(Some(self.seen));
            }
        }
        if bytes.len() > limit || self.seen > limit {
            return Err(Fault::new(431, "the head is too long"));
        }
        self.seen = bytes.len();
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_end_in_pieces_of_any_size() {
        let all = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nbody\r\n\r\n";
        let whole = Scan::default().end(all, 100).unwrap().unwrap();
        assert_eq!(&all[whole..], b"body\r\n\r\n");
        let mut scan = Scan::default();
        let found = (0..=all.len()).find_map(|end| scan.end(&all[..end], 100).unwrap());
        assert_eq!(found, Some(whole));
    }

    #[test]
    fn refuses_at_once_what_can_never_be_a_head() {
        for (bytes, status) in [
            (&b"\x16\x03\x01"[..], 400),
            (b" GET", 400),
            (b"GET / HTTP/1.1\n", 400),
            (b"\r\n", 400),
            (b"GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 431),
            (b"GET / HTTP/1.1\r\na: bbbbbbbbbbbbbbbbbbb\r\n\r\n", 431),
        ] {
            assert_eq!(Scan::default().end(bytes, 32).unwrap_err().status, status);
        }
    }
}
