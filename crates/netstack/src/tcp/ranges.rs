//! What came out of order: pieces of a stream with gaps before them, and which of them to report first.

/// More gaps than any path makes; what would open another is thrown away, and the sender sends it again.
const MOST: usize = 256;
/// As many as fit into a header.
pub(crate) const REPORTED: usize = 3;

/// Where a piece of the stream begins and ends.
pub(crate) type Piece = (u64, u64);

/// Pieces that do not touch each other, in order.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    pieces: Vec<Piece>,
    /// Places in the pieces that last changed, the newest first.
    recent: [Option<u64>; REPORTED],
}

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a piece; false if it would open one gap too many.
    pub(crate) fn insert(&mut self, start: u64, end: u64) -> bool {
        // Those that it overlaps or touches become one with it.
        let first = self.pieces.partition_point(|piece| piece.1 < start);
        let last = self.pieces.partition_point(|piece| piece.0 <= end);
        if first == last && self.pieces.len() >= MOST {
            return false;
        }
        let joined = self.pieces[first..last]
            .iter()
            .fold((start, end), |all, piece| (all.0.min(piece.0), all.1.max(piece.1)));
        self.pieces.splice(first..last, [joined]);
        self.touch(start);
        true
    }

    /// Whether all of it is there.
    pub(crate) fn contains(&self, start: u64, end: u64) -> bool {
        let at = self.pieces.partition_point(|piece| piece.1 < end);
        self.pieces.get(at).is_some_and(|piece| piece.0 <= start && end <= piece.1)
    }

    /// The stream is complete up to `next`; says up to where it is with what is here, which is forgotten.
    pub(crate) fn join(&mut self, next: u64) -> u64 {
        let mut end = next;
        let joined = self.pieces.iter().take_while(|piece| {
            let joins = piece.0 <= end;
            if joins {
                end = end.max(piece.1);
            }
            joins
        });
        let count = joined.count();
        self.pieces.drain(..count);
        end
    }

    /// The pieces to report, the newest first.
    pub(crate) fn report(&self) -> [Option<Piece>; REPORTED] {
        let mut report = [None; REPORTED];
        let mut count = 0;
        let recent = self.recent.iter().flatten().filter_map(|place| self.at(*place));
        // Below the recent ones come the others, so that a lost report is made up for.
        for piece in recent.chain(self.pieces.iter().copied()) {
            if count < REPORTED && !report.contains(&Some(piece)) {
                report[count] = Some(piece);
                count += 1;
            }
        }
        report
    }

    fn at(&self, place: u64) -> Option<Piece> {
        let at = self.pieces.partition_point(|piece| piece.1 <= place);
        self.pieces.get(at).copied().filter(|piece| piece.0 <= place)
    }

    fn touch(&mut self, place: u64) {
        let same = |known: &Option<u64>| known.is_none_or(|known| self.at(known) == self.at(place));
        let at = self.recent.iter().position(same).unwrap_or(REPORTED - 1);
        self.recent[..=at].rotate_right(1);
        self.recent[0] = Some(place);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_that_touch_become_one() {
        let mut ranges = Ranges::default();
        for (start, end) in [(10, 20), (30, 40), (20, 25), (24, 30)] {
            assert!(ranges.insert(start, end));
        }
        assert_eq!(ranges.report(), [Some((10, 40)), None, None]);
        assert!(ranges.contains(12, 40) && !ranges.contains(9, 12) && !ranges.contains(39, 41));
        assert_eq!(ranges.join(9), 9);
        assert_eq!((ranges.join(10), ranges.is_empty()), (40, true));
    }

    #[test]
    fn the_newest_is_reported_first() {
        let mut ranges = Ranges::default();
        for start in [10, 50, 30, 70] {
            ranges.insert(start, start + 5);
        }
        assert_eq!(ranges.report(), [Some((70, 75)), Some((30, 35)), Some((50, 55))]);
        ranges.insert(15, 16);
        assert_eq!(ranges.report()[0], Some((10, 16)));
    }

    #[test]
    fn gaps_are_bounded() {
        let mut ranges = Ranges::default();
        let count = (0..10_000).filter(|n| ranges.insert(n * 2 + 1, n * 2 + 2)).count();
        assert_eq!(count, MOST);
        assert!(ranges.insert(2, 3), "what closes a gap is always taken");
    }

    proptest! {
        #[test]
        fn it_holds_what_a_set_would(pieces in prop::collection::vec((0u64..200, 1u64..30), 0..60), next in 0u64..100) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (start, length) in pieces {
                ranges.insert(start, start + length);
                set.extend(start..start + length);
                for piece in ranges.report().into_iter().flatten() {
                    prop_assert!((piece.0..piece.1).all(|n| set.contains(&n)));
                }
            }
            for at in 0..230 {
                prop_assert_eq!(ranges.contains(at, at + 1), set.contains(&at));
            }
            let end = ranges.join(next);
            let expected = (next..1000).find(|n| !set.contains(n)).unwrap();
            prop_assert_eq!(end, expected);
        }
    }
}
