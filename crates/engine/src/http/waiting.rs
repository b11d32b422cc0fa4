//! Connections between two requests. They are woken by their sockets, by a sweep that finds their time over, and when
//! their listener stops; an idle one has no timer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use crate::clock;

/// One connection, for as long as it lives.
#[derive(Default)]
pub(crate) struct Wait {
    /// When its time is over; 0 while a request is being served.
    until: Cell<u64>,
    waker: RefCell<Option<Waker>>,
    place: Cell<usize>,
}

impl Wait {
    pub(crate) fn set(&self, until: u64) {
        self.until.set(until);
    }

    pub(crate) fn clear(&self) {
        self.until.set(0);
    }

    /// Whether its time is over, if it has one.
    pub(crate) fn is_due(&self) -> bool {
        self.until.get() > 0 && self.is_over()
    }

    pub(crate) fn is_over(&self) -> bool {
        clock::woken() >= self.until.get()
    }

    /// Remembers whom to wake.
    pub(crate) fn watch(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}

/// All connections of a core that carry requests.
#[derive(Default)]
pub(crate) struct Waiting {
    waits: RefCell<Vec<Rc<Wait>>>,
}

impl Waiting {
    pub(crate) fn insert(self: &Rc<Self>) -> Registered {
        let wait = Rc::new(Wait::default());
        let mut waits = self.waits.borrow_mut();
        wait.place.set(waits.len());
        waits.push(Rc::clone(&wait));
        Registered { wait, waiting: Rc::clone(self) }
    }

    /// Wakes those whose time is over.
    pub(crate) fn sweep(&self) {
        let now = clock::now();
        for wait in self.waits.borrow().iter().filter(|wait| (1..=now).contains(&wait.until.get())) {
            wait.wake();
        }
    }

    /// Wakes all, to see whether they have to go.
    pub(crate) fn wake_all(&self) {
        self.waits.borrow().iter().for_each(|wait| wait.wake());
    }
}

/// A connection in the list; leaves it when dropped.
pub(crate) struct Registered {
    wait: Rc<Wait>,
    waiting: Rc<Waiting>,
}

impl std::ops::Deref for Registered {
    type Target = Wait;

    fn deref(&self) -> &Wait {
        &self.wait
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut waits = self.waiting.waits.borrow_mut();
        let place = self.wait.place.get();
        waits.swap_remove(place);
        if let Some(moved) = waits.get(place) {
            moved.place.set(place);
        }
        // A burst of connections must not hold its memory for ever.
        if waits.capacity() > 1024 && waits.len() < waits.capacity() / 4 {
            waits.shrink_to_fit();
        }
    }
}
