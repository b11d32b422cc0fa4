//! Which workstations are connected: each has one seat, the link that counts. Who comes again takes the place of its own older
//! link; what is on that goes on until it ends.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

use causeway_base::lock::lock;
use causeway_link::Link;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Uid;
use crate::refusal::{Cause, Refusal};
use crate::way::Way;

/// How a workstation is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// By which way it came.
    pub way: Way,
    /// The address that it came from.
    pub from: SocketAddr,
    /// Since when.
    pub since: SystemTime,
}

/// The link that counts.
pub(super) struct Seat {
    pub(super) link: Arc<Link>,
    standing: Standing,
    session: String,
    /// Why it counts no longer.
    replaced: OnceLock<Option<Refusal>>,
    gone: CancellationToken,
}

impl Seat {
    pub(super) fn new(link: Arc<Link>, standing: Standing, session: String) -> Arc<Self> {
        let gone = CancellationToken::new();
        Arc::new(Self { link, standing, session, replaced: OnceLock::new(), gone })
    }

    pub(super) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Waits until another link has taken its place; gives the reason if the laptop does not know it.
    pub(super) async fn replaced(&self) -> Option<Refusal> {
        self.gone.cancelled().await;
        self.replaced.get().cloned().flatten()
    }
}

/// All seats.
#[derive(Default)]
pub(super) struct Seats {
    taken: Mutex<HashMap<Arc<str>, Arc<Seat>>>,
    /// Who is there without a link.
    heard: Mutex<HashMap<Arc<str>, Standing>>,
    /// Held from looking at a seat until it is told, so that nobody tells what was true before.
    publishing: Mutex<()>,
    standings: watch::Sender<BTreeMap<Uid, Standing>>,
}

impl Seats {
    /// The newest takes the seat.
    pub(super) fn take(&self, uid: &Arc<str>, seat: &Arc<Seat>) {
        let old = lock(&self.taken).insert(uid.clone(), seat.clone());
        if let Some(old) = old {
            let known = old.session == seat.session;
            let reason = (!known).then(|| {
                let text =
                    format!("another process has connected as this workstation, from {}", seat.standing.from);
                Refusal::new(Cause::Replaced, text)
            });
            // The first reason counts.
            let _ = old.replaced.set(reason);
            old.gone.cancel();
        }
        self.publish(uid);
    }

    /// A link gives its seat up, if it still has it.
    pub(super) fn give_up(&self, uid: &Arc<str>, seat: &Arc<Seat>) {
        let mut taken = lock(&self.taken);
        if taken.get(uid).is_some_and(|known| Arc::ptr_eq(known, seat)) {
            taken.remove(uid);
        }
        drop(taken);
        self.publish(uid);
    }

    /// Says who is there without a link. A link counts more.
    pub(super) fn heard(&self, standings: &HashMap<Arc<str>, Standing>) {
        let old = std::mem::replace(&mut *lock(&self.heard), standings.clone());
        for uid in old.keys().chain(standings.keys()) {
            self.publish(uid);
        }
    }

    pub(super) fn get(&self, uid: &str) -> Option<Arc<Seat>> {
        lock(&self.taken).get(uid).cloned()
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.taken).is_empty()
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.taken).len()
    }

    pub(super) fn standings(&self) -> watch::Receiver<BTreeMap<Uid, Standing>> {
        self.standings.subscribe()
    }

    fn publish(&self, uid: &Arc<str>) {
        let _publishing = lock(&self.publishing);
        let seated = self.get(uid).map(|seat| seat.standing.clone());
        let standing = seated.or_else(|| lock(&self.heard).get(uid).cloned());
        self.standings.send_if_modified(|standings| match standing {
            Some(standing) if standings.get(&**uid) == Some(&standing) => false,
            Some(standing) => {
                standings.insert(uid.to_string(), standing);
                true
            }
            None => standings.remove(&**uid).is_some(),
        });
    }
}
