//! Neighbours on the isolated network: other servers that clients there need, too. They are tried every few seconds, and those
//! that do not answer are told of. So a firewall between them is seen, which every server by itself knows nothing of.
//!
//! Any answer counts, also a refusal: whether somebody listens is for each to say of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::stream::BoxStream;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, timeout};

use crate::followed::{Followed, State};
use crate::runner::changes_of;

/// How often those are tried that did not answer the last time.
const LOOK: Duration = Duration::from_secs(1);
/// How often the others are.
const REST: Duration = Duration::from_secs(3);
/// How long is waited for an answer.
const WAIT: Duration = Duration::from_secs(1);
/// How long an answer counts.
const HOLD: Duration = Duration::from_secs(8);

/// Tries to reach neighbours.
#[derive(Default)]
pub(crate) struct Neighbours {
    unreached_tx: watch::Sender<Vec<IpAddr>>,
}

impl Neighbours {
    /// Tries until aborted.
    pub(crate) async fn keep<F: Followed>(self: Arc<Self>, mut state_rx: watch::Receiver<Arc<State<F>>>) {
        let mut heard = Heard::default();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let state = Arc::clone(&state_rx.borrow_and_update());
            // Without an address there, nobody can be reached, and that is said elsewhere.
            let from = |to: SocketAddr| state.here.iter().copied().find(|own| own.is_ipv4() == to.is_ipv4());
            heard.follow(state.neighbours.iter().copied().filter(|to| from(*to).is_some()).collect());
            let tries = heard.due(Instant::now()).into_iter().filter_map(|to| {
                let from = from(to)?;
                Some(async move { (to, answers(from, to).await) })
            });
            for (to, has_answered) in join_all(tries).await {
                heard.note(to, has_answered, Instant::now());
            }
            self.tell(heard.unreached(Instant::now()));
            tokio::select! {
                changed = state_rx.changed() => if changed.is_err() { return },
                _ = look.tick() => {}
            }
        }
    }

    fn tell(&self, unreached: Vec<IpAddr>) {
        self.unreached_tx.send_if_modified(|before| {
            if *before == unreached {
                return false;
            }
            for address in unreached.iter().filter(|address| !before.contains(address)) {
                tracing::warn!(%address, "a neighbour on the network does not answer");
            }
            *before = unreached;
            true
        });
    }

    /// Those that do not answer.
    pub(crate) fn unreached(&self) -> Vec<String> {
        self.unreached_tx.borrow().iter().map(ToString::to_string).collect()
    }

    /// An item whenever that has changed.
    pub(crate) fn changes(&self) -> BoxStream<'static, ()> {
        changes_of(self.unreached_tx.subscribe())
    }
}

/// Whether anything comes back from there.
async fn answers(from: IpAddr, to: SocketAddr) -> bool {
    let connect = async {
        let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(to).await
    };
    match timeout(WAIT, connect).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset)
        }
        Err(_) => false,
    }
}

/// When each neighbour was heard of last; none for one that was tried in vain since it is one.
#[derive(Default)]
struct Heard(BTreeMap<SocketAddr, Option<Instant>>);

impl Heard {
    /// Forgets those that are no neighbours any more.
    fn follow(&mut self, near: BTreeSet<SocketAddr>) {
        self.0.retain(|known, _| near.contains(known));
        for new in near {
            self.0.entry(new).or_default();
        }
    }

    /// Those that have to be tried.
    fn due(&self, now: Instant) -> Vec<SocketAddr> {
        let is_due = |at: &Option<Instant>| at.is_none_or(|at| now.duration_since(at) >= REST);
        self.0.iter().filter(|(_, at)| is_due(at)).map(|(known, _)| *known).collect()
    }

    fn note(&mut self, neighbour: SocketAddr, has_answered: bool, now: Instant) {
        if let Some(at) = self.0.get_mut(&neighbour).filter(|_| has_answered) {
            *at = Some(now);
        }
    }

    fn unreached(&self, now: Instant) -> Vec<IpAddr> {
        let is_lost = |at: &Option<Instant>| at.is_none_or(|at| now.duration_since(at) >= HOLD);
        self.0.iter().filter(|(_, at)| is_lost(at)).map(|(known, _)| known.ip()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_silent_for_a_while_is_not_reached() {
        let (one, two): (SocketAddr, SocketAddr) =
            ("192.168.100.2:67".parse().unwrap(), "192.168.100.3:53".parse().unwrap());
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let mut heard = Heard::default();
        heard.follow([one, two].into());
        assert_eq!(heard.due(at(0)), [one, two]);
        heard.note(one, true, at(0));
        heard.note(two, false, at(0));
        assert_eq!(heard.unreached(at(0)), [two.ip()]);
        assert_eq!(heard.due(at(1)), [two], "who has answered is left alone for a moment");
        heard.note(two, true, at(1));
        assert!(heard.unreached(at(1)).is_empty());
        heard.note(one, false, at(3));
        assert!(heard.unreached(at(7)).is_empty(), "a packet may be lost");
        assert_eq!(heard.unreached(at(8)), [one.ip()]);
        heard.follow([two].into());
        assert_eq!(heard.unreached(at(9)), [two.ip()], "who is no neighbour any more is not missed");
    }

    #[tokio::test]
    async fn a_refusal_is_an_answer() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(answers([127, 0, 0, 1].into(), free).await);
        // No way leads there from the loopback.
        assert!(!answers([127, 0, 0, 1].into(), "192.0.2.1:9".parse().unwrap()).await);
    }
}
