//! The time, read once for a batch of questions.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A moment, to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since the process began; never goes back.
    pub(crate) millis: u64,
    /// Of the calendar, as cookies have it.
    pub(crate) unix: u32,
}

impl Moment {
    pub(crate) fn now() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32);
        Self { millis: START.elapsed().as_millis() as u64, unix }
    }
}
