//! What is decided of workstations: whose key counts, which address each has, what it proves itself with, whether it is connected,
//! and what its status says.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::IpAddr,
    sync::{Arc, Mutex},
};

use causeway_api::{
    StowawayPods, Workstation, WorkstationConnection, WorkstationStatus,
    conditions::{self, ConditionType, Reason, Status},
    names,
};
use causeway_base::lock::lock;
use causeway_ir::duration;
use causeway_link::{KeyId, Role, is_due};
use causeway_translate::{
    gateway::kinds::ObjectRef,
    intercept::{names as link_names, world::Station},
    stowaway_pod::{Peer, public_key},
};
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;

use super::{
    authority::Keys,
    room::{OF_PEERS, Room},
    stowaway::Way,
};
use crate::framework::{
    events::Note,
    finding::Finding,
    status::{Shared, transitions},
};

/// When a certificate that was found to be good is looked at again.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_hours(6);

/// What is decided of one.
pub(crate) struct Judged {
    pub(crate) object: Arc<Workstation>,
    pub(crate) at: ObjectRef,
    pub(crate) uid: String,
    /// Why it is not let in.
    pub(crate) refused: Option<Finding>,
    /// Its certificate, if it asks for one.
    certificate: Option<String>,
    /// How the pods of the cluster's end let it in.
    peer: Option<Peer>,
    /// Its connections to pods that are there.
    connections: Vec<WorkstationConnection>,
}

impl Judged {
    /// Whether it is being deleted.
    pub(crate) fn is_leaving(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn is_connected(&self) -> bool {
        !self.connections.is_empty()
    }

    /// How the pods let it in, if they do.
    pub(crate) fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref().filter(|_| self.refused.is_none() && !self.is_leaving())
    }

    /// In the words of a picture.
    pub(crate) fn station(&self) -> Station {
        let leaving = self.is_leaving().then(|| "it is being deleted".to_owned());
        // The newest one is where it is.
        let newest = self.connections.iter().max_by_key(|connection| connection.since.0);
        Station {
            uid: self.uid.clone(),
            owner: self.object.spec.display_name.clone(),
            unusable: self.refused.as_ref().map(|finding| finding.message.clone()).or(leaving),
            replica: newest.map(|connection| connection.replica.clone()),
            away: self.away().filter(|_| newest.is_none()),
        }
    }

    /// Since when it is not connected, by what was said last.
    fn away(&self) -> Option<Timestamp> {
        let status = self.object.status.as_ref()?;
        let said = conditions::find(&status.conditions, ConditionType::Connected)?;
        // It was connected until just now.
        if said.status == Status::True.as_str() {
            Some(Timestamp::now())
        } else {
            Some(said.last_transition_time.0)
        }
    }

    /// When it has been away for too long, if there is such a time.
    pub(crate) fn expiry(&self) -> Option<Timestamp> {
        let ttl = duration::parse(self.object.spec.ttl.as_deref()?).ok()?;
        if self.is_connected() {
            return None;
        }
        let status = self.object.status.as_ref();
        let away = status.and_then(|status| {
            let condition = conditions::find(&status.conditions, ConditionType::Connected)?;
            Some(condition.last_transition_time.0)
        });
        let made = self.object.creation_timestamp().map(|time| time.0);
        let came = status.and_then(|status| status.last_handshake.as_ref().map(|time| time.0));
        away.into_iter().chain(made).chain(came).max()?.checked_add(ttl).ok()
    }
}

/// Decides; remembers what it has looked at closely.
#[derive(Default)]
pub(crate) struct Judge {
    /// Certificates that were found to be good, by what they are, and until when that counts.
    good: Mutex<HashMap<String, (u64, Timestamp)>>,
}

