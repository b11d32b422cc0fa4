//! The protocol with one Envoy, without IO: requests in, responses out. A change goes out as clusters, endpoints,
//! listeners, and last the removal of clusters. Listeners wait until clusters and endpoints were acknowledged, so that
//! a listener never names what Envoy does not have. One response per type is under way at most; what comes next is
//! worked out from the newest snapshot when there is room for it, so nothing queues up.

mod track;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::board::Nack;
use crate::snapshot::{Kind, Resource, Snapshot};
use track::Track;

/// How long listeners wait for Envoy to ask for the endpoints of clusters it has just acknowledged.
const ENDPOINTS_LIMIT: Duration = Duration::from_secs(1);
/// How long the removal of clusters waits for a client that may yet ask for listeners.
const LISTENERS_LIMIT: Duration = Duration::from_secs(5);
/// More than this is not sent in one response where it can be split.
const RESPONSE_BYTES: usize = 2 << 20;
/// More names than this are not kept for one client.
pub const MOST_NAMES: usize = 500_000;

/// What a client asked, in either variant of the protocol.
#[derive(Debug)]
pub struct Request {
    pub kind: Kind,
    pub names: Names,
    /// What the client still has from an earlier stream.
    pub initial_versions: HashMap<String, String>,
    /// Of the response that this one answers; empty if none.
    pub nonce: String,
    /// Why the response was refused.
    pub error: Option<String>,
}

/// The names that a client wants.
#[derive(Debug)]
pub enum Names {
    /// State of the world: exactly these; none means all.
    Exactly(Vec<String>),
    /// Delta: these more, those less.
    Change { subscribe: Vec<String>, unsubscribe: Vec<String> },
}

/// What a client is told.
#[derive(Debug)]
pub struct Response {
    pub kind: Kind,
    pub resources: Vec<Arc<Resource>>,
    /// For delta.
    pub removed: Vec<String>,
    pub nonce: String,
    pub version: String,
}

/// What to do next for a client.
#[derive(Debug)]
pub enum Next {
    Send(Response),
    /// Ask again then.
    Wait(Instant),
    Nothing,
}

/// One stream of one client.
pub struct Session {
    delta: bool,
    tracks: [Track; 3],
    nonce: u64,
    started: Instant,
    clusters_acknowledged: Instant,
    /// The snapshot of which the client has everything that it can get.
    settled: Option<u64>,
}

impl Session {
    pub fn new(delta: bool, now: Instant) -> Self {
        Self {
            delta,
            tracks: Default::default(),
            nonce: 0,
            started: now,
            clusters_acknowledged: now,
            settled: None,
        }
    }

    /// Takes a request; `false` if the client wants more names than can be kept.
    pub fn receive(&mut self, request: Request, now: Instant) -> bool {
        self.settled = None;
        let kind = request.kind;
        let track = &mut self.tracks[kind as usize];
        track.subscribe(request.names, request.initial_versions);
        let answered = track.answer(kind, &request.nonce, request.error);
        let fits = track.names() <= MOST_NAMES;
        if kind == Kind::Cluster && !answered.is_empty() {
            self.clusters_acknowledged = now;
        }
        fits
    }

    /// The newest refusals that still hold.
    pub fn nacks(&self) -> impl Iterator<Item = &Nack> {
        self.tracks.iter().filter_map(|track| track.nack.as_ref())
    }

    /// Whether the client has acknowledged or refused everything of a snapshot.
    pub fn is_settled(&self, snapshot: &Snapshot) -> bool {
        self.settled == Some(snapshot.number)
    }

    /// What to do now that `snapshot` is the newest.
    pub fn next(&mut self, snapshot: &Snapshot, now: Instant) -> Next {
        if snapshot.plan.is_none() || self.is_settled(snapshot) {
            return Next::Nothing;
        }
        for kind in Kind::ALL {
            self.tracks[kind as usize].forgive(snapshot.set(kind));
        }
        for kind in Kind::ALL {
            let track = &self.tracks[kind as usize];
            if !track.is_subscribed() {
                continue;
            }
            if track.is_waiting() {
                // Envoy acknowledges changed clusters only when it has their endpoints.
                if kind == Kind::Cluster {
                    continue;
                }
                return Next::Nothing;
            }
            if kind == Kind::Listener && self.tracks[Kind::Cluster as usize].is_waiting() {
                return Next::Nothing;
            }
            let mut changes = track.changes(snapshot.set(kind));
            let removed = if kind == Kind::Listener { track.gone(snapshot.set(kind)) } else { Vec::new() };
            if kind == Kind::Endpoints && self.delta {
                changes.absent = track.absent(snapshot.set(kind));
            }
            if changes.is_empty() && removed.is_empty() && !track.needs_first_answer(kind) {
                continue;
            }
            if kind == Kind::Listener
                && let Some(until) = self.endpoints_missing(snapshot, now)
            {
                return Next::Wait(until);
            }
            return Next::Send(self.send(kind, snapshot, changes.upserts, removed, changes.absent, true));
        }
        self.remove_clusters(snapshot, now)
    }

    /// Until when listeners wait for the client to ask for the endpoints of its new clusters.
    fn endpoints_missing(&self, snapshot: &Snapshot, now: Instant) -> Option<Instant> {
        let [clusters, endpoints, _] = &self.tracks;
        let until = self.clusters_acknowledged + ENDPOINTS_LIMIT;
        let missing = |name: &String| clusters.has(name) && !endpoints.wants(name);
        let waits =
            clusters.is_subscribed() && now < until && snapshot.set(Kind::Cluster).keys().any(missing);
        waits.then_some(until)
    }

    /// Clusters go last, and not while a refused listener may still use them.
    fn remove_clusters(&mut self, snapshot: &Snapshot, now: Instant) -> Next {
        let [clusters, _, listeners] = &self.tracks;
        if clusters.is_waiting() {
            return Next::Nothing;
        }
        let gone =
            if clusters.is_subscribed() { clusters.gone(snapshot.set(Kind::Cluster)) } else { Vec::new() };
        if !gone.is_empty() && listeners.nack.is_none() {
            let until = self.started + LISTENERS_LIMIT;
            if !listeners.is_subscribed() && now < until {
                return Next::Wait(until);
            }
            return Next::Send(self.send(Kind::Cluster, snapshot, Vec::new(), gone, Vec::new(), false));
        }
        if listeners.is_subscribed() {
            self.settled = Some(snapshot.number);
        }
        Next::Nothing
    }

    fn send(
        &mut self,
        kind: Kind,
        snapshot: &Snapshot,
        upserts: Vec<Arc<Resource>>,
        mut removed: Vec<String>,
        absent: Vec<String>,
        keep_gone: bool,
    ) -> Response {
        self.nonce += 1;
        let nonce = self.nonce.to_string();
        let track = &mut self.tracks[kind as usize];
        let full = !self.delta && kind != Kind::Endpoints;
        let mut resources = upserts;
        if full {
            // State of the world: what is not in the response is gone.
            resources = track.all(snapshot.set(kind), keep_gone && kind == Kind::Cluster);
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
        let changed: Vec<String> =
            resources.iter().filter(|r| track.differs(r)).map(|resource| resource.name.clone()).collect();
        track.sent(nonce.clone(), &resources, removed.clone(), absent.clone(), full);
        if kind == Kind::Cluster {
            // Envoy readies a changed cluster anew, and waits for its endpoints to be said again.
            self.tracks[Kind::Endpoints as usize].forget(&changed);
        }
        removed.extend(absent);
        Response { kind, resources, removed, nonce, version: snapshot.number.to_string() }
    }
}

#[cfg(test)]
mod tests;
