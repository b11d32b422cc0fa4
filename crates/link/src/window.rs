//! How much the other end may send on a stream before it was taken here. A window begins small and doubles while the
//! stream uses it up about once a round trip, since it is then what holds the stream back; so a long path is filled
//! and a slow reader does not make the other end's bytes pile up here.

use std::time::{Duration, Instant};

/// Every stream begins with this.
pub(crate) const FIRST: u32 = 256 << 10;
/// No stream gets more.
const LARGEST: u32 = 16 << 20;
/// A round trip is taken for at least this: below it the machine, not the path, is what takes time.
const SHORTEST_TRIP: Duration = Duration::from_millis(1);

/// The window of one stream.
#[derive(Debug)]
pub(crate) struct Window {
    size: u32,
    /// Taken here, and not yet given back to the other end.
    owed: u32,
    /// Taken since `began`.
    turn: u32,
    began: Option<Instant>,
}

impl Default for Window {
    fn default() -> Self {
        Self { size: FIRST, owed: 0, turn: 0, began: None }
    }
}

impl Window {
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// How much this window has beyond what every stream has.
    pub(crate) fn extra(&self) -> u32 {
        self.size - FIRST
    }

    /// Bytes were taken; says how many more the other end may send now. `grant` is asked before the window grows.
    pub(crate) fn taken(
        &mut self,
        count: usize,
        round_trip: Duration,
        grant: impl FnOnce(u32) -> bool,
    ) -> Option<u32> {
        self.taken_at(count, round_trip, grant, Instant::now)
    }

    fn taken_at(
        &mut self,
        count: usize,
        round_trip: Duration,
        grant: impl FnOnce(u32) -> bool,
        now: impl FnOnce() -> Instant,
    ) -> Option<u32> {
        self.owed += count as u32;
        self.turn = self.turn.saturating_add(count as u32);
        if self.owed < self.size / 4 {
            return None;
        }
        let mut credit = std::mem::take(&mut self.owed);
        if self.turn >= self.size {
            let now = now();
            let quick = self.began.is_some_and(|began| now - began < round_trip.max(SHORTEST_TRIP) * 2);
            if quick && self.size < LARGEST && grant(self.size) {
                credit += self.size;
                self.size *= 2;
            }
            (self.turn, self.began) = (0, Some(now));
        }
        Some(credit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: Duration = Duration::from_millis(50);

    /// Takes a window's worth, a quarter at a time, over the given time.
    fn turn(window: &mut Window, now: &mut Instant, lasts: Duration, granted: bool) -> u32 {
        let size = window.size();
        *now += lasts;
        let at = *now;
        (0..4).filter_map(|_| window.taken_at(size as usize / 4, PATH, |_| granted, || at)).sum()
    }

    #[test]
    fn what_is_taken_is_given_back_in_quarters() {
        let mut window = Window::default();
        let mut take = |count| window.taken(count, PATH, |_| false);
        assert_eq!(take(FIRST as usize / 4 - 1), None);
        assert_eq!(take(1), Some(FIRST / 4));
        assert_eq!(take(FIRST as usize / 2), Some(FIRST / 2));
    }

    #[test]
    fn a_window_that_holds_a_stream_back_grows_to_its_bound() {
        let (mut window, mut now) = (Window::default(), Instant::now());
        let mut sizes = Vec::new();
        for _ in 0..9 {
            let before = window.size();
            let credit = turn(&mut window, &mut now, PATH, true);
            // Whatever is granted is announced.
            assert_eq!(credit, before + (window.size() - before));
            sizes.push(window.size());
        }
        assert_eq!(sizes[..3], [FIRST, 2 * FIRST, 4 * FIRST]);
        assert_eq!(*sizes.last().expect("sizes"), LARGEST);
    }

    #[test]
    fn a_stream_that_is_slower_than_its_path_keeps_its_window() {
        let (mut window, mut now) = (Window::default(), Instant::now());
        for _ in 0..9 {
            turn(&mut window, &mut now, PATH * 3, true);
        }
        assert_eq!(window.size(), FIRST);
    }

    #[test]
    fn nothing_grows_without_a_grant() {
        let (mut window, mut now) = (Window::default(), Instant::now());
        for _ in 0..9 {
            assert_eq!(turn(&mut window, &mut now, PATH, false), FIRST);
        }
        assert_eq!(window.extra(), 0);
    }
}