impl Judge {
    /// Of all workstations. `told` is who was let in before, with which address; `pods` are those of the cluster's end.
    pub(crate) fn all(
        &self,
        workstations: Vec<Arc<Workstation>>,
        keys: &Keys,
        told: &[Peer],
        pods: &[String],
        network: IpNet,
        now: Timestamp,
    ) -> Vec<Judged> {
        let mut by_age = workstations;
        by_age.sort_by_key(|one| {
            (one.creation_timestamp().map(|time| time.0), one.namespace(), one.name_any())
        });
        let mut owners = owners(&by_age, told);
        let mut room = Room::new(OF_PEERS);
        let mut addresses = Addresses::new(network, told, &by_age);
        let mut judged = Vec::with_capacity(by_age.len());
        for object in by_age {
            let at = ObjectRef::new(object.namespace().unwrap_or_default(), object.name_any());
            let uid = object.uid().unwrap_or_default();
            let mut refused = None;
            let key = public_key(&object.spec.public_key);
            match key {
                None => {
                    let message =
                        "spec.publicKey: is not a public key of WireGuard: write what wg pubkey prints";
                    refused = Some(Finding::no(Reason::InvalidSpec, message));
                }
                Some(key) => match owners.entry(key).or_insert_with(|| at.clone()) {
                    other if *other != at => {
                        // What others call theirs is not for everybody.
                        let other = if other.namespace == at.namespace {
                            format!("Workstation {other}")
                        } else {
                            "a Workstation of another namespace".to_owned()
                        };
                        let message = format!(
                            "spec.publicKey: is already the key of {other}: every machine has a key of its own; make another \
                             with wg genkey, or by causeway connect"
                        );
                        refused = Some(Finding::no(Reason::KeyReused, message));
                    }
                    _ => {}
                },
            }
            let certificate = match self.certificate(&object, keys, &uid, now) {
                Ok(certificate) => certificate,
                Err(message) => {
                    refused.get_or_insert(Finding::no(Reason::InvalidSpec, message));
                    None
                }
            };
            let request = object.spec.certificate_request.as_deref();
            let peer = key.filter(|_| refused.is_none()).map(|key| Peer {
                label: at.to_string(),
                link_key: request.and_then(KeyId::of_request).map(|id| id.0),
                address: addresses.of(&uid),
                uid: uid.clone(),
                key,
            });
            let peer = peer.filter(|peer| {
                let fits = room.take(&at.namespace, peer);
                if !fits {
                    let message = format!(
                        "there are as many older Workstations as namespace {}, or the cluster, may have: delete those that \
                         nobody uses, or give them a spec.ttl",
                        at.namespace
                    );
                    refused = Some(Finding::no(Reason::LimitReached, message));
                }
                fits
            });
            let status = object.status.as_ref();
            let connections = status.into_iter().flat_map(|status| &status.connections);
            // Who is not let in has none, whatever a pod has said while it was.
            let connections = connections
                .filter(|connection| refused.is_none() && pods.contains(&connection.replica))
                .cloned()
                .collect();
            judged.push(Judged { object, at, uid, refused, certificate, peer, connections });
        }
        let there: BTreeSet<&str> = judged.iter().map(|one| one.uid.as_str()).collect();
        lock(&self.good).retain(|uid, _| there.contains(uid.as_str()));
        judged
    }

    /// The certificate that it has, if that is good for a while, else another one.
    fn certificate(
        &self,
        object: &Workstation,
        keys: &Keys,
        uid: &str,
        now: Timestamp,
    ) -> Result<Option<String>, String> {
        let Some(request) = &object.spec.certificate_request else { return Ok(None) };
        let name = link_names::workstation(uid);
        let has = object.status.as_ref().and_then(|status| status.certificate.as_ref());
        if let Some(has) = has {
            let mut hasher = DefaultHasher::new();
            (has, request, keys.authority.certificate()).hash(&mut hasher);
            let digest = hasher.finish();
            let known = lock(&self.good).get(uid).copied();
            if known.is_some_and(|(known, until)| known == digest && now < until) {
                return Ok(Some(has.clone()));
            }
            // Whoever may write a status may have written this one: it counts if it is proved.
            let age = keys.authority.age_of(has, request, Role::Dialer, &name);
            if age.is_some_and(|age| !is_due(age)) {
                let until = now.checked_add(LOOK_AGAIN).unwrap_or(now);
                lock(&self.good).insert(uid.to_owned(), (digest, until));
                return Ok(Some(has.clone()));
            }
        }
        let signed = keys.authority.renew(request, Role::Dialer, &name);
        signed.map(Some).map_err(|error| {
            format!("spec.certificateRequest: can't be read ({error}): write what causeway connect makes")
        })
    }
}

/// Who has which key: whoever was let in with it, and of those who are new the oldest. An older one that is given the key of
/// another later takes nothing from it.
fn owners(by_age: &[Arc<Workstation>], told: &[Peer]) -> BTreeMap<[u8; 32], ObjectRef> {
    let told: BTreeSet<(&str, [u8; 32])> = told.iter().map(|peer| (peer.uid.as_str(), peer.key)).collect();
    let held = by_age.iter().filter_map(|object| {
        let key = public_key(&object.spec.public_key)?;
        let at = ObjectRef::new(object.namespace().unwrap_or_default(), object.name_any());
        told.contains(&(object.metadata.uid.as_deref()?, key)).then_some((key, at))
    });
    held.collect()
}

/// Gives out addresses; whoever had one keeps it.
struct Addresses {
    network: IpNet,
    given: HashMap<String, IpAddr>,
    taken: BTreeSet<IpAddr>,
    /// Where the next free one is looked for.
    next: u128,
}

