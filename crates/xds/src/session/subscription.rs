//! One type of resource of one client: what it wants, has, was sent and refused.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::Names;
use crate::resource::{Kind, Resource};
use crate::set::Set;
use crate::status::Nack;

pub(super) struct Subscription {
    kind: Kind,
    delta: bool,
    subscribed: bool,
    answered: bool,
    wildcard: bool,
    /// The client has named resources on this stream; from then on no names means none.
    named: bool,
    names: HashSet<String>,
    known: HashMap<String, Known>,
    /// Versions that the client refused; they are not sent again.
    refused: HashMap<String, String>,
    in_flight: Option<InFlight>,
    pub(super) nack: Option<Nack>,
    /// The set that the client is in step with, but for the names in `unchecked`.
    checked: Set,
    unchecked: HashSet<String>,
}

/// What the client has of a name.
enum Known {
    Sent(Arc<Resource>),
    /// By the client's own word, from an earlier stream.
    Told(String),
    /// It was told that there is none.
    Absent,
}

impl Known {
    fn version(&self) -> &str {
        match self {
            Self::Sent(resource) => &resource.version,
            Self::Told(version) => version,
            Self::Absent => "",
        }
    }
}

/// A response that is not answered yet.
struct InFlight {
    nonce: String,
    resources: Vec<Arc<Resource>>,
    removed: Vec<String>,
    absent: Vec<String>,
    full: bool,
    /// What the client needs once more, whatever it answers.
    forgotten: HashSet<String>,
}

/// What a client lacks, and has too much, by name.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) upserts: Vec<Arc<Resource>>,
    /// What it has and should not have any more.
    pub(super) gone: Vec<String>,
    /// What it waits for in vain.
    pub(super) absent: Vec<String>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.upserts.is_empty() && self.gone.is_empty() && self.absent.is_empty()
    }
}

impl Subscription {
    pub(super) fn new(kind: Kind, delta: bool) -> Self {
        Self {
            kind,
            delta,
            subscribed: false,
            answered: false,
            wildcard: false,
            named: false,
            names: HashSet::new(),
            known: HashMap::new(),
            refused: HashMap::new(),
            in_flight: None,
            nack: None,
            checked: Set::default(),
            unchecked: HashSet::new(),
        }
    }

