//! Milliseconds since the process began to count: small enough to keep in an atomic or a cell. A task of a core reads
//! the clock once each time it is woken; all that it notes until it waits again happened then.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

thread_local! {
    static WOKEN: Cell<u64> = const { Cell::new(0) };
}

/// This moment.
pub(crate) fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // Begins above zero, so that zero can mean "never".
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// Reads the clock for a task that was woken just now.
pub(crate) fn wake() {
    WOKEN.set(now());
}

/// When the task that runs was woken: the last [`wake`] of this thread.
pub(crate) fn woken() -> u64 {
    WOKEN.get()
}
