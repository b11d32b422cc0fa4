//! Counters that lie within what they count, beside each other: a connection that touches several of a cluster's finds
//! them in one line of the cache, and a hundred thousand clusters have no heap of counters.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use causeway_ir::Limit;

/// Only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn inc(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Connections at this moment.
#[derive(Debug, Default)]
pub(crate) struct Active(AtomicI64);

impl Active {
    pub(crate) fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// What has connections.
pub(crate) trait HasActive {
    fn active(&self) -> &Active;
}

/// A share in something with connections; counted as one of them until dropped.
#[derive(Debug)]
pub(crate) struct Held<T: HasActive>(Arc<T>);

impl<T: HasActive> Held<T> {
    pub(crate) fn new(of: Arc<T>) -> Self {
        of.active().0.fetch_add(1, Relaxed);
        Self(of)
    }

    /// Unless the limit is reached.
    pub(crate) fn within(of: Arc<T>, limit: Option<Limit>) -> Option<Self> {
        let before = of.active().0.fetch_add(1, Relaxed);
        let held = Self(of);
        limit.is_none_or(|limit| before < i64::from(limit.get())).then_some(held)
    }
}

impl<T: HasActive> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: HasActive> Drop for Held<T> {
    fn drop(&mut self) {
        self.0.active().0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HasActive for Active {
        fn active(&self) -> &Active {
            self
        }
    }

    #[test]
    fn holds_as_many_as_the_limit_and_forgets_the_dropped() {
        let active = Arc::new(Active::default());
        let take = || Held::within(Arc::clone(&active), Limit::new(2));
        let (first, second) = (take(), take());
        assert!(first.is_some() && second.is_some() && take().is_none());
        assert_eq!(active.get(), 2);
        drop(first);
        assert!(take().is_some());
        assert_eq!(active.get(), 1);
    }
}
