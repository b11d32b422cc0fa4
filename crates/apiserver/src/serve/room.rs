//! Room for connections: the descriptors of this process are not only for clients of the API. Whoever has not shown who it
//! is has one of a few places, and beyond them the newest takes that of the oldest: strangers can keep each other out, but
//! nobody who says who it is at once. All together may have half of the descriptors.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;
use rustix::process::{Resource, getrlimit};
use tokio::sync::oneshot;

/// The bound of all where the system has none.
const UNBOUNDED: u64 = 1 << 20;

/// Who is in.
#[derive(Debug)]
pub(super) struct Room {
    /// Places of clients that have not shown who they are.
    strangers: usize,
    /// Places of all.
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: usize,
    counted: u64,
    /// By number, the oldest first; each is told when it has to go.
    strangers: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
    number: u64,
}

impl Room {
    pub(super) fn new(strangers: usize) -> Arc<Self> {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(UNBOUNDED);
        Self::of(strangers, usize::try_from(descriptors / 2).unwrap_or(usize::MAX))
    }

    fn of(strangers: usize, most: usize) -> Arc<Self> {
        Arc::new(Self { strangers, most, state: Mutex::default() })
    }

    /// A place, and what ends when it has to be given up; none if there is no room.
    pub(super) fn enter(self: &Arc<Self>) -> Option<(Place, impl Future<Output = ()> + use<>)> {
        let mut state = lock(&self.state);
        if state.strangers.len() >= self.strangers
            && let Some((_, displaced_tx)) = state.strangers.pop_first()
        {
            // One that has ended meanwhile needs no word.
            let _ = displaced_tx.send(());
        }
        if state.open >= self.most {
            return None;
        }
        state.open += 1;
        state.counted += 1;
        let number = state.counted;
        let (displaced_tx, displaced_rx) = oneshot::channel();
        state.strangers.insert(number, displaced_tx);
        let displaced = async {
            // Without a word it may stay.
            if displaced_rx.await.is_err() {
                pending::<()>().await;
            }
        };
        Some((Place { room: Arc::clone(self), number }, displaced))
    }
}

impl Place {
    /// The client has shown who it is, and keeps its place.
    pub(super) fn keep(&self) {
        lock(&self.room.state).strangers.remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.room.state);
        state.strangers.remove(&self.number);
        state.open -= 1;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const STRANGERS: usize = 8;

    #[test]
    fn the_oldest_stranger_makes_room_and_whoever_is_known_stays() {
        let room = Room::of(STRANGERS, STRANGERS + 2);
        let (known, known_goes) = room.enter().unwrap();
        known.keep();
        let mut strangers: Vec<_> = (0..STRANGERS).map(|_| room.enter().unwrap()).collect();
        let (_newest, newest_goes) = room.enter().unwrap();
        let (first, first_goes) = strangers.remove(0);
        assert!(first_goes.now_or_never().is_some());
        let (_, second_goes) = strangers.remove(0);
        assert!([newest_goes.now_or_never(), known_goes.now_or_never()].iter().all(Option::is_none));
        assert!(second_goes.now_or_never().is_none());
        let (_last, _) = room.enter().unwrap();
        assert!(room.enter().is_none(), "all have their descriptors until they are gone");
        drop(first);
        assert!(room.enter().is_some());
    }
}