impl Addresses {
    fn new(network: IpNet, told: &[Peer], there: &[Arc<Workstation>]) -> Self {
        let there: BTreeSet<String> = there.iter().filter_map(|one| one.uid()).collect();
        let given: HashMap<String, IpAddr> = told
            .iter()
            .filter(|peer| there.contains(&peer.uid))
            .filter_map(|peer| Some((peer.uid.clone(), peer.address.filter(|at| network.contains(at))?)))
            .collect();
        let taken = given.values().copied().collect();
        Self { network, given, taken, next: 2 }
    }

    /// The first is the cluster's own, and the last may mean everybody.
    fn of(&mut self, uid: &str) -> Option<IpAddr> {
        if let Some(given) = self.given.get(uid) {
            return Some(*given);
        }
        let (begin, bits) = match self.network.network() {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let free_bits = (bits - u32::from(self.network.prefix_len())).min(120);
        let count = (1_u128 << free_bits).saturating_sub(1);
        while self.next < count {
            let number = begin + self.next;
            self.next += 1;
            let address: IpAddr = match self.network {
                IpNet::V4(_) => IpAddr::V4(u32::try_from(number).ok()?.into()),
                IpNet::V6(_) => IpAddr::V6(number.into()),
            };
            if self.taken.insert(address) {
                return Some(address);
            }
        }
        None
    }
}

/// What is the same for all workstations.
pub(crate) struct Common<'a> {
    /// The keys.
    pub(crate) keys: &'a Keys,
    /// Where laptops find the cluster's end.
    pub(crate) way: &'a Way,
    /// The namespace and pods of the cluster's end that take connections.
    pub(crate) pods: StowawayPods,
    /// What is in the way of all.
    pub(crate) trouble: Option<Finding>,
    /// What is not as it was asked for.
    pub(crate) note: Option<String>,
    /// The networks that WireGuard peers send here.
    pub(crate) routed: &'a [IpNet],
    /// Workstations that get traffic.
    pub(crate) intercepting: &'a BTreeSet<String>,
}

impl Shared for WorkstationStatus {
    const OWN_CONDITIONS: &'static [ConditionType] = &[ConditionType::Ready, ConditionType::Connected];

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }

    /// Written by the pods that they are of.
    fn drop_foreign(&mut self) {
        self.connections.clear();
    }
}

/// The next status of a workstation.
pub(crate) fn status(
    judged: &Judged,
    previous: &WorkstationStatus,
    common: &Common<'_>,
    now: &Time,
) -> WorkstationStatus {
    let generation = judged.object.metadata.generation.unwrap_or_default();
    let is_let_in = judged.refused.is_none();
    let mut next = WorkstationStatus {
        conditions: previous.conditions.clone(),
        observed_generation: Some(generation),
        authority: Some(common.keys.authority.certificate().to_owned()),
        certificate: judged.certificate.clone().filter(|_| is_let_in),
        link_endpoints: common.way.links.clone(),
        stowaway: Some(common.pods.clone()),
        ..WorkstationStatus::default()
    };
    if let Some(address) = judged.peer.as_ref().and_then(|peer| peer.address).filter(|_| is_let_in) {
        next.address = Some(address.to_string());
        next.server_public_key = Some(common.keys.wireguard_public.clone());
        next.endpoint.clone_from(&common.way.wireguard);
        next.allowed_ips = common.routed.iter().map(ToString::to_string).collect();
    }
    let newest = judged.connections.iter().max_by_key(|connection| connection.since.0);
    next.last_handshake =
        newest.map(|newest| newest.since.clone()).or_else(|| previous.last_handshake.clone());
    let connected = match newest {
        Some(newest) => {
            let message =
                format!("connected by {} from {} to {}", way_of(newest), newest.from, newest.replica);
            Finding::yes(Reason::Connected, message)
        }
        None => Finding::no(Reason::Disconnected, "no pod of the cluster's end has a connection of it"),
    };
    let ready = judged.refused.clone().or_else(|| common.trouble.clone()).unwrap_or_else(|| {
        let note = common.note.as_ref().map(|note| format!("; {note}")).unwrap_or_default();
        if judged.is_connected() && common.intercepting.contains(&judged.uid) {
            Finding::yes(Reason::Intercepting, format!("gets traffic of the cluster{note}"))
        } else {
            Finding::yes(Reason::Standby, format!("may connect{note}"))
        }
    });
    connected.set(&mut next.conditions, ConditionType::Connected, generation, now);
    ready.set(&mut next.conditions, ConditionType::Ready, generation, now);
    next
}

fn way_of(connection: &WorkstationConnection) -> String {
    format!("{:?}", connection.way)
}

/// What of a change is worth telling.
pub(crate) fn notes(previous: &WorkstationStatus, next: &WorkstationStatus) -> Vec<Note> {
    let moved = transitions(&previous.conditions, &next.conditions).into_iter();
    moved
        .map(|condition| {
            let is_good = condition.status == Status::True.as_str() || condition.type_ == "Connected";
            let mut note = Note::moved(condition, is_good);
            // init, standby, intercept: each is news.
            if is_good {
                note.reason.clone_from(&condition.reason);
            }
            note
        })
        .collect()
}

