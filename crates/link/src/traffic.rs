//! How many bytes streams have carried.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes carried each way, shared by all streams that are to be counted together.
#[derive(Debug, Default)]
pub struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
}

impl Traffic {
    /// Bytes that came over links.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Bytes that were sent over links.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(crate) fn add_received(&self, count: usize) {
        self.received.fetch_add(count as u64, Relaxed);
    }

    pub(crate) fn add_sent(&self, count: usize) {
        self.sent.fetch_add(count as u64, Relaxed);
    }
}
