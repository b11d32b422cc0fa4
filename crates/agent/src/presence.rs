//! This pod on its networks: it tells the neighbours of its address before it says that it is ready, and it is not ready
//! while its cable leads nowhere, or while it would forward between its networks whatever it is sent, past everything that
//! its plan says.
//!
//! Where a pod was deleted, Kubernetes starts the next one while the last still lets its connections end, and both have the
//! same address. The next one says nothing on the network until the last is gone.
//!
//! An address that another machine has too is found in IPv6, where the network plugin lets the kernel look for it. In
//! IPv4 the kernel does not look, and nobody else can without the right to raw sockets.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::announce::announce;
use crate::followed::{Followed, State};
use crate::links::Links;
use crate::neighbours::Neighbours;
use crate::runner::{Runner, Snapshot, changes_of};

/// How often this pod's networks are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often an address is announced: a neighbour that has just heard something else takes no other word for a second.
const ROUNDS: u8 = 5;

/// What a pod that was told to end may need beyond the time of its connections, until the operator has seen that it is gone.
const FAREWELL: Duration = Duration::from_secs(15);

/// A runner that is ready only when its pod's networks are.
pub(crate) struct Presence<R> {
    runner: Arc<R>,
    neighbours: Arc<Neighbours>,
    links: Links,
    standing_tx: watch::Sender<Standing>,
}

/// How this pod stands on its networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Standing {
    /// It was looked at, since there is a plan.
    is_known: bool,
    /// Addresses that this machine has and nobody was told of.
    untold: Vec<IpAddr>,
    /// Why no traffic may be sent here.
    trouble: Option<String>,
}

impl<R: Runner> Presence<R> {
    pub(crate) fn new(runner: Arc<R>, neighbours: Arc<Neighbours>) -> Self {
        Self { runner, neighbours, links: Links::default(), standing_tx: watch::Sender::default() }
    }

    /// Looks and announces until aborted. `pod_ip` is this pod's address on the network of all pods.
    pub(crate) async fn keep<F: Followed>(
        self: Arc<Self>,
        pod_ip: IpAddr,
        mut state_rx: watch::Receiver<Arc<State<F>>>,
    ) {
        let mut changes = self.runner.changes();
        let mut look = tokio::time::interval(LOOK);
        let since = Instant::now();
        // The addresses that were announced, and how often.
        let mut told: Vec<(IpAddr, u8)> = Vec::new();
        loop {
            let state = Arc::clone(&state_rx.borrow_and_update());
            let isolated = |address: &&IpAddr| !address.is_loopback() && **address != pod_ip;
            let here: Vec<IpAddr> = state.here.iter().filter(isolated).copied().collect();
            told.retain(|(address, _)| here.contains(address));
            let mut untold: Vec<IpAddr> = here.clone();
            untold.retain(|address| !told.iter().any(|(known, _)| known == address));
            let is_waited_for = state.is_shared && since.elapsed() < self.runner.drain_limit() + FAREWELL;
            // Before anything listens, a neighbour that knows is a neighbour that is refused; and before the last pod has
            // ended, one whose open connections end.
            if self.runner.missing().is_empty() && !is_waited_for {
                for address in untold.drain(..) {
                    self.announce(address);
                    told.push((address, 1));
                }
            }
            self.stand(Standing {
                is_known: state.plan.is_some(),
                untold,
                trouble: self.trouble(pod_ip, &here, &state.absent),
            });
            tokio::select! {
                changed = state_rx.changed() => if changed.is_err() { return },
                change = changes.next() => if change.is_none() { return },
                _ = look.tick() => {
                    for (address, rounds) in told.iter_mut().filter(|(_, rounds)| *rounds < ROUNDS) {
                        *rounds += 1;
                        self.announce(*address);
                    }
                }
            }
        }
    }

    fn announce(&self, address: IpAddr) {
        match announce(&self.links, address) {
            Ok(()) => tracing::debug!(%address, "announced"),
            Err(error) => {
                tracing::warn!(%address, %error, "the neighbours can't be told of an address; they find it by and by");
            }
        }
    }

    fn trouble(&self, pod_ip: IpAddr, here: &[IpAddr], absent: &[IpAddr]) -> Option<String> {
        if let Some(taken) = absent.iter().find(|address| self.links.is_duplicate(**address)) {
            return Some(format!(
                "another machine on the network has {taken} already: take it away there, or write another address"
            ));
        }
        let mut interfaces =
            here.iter().filter_map(|address| Some((address, self.links.interface_of(*address)?)));
        if let Some((address, interface)) = interfaces.find(|(_, name)| !Links::has_carrier(name)) {
            return Some(format!(
                "{interface}, the interface of {address}, has no carrier: see whether the bridge or the card that it is on is \
                 there and switched on"
            ));
        }
        // One network has nothing to forward to, and a machine's own is not this pod's to judge.
        if here.is_empty() || pod_ip.is_loopback() {
            return None;
        }
        let forwards = self.links.forwards();
        (!forwards.is_empty()).then(|| {
            format!(
                "this pod would forward {} between its networks, past what it is for: add {TUNING} to the plugins of the \
                 NetworkAttachmentDefinition, and delete the pod",
                forwards.join(" and ")
            )
        })
    }

    fn stand(&self, standing: Standing) {
        self.standing_tx.send_if_modified(|before| {
            if *before == standing {
                return false;
            }
            if let Some(trouble) = standing.trouble.as_ref().filter(|_| before.trouble != standing.trouble) {
                tracing::warn!("{trouble}");
            }
            *before = standing;
            true
        });
    }
}

/// What keeps a pod from forwarding.
const TUNING: &str = r#"{"type": "tuning", "sysctl": {"net.ipv4.conf.all.forwarding": "0", "net.ipv6.conf.all.forwarding": "0"}}"#;

impl<R: Runner> Runner for Presence<R> {
    type Plan = R::Plan;

    fn missing(&self) -> Vec<String> {
        let mut missing = self.runner.missing();
        let standing = self.standing_tx.borrow();
        missing.extend(standing.trouble.clone());
        let untold = standing.untold.iter();
        missing.extend(
            untold.map(|address| format!("{address} is not announced yet, as it may be another pod's still")),
        );
        if missing.is_empty() && !standing.is_known {
            missing.push("this pod's networks were not looked at yet".to_owned());
        }
        missing
    }

    async fn snapshot(&self) -> Snapshot<R::Plan> {
        let mut snapshot = self.runner.snapshot().await;
        let own = self.standing_tx.borrow().trouble.clone();
        let each: Vec<_> = own.into_iter().chain(snapshot.trouble.take()).collect();
        snapshot.trouble = (!each.is_empty()).then(|| each.join("; "));
        // Told, and no reason not to be ready: what is asked here is answered all the same.
        snapshot.unreached = self.neighbours.unreached();
        snapshot
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let own = stream::select(changes_of(self.standing_tx.subscribe()), self.neighbours.changes());
        stream::select(self.runner.changes(), own).boxed()
    }

    fn spec_refused(&self) {
        self.runner.spec_refused();
    }

    async fn metrics(&self) -> Option<(&'static str, String)> {
        self.runner.metrics().await
    }

    fn drain_limit(&self) -> Duration {
        self.runner.drain_limit()
    }

    fn say_farewell(&self) {
        self.runner.say_farewell();
    }

    async fn drain(&self) {
        self.runner.drain().await;
    }
}
