//! Where bytes lie while a message is worked on. Buffers belong to a thread and are lent: a connection that waits has none.

use std::cell::{RefCell, RefMut};
use std::io;
use std::task::{Context, Poll, ready};

use super::h1::HEAD;
use super::h1::fields::Field;
use super::wire::Wire;

/// As large as most heads, and most bodies, are.
const SIZE: usize = 16 << 10;
/// The largest, for a head of the longest kind.
const MOST: usize = 2 * HEAD;
/// Buffers that a thread keeps for the next ones.
const KEPT: usize = 256;

/// The buffers of a thread that nobody uses.
#[derive(Default)]
pub(crate) struct Buffers {
    free: RefCell<Vec<Box<[u8]>>>,
    heads: RefCell<Vec<Vec<u8>>>,
    index: RefCell<Vec<Field>>,
}

impl Buffers {
    fn take(&self) -> Box<[u8]> {
        self.free.borrow_mut().pop().unwrap_or_else(|| vec![0; SIZE].into())
    }

    fn give_back(&self, buffer: Box<[u8]>) {
        let mut free = self.free.borrow_mut();
        if buffer.len() == SIZE && free.len() < KEPT {
            free.push(buffer);
        }
    }

    /// Room to write a head into; empty.
    pub(crate) fn take_head(&self) -> Vec<u8> {
        self.heads.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give_back_head(&self, mut head: Vec<u8>) {
        let mut heads = self.heads.borrow_mut();
        if head.capacity() <= SIZE && heads.len() < KEPT {
            head.clear();
            heads.push(head);
        }
    }

    /// Where the fields of a head are noted while it is looked at.
    ///
    /// # Panics
    /// If it is lent already: it must not be held across an await, nor while another head is looked at.
    pub(crate) fn index(&self) -> RefMut<'_, Vec<Field>> {
        self.index.borrow_mut()
    }
}

/// What was received and not yet used.
#[derive(Default)]
pub(crate) struct Inbox {
    /// Empty while nothing is held.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The peer has ended: nothing comes after these.
    ended: bool,
}

impl Inbox {
    /// Begins with what was read already.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let end = bytes.len();
        Self { buffer: bytes.into(), start: 0, end, ended: false }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            self.start = 0;
            self.end = 0;
        }
    }

    /// How much memory it takes.
    pub(crate) fn held(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Takes all that is there.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let bytes = self.bytes().to_vec();
        self.consume(bytes.len());
        bytes
    }

    /// Receives once; 0 when the peer has ended. A connection that waits with nothing in hand holds no buffer.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        wire: &impl Wire,
        buffers: &Buffers,
    ) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Ok(0));
        }
        // What a connection began with may lie in less than a buffer.
        if self.is_empty() && self.buffer.len() < SIZE {
            ready!(wire.poll_readable(cx))?;
            self.buffer = buffers.take();
        } else if self.end == self.buffer.len() {
            self.make_room()?;
        }
        match wire.poll_receive(cx, &mut self.buffer[self.end..]) {
            Poll::Pending => {
                if self.is_empty() {
                    self.release(buffers);
                }
                Poll::Pending
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(received)) => {
                self.end += received.count;
                self.ended = received.ended;
                Poll::Ready(Ok(received.count))
            }
        }
    }

    /// Moves what is held to the front, or grows.
    fn make_room(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            return Ok(());
        }
        if self.buffer.len() >= MOST {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mut larger = vec![0; (2 * self.buffer.len()).clamp(SIZE, MOST)];
        larger[..self.end].copy_from_slice(&self.buffer[..self.end]);
        self.buffer = larger.into();
        Ok(())
    }

    /// Gives the buffer back, with whatever is in it.
    pub(crate) fn release(&mut self, buffers: &Buffers) {
        self.start = 0;
        self.end = 0;
        buffers.give_back(std::mem::take(&mut self.buffer));
    }
}

/// Sends all of two pieces, in one go where they fit.
///
/// # Errors
/// If the peer is gone.
///
/// # Cancellation
/// Dropping the future leaves it open how much was sent; the connection has to be closed.
pub(crate) async fn send(wire: &impl Wire, first: &[u8], second: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    std::future::poll_fn(|cx| {
        while sent < first.len() + second.len() {
            let result = match sent.checked_sub(first.len()) {
                Some(of_second) => wire.try_send_two(&second[of_second..], &[]),
                None => wire.try_send_two(&first[sent..], second),
            };
            match result {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(wire.poll_writable(cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        wire.poll_flush(cx)
    })
    .await
}
