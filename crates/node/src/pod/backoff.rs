//! How long a container that ended waits for its next start.

use std::time::Duration;

use causeway_base::Backoff;

use crate::config::Config;

/// Delays of one container: none for the first restart, then doubling; a long run starts over.
#[derive(Clone, Debug)]
pub(crate) struct RestartBackoff {
    backoff: Backoff,
    reset: Duration,
    restarts: u32,
}

impl RestartBackoff {
    /// One that has seen `restarts` restarts already.
    pub(super) fn new(config: &Config, restarts: u32) -> Self {
        let backoff = Backoff::new(config.backoff_base, config.backoff_max);
        Self { backoff, reset: config.backoff_reset, restarts }
    }

    /// The delay after a run of this length.
    pub(super) fn after_run(&mut self, ran_for: Duration) -> Duration {
        if ran_for >= self.reset {
            self.restarts = 0;
        }
        self.restarts = self.restarts.saturating_add(1);
        match self.restarts {
            1 => Duration::ZERO,
            restarts => self.backoff.ceiling(restarts - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_at_once_then_doubles_and_forgets_after_a_long_run() {
        let mut backoff = RestartBackoff::new(&Config::new("n", "/d", "/p"), 0);
        let short = Duration::from_secs(1);
        let delays: Vec<u64> = (0..8).map(|_| backoff.after_run(short).as_secs()).collect();
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(backoff.after_run(Duration::from_mins(10)).as_secs(), 0);
        assert_eq!(backoff.after_run(short).as_secs(), 10);
    }
}
