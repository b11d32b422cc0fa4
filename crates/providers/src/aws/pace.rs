//! Route 53 takes five requests a second from an account, whatever they are. All who act as the same share a pace a
//! little below that, so that others of the account get through.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use causeway_base::lock::lock;
use tokio::time::{Instant, sleep_until};

const GAP: Duration = Duration::from_millis(250);

pub(super) struct Pace {
    next: Mutex<Instant>,
}

impl Pace {
    /// The pace of all who act as `identity`.
    pub(super) fn of(identity: &str) -> Arc<Self> {
        static ALL: LazyLock<Mutex<HashMap<String, Arc<Pace>>>> = LazyLock::new(Mutex::default);
        let mut all = lock(&ALL);
        Arc::clone(all.entry(identity.to_owned()).or_insert_with(|| Arc::new(Self::new())))
    }

    fn new() -> Self {
        Self { next: Mutex::new(Instant::now()) }
    }

    /// Waits for the caller's turn.
    pub(super) async fn turn(&self) {
        let at = {
            let mut next = lock(&self.next);
            let at = Instant::now().max(*next);
            *next = at + GAP;
            at
        };
        sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_than_four_in_a_second_whoever_asks() {
        let began = Instant::now();
        let (one, two) = (Pace::of("pace-test"), Pace::of("pace-test"));
        for _ in 0..10 {
            tokio::join!(one.turn(), two.turn());
        }
        assert_eq!(began.elapsed(), GAP * 19);
    }
}
