//! What waits to be encrypted and sent on one link. Streams put frames in, the link's driver takes all of them at
//! once, so that many small frames share a TLS record and a system call. It is bounded: a stream that finds it full
//! leaves its name and is woken when there is room.

use std::sync::{Arc, Mutex};

use futures::task::AtomicWaker;

use crate::frame::Frame;
use crate::mux::lock;
use crate::stream::Stream;

/// Streams stop reading from their sockets while more than this waits.
const FULL: usize = 192 << 10;

/// Frames on their way out.
#[derive(Default)]
pub struct Outbox {
    inner: Mutex<Inner>,
    /// Wakes the driver.
    pub driver: AtomicWaker,
}

#[derive(Default)]
struct Inner {
    bytes: Vec<u8>,
    waiting: Vec<Arc<Stream>>,
    closed: bool,
}

impl Outbox {
    /// Adds a frame. On a closed link it goes nowhere: the streams are told that the link is gone.
    pub fn put(&self, frame: &Frame<'_>) {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return;
        }
        let was_empty = inner.bytes.is_empty();
        frame.encode(&mut inner.bytes);
        drop(inner);
        if was_empty {
            self.driver.wake();
        }
    }

    /// Whether `stream` may add data; if not it is woken when it may.
    pub fn has_room(&self, stream: &Arc<Stream>) -> bool {
        let mut inner = lock(&self.inner);
        let room = inner.bytes.len() < FULL;
        if !room {
            inner.waiting.push(stream.clone());
        }
        room
    }

    /// Whether a datagram may be added; it is dropped otherwise, as networks do.
    pub fn has_room_for_datagram(&self) -> bool {
        lock(&self.inner).bytes.len() < FULL
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.inner).bytes.is_empty()
    }

    /// Moves everything into `out`, which is empty, and wakes those who wait for room. Says whether there was anything.
    pub fn take(&self, out: &mut Vec<u8>) -> bool {
        let waiting = {
            let mut inner = lock(&self.inner);
            if inner.bytes.is_empty() {
                return false;
            }
            std::mem::swap(&mut inner.bytes, out);
            std::mem::take(&mut inner.waiting)
        };
        for stream in waiting {
            stream.wake();
        }
        true
    }

    /// Refuses everything from now on.
    pub fn close(&self) {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        inner.bytes = Vec::new();
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        for stream in waiting {
            stream.wake();
        }
    }
}
