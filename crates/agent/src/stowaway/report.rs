//! What this pod says in the status of Workstations: who is connected here, and how. Its own entry of each and no other, at once when
//! the truth has changed, and never otherwise.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use causeway_api::{ConnectionWay, Workstation, WorkstationConnection, names};
use causeway_base::Backoff;
use causeway_base::backoff::Retries;
use causeway_base::report::chain;
use causeway_stowaway::hub::Standing;
use causeway_stowaway::{Uid, Way};
use causeway_translate::stowaway_pod::Peer;
use futures::StreamExt as _;
use futures::stream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::calm::Calm;
use crate::feed::{Feed, Which};

/// How often is looked whether everything was said.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(5);
const WRITE_LIMIT: Duration = Duration::from_secs(10);
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(15));
/// Statuses that are written at the same time.
const AT_ONCE: usize = 16;

/// Writes this pod's entries.
pub(super) struct Reporter {
    client: Client,
    pod: String,
    changed: Arc<Notify>,
    workstations: Feed<Workstation>,
    standings: Option<watch::Receiver<BTreeMap<Uid, Standing>>>,
    waker: Option<AbortHandle>,
    /// What was written and the watch may not have shown yet, by uid.
    written: BTreeMap<Uid, Option<WorkstationConnection>>,
    retries: Retries,
    not_before: Option<Instant>,
    calm: Calm,
}

/// Whose entry is written.
struct Whom {
    uid: Uid,
    /// Its namespace and name.
    label: String,
}

impl Reporter {
    pub(super) fn new(client: Client, pod: String, changed: &Arc<Notify>) -> Self {
        let api = Api::all(client.clone());
        Self {
            workstations: Feed::start_trimmed(api, &Which::All, Arc::clone(changed), trim),
            client,
            pod,
            changed: Arc::clone(changed),
            standings: None,
            waker: None,
            written: BTreeMap::new(),
            retries: RETRY.retries(),
            not_before: None,
            calm: Calm::default(),
        }
    }

