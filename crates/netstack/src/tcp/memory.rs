//! The account of one flow in the memory of all flows, which are shared fairly between the addresses at their other ends.

use std::net::IpAddr;
use std::sync::Arc;

use causeway_base::{Budget, Share};

/// What all flows of a stack may hold in their buffers.
pub(crate) type Memories = Arc<Budget<IpAddr>>;

/// What one flow holds.
#[derive(Debug)]
pub(crate) struct Memory {
    share: Share<IpAddr>,
    held: u64,
}

impl Memory {
    /// An account without anything in it; none when even that is unfair.
    pub(crate) fn open(budget: &Memories, holder: IpAddr) -> Option<Self> {
        Some(Self { share: budget.take(holder, 0)?, held: 0 })
    }

    /// Takes so much more, if that is fair.
    pub(crate) fn grow_by(&mut self, more: usize) -> bool {
        let wanted = self.held + more as u64;
        let granted = self.share.grow_to(wanted);
        if granted {
            self.held = wanted;
        }
        granted
    }

    /// Gives so much back.
    pub(crate) fn shrink_by(&mut self, less: usize) {
        self.held = self.held.saturating_sub(less as u64);
        self.share.resize(self.held);
    }
}

#[cfg(test)]
pub(crate) fn memory(limit: u64) -> Memory {
    Memory::open(&Budget::new(limit), IpAddr::from([10, 0, 0, 1])).unwrap()
}
