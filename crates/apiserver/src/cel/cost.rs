//! What an evaluation may cost: each step of a loop and each value that a function goes through takes from a budget,
//! so that no expression over no object holds up the server.
//!
//! The `cel` crate does not count; policies' expressions are rewritten to pay (`policy::pay`). Kubernetes counts more
//! finely; what comes near its limits here is within a small factor of what does there.

use std::cell::Cell;

use kube_cel::cel::{ExecutionError, Value as Cel};

thread_local! {
    /// What the evaluation on this thread has left.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Kubernetes' words for an expression that took too long by itself.
pub(crate) const EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

/// Evaluates with a budget; says what was spent, which is more than the budget if it ran out.
pub(crate) fn limited<T>(budget: u64, evaluate: impl FnOnce() -> T) -> (T, u64) {
    struct Restore(u64);
    impl Drop for Restore {
        fn drop(&mut self) {
            LEFT.set(self.0);
        }
    }
    // One more than allowed, so that what ran out can be told from what just sufficed.
    let start = budget.saturating_add(1);
    let _restore = Restore(LEFT.replace(start));
    let value = evaluate();
    (value, start - LEFT.get())
}

/// Takes from the budget.
pub(super) fn spend(cost: u64) -> Result<(), ExecutionError> {
    let left = LEFT.get().saturating_sub(cost);
    LEFT.set(left);
    if left == 0 { Err(ExecutionError::function_error("cost", EXCEEDED)) } else { Ok(()) }
}

/// What going through a value costs: a tenth of its characters, and one for each of its items.
pub(super) fn size(value: &Cel) -> u64 {
    let of_bytes = |length: usize| length as u64 / 10 + 1;
    match value {
        Cel::String(text) => of_bytes(text.len()),
        Cel::Bytes(bytes) => of_bytes(bytes.len()),
        Cel::List(items) => 1 + items.iter().map(size).sum::<u64>(),
        Cel::Map(map) => 1 + map.map.values().map(size).sum::<u64>(),
        _ => 1,
    }
}
