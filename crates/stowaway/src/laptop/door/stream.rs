//! A stream through a door: pieces, each with its length in front (four bytes, the high one first), and a length of zero where
//! a direction ends. A Unix socket has no word for a stream that broke off, so here only one that said its end has ended.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

const HEAD: usize = 4;
/// The longest piece that is written.
const PIECE: usize = 64 << 10;
const END: [u8; HEAD] = [0; HEAD];

/// One end of a stream. Dropped before it has said its end, it is broken off, and the other end reads a reset.
#[derive(Debug)]
pub struct Stream {
    socket: UnixStream,
    /// What is here of the length of the next piece.
    head: [u8; HEAD],
    head_length: usize,
    /// Bytes of the piece that are still to come.
    left: usize,
    has_ended: bool,
    /// Taken, and not written yet, from `written` on.
    kept: Vec<u8>,
    written: usize,
    said_end: bool,
}

impl Stream {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            head: END,
            head_length: 0,
            left: 0,
            has_ended: false,
            kept: Vec::new(),
            written: 0,
            said_end: false,
        }
    }

    /// Reads from the socket, where nothing may end.
    fn poll_some(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<usize>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, into))?;
        match into.filled().len() - before {
            0 => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            count => Poll::Ready(Ok(count)),
        }
    }

    /// Reads up to the next byte of a piece, or the end.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.left == 0 && !self.has_ended {
            let mut head = self.head;
            let mut rest = ReadBuf::new(&mut head[self.head_length..]);
            let count = ready!(self.poll_some(cx, &mut rest))?;
            self.head = head;
            self.head_length += count;
            if self.head_length == HEAD {
                self.head_length = 0;
                self.left = u32::from_be_bytes(self.head) as usize;
                self.has_ended = self.left == 0;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what is kept.
    fn poll_kept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.kept.get(self.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.socket).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        // One that waits holds no buffer.
        (self.kept, self.written) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_head(cx))?;
        if self.has_ended || buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let most = self.left.min(buffer.remaining());
        let mut piece = ReadBuf::new(buffer.initialize_unfilled_to(most));
        let count = ready!(self.poll_some(cx, &mut piece))?;
        buffer.advance(count);
        self.left -= count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.said_end {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(self.poll_kept(cx))?;
        let piece = &bytes[..bytes.len().min(PIECE)];
        if !piece.is_empty() {
            self.kept.reserve(HEAD + piece.len());
            self.kept.extend((piece.len() as u32).to_be_bytes());
            self.kept.extend_from_slice(piece);
            // It is taken, whether it goes now or with what comes next.
            if let Poll::Ready(written) = self.poll_kept(cx) {
                written?;
            }
        }
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_kept(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.said_end {
            self.said_end = true;
            self.kept.extend(END);
        }
        ready!(self.poll_kept(cx))?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn pair() -> (Stream, UnixStream) {
        let (here, there) = UnixStream::pair().expect("a pair");
        (Stream::new(here), there)
    }

    #[tokio::test]
    async fn all_that_is_written_is_read_up_to_the_end_of_each_half() {
        let (mut here, there) = pair();
        let mut there = Stream::new(there);
        let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number >> 3) as u8).collect();
        let expected = sent.clone();
        let writer = tokio::spawn(async move {
            here.write_all(&sent).await.expect("writes");
            here.shutdown().await.expect("ends");
            here.write_all(b"more").await.expect_err("it has ended");
            let mut back = String::new();
            here.read_to_string(&mut back).await.expect("an end");
            back
        });
        let mut got = Vec::new();
        there.read_to_end(&mut got).await.expect("an end");
        assert!(got == expected);
        there.write_all(b"the other half goes on").await.expect("writes");
        there.shutdown().await.expect("ends");
        assert_eq!(writer.await.expect("no panic"), "the other half goes on");
    }

    #[tokio::test]
    async fn what_stops_without_its_end_is_broken() {
        // Before anything, within a length, within a piece, and between two.
        for said in [&b""[..], &[0, 0], &[0, 0, 0, 3, b'a'], &[0, 0, 0, 1, b'a']] {
            let (mut here, mut there) = pair();
            there.write_all(said).await.expect("writes");
            drop(there);
            let mut got = Vec::new();
            let error = here.read_to_end(&mut got).await.expect_err("it is broken");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{said:?}");
            assert_eq!(got, said.get(HEAD..).unwrap_or_default(), "{said:?}");
        }
    }

    #[tokio::test]
    async fn pieces_may_come_byte_by_byte() {
        let (mut here, mut there) = pair();
        let reader = tokio::spawn(async move {
            let mut got = String::new();
            here.read_to_string(&mut got).await.map(|_| got)
        });
        for byte in [0, 0, 0, 2, b'h', b'e', 0, 0, 0, 3, b'l', b'l', b'o', 0, 0, 0, 0] {
            there.write_all(&[byte]).await.expect("writes");
            tokio::task::yield_now().await;
        }
        assert_eq!(reader.await.expect("no panic").expect("an end"), "hello");
    }
}
