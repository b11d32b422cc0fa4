//! The established connections of one core: what is shown of them, and how the core ends them when they idle too
//! long or have to go. One sweep a tick instead of a timer per connection keeps an idle connection small.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use crate::clock;
use crate::close_reason::CloseReason;
use crate::cluster::{Cluster, Endpoint};
use crate::listener::Listener;
use crate::metrics::Held;
use crate::status::ConnectionStatus;
use crate::table::Route;

/// Milliseconds after which a connection is not one of those that come and go.
const SEASONED: u64 = 1000;

/// One established connection.
pub(crate) struct Entry {
    client: SocketAddr,
    listener: Arc<Listener>,
    server_name: Option<Arc<str>>,
    route: Held<Route>,
    pub(crate) cluster: Held<Cluster>,
    pub(crate) endpoint: Held<Endpoint>,
    started: u64,
    idle_limit: u64,
    touched: Cell<u64>,
    up: Cell<u64>,
    down: Cell<u64>,
    counted: Cell<(u64, u64)>,
    ending: Cell<Option<CloseReason>>,
    /// One direction is over: nothing but a sweep would notice that the reader of the other is gone.
    half_closed: Cell<bool>,
    /// A sweep has found that the sockets want looking after.
    due: Cell<bool>,
    /// Nothing is done for connections that end before the second sweep.
    seasoned: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    place: Cell<usize>,
}

impl Entry {
    pub(crate) fn new(
        client: SocketAddr,
        listener: Arc<Listener>,
        server_name: Option<Arc<str>>,
        route: Held<Route>,
        cluster: Held<Cluster>,
        endpoint: Held<Endpoint>,
        idle_limit: u64,
    ) -> Self {
        let now = clock::woken();
        Self {
            client,
            listener,
            server_name,
            route,
            cluster,
            endpoint,
            started: now,
            idle_limit,
            touched: Cell::new(now),
            up: Cell::new(0),
            down: Cell::new(0),
            counted: Cell::new((0, 0)),
            ending: Cell::new(None),
            half_closed: Cell::new(false),
            due: Cell::new(false),
            seasoned: Cell::new(false),
            waker: RefCell::new(None),
            place: Cell::new(0),
        }
    }

    /// Notes bytes carried.
    pub(crate) fn moved(&self, up: u64, down: u64) {
        if down > 0 && self.down.get() == 0 {
            self.endpoint.answered();
        }
        self.up.set(up);
        self.down.set(down);
        self.touched.set(clock::woken());
    }

    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.up.get(), self.down.get())
    }

    /// Why this connection has to end now, if it has to.
    pub(crate) fn ending(&self) -> Option<CloseReason> {
        self.ending.get()
    }

    /// Remembers whom to wake when it has to end.
    pub(crate) fn watch(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// Asks to be woken at each sweep.
    pub(crate) fn half_closed(&self) {
        self.half_closed.set(true);
    }

    /// Whether a sweep wants the sockets looked after; once for each time it does.
    pub(crate) fn take_due(&self) -> bool {
        self.due.replace(false)
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    pub(crate) fn end(&self, reason: CloseReason) {
        if self.ending.get().is_none() {
            self.ending.set(Some(reason));
            self.wake();
        }
    }

    /// Adds what was carried since the last time to the cluster's counters.
    fn count(&self) {
        let (up, down) = self.bytes();
        let (counted_up, counted_down) = self.counted.replace((up, down));
        let metrics = &self.cluster.metrics;
        if up > counted_up {
            metrics.bytes_up.add(up - counted_up);
        }
        if down > counted_down {
            metrics.bytes_down.add(down - counted_down);
        }
    }

    fn status(&self, now: u64) -> ConnectionStatus {
        let (up, down) = self.bytes();
        ConnectionStatus {
            client: self.client,
            listener: self.listener.name.to_string(),
            server_name: self.server_name.as_deref().map(str::to_owned),
            route: self.route.name.to_string(),
            cluster: self.cluster.name.to_string(),
            endpoint: self.endpoint.address.clone(),
            age_millis: now.saturating_sub(self.started),
            idle_millis: now.saturating_sub(self.touched.get()),
            bytes_up: up,
            bytes_down: down,
        }
    }
}

/// All established connections of a core.
#[derive(Default)]
pub(crate) struct Connections {
    entries: RefCell<Vec<Rc<Entry>>>,
}

impl Connections {
    pub(crate) fn insert(self: &Rc<Self>, entry: Entry) -> Registered {
        let entry = Rc::new(entry);
        let mut entries = self.entries.borrow_mut();
        entry.place.set(entries.len());
        entries.push(Rc::clone(&entry));
        Registered { entry, connections: Rc::clone(self) }
    }

    /// Ends what has idled too long and brings the counters up to date.
    pub(crate) fn sweep(&self) {
        let now = clock::now();
        for entry in self.entries.borrow().iter() {
            entry.count();
            if now.saturating_sub(entry.touched.get()) >= entry.idle_limit {
                entry.end(CloseReason::IdleTimeout);
            } else if entry.half_closed.get()
                || !entry.seasoned.get() && now.saturating_sub(entry.started) >= SEASONED
            {
                entry.seasoned.set(true);
                entry.due.set(true);
                entry.wake();
            }
        }
    }

    /// Ends the connections of routes whose time is over, or all.
    pub(crate) fn drain(&self, all: bool) {
        for entry in self.entries.borrow().iter() {
            if all || entry.route.shared.is_over() {
                entry.end(CloseReason::Drained);
            }
        }
    }

    pub(crate) fn status(&self) -> Vec<ConnectionStatus> {
        let now = clock::now();
        self.entries.borrow().iter().map(|entry| entry.status(now)).collect()
    }
}

/// An entry in the list; leaves it when dropped.
pub(crate) struct Registered {
    entry: Rc<Entry>,
    connections: Rc<Connections>,
}

impl std::ops::Deref for Registered {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.entry.count();
        let mut entries = self.connections.entries.borrow_mut();
        let place = self.entry.place.get();
        entries.swap_remove(place);
        if let Some(moved) = entries.get(place) {
            moved.place.set(place);
        }
        // A burst of connections must not hold its memory for ever.
        if entries.capacity() > 1024 && entries.len() < entries.capacity() / 4 {
            entries.shrink_to_fit();
        }
    }
}
