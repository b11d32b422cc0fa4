//! How often the coming and going of one workstation is told: at once, until it happens so often that the API server and the
//! operator would have nothing else to do.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use causeway_stowaway::Uid;

/// So many changes of one workstation are told in a time.
const MOST: usize = 10;
const WITHIN: Duration = Duration::from_mins(1);

/// When what was told.
#[derive(Default)]
pub(super) struct Calm {
    told: HashMap<Uid, VecDeque<Instant>>,
    is_over: bool,
}

impl Calm {
    /// Whether a change of this workstation may be told now; then it counts as told.
    pub(super) fn may_tell(&mut self, uid: &Uid, now: Instant) -> bool {
        if self.is_over {
            return true;
        }
        self.told.retain(|_, times| {
            while times.front().is_some_and(|time| now.duration_since(*time) >= WITHIN) {
                times.pop_front();
            }
            !times.is_empty()
        });
        let times = self.told.entry(uid.clone()).or_default();
        let may = times.len() < MOST;
        if may {
            times.push_back(now);
        }
        may
    }

    /// From now on everything is told at once: it is the last word.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_comes_and_goes_all_the_time_is_told_of_now_and_then() {
        let (mut calm, begin) = (Calm::default(), Instant::now());
        let (restless, other) = (Uid::from("a"), Uid::from("b"));
        let each = |n: u32| begin + Duration::from_millis(50) * n;
        let told = (0..1000).filter(|n| calm.may_tell(&restless, each(*n))).count();
        assert_eq!(told, MOST, "of 50 seconds");
        assert!(calm.may_tell(&other, each(1000)), "another is told of at once");
        assert!(calm.may_tell(&restless, begin + WITHIN));
        assert!(!calm.may_tell(&restless, begin + WITHIN));
        calm.end();
        assert!(calm.may_tell(&restless, begin + WITHIN), "the last word");
    }
}
