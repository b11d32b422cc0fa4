//! The connections of clients. There are only so many; one more takes the place of the one that has asked nothing for the longest
//! time, so that nobody keeps others out by doing nothing (RFC 7766 §6.2.3).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use tokio_util::sync::CancellationToken;

/// All that are open.
pub(crate) struct Connections(Mutex<Open>);

struct Open {
    most: usize,
    number: u64,
    places: HashMap<u64, Arc<Held>>,
}

struct Held {
    /// When it last asked something, in milliseconds.
    asked: AtomicU64,
    given_away: CancellationToken,
}

/// One of them, until it is dropped.
pub(crate) struct Place {
    all: Arc<Connections>,
    number: u64,
    held: Arc<Held>,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Open { most, number: 0, places: HashMap::new() })))
    }

    /// Allows so many from now on.
    pub(crate) fn allow(&self, most: usize) {
        let mut open = lock(&self.0);
        open.most = most;
        open.make_room(most);
    }

    /// Opens one more.
    pub(crate) fn open(self: &Arc<Self>, millis: u64) -> Place {
        let mut open = lock(&self.0);
        let most = open.most;
        open.make_room(most.saturating_sub(1));
        open.number += 1;
        let held = Held { asked: AtomicU64::new(millis), given_away: CancellationToken::new() };
        let (number, held) = (open.number, Arc::new(held));
        open.places.insert(number, Arc::clone(&held));
        Place { all: Arc::clone(self), number, held }
    }
}

impl Open {
    fn make_room(&mut self, most: usize) {
        while self.places.len() > most {
            let idle = self.places.iter().min_by_key(|(number, held)| (held.asked.load(Relaxed), **number));
            let Some(held) = idle.map(|(number, _)| *number).and_then(|number| self.places.remove(&number))
            else {
                return;
            };
            held.given_away.cancel();
        }
    }
}

impl Place {
    /// Something was asked.
    pub(crate) fn asked(&self, millis: u64) {
        self.held.asked.store(millis, Relaxed);
    }

    /// Waits until another has this place.
    pub(crate) async fn given_away(&self) {
        self.held.given_away.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.all.0).places.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn who_asked_nothing_for_longest_makes_room() {
        let all = Connections::new(3);
        let is_open = |place: &Place| place.given_away().now_or_never().is_none();
        let [first, second, third] = [1, 2, 3].map(|millis| all.open(millis));
        first.asked(4);
        let fourth = all.open(5);
        assert_eq!([&first, &second, &third, &fourth].map(is_open), [true, false, true, true]);
        drop((second, third));
        let fifth = all.open(6);
        assert_eq!([&first, &fourth, &fifth].map(is_open), [true; 3]);
        all.allow(1);
        assert_eq!([&first, &fourth, &fifth].map(is_open), [false, false, true]);
        drop((first, fourth, fifth));
        assert!(lock(&all.0).places.is_empty(), "nothing is kept of those that ended");
    }
}