/// What the status says while there are no keys.
pub(crate) fn blocked(
    object: &Workstation,
    previous: &WorkstationStatus,
    trouble: &Finding,
    now: &Time,
) -> WorkstationStatus {
    let generation = object.metadata.generation.unwrap_or_default();
    let mut next = WorkstationStatus { observed_generation: Some(generation), ..previous.clone() };
    trouble.clone().set(&mut next.conditions, ConditionType::Ready, generation, now);
    next
}

/// The name of the Secret that the pods of the cluster's end are told by.
pub(crate) fn told_name() -> &'static str {
    names::STOWAWAY
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use causeway_link::Key;
    use serde_json::json;

    use super::*;

    fn workstation(namespace: &str, name: &str, minute: usize, key: u8) -> Arc<Workstation> {
        let made = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "Workstation",
            "metadata": {
                "name": name, "namespace": namespace, "uid": format!("uid-{namespace}-{name}"),
                "creationTimestamp": format!("2026-01-01T{:02}:{:02}:00Z", minute / 60 % 24, minute % 60),
            },
            "spec": {"publicKey": BASE64.encode([key; 32])},
        });
        Arc::new(serde_json::from_value(made).unwrap())
    }

    fn judge(all: &[Arc<Workstation>], told: &[Peer]) -> Vec<Judged> {
        let network = "10.213.0.0/16".parse().unwrap();
        let keys = Keys::for_tests();
        Judge::default().all(all.to_vec(), &keys, told, &[], network, Timestamp::now())
    }

    fn peers(judged: &[Judged]) -> Vec<Peer> {
        judged.iter().filter_map(|one| one.peer().cloned()).collect()
    }

    fn reasons(judged: &[Judged]) -> Vec<(String, Option<Reason>)> {
        let reason = |one: &Judged| one.refused.as_ref().map(|finding| finding.reason);
        judged.iter().map(|one| (one.at.to_string(), reason(one))).collect()
    }

    #[test]
    fn an_older_one_that_is_given_a_key_later_takes_it_from_nobody() {
        let mut all = vec![workstation("b", "old", 0, 1), workstation("a", "alice", 1, 2)];
        let told = peers(&judge(&all, &[]));
        assert_eq!(told.len(), 2);
        all[0] = workstation("b", "old", 0, 2);
        let judged = judge(&all, &told);
        let expected = [("b/old".to_owned(), Some(Reason::KeyReused)), ("a/alice".to_owned(), None)];
        assert_eq!(reasons(&judged), expected);
        let message = &judged[0].refused.as_ref().unwrap().message;
        assert!(message.contains("of another namespace") && !message.contains("alice"), "{message}");
        // Of two that are new the older one has it.
        let expected = [("b/old".to_owned(), None), ("a/alice".to_owned(), Some(Reason::KeyReused))];
        assert_eq!(reasons(&judge(&all, &[])), expected);
    }

    #[test]
    fn a_namespace_with_very_many_keeps_nobody_else_out() {
        let long = "x".repeat(240);
        let mut all: Vec<_> = (0..3000)
            .map(|n| with_key(workstation("crowd", &format!("{long}-{n:04}"), n / 4, 0), n))
            .collect();
        all.push(with_key(workstation("shop", "alice", 1400, 0), 9999));
        let judged = judge(&all, &[]);
        let reasons = reasons(&judged);
        assert_eq!(reasons.last().unwrap(), &("shop/alice".to_owned(), None));
        assert_eq!(reasons[0].1, None);
        assert_eq!(reasons[2999].1, Some(Reason::LimitReached));
        let told = serde_json::to_vec(&peers(&judged)).unwrap().len();
        assert!(told < 1 << 18, "{told}");
    }

    fn with_key(object: Arc<Workstation>, n: usize) -> Arc<Workstation> {
        let mut object = Arc::unwrap_or_clone(object);
        let mut key = [0; 32];
        key[..8].copy_from_slice(&n.to_le_bytes());
        object.spec.public_key = BASE64.encode(key);
        Arc::new(object)
    }

    #[test]
    fn the_pods_are_told_which_key_a_laptop_has() {
        let key = Key::new().unwrap();
        let mut object = Arc::unwrap_or_clone(workstation("shop", "alice", 0, 1));
        object.spec.certificate_request = Some(key.request().unwrap());
        let told = peers(&judge(&[Arc::new(object)], &[]));
        assert_eq!(told[0].link_key, KeyId::of_request(&key.request().unwrap()).map(|id| id.0));
        assert!(told[0].link_key.is_some());
    }
}
