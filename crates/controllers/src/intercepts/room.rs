//! What fits into the Secret that the pods of the cluster's end are told by. A Secret holds no more than 1 MiB, and one that does not
//! fit is not written at all: nobody new would be let in, and nobody who is removed put out. So no namespace has all of it, and
//! whoever is older comes first.

use std::collections::HashMap;

use serde::Serialize;

/// For workstations.
pub(crate) const OF_PEERS: usize = 700 << 10;
/// For what carriers were granted.
pub(crate) const OF_GRANTS: usize = 240 << 10;
/// What one namespace may have of it.
const SHARE: usize = 4;

/// Room for one kind of entries.
pub(crate) struct Room {
    all: usize,
    used: usize,
    by_namespace: HashMap<String, usize>,
}

impl Room {
    pub(crate) fn new(all: usize) -> Self {
        Self { all, used: 0, by_namespace: HashMap::new() }
    }

    /// Takes room for an entry of a namespace, if there is any left for it.
    pub(crate) fn take(&mut self, namespace: &str, entry: &impl Serialize) -> bool {
        // With what is between two entries.
        let size = serde_json::to_vec(entry).map_or(self.all, |text| text.len() + 1);
        let of_namespace = self.by_namespace.entry(namespace.to_owned()).or_default();
        let fits = self.used + size <= self.all && *of_namespace + size <= self.all / SHARE;
        if fits {
            self.used += size;
            *of_namespace += size;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_namespace_takes_all_and_all_together_fit() {
        let mut room = Room::new(400);
        let entry = "x".repeat(17);
        let taken =
            |room: &mut Room, namespace: &str| (0..100).filter(|_| room.take(namespace, &entry)).count();
        assert_eq!(taken(&mut room, "a"), 5, "a quarter, each with quotes and comma");
        assert_eq!([taken(&mut room, "b"), taken(&mut room, "c"), taken(&mut room, "d")], [5, 5, 5]);
        assert_eq!(taken(&mut room, "e"), 0, "nothing is left");
    }
}
