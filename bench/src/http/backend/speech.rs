//! What a backend hears and says on one connection, without sockets.

use anyhow::ensure;

use crate::http::frames::{Block, Event, Name, Side};

const HEAD_END: &[u8] = b"\r\n\r\n";
const LARGEST_HEAD: usize = 64 << 10;
const STATUS_200: u8 = 0x88;
const CONTENT_TYPE: u8 = 31;

/// One connection.
pub(super) enum Speech {
    /// HTTP/1.1: the part of a head that has come.
    First(Vec<u8>),
    /// HTTP/2 with one message for every message.
    Second(Box<Second>),
}

pub(super) struct Second {
    side: Side,
    head: Block,
    trailers: Block,
    /// Streams that wait for room.
    waiting: Vec<u32>,
}

impl Speech {
    pub(super) fn first() -> Self {
        Self::First(Vec::new())
    }

    pub(super) fn second() -> Self {
        Self::Second(Box::new(Second {
            side: Side::server(),
            head: Block::new(&[STATUS_200], &[(Name::Known(CONTENT_TYPE), "application/grpc")], 1),
            trailers: Block::new(&[], &[(Name::Text("grpc-status"), "0")], 0),
            waiting: Vec::new(),
        }))
    }

    /// Takes bytes and tells what to send. Requests by HTTP/1.1 have no body, and gateways send one at a time.
    pub(super) fn hear<'a>(&'a mut self, bytes: &[u8], answer: &'a [u8]) -> anyhow::Result<&'a [u8]> {
        match self {
            Self::First(held) => {
                if held.is_empty() && bytes.ends_with(HEAD_END) {
                    return Ok(answer);
                }
                held.extend_from_slice(bytes);
                ensure!(held.len() < LARGEST_HEAD, "a head without an end");
                if held.ends_with(HEAD_END) {
                    held.clear();
                    return Ok(answer);
                }
                Ok(&[])
            }
            Self::Second(second) => second.hear(bytes, answer),
        }
    }

    /// What was told is on its way.
    pub(super) fn said(&mut self) {
        if let Self::Second(second) = self {
            second.side.out.clear();
        }
    }
}

impl Second {
    fn hear(&mut self, bytes: &[u8], message: &[u8]) -> anyhow::Result<&[u8]> {
        self.side.feed(bytes);
        while let Some(event) = self.side.next()? {
            if let Event::Head { stream, ends: true, .. } | Event::Body { stream, ends: true, .. } = event {
                self.waiting.push(stream);
            }
        }
        let mut answered = 0;
        for stream in &self.waiting {
            if !self.side.say(*stream, &self.head, message, Some(&self.trailers)) {
                break;
            }
            answered += 1;
        }
        self.waiting.drain(..answered);
        Ok(&self.side.out)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::http::setting::MESSAGE;
    use crate::http2;

    #[test]
    fn a_head_in_pieces_is_answered_once() {
        let mut speech = Speech::first();
        for piece in ["GET / HTTP/1.1\r\nHost: a\r", "\n\r"] {
            assert_eq!(speech.hear(piece.as_bytes(), b"answer").unwrap(), b"");
        }
        assert_eq!(speech.hear(b"\n", b"answer").unwrap(), b"answer");
        assert_eq!(speech.hear(b"GET / HTTP/1.1\r\n\r\n", b"answer").unwrap(), b"answer");
    }

    #[tokio::test]
    async fn a_client_of_another_make_understands_the_messages() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        tokio::spawn(async move {
            let (mut speech, mut buffer) = (Speech::second(), [0; 4096]);
            while let Ok(count @ 1..) = far.read(&mut buffer).await {
                let said = speech.hear(&buffer[..count], &MESSAGE).unwrap().to_vec();
                speech.said();
                far.write_all(&said).await.unwrap();
            }
        });
        let mut connection = http2::Connection::over(near).await.unwrap();
        // The first fills the table of fields, the others name places of it.
        for _ in 0..3 {
            let request = Request::post("http://bench.test/bench.Echo/Say");
            let request = request.body(Full::new(Bytes::from_static(&MESSAGE))).unwrap();
            let answer = connection.call(request).await.unwrap().expect(200).unwrap();
            assert_eq!(answer.headers["content-type"], "application/grpc");
            assert_eq!(answer.trailers["grpc-status"], "0");
            assert_eq!(answer.body, MESSAGE[..]);
        }
    }
}
