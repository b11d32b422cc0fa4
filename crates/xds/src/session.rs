//! The protocol with one Envoy, without IO: requests in, responses out. A change goes out as clusters, endpoints,
//! listeners, and last the removal of clusters. Listeners wait until clusters and endpoints were acknowledged, so that
//! a listener never names what Envoy does not have. One response per type is under way at most; what comes next is
//! worked out from the newest snapshot when there is room for it, so nothing queues up.

mod subscription;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::resource::{Kind, Resource};
use crate::snapshot::Snapshot;
use crate::status::Nack;
use subscription::{Changes, Subscription};

/// How long listeners wait for Envoy to ask for the endpoints of clusters it has just acknowledged.
const ENDPOINTS_LIMIT: Duration = Duration::from_secs(1);
/// How long the removal of clusters waits for a client that may yet ask for listeners.
const LISTENERS_LIMIT: Duration = Duration::from_secs(5);
/// More than this is not sent in one response where it can be split.
const RESPONSE_BYTES: usize = 2 << 20;
/// More names than this are not kept for one client.
pub(crate) const MOST_NAMES: usize = 500_000;

/// What a client asked, in either variant of the protocol.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) names: Names,
    /// What the client still has from an earlier stream.
    pub(crate) initial_versions: HashMap<String, String>,
    /// Of the response that this one answers; empty if none.
    pub(crate) nonce: String,
    /// Why the response was refused.
    pub(crate) error: Option<String>,
}

/// The names that a client wants.
#[derive(Debug)]
pub(crate) enum Names {
    /// State of the world: exactly these; at first none means all, but of endpoints.
    Exactly(Vec<String>),
    /// Delta: these more, those less.
    Change { subscribe: Vec<String>, unsubscribe: Vec<String> },
}

/// What a client is told.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) kind: Kind,
    pub(crate) resources: Vec<Arc<Resource>>,
    /// For delta.
    pub(crate) removed: Vec<String>,
    pub(crate) nonce: String,
    pub(crate) version: String,
}

/// What to do next for a client.
#[derive(Debug)]
pub(crate) enum Next {
    Send(Response),
    /// Ask again then.
    Wait(Instant),
    Nothing,
}

/// One stream of one client.
pub(crate) struct Session {
    delta: bool,
    subscriptions: [Subscription; 3],
    nonce: u64,
    started: Instant,
    clusters_acknowledged: Instant,
    /// Clusters that the client has, and whose endpoints it has perhaps not asked for yet.
    without_endpoints: HashSet<String>,
    /// The snapshot of which the client has everything that it can get.
    settled: Option<u64>,
}

impl Session {
    pub(crate) fn new(delta: bool, now: Instant) -> Self {
        Self {
            delta,
            subscriptions: Kind::ALL.map(|kind| Subscription::new(kind, delta)),
            nonce: 0,
            started: now,
            clusters_acknowledged: now,
            without_endpoints: HashSet::new(),
            settled: None,
        }
    }

    /// Takes over what a client had on an earlier stream and is not served any more. A client that asks for the state of
    /// the world can't tell it by itself, and would lose these clusters before the listeners that use them.
    pub(crate) fn remember(&mut self, clusters: Vec<Arc<Resource>>, snapshot: &Snapshot) {
        let gone = clusters.into_iter().filter(|one| !snapshot.set(Kind::Cluster).contains(&one.name));
        self.subscriptions[Kind::Cluster as usize].remember(gone);
    }

    /// The clusters that the client has.
    pub(crate) fn clusters(&self) -> Vec<Arc<Resource>> {
        self.subscriptions[Kind::Cluster as usize].sent_and_taken()
    }

    /// Takes a request; `false` if the client wants more names than can be kept.
    pub(crate) fn receive(&mut self, request: Request, now: Instant) -> bool {
        self.settled = None;
        let kind = request.kind;
        if kind == Kind::Cluster {
            self.without_endpoints.extend(request.initial_versions.keys().cloned());
        }
        let subscription = &mut self.subscriptions[kind as usize];
        subscription.subscribe(request.names, request.initial_versions);
        let taken = subscription.answer(&request.nonce, request.error);
        let fits = subscription.names() <= MOST_NAMES;
        if kind == Kind::Cluster && !taken.is_empty() {
            self.clusters_acknowledged = now;
            self.without_endpoints.extend(taken);
        }
        fits
    }

    /// The newest refusals that still hold.
    pub(crate) fn nacks(&self) -> impl Iterator<Item = &Nack> {
        self.subscriptions.iter().filter_map(|subscription| subscription.nack.as_ref())
    }