    /// Tells of these from now on.
    pub(super) fn follow(&mut self, standings: watch::Receiver<BTreeMap<Uid, Standing>>) {
        let (mut changes, changed) = (standings.clone(), Arc::clone(&self.changed));
        let waker = tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                changed.notify_one();
            }
            // The hub has ended, and with it all connections.
            changed.notify_one();
        });
        if let Some(before) = self.waker.replace(waker.abort_handle()) {
            before.abort();
        }
        self.standings = Some(standings);
    }

    /// From now on everything is said at once, however often it changed.
    pub(super) fn hurry(&mut self) {
        self.calm.end();
    }

    /// Writes what differs; true if all is said that may be said now.
    pub(super) async fn report(&mut self, peers: &[Peer]) -> bool {
        if self.not_before.is_some_and(|time| Instant::now() < time) {
            return false;
        }
        let standings = match &self.standings {
            // A hub that is gone has nobody.
            Some(standings) if standings.has_changed().is_ok() => standings.borrow().clone(),
            _ => BTreeMap::new(),
        };
        let said: BTreeMap<Uid, Option<WorkstationConnection>> = self
            .workstations
            .objects()
            .iter()
            .filter_map(|one| {
                let entry = one.status.as_ref().and_then(|status| {
                    status.connections.iter().find(|entry| entry.replica == self.pod).cloned()
                });
                Some((one.uid()?, entry))
            })
            .collect();
        // What the watch shows is what is there.
        self.written.retain(|uid, written| said.get(uid).is_none_or(|said| said != written));
        let mut changes = Vec::new();
        for peer in peers {
            let next = standings.get(&peer.uid).map(|standing| self.entry(standing));
            let last = self.written.get(&peer.uid).or_else(|| said.get(&peer.uid));
            if last.is_none_or(|last| *last != next) && (last.is_some() || next.is_some()) {
                changes.push((Whom { uid: peer.uid.clone(), label: peer.label.clone() }, next));
            }
        }
        // Who is not let in any more is not connected either.
        let refused = self.workstations.objects().into_iter().filter_map(|one| {
            let uid = one.uid()?;
            let last = self.written.get(&uid).or_else(|| said.get(&uid))?;
            let is_said = last.is_some() && !peers.iter().any(|peer| peer.uid == uid);
            let label = format!("{}/{}", one.namespace().unwrap_or_default(), one.name_any());
            is_said.then_some((Whom { uid, label }, None))
        });
        changes.extend(refused);
        // The next look tells what is left out.
        let (calm, now) = (&mut self.calm, Instant::now());
        changes.retain(|(whom, _)| calm.may_tell(&whom.uid, now));
        if changes.is_empty() {
            return true;
        }
        let results: Vec<_> = stream::iter(changes)
            .map(|(whom, next)| {
                let write = self.write(&whom, next.as_ref());
                async move { (whom.uid, next, write.await) }
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut failed = None;
        for (uid, next, result) in results {
            match result {
                Ok(()) => drop(self.written.insert(uid, next)),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            None => {
                self.retries.reset();
                self.not_before = None;
                true
            }
            Some(error) => {
                let delay = self.retries.next_delay();
                self.not_before = Some(Instant::now() + delay);
                tracing::debug!(error, "a status could not be written; trying again");
                let changed = Arc::clone(&self.changed);
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    changed.notify_one();
                });
                false
            }
        }
    }

    fn entry(&self, standing: &Standing) -> WorkstationConnection {
        WorkstationConnection {
            replica: self.pod.clone(),
            way: match standing.way {
                Way::Link => ConnectionWay::Link,
                Way::PortForward => ConnectionWay::PortForward,
                Way::WireGuard => ConnectionWay::WireGuard,
            },
            from: from(standing.from),
            since: time(standing.since),
        }
    }

    /// The entry, or that there is none: what this pod does not name any more is taken away.
    fn write(
        &self,
        whom: &Whom,
        entry: Option<&WorkstationConnection>,
    ) -> impl Future<Output = Result<(), String>> + use<> {
        let (namespace, name) = whom.label.split_once('/').unwrap_or(("", &whom.label));
        let (name, uid) = (name.to_owned(), whom.uid.clone());
        let api = Api::<Workstation>::namespaced(self.client.clone(), namespace);
        let entry: Value = entry.map_or(json!({}), |entry| json!({ "connections": [entry] }));
        let body = json!({
            "apiVersion": names::API_VERSION, "kind": "Workstation",
            // Another of that name is another machine.
            "metadata": { "name": name, "uid": uid },
            "status": entry,
        });
        let params = PatchParams::apply(&names::stowaway_report_manager(&self.pod)).force();
        async move {
            match timeout(WRITE_LIMIT, api.patch_status(&name, &params, &Patch::Apply(&body))).await {
                Ok(Ok(_)) => Ok(()),
                // It is gone, or another has its name by now: nobody is left to read it.
                Ok(Err(kube::Error::Api(answer))) if matches!(answer.code, 404 | 409 | 422) => Ok(()),
                Ok(Err(error)) => Err(chain(&error)),
                Err(_) => Err("the API server does not answer".to_owned()),
            }
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if let Some(waker) = &self.waker {
            waker.abort();
        }
    }
}

/// The port of a laptop says nothing to anybody, and is another with each connection.
fn from(address: SocketAddr) -> String {
    address.ip().to_canonical().to_string()
}

fn time(time: SystemTime) -> Time {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
    Time(Timestamp::from_second(seconds).unwrap_or_default())
}

/// Who it is, and what is said of it here.
fn trim(workstation: &mut Workstation) {
    workstation.metadata.managed_fields = None;
    workstation.metadata.annotations = None;
    workstation.spec = causeway_api::WorkstationSpec::default();
    if let Some(status) = &mut workstation.status {
        *status = causeway_api::WorkstationStatus {
            connections: std::mem::take(&mut status.connections),
            ..causeway_api::WorkstationStatus::default()
        };
    }
}
