//! One type of resource of one client: what it wants, has, was sent and refused.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Names;
use crate::board::Nack;
use crate::snapshot::{Kind, Resource, Set};

#[derive(Default)]
pub struct Track {
    subscribed: bool,
    answered: bool,
    wildcard: bool,
    names: HashSet<String>,
    known: HashMap<String, Known>,
    /// Versions that the client refused; they are not sent again.
    refused: HashMap<String, String>,
    flight: Option<Flight>,
    pub nack: Option<Nack>,
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
struct Flight {
    nonce: String,
    resources: Vec<Arc<Resource>>,
    removed: Vec<String>,
    absent: Vec<String>,
    full: bool,
}

/// What a client lacks.
#[derive(Default)]
pub struct Changes {
    pub upserts: Vec<Arc<Resource>>,
    /// Names that it wants and that do not exist.
    pub absent: Vec<String>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.upserts.is_empty() && self.absent.is_empty()
    }
}

impl Track {
    pub fn is_subscribed(&self) -> bool {
        self.subscribed
    }

    pub fn is_waiting(&self) -> bool {
        self.flight.is_some()
    }

    /// Whether the first request, which may be for nothing, is still to be answered.
    pub fn needs_first_answer(&self, kind: Kind) -> bool {
        !self.answered && kind != Kind::Endpoints
    }

    pub fn names(&self) -> usize {
        self.names.len().max(self.known.len())
    }

    pub fn wants(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    /// Whether the client has some version of a resource.
    pub fn has(&self, name: &str) -> bool {
        matches!(self.known.get(name), Some(Known::Sent(_) | Known::Told(_)))
    }

    pub fn subscribe(&mut self, names: Names, initial_versions: HashMap<String, String>) {
        let first = !std::mem::replace(&mut self.subscribed, true);
        match names {
            Names::Exactly(names) => {
                self.wildcard = names.is_empty() || names.iter().any(|name| name == "*");
                self.names = names.into_iter().collect();
                if !self.wildcard {
                    self.known.retain(|name, _| self.names.contains(name));
                }
            }
            Names::Change { subscribe, unsubscribe } => {
                self.wildcard |= first && subscribe.is_empty();
                for name in subscribe {
                    self.wildcard |= name == "*";
                    // Who asks again wants to hear it again.
                    self.known.remove(&name);
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
            self.known
                .extend(initial_versions.into_iter().map(|(name, version)| (name, Known::Told(version))));
        }
    }

    /// Takes the answer to the response under way, if it is that; the names that the client now has anew.
    pub fn answer(&mut self, kind: Kind, nonce: &str, error: Option<String>) -> Vec<String> {
        let Some(flight) = self.flight.take_if(|flight| flight.nonce == nonce) else { return Vec::new() };
        let named = |resource: &Arc<Resource>| error.as_ref().is_none_or(|e| mentions(e, &resource.name));
        // Envoy takes the good ones of a refused response and names the bad ones.
        let blame_all = error.is_some() && !flight.resources.iter().any(named);
        if flight.full {
            let sent: HashSet<&str> =
                flight.resources.iter().map(|resource| resource.name.as_str()).collect();
            self.known.retain(|name, _| sent.contains(name.as_str()));
        }
        for name in flight.removed {
            self.known.remove(&name);
        }
        self.known.extend(flight.absent.into_iter().map(|name| (name, Known::Absent)));
        let (mut taken, mut blamed) = (Vec::new(), Vec::new());
        for resource in flight.resources {
            if let Some(error) = &error
                && (blame_all || mentions(error, &resource.name))
            {
                blamed.push(resource.name.clone());
                self.refused.insert(resource.name.clone(), resource.version.clone());
                continue;
            }
            self.refused.remove(&resource.name);
            let before = self.known.insert(resource.name.clone(), Known::Sent(Arc::clone(&resource)));
            if before.is_none_or(|before| before.version() != resource.version) {
                taken.push(resource.name.clone());
            }
        }
        match error {
            Some(message) => self.nack = Some(Nack { kind: kind.word(), resources: blamed, message }),
            None if self.refused.is_empty() => self.nack = None,
            None => {}
        }
        taken
    }

    /// Drops refusals of versions that are no longer served.
    pub fn forgive(&mut self, set: &Set) {
        let before = self.refused.len();
        self.refused
            .retain(|name, version| set.get(name).is_some_and(|resource| resource.version == *version));
        if self.refused.is_empty() && before > 0 {
            self.nack = None;
        }
    }

    /// Lets resources be sent again although the client has them.
    pub fn forget(&mut self, names: &[String]) {
        for name in names {
            self.known.remove(name);
        }
    }

    /// Whether the client has another version of a resource, or none.
    pub fn differs(&self, resource: &Resource) -> bool {
        self.known.get(&resource.name).is_none_or(|known| known.version() != resource.version)
    }

    /// What the client wants and does not have in this version.
    pub fn changes(&self, set: &Set) -> Changes {
        let lacks = |resource: &&Arc<Resource>| {
            self.differs(resource) && self.refused.get(&resource.name) != Some(&resource.version)
        };
        let upserts = if self.wildcard {
            set.values().filter(lacks).cloned().collect()
        } else {
            self.names.iter().filter_map(|name| set.get(name)).filter(lacks).cloned().collect()
        };
        Changes { upserts, absent: Vec::new() }
    }

    /// Names that the client waits for in vain.
    pub fn absent(&self, set: &Set) -> Vec<String> {
        let vain =
            |name: &&String| *name != "*" && !set.contains_key(*name) && !self.known.contains_key(*name);
        self.names.iter().filter(vain).cloned().collect()
    }

    /// What the client has and should not have any more.
    pub fn gone(&self, set: &Set) -> Vec<String> {
        self.known.keys().filter(|name| !set.contains_key(*name)).cloned().collect()
    }

    /// The whole set, and what the client has of an older one if that is to stay for now.
    pub fn all(&self, set: &Set, keep_gone: bool) -> Vec<Arc<Resource>> {
        let stays = self.known.iter().filter(|(name, _)| keep_gone && !set.contains_key(*name));
        let stays = stays.filter_map(|(_, known)| match known {
            Known::Sent(resource) => Some(Arc::clone(resource)),
            Known::Told(_) | Known::Absent => None,
        });
        let wanted = set.values().filter(|resource| self.wants(&resource.name)).cloned();
        wanted.chain(stays).collect()
    }

    pub fn sent(
        &mut self,
        nonce: String,
        resources: &[Arc<Resource>],
        removed: Vec<String>,
        absent: Vec<String>,
        full: bool,
    ) {
        self.answered = true;
        self.flight = Some(Flight { nonce, resources: resources.to_vec(), removed, absent, full });
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
