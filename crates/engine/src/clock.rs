//! Milliseconds since the process began to count: small enough to keep in an atomic or a cell. A task of a core reads
//! the clock once each time it is woken; all that it notes meanwhile happened then.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
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

/// When the task that runs was woken; only within [`per_wake`].
pub(crate) fn woken() -> u64 {
    WOKEN.get()
}

/// Runs a task of a core, with one look at the clock for each time it is woken.
pub(crate) async fn per_wake<F: Future>(task: F) -> F::Output {
    let mut task = pin!(task);
    poll_fn(|cx| {
        WOKEN.set(now());
        task.as_mut().poll(cx)
    })
    .await
}
