//! Handshakes under way with those who have not shown yet who they are: so many at the same time, from one address and in
//! all, so that a stranger can't use up the descriptors. Nor can it keep a peer out that comes from the same address, as
//! everybody does behind a port that a container runtime publishes: the newest takes the place of the oldest, and a peer
//! needs its place for a short while only.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use tokio::sync::oneshot;

/// Handshakes under way, the oldest first.
pub struct Handshakes {
    from_one: usize,
    from_all: usize,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    next: u64,
    taken: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
}

impl Handshakes {
    /// So many from one address, and so many in all.
    pub fn new(from_one: usize, from_all: usize) -> Arc<Self> {
        Arc::new(Self { from_one, from_all, places: Mutex::default() })
    }

    /// Gives one more its place, that of another if there is none left.
    pub fn begin(self: &Arc<Self>, from: IpAddr) -> Underway {
        let mut places = lock(&self.places);
        let oldest_of = |from: Option<IpAddr>, most: usize| {
            let mut numbers =
                places.taken.iter().filter(|(_, place)| from.is_none_or(|from| place.0 == from));
            let oldest = *numbers.next()?.0;
            (numbers.count() + 1 >= most).then_some(oldest)
        };
        // Who comes through a forwarder is not told apart by an address: they share what there is for all.
        let from_one = if from.to_canonical().is_loopback() { self.from_all } else { self.from_one };
        let displaced = oldest_of(Some(from), from_one).or_else(|| oldest_of(None, self.from_all));
        // Dropped, it tells the one that has to go.
        if let Some(number) = displaced {
            places.taken.remove(&number);
        }
        let number = places.next;
        places.next += 1;
        let (displace_tx, displaced) = oneshot::channel();
        places.taken.insert(number, (from, displace_tx));
        Underway { all: self.clone(), number, displaced }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        lock(&self.places).taken.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One handshake under way, until it is dropped.
pub struct Underway {
    all: Arc<Handshakes>,
    number: u64,
    displaced: oneshot::Receiver<()>,
}

impl Underway {
    /// Waits until another has its place; not to be waited for again after that.
    ///
    /// # Cancellation
    /// Nothing is lost when the future is dropped.
    pub async fn displaced(&mut self) {
        // Nothing is ever sent: the other half is dropped.
        let _ = (&mut self.displaced).await;
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        lock(&self.all.places).taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    const FROM_ONE: usize = 16;
    const FROM_ALL: usize = 256;

    #[test]
    fn the_newest_takes_the_place_of_the_oldest() {
        let handshakes = Handshakes::new(FROM_ONE, FROM_ALL);
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let is_displaced = |one: &mut Underway| one.displaced.try_recv() == Err(TryRecvError::Closed);
        let mut other = handshakes.begin(address(2));
        let mut all: Vec<_> = (0..FROM_ONE).map(|_| handshakes.begin(address(1))).collect();
        assert!(!all.iter_mut().any(is_displaced));
        let mut newest = handshakes.begin(address(1));
        assert!(is_displaced(&mut all[0]) && !all[1..].iter_mut().any(is_displaced));
        assert!(!is_displaced(&mut newest) && !is_displaced(&mut other), "another address has its own");
        drop((all, newest));
        let mut crowd: Vec<_> = (0..FROM_ALL).map(|at| handshakes.begin(address((at / 8) as u8))).collect();
        assert!(is_displaced(&mut other), "the oldest of all");
        assert_eq!(crowd.iter_mut().filter_map(|one| is_displaced(one).then_some(())).count(), 0);
        drop(crowd);
        assert!(handshakes.is_empty());
        // Behind a forwarder everybody has one address, and is not kept out by a few strangers.
        let mut peer = handshakes.begin([127, 0, 0, 1].into());
        let strangers: Vec<_> = (0..FROM_ALL - 1).map(|_| handshakes.begin([127, 0, 0, 1].into())).collect();
        assert!(!is_displaced(&mut peer));
        drop(strangers);
    }
}
