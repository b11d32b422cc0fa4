//! Places for streams: as many as the process's descriptors and memory allow, and none for a workstation that has as many
//! already as are left for all others, or as any may have. So a crowd on one workstation leaves places for the next.

use std::sync::Arc;
use std::time::Duration;

use causeway_base::{Budget, Share, Throttle, capacity};

use crate::refusal::{Cause, Refusal};

/// What any workstation may have.
const MOST: u64 = 4096;
/// Descriptors for links, listeners, handshakes, the agent's connections and logs.
const RESERVED: u64 = 512;
/// What a stream may take of memory: its socket's buffers, which the kernel counts, and what waits for a slow reader.
const MEMORY: u64 = 64 << 10;
/// A limit that refuses is told once in this time.
const TELL: Duration = Duration::from_secs(10);

/// A stream's place, until it is dropped.
pub(super) type Place = Share<Arc<str>>;

/// The places of a process.
pub(super) struct Places {
    streams: Arc<Budget<Arc<str>>>,
    told: Throttle,
}

impl Places {
    pub(super) fn of_this_process() -> Self {
        let descriptors = capacity::descriptors();
        // Where there are few descriptors, a part is kept back.
        let reserved = RESERVED.min(descriptors / 2);
        Self::new((descriptors - reserved).min(capacity::memory() / MEMORY))
    }

    fn new(places: u64) -> Self {
        Self { streams: Budget::new(places), told: Throttle::new(TELL) }
    }

    /// A place for a stream of this workstation.
    pub(super) fn take(&self, uid: &Arc<str>) -> Result<Place, Refusal> {
        let left = self.streams.limit().saturating_sub(self.streams.used());
        let place = self.streams.take_within(uid.clone(), 1, Some(left.min(MOST)));
        place.ok_or_else(|| {
            if let Some(refused) = self.told.pass() {
                let (streams, most) = (self.streams.used(), self.streams.limit());
                tracing::warn!(workstation = %uid, refused, streams, most, "streams are refused: too many");
            }
            Refusal::new(Cause::Busy, "the workstation has as many streams as it may have")
        })
    }

    /// How many there are.
    pub(super) fn used(&self) -> u64 {
        self.streams.used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_leaves_places_for_others() {
        let all = |places: &Places, uid: &str| -> Vec<Place> {
            std::iter::from_fn(|| places.take(&uid.into()).ok()).collect()
        };
        let places = Places::new(900);
        let (first, second) = (all(&places, "first"), all(&places, "second"));
        assert_eq!((first.len(), second.len()), (450, 225));
        drop((first, second));
        assert_eq!(places.used(), 0);
        assert_eq!(all(&Places::new(1 << 20), "greedy").len(), MOST as usize);
    }
}
