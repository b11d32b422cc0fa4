//! Two byte streams joined: what comes from one goes to the other, each way until its end. Those that wait hold no buffer:
//! a thread lends its own, and only what could not go on is kept.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much is read at once.
const PIECE: usize = 64 << 10;
/// After so many pieces others get their turn.
const ROUNDS: usize = 4;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into());
}

/// Carries bytes between the two until both directions have ended. A half that ends is ended on the other side, and the other
/// half goes on.
///
/// # Errors
/// When one of them fails.
///
/// # Cancellation
/// Dropping the future drops both.
pub(crate) async fn join<A, B>(a: &mut A, b: &mut B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut there, mut back) = (Half::default(), Half::default());
    poll_fn(|cx| {
        let there = there.poll(cx, a, b)?;
        let back = back.poll(cx, b, a)?;
        if there.is_ready() && back.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// One direction.
#[derive(Default)]
struct Half {
    /// Read and not yet written.
    kept: Vec<u8>,
    /// How much of that is written.
    written: usize,
    unflushed: bool,
    ended: bool,
    done: bool,
}

impl Half {
    fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        if self.done {
            return Poll::Ready(Ok(()));
        }
        for _ in 0..ROUNDS {
            while let Some(rest) = self.kept.get(self.written..).filter(|rest| !rest.is_empty()) {
                self.written += written(ready!(Pin::new(&mut *to).poll_write(cx, rest)))?;
            }
            if !self.kept.is_empty() {
                (self.kept, self.written) = (Vec::new(), 0);
            }
            if self.ended {
                ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                self.done = true;
                return Poll::Ready(Ok(()));
            }
            if self.piece(cx, from, to)?.is_pending() {
                if self.unflushed {
                    ready!(Pin::new(&mut *to).poll_flush(cx))?;
                    self.unflushed = false;
                }
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Moves a piece; pending if there is none.
    fn piece<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> io::Result<Poll<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        BUFFER.with_borrow_mut(|buffer| {
            let mut read = ReadBuf::new(buffer);
            match Pin::new(from).poll_read(cx, &mut read) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(result) => result?,
            }
            let piece = read.filled();
            self.ended = piece.is_empty();
            self.unflushed |= !piece.is_empty();
            let mut sent = 0;
            while sent < piece.len() {
                match Pin::new(&mut *to).poll_write(cx, &piece[sent..]) {
                    Poll::Pending => {
                        self.kept = piece[sent..].to_vec();
                        break;
                    }
                    Poll::Ready(result) => sent += written(result)?,
                }
            }
            Ok(Poll::Ready(()))
        })
    }
}

fn written(result: io::Result<usize>) -> io::Result<usize> {
    match result? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn everything_arrives_through_narrow_places_and_halves_end_alone() {
        let ((mut near, mut left), (mut right, mut far)) = (duplex(7), duplex(1000));
        let joined = tokio::spawn(async move { join(&mut left, &mut right).await });
        let sent: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
        let expected = sent.clone();
        let writer = tokio::spawn(async move {
            near.write_all(&sent).await.expect("writes");
            near.shutdown().await.expect("ends");
            let mut back = String::new();
            near.read_to_string(&mut back).await.expect("reads");
            back
        });
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.expect("reads");
        assert!(got == expected);
        far.write_all(b"the other half goes on").await.expect("writes");
        drop(far);
        assert_eq!(writer.await.expect("no panic"), "the other half goes on");
        joined.await.expect("no panic").expect("both have ended");
    }

    #[tokio::test]
    async fn a_failure_ends_both() {
        let ((near, mut left), (mut right, mut far)) = (duplex(64), duplex(64));
        let joined = tokio::spawn(async move { join(&mut left, &mut right).await });
        drop(near);
        far.write_all(b"to nobody").await.expect("there is room");
        joined.await.expect("no panic").expect_err("nobody takes it");
        far.read_to_end(&mut Vec::new()).await.expect("it has ended");
    }
}