    /// Whether the client has acknowledged or refused everything of a snapshot.
    pub(crate) fn is_settled(&self, snapshot: &Snapshot) -> bool {
        self.settled == Some(snapshot.number)
    }

    /// What to do now that `snapshot` is the newest.
    pub(crate) fn next(&mut self, snapshot: &Snapshot, now: Instant) -> Next {
        if snapshot.plan.is_none() || self.is_settled(snapshot) {
            return Next::Nothing;
        }
        for kind in Kind::ALL {
            self.subscriptions[kind as usize].forgive(snapshot.set(kind));
        }
        for kind in Kind::ALL {
            let clusters_wait = self.subscriptions[Kind::Cluster as usize].is_waiting();
            let subscription = &mut self.subscriptions[kind as usize];
            if !subscription.is_subscribed() {
                continue;
            }
            if subscription.is_waiting() {
                // Envoy acknowledges changed clusters only when it has their endpoints.
                if kind == Kind::Cluster {
                    continue;
                }
                return Next::Nothing;
            }
            if kind == Kind::Listener && clusters_wait {
                return Next::Nothing;
            }
            let mut changes = subscription.changes(snapshot.set(kind));
            if kind == Kind::Cluster {
                // They go last.
                changes.gone = Vec::new();
            }
            if changes.is_empty() && !subscription.needs_first_answer() {
                continue;
            }
            if kind == Kind::Listener
                && let Some(until) = self.endpoints_missing(snapshot, now)
            {
                return Next::Wait(until);
            }
            return Next::Send(self.send(kind, snapshot, changes, true));
        }
        self.remove_clusters(snapshot, now)
    }

    /// Until when listeners wait for the client to ask for the endpoints of its new clusters.
    fn endpoints_missing(&mut self, snapshot: &Snapshot, now: Instant) -> Option<Instant> {
        let [clusters, endpoints, _] = &self.subscriptions;
        let until = self.clusters_acknowledged + ENDPOINTS_LIMIT;
        if now >= until {
            self.without_endpoints.clear();
        }
        self.without_endpoints
            .retain(|name| !endpoints.wants(name) && snapshot.set(Kind::Cluster).contains(name));
        (clusters.is_subscribed() && !self.without_endpoints.is_empty()).then_some(until)
    }

    /// Clusters go last, and not while a refused listener may still use them.
    fn remove_clusters(&mut self, snapshot: &Snapshot, now: Instant) -> Next {
        let [clusters, _, listeners] = &mut self.subscriptions;
        if clusters.is_waiting() {
            return Next::Nothing;
        }
        if clusters.is_subscribed() && listeners.nack.is_none() {
            let gone = clusters.changes(snapshot.set(Kind::Cluster)).gone;
            if !gone.is_empty() {
                let until = self.started + LISTENERS_LIMIT;
                if !listeners.is_subscribed() && now < until {
                    return Next::Wait(until);
                }
                let changes = Changes { gone, ..Changes::default() };
                return Next::Send(self.send(Kind::Cluster, snapshot, changes, false));
            }
        }
        if self.subscriptions[Kind::Listener as usize].is_subscribed() {
            self.settled = Some(snapshot.number);
        }
        Next::Nothing
    }

    fn send(&mut self, kind: Kind, snapshot: &Snapshot, changes: Changes, keep_gone: bool) -> Response {
        self.nonce += 1;
        let nonce = self.nonce.to_string();
        let subscription = &mut self.subscriptions[kind as usize];
        let Changes { upserts: mut resources, gone: mut removed, absent } = changes;
        let full = !self.delta && kind != Kind::Endpoints;
        if full {
            // State of the world: what is not in the response is gone.
            resources = subscription.all(snapshot.set(kind), keep_gone && kind == Kind::Cluster);
            removed = Vec::new();
        } else {
            let mut bytes = 0;
            let fit = resources.iter().take_while(|resource| {
                let fits = bytes < RESPONSE_BYTES;
                bytes += resource.body.value.len();
                fits
            });
            let fit = fit.count();
            resources.truncate(fit);
        }
        let changed: Vec<String> = resources
            .iter()
            .filter(|resource| subscription.differs(resource))
            .map(|resource| resource.name.clone())
            .collect();
        subscription.sent(nonce.clone(), &resources, removed.clone(), absent.clone(), full);
        if kind == Kind::Cluster {
            // Envoy readies a changed cluster anew, and waits for its endpoints to be said again.
            self.subscriptions[Kind::Endpoints as usize].forget(&changed);
        }
        removed.extend(absent);
        Response { kind, resources, removed, nonce, version: snapshot.number.to_string() }
    }
}

#[cfg(test)]
mod tests;
