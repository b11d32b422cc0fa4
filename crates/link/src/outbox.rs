//! What waits to be sealed and sent on one link. Streams put frames in, the link's driver takes all of them at once, so
//! that many small frames share a TLS record and a system call. It is bounded: a stream that finds it full leaves its
//! name and is woken when there is room.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use futures::task::AtomicWaker;

use crate::frame::Frame;
use crate::stream::Shared;

/// Streams stop reading from their sources while more than this waits.
pub(crate) const FULL: usize = 256 << 10;
/// Answers come in beyond that, whether there is room or not. Where so much waits, the other end asks and never reads.
const FLOODED: usize = 8 << 20;

/// Frames on their way out.
#[derive(Default)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    /// Wakes the driver.
    pub(crate) driver: AtomicWaker,
}

#[derive(Default)]
struct Inner {
    bytes: Vec<u8>,
    waiting: Vec<Arc<Shared>>,
    closed: bool,
}

impl Outbox {
    /// Adds a frame. On a closed link it goes nowhere: the streams are told that the link is gone.
    pub(crate) fn put(&self, frame: &Frame<'_>) {
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

    /// Whether `stream` may add data; if not, it is woken when it may, or by the end of the link.
    pub(crate) fn has_room(&self, stream: &Arc<Shared>) -> bool {
        let mut inner = lock(&self.inner);
        if inner.closed {
            // Nobody empties it, so one on the list would stay there, and keep the link for ever.
            return false;
        }
        let room = inner.bytes.len() < FULL;
        if !room && !stream.waits_for_room.swap(true, Relaxed) {
            inner.waiting.push(stream.clone());
        }
        room
    }

    /// Whether a datagram may be added; it is dropped otherwise, as networks do.
    pub(crate) fn has_room_for_datagram(&self) -> bool {
        lock(&self.inner).bytes.len() < FULL
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.inner).bytes.len()
    }

    /// Whether the other end asks for more than it reads.
    pub(crate) fn is_flooded(&self) -> bool {
        self.len() > FLOODED
    }

    /// Gives memory back that is not in use.
    pub(crate) fn release(&self) {
        let mut inner = lock(&self.inner);
        if inner.bytes.is_empty() {
            inner.bytes = Vec::new();
        }
    }

    /// Moves everything into `out`, which is empty, and wakes those who wait for room.
    pub(crate) fn take(&self, out: &mut Vec<u8>) {
        let waiting = {
            let mut inner = lock(&self.inner);
            std::mem::swap(&mut inner.bytes, out);
            std::mem::take(&mut inner.waiting)
        };
        wake(waiting);
    }

    /// Refuses everything from now on; what is in it may still be sent.
    pub(crate) fn close(&self) {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        wake(waiting);
    }

    /// Drops what is left: nobody will send it.
    pub(crate) fn discard(&self) {
        lock(&self.inner).bytes = Vec::new();
    }
}

fn wake(waiting: Vec<Arc<Shared>>) {
    for stream in waiting {
        stream.waits_for_room.store(false, Relaxed);
        stream.writer.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::identity::Role;
    use crate::link::Link;
    use crate::stream::Settings;

    #[test]
    fn a_link_that_ends_while_streams_wait_for_room_is_freed() {
        let link = Arc::new(Link::new(Role::Dialer));
        let settings =
            Settings { idle_timeout: Duration::from_secs(1), traffic: Arc::default(), client: None };
        let stream = link.open(b"", settings).unwrap();
        while link.outbox.len() < FULL {
            link.outbox.put(&Frame::Data { stream: 1, piece: &[7; 1000], last: true });
        }
        assert_eq!(stream.shared.allowance(), 0, "it waits");
        link.close("lost");
        // As every owner does, woken by that, before it looks whether its stream is broken off.
        assert_eq!(stream.shared.allowance(), 0);
        drop(stream);
        let weak = Arc::downgrade(&link);
        drop(link);
        assert!(weak.upgrade().is_none());
    }
}
