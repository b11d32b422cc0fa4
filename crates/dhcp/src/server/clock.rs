//! The time of leases: the system's, which somebody may set. Clients count on their own, so their leases move with it.

use std::time::SystemTime;

use rustix::time::{ClockId, clock_gettime};

use crate::lease::Seconds;

/// Less than this is no reason to move leases.
const LEAST: u64 = 3;

/// The system's time, beside the one that nobody sets.
pub(super) struct Clock {
    /// By how much the first is ahead of the second.
    ahead: i64,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { ahead: ahead(now(), awake()) }
    }

    /// By how many seconds the time was set since this was asked last, if it was.
    pub(super) fn was_set(&mut self) -> Option<i64> {
        self.look(now(), awake())
    }

    fn look(&mut self, now: Seconds, awake: Seconds) -> Option<i64> {
        let ahead = ahead(now, awake);
        let by = ahead - self.ahead;
        if by.unsigned_abs() < LEAST {
            return None;
        }
        self.ahead = ahead;
        Some(by)
    }
}

fn ahead(now: Seconds, awake: Seconds) -> i64 {
    now.cast_signed() - awake.cast_signed()
}

/// Seconds since 1970, as the system has it.
pub(super) fn now() -> Seconds {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seconds since the machine was started, also those in which it slept.
fn awake() -> Seconds {
    clock_gettime(ClockId::Boottime).tv_sec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_passes_is_not_time_that_is_set() {
        let mut clock = Clock { ahead: 900 };
        assert_eq!(clock.look(1000, 100), None);
        assert_eq!(clock.look(5001, 4100), None, "whole seconds");
        assert_eq!(clock.look(12_201, 4101), Some(7200));
        assert_eq!(clock.look(12_300, 4200), None, "once");
        assert_eq!(clock.look(5100, 4200), Some(-7200));
    }
}
