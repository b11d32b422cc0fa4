//! Something of which a process has so much and no more (descriptors, bytes, places), shared so that nobody can take all
//! of it: a holder may hold no more than is left free. These are the dynamic thresholds of shared buffers in switches:
//! one greedy holder ends with half, two end with a third each, and what is left stays free for whoever comes.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// Parts of the map of holders, so that cores seldom meet in one.
const PARTS: usize = 16;

/// What there is, and what each holder has of it.
#[derive(Debug)]
pub struct Budget<K> {
    limit: AtomicU64,
    used: AtomicU64,
    hasher: RandomState,
    parts: [Mutex<HashMap<K, u64>>; PARTS],
}

impl<K: Clone + Eq + Hash> Budget<K> {
    /// So much and no more.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            hasher: RandomState::new(),
            parts: std::array::from_fn(|_| Mutex::default()),
        })
    }

    /// Another limit from now on; what is held beyond it is not taken away.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
    }

    /// How much there is.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// How much of it is held.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Gives `holder` so much until what comes back is dropped; none if it would hold more than is left for others.
    pub fn take(self: &Arc<Self>, holder: K, amount: u64) -> Option<Share<K>> {
        self.take_within(holder, amount, None)
    }

    /// The same with a limit of each holder in place of a fair share.
    pub fn take_within(self: &Arc<Self>, holder: K, amount: u64, most: Option<u64>) -> Option<Share<K>> {
        let mut share = Share { budget: Arc::clone(self), holder, amount: 0 };
        share.grow(amount, most).then_some(share)
    }

    fn part(&self, holder: &K) -> &Mutex<HashMap<K, u64>> {
        &self.parts[self.hasher.hash_one(holder) as usize % PARTS]
    }

    /// How many have anything.
    #[cfg(test)]
    fn holders(&self) -> usize {
        self.parts.iter().map(|part| lock(part).len()).sum()
    }
}

/// What one holder has of a budget; given back when dropped.
#[derive(Debug)]
pub struct Share<K: Clone + Eq + Hash> {
    budget: Arc<Budget<K>>,
    holder: K,
    amount: u64,
}

impl<K: Clone + Eq + Hash> Share<K> {
    /// Makes it larger if that is fair; says whether it is at least so large now.
    pub fn grow_to(&mut self, amount: u64) -> bool {
        amount <= self.amount || self.grow(amount - self.amount, None)
    }

    /// Makes it as large as this: smaller always, larger if that is fair; says whether it is.
    pub fn resize(&mut self, amount: u64) -> bool {
        if amount < self.amount {
            self.give_back(self.amount - amount);
        }
        self.grow_to(amount)
    }

    fn grow(&mut self, more: u64, most: Option<u64>) -> bool {
        if more == 0 {
            return true;
        }
        let Self { budget, holder, amount } = self;
        let mut held = lock(budget.part(holder));
        let before = held.get(holder).copied().unwrap_or_default();
        let take = |used: u64| {
            let free = budget.limit().saturating_sub(used);
            (before + more <= most.unwrap_or(free) && more <= free).then_some(used + more)
        };
        if budget.used.fetch_update(Relaxed, Relaxed, take).is_err() {
            return false;
        }
        held.insert(holder.clone(), before + more);
        *amount += more;
        true
    }

    fn give_back(&mut self, less: u64) {
        if less == 0 {
            return;
        }
        let mut held = lock(self.budget.part(&self.holder));
        if let Some(amount) = held.get_mut(&self.holder) {
            *amount -= less;
            if *amount == 0 {
                held.remove(&self.holder);
            }
        }
        self.budget.used.fetch_sub(less, Relaxed);
        self.amount -= less;
    }
}

impl<K: Clone + Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        self.give_back(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(budget: &Arc<Budget<&'static str>>, holder: &'static str) -> Vec<Share<&'static str>> {
        std::iter::from_fn(|| budget.take(holder, 1)).collect()
    }

    #[test]
    fn the_greedy_leave_a_share_for_whoever_comes() {
        let budget = Budget::new(900);
        let first = all(&budget, "first");
        assert_eq!(first.len(), 450, "one takes half");
        let second = all(&budget, "second");
        assert_eq!(second.len(), 225, "the next takes half of what is left");
        assert_eq!(all(&budget, "third").len(), 113);
        drop(first);
        assert!(budget.take("first", 200).is_some(), "what was given back is there again");
        drop(second);
        assert_eq!((budget.used(), budget.holders()), (0, 0), "who has nothing takes no room");
    }

    #[test]
    fn a_limit_of_each_holder_takes_the_place_of_fairness() {
        let budget = Budget::new(10);
        let two = budget.take_within("a", 2, Some(2)).expect("room");
        assert!(budget.take_within("a", 1, Some(2)).is_none());
        assert!(budget.take_within("b", 8, Some(8)).is_some(), "all that there is");
        assert!(budget.take_within("b", 9, Some(9)).is_none(), "more than there is");
        drop(two);
    }

    #[test]
    fn a_share_grows_as_long_as_that_is_fair() {
        let budget = Budget::new(100);
        let mut share = budget.take("a", 0).expect("nothing is always there");
        assert!(share.grow_to(40) && share.grow_to(30) && share.grow_to(50));
        assert!(!share.grow_to(60), "more than is left");
        assert_eq!(budget.used(), 50);
        assert!(share.resize(20) && !share.resize(81));
        assert_eq!(budget.used(), 20, "what is not fair changes nothing");
        budget.set_limit(10);
        assert!(budget.take("b", 1).is_none(), "less than is held");
    }
}
