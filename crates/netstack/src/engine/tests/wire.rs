//! A wire between two stacks.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use causeway_base::lock::lock;
use futures::task::AtomicWaker;

use crate::Device;

#[derive(Default)]
struct Way {
    packets: Mutex<VecDeque<Vec<u8>>>,
    reader: AtomicWaker,
}

/// One end of a wire.
pub(super) struct Wire {
    comes: Arc<Way>,
    goes: Arc<Way>,
    mtu: usize,
}

/// Both ends.
pub(super) fn wire(mtu: usize) -> (Wire, Wire) {
    let (one, two) = (Arc::<Way>::default(), Arc::<Way>::default());
    let end =
        |comes: &Arc<Way>, goes: &Arc<Way>| Wire { comes: Arc::clone(comes), goes: Arc::clone(goes), mtu };
    (end(&one, &two), end(&two, &one))
}

impl Wire {
    /// The next packet that comes, for a test that is one end itself.
    pub(super) async fn next(&mut self) -> Vec<u8> {
        std::future::poll_fn(|cx| {
            self.comes.reader.register(cx.waker());
            lock(&self.comes.packets).pop_front().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    pub(super) fn put(&self, packet: Vec<u8>) {
        lock(&self.goes.packets).push_back(packet);
        self.goes.reader.wake();
    }
}

impl Device for Wire {
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, each: &mut dyn FnMut(&[u8])) -> Poll<io::Result<()>> {
        self.comes.reader.register(cx.waker());
        let packets = std::mem::take(&mut *lock(&self.comes.packets));
        if packets.is_empty() {
            return Poll::Pending;
        }
        for packet in packets {
            each(&packet);
        }
        Poll::Ready(Ok(()))
    }

    fn has_room(&self) -> bool {
        lock(&self.goes.packets).len() < 1000
    }

    fn send(&mut self, length: usize, write: impl FnOnce(&mut [u8])) {
        let mut packet = vec![0; length];
        write(&mut packet);
        assert!(length <= self.mtu, "{length}");
        self.put(packet);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.has_room() {
            // Whoever reads makes room, at once or never.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }
}
