//! An answer by HTTP/1.1 on its way in: its status, its length and the first byte of its body are looked at.

use anyhow::{Context, bail, ensure};

const LARGEST_HEAD: usize = 16 << 10;

/// What an answer has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    /// Of the body.
    pub(super) length: usize,
    /// What its body begins with, which tells who answered.
    pub(super) first: u8,
}

/// An answer of which a part has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// A head that is not whole.
    head: Vec<u8>,
    /// Bytes of the body that have come, once the head is whole.
    got: Option<usize>,
}

impl Answer {
    /// Takes bytes; `true` when they end the answer.
    pub(super) fn take(&mut self, bytes: &[u8], expected: Expected) -> anyhow::Result<bool> {
        let body = match self.got {
            Some(_) => bytes,
            None if self.head.is_empty() => {
                let Some((head, body)) = split(bytes) else {
                    self.head.extend_from_slice(bytes);
                    return Ok(false);
                };
                check(head, expected)?;
                self.got = Some(0);
                body
            }
            None => {
                let before = self.head.len();
                self.head.extend_from_slice(bytes);
                ensure!(self.head.len() < LARGEST_HEAD, "a head without an end");
                let Some((head, body)) = split(&self.head) else { return Ok(false) };
                check(head, expected)?;
                let at = self.head.len() - body.len();
                self.head.clear();
                self.got = Some(0);
                &bytes[at - before..]
            }
        };
        let got = self.got.unwrap_or(0);
        if got == 0
            && let Some(first) = body.first()
        {
            ensure!(*first == expected.first, "an answer from the wrong backend");
        }
        let got = got + body.len();
        ensure!(got <= expected.length, "{got} bytes came where {} should", expected.length);
        let whole = got == expected.length;
        self.got = (!whole).then_some(got);
        Ok(whole)
    }
}

/// Head and what is behind it, once the head is whole.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((&bytes[..end], &bytes[end + 4..]))
}

fn check(head: &[u8], expected: Expected) -> anyhow::Result<()> {
    const LENGTH: &[u8] = b"content-length:";
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let status = lines.next().unwrap_or_default();
    if !status.starts_with(b"HTTP/1.1 200") {
        bail!("the answer was {}", String::from_utf8_lossy(status));
    }
    let length = lines
        .find(|line| line.get(..LENGTH.len()).is_some_and(|name| name.eq_ignore_ascii_case(LENGTH)))
        .and_then(|line| std::str::from_utf8(&line[LENGTH.len()..]).ok()?.trim().parse::<usize>().ok())
        .context("an answer without a length")?;
    ensure!(length == expected.length, "a body of {length} bytes, not {}", expected.length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Expected = Expected { length: 4, first: b'2' };
    const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nserver: x\r\ncontent-Length: 4\r\n\r\n2xyz";

    #[test]
    fn an_answer_is_whole_wherever_it_is_cut() {
        for cut in 1..GOOD.len() {
            let mut answer = Answer::default();
            // The second one comes on the same connection.
            for _ in 0..2 {
                assert!(!answer.take(&GOOD[..cut], EXPECTED).unwrap(), "{cut}");
                assert!(answer.take(&GOOD[cut..], EXPECTED).unwrap(), "{cut}");
            }
        }
        let mut answer = Answer::default();
        let bytes: Vec<bool> = GOOD.iter().map(|byte| answer.take(&[*byte], EXPECTED).unwrap()).collect();
        assert_eq!(bytes.iter().filter(|whole| **whole).count(), 1);
        assert_eq!(bytes.last(), Some(&true));
    }

    #[test]
    fn other_answers_are_refused() {
        for (text, why) in [
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n2xyz", "404"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n2xyz", "5 bytes"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n", "without a length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n3xyz", "wrong backend"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n2xyzHTTP", "8 bytes"),
        ] {
            let error = Answer::default().take(text.as_bytes(), EXPECTED).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