    pub(super) fn is_subscribed(&self) -> bool {
        self.subscribed
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Whether the first request, which may be for nothing, is still to be answered.
    pub(super) fn needs_first_answer(&self) -> bool {
        !self.answered && self.kind != Kind::Endpoints
    }

    pub(super) fn names(&self) -> usize {
        self.names.len().max(self.known.len())
    }

    pub(super) fn wants(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    pub(super) fn subscribe(&mut self, names: Names, initial_versions: HashMap<String, String>) {
        let first = !std::mem::replace(&mut self.subscribed, true);
        let everything = self.wildcard;
        // Endpoints are never wanted all: a client without clusters asks for none.
        let may_want_all = self.kind != Kind::Endpoints;
        match names {
            Names::Exactly(names) => {
                self.named |= !names.is_empty();
                self.wildcard =
                    names.iter().any(|name| name == "*") || names.is_empty() && may_want_all && !self.named;
                let names: HashSet<String> = names.into_iter().collect();
                self.unchecked.extend(names.difference(&self.names).cloned());
                self.names = names;
                if !self.wildcard {
                    self.known.retain(|name, _| self.names.contains(name));
                }
            }
            Names::Change { subscribe, unsubscribe } => {
                self.wildcard |= first && subscribe.is_empty() && may_want_all;
                // A client that asks again wants to be sent it again.
                self.forget(&subscribe);
                for name in subscribe {
                    self.wildcard |= name == "*";
                    self.names.insert(name);
                }
                for name in unsubscribe {
                    self.wildcard &= name != "*";
                    self.names.remove(&name);
                    if !self.wildcard {
                        self.known.remove(&name);
                    }
                }
            }
        }
        if first {
            self.unchecked.extend(initial_versions.keys().cloned());
            self.known
                .extend(initial_versions.into_iter().map(|(name, version)| (name, Known::Told(version))));
        }
        if self.wildcard && !everything {
            self.checked = Set::default();
        }
    }

    /// What the client has although it has not asked yet.
    pub(super) fn remember(&mut self, resources: impl Iterator<Item = Arc<Resource>>) {
        for resource in resources {
            self.unchecked.insert(resource.name.clone());
            self.known.insert(resource.name.clone(), Known::Sent(resource));
        }
    }

    /// What was sent to the client and acknowledged.
    pub(super) fn sent_and_taken(&self) -> Vec<Arc<Resource>> {
        let sent = self.known.values().filter_map(|known| match known {
            Known::Sent(resource) => Some(Arc::clone(resource)),
            Known::Told(_) | Known::Absent => None,
        });
        sent.collect()
    }

    /// Takes the answer to the response under way, if it is that; the names that the client now has anew.
    pub(super) fn answer(&mut self, nonce: &str, error: Option<String>) -> Vec<String> {
        let Some(answered) = self.in_flight.take_if(|sent| sent.nonce == nonce) else { return Vec::new() };
        let named = |resource: &Arc<Resource>| error.as_ref().is_none_or(|e| mentions(e, &resource.name));
        // Envoy takes the good ones of a refused response and names the bad ones.
        let blame_all = error.is_some() && !answered.resources.iter().any(named);
        if answered.full {
            let sent: HashSet<&str> =
                answered.resources.iter().map(|resource| resource.name.as_str()).collect();
            self.known.retain(|name, _| sent.contains(name.as_str()));
        }
        for name in answered.removed {
            self.known.remove(&name);
        }
        self.known.extend(answered.absent.into_iter().map(|name| (name, Known::Absent)));
        let (mut taken, mut blamed) = (Vec::new(), Vec::new());
        for resource in answered.resources {
            if let Some(error) = &error
                && (blame_all || mentions(error, &resource.name))
            {
                blamed.push(resource.name.clone());
                self.refused.insert(resource.name.clone(), resource.version.clone());
                continue;
            }
            self.refused.remove(&resource.name);
            // It may have left the newest set while it was under way.
            self.unchecked.insert(resource.name.clone());
            if answered.forgotten.contains(&resource.name) {
                continue;
            }
            let before = self.known.insert(resource.name.clone(), Known::Sent(Arc::clone(&resource)));
            if before.is_none_or(|before| before.version() != resource.version) {
                taken.push(resource.name.clone());
            }
        }
        match error {
            Some(message) => self.nack = Some(Nack { kind: self.kind.word(), resources: blamed, message }),
            None if self.refused.is_empty() => self.nack = None,
            None => {}
        }
        taken
    }

    /// Drops refusals of versions that are no longer served.
    pub(super) fn forgive(&mut self, set: &Set) {
        let before = self.refused.len();
        self.refused
            .retain(|name, version| set.get(name).is_some_and(|resource| resource.version == *version));
        if self.refused.is_empty() && before > 0 {
            self.nack = None;
        }
    }

    /// Lets resources be sent again although the client has them or is just being sent them.
    pub(super) fn forget(&mut self, names: &[String]) {
        for name in names {
            self.known.remove(name);
            self.unchecked.insert(name.clone());
            if let Some(sent) = &mut self.in_flight {
                sent.forgotten.insert(name.clone());
            }
        }
    }

    /// Whether the client has another version of a resource, or none.
    pub(super) fn differs(&self, resource: &Resource) -> bool {
        self.known.get(&resource.name).is_none_or(|known| known.version() != resource.version)
    }

    /// What is between the client and a set. Only what changed since the two were last alike is looked at.
    pub(super) fn changes(&mut self, set: &Set) -> Changes {
        let mut changes = Changes::default();
        let unchecked = self.unchecked.iter().map(String::as_str);
        let names: BTreeSet<&str> = self.checked.differing(set).chain(unchecked).collect();
        for name in names {
            match set.get(name) {
                Some(resource) => {
                    let refused = self.refused.get(name) == Some(&resource.version);
                    if self.wants(name) && self.differs(resource) && !refused {
                        changes.upserts.push(Arc::clone(resource));
                    }
                }
                // Endpoints go with their cluster; only a client by delta can be told that there are none.
                None if self.kind == Kind::Endpoints => {
                    let in_vain = self.names.contains(name) && name != "*" && !self.known.contains_key(name);
                    if self.delta && in_vain {
                        changes.absent.push(name.to_owned());
                    }
                }
                None if self.known.contains_key(name) => changes.gone.push(name.to_owned()),
                None => {}
            }
        }
        if changes.is_empty() {
            self.checked = set.clone();
            self.unchecked = HashSet::new();
        }
        changes
    }

    /// The whole set, and what the client has of an older one if that is to stay for now.
    pub(super) fn all(&self, set: &Set, keep_gone: bool) -> Vec<Arc<Resource>> {
        let stays = self.known.iter().filter(|(name, _)| keep_gone && !set.contains(name));
        let stays = stays.filter_map(|(_, known)| match known {
            Known::Sent(resource) => Some(Arc::clone(resource)),
            Known::Told(_) | Known::Absent => None,
        });
        let wanted = set.values().filter(|resource| self.wants(&resource.name)).cloned();
        let mut all: Vec<_> = wanted.chain(stays).collect();
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub(super) fn sent(
        &mut self,
        nonce: String,
        resources: &[Arc<Resource>],
        removed: Vec<String>,
        absent: Vec<String>,
        full: bool,
    ) {
        self.answered = true;
        let resources = resources.to_vec();
        let forgotten = HashSet::new();
        self.in_flight = Some(InFlight { nonce, resources, removed, absent, full, forgotten });
    }
}

/// Whether a message has a name in it as a word.
fn mentions(message: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    message.match_indices(name).any(|(at, _)| {
        let before = message[..at].chars().next_back();
        let after = message[at + name.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}
