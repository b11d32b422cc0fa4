//! What waits in this process for slow readers, on all links: bounded, so that a crowd that sends to a service which does
//! not read can't fill the memory that every tunnel of the process shares, and counted for each client, so that what waits
//! for one never breaks the streams of another.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use causeway_base::{Budget, Share, capacity};

/// Whatever the machine has, this much is there.
const LEAST: u64 = 16 << 20;

/// A part of the memory that the process may have, of which no client gets more than is left for all others.
static ALL: LazyLock<Arc<Budget<IpAddr>>> =
    LazyLock::new(|| Budget::new((capacity::memory() / 4).max(LEAST)));

/// What waits of one stream.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Option<Share<IpAddr>>);

impl Waiting {
    /// For a stream of this client. The ends' own streams have none: they are few, and bounded by their windows alone.
    pub(crate) fn of(client: Option<IpAddr>) -> Self {
        Self::within(&ALL, client)
    }

    fn within(all: &Arc<Budget<IpAddr>>, client: Option<IpAddr>) -> Self {
        Self(client.and_then(|client| all.take(client, 0)))
    }

    /// So many bytes wait now; false, and nothing changes, if more would wait for the client than is left for others.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        self.0.as_mut().is_none_or(|share| share.resize(bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_never_reads_leaves_room_for_others() {
        let all = Budget::new(1000);
        let [greedy, other] = [1, 2].map(|last| Some(IpAddr::from([10, 0, 0, last])));
        // However many streams it has, and however little waits on each.
        let mut stuck: Vec<_> = (0..2000).map(|_| Waiting::within(&all, greedy)).collect();
        let held = stuck.iter_mut().filter_map(|one| one.set(1).then_some(())).count();
        assert_eq!(held, 500);
        let mut stream = Waiting::within(&all, other);
        assert!(stream.set(200) && stream.set(0), "a moment's wait of another client");
        let mut control = Waiting::within(&all, None);
        assert!(control.set(5000), "the ends have to talk");
        assert!(
            stuck[0].set(0) && stuck[1].set(2),
            "less is always fine, and what was given back is there again"
        );
        drop((stuck, stream));
        assert_eq!(all.used(), 0);
    }
}
