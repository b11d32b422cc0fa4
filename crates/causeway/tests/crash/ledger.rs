//! What one writer knows: the last acknowledged state of each of its objects, and the one write whose answer the
//! kill may have swallowed. Only its writer touches these objects, so that is all they can be.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

/// One state of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub uid: String,
    pub revision: u64,
    /// Counts the writes of this writer; also the object's content.
    pub serial: u64,
}

/// What a write without an answer wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    Put(u64),
    Delete,
}

#[derive(Debug)]
pub struct Ledger {
    pub writer: usize,
    pub serial: u64,
    objects: BTreeMap<String, Known>,
    pending: Option<(String, Pending)>,
    newest: u64,
}

/// The content of a write: long enough to span pages of the store, and checkable as a whole.
pub fn content(serial: u64) -> BTreeMap<String, String> {
    let text = format!("{serial:08} ").repeat(1 + (serial % 97) as usize * 5);
    BTreeMap::from([("serial".to_owned(), serial.to_string()), ("text".to_owned(), text)])
}

pub fn version(object: &ConfigMap) -> u64 {
    object.resource_version().unwrap().parse().unwrap()
}

/// Reads an object as a state, and fails if it is not one that a writer wrote as a whole.
pub fn state(object: &ConfigMap) -> Known {
    let data = object.data.clone().unwrap_or_default();
    let serial = data.get("serial").unwrap_or_else(|| panic!("half written: {object:?}")).parse().unwrap();
    assert_eq!(data, content(serial), "half written: {}", object.name_any());
    Known { uid: object.uid().unwrap(), revision: version(object), serial }
}

impl Ledger {
    pub fn new(writer: usize) -> Self {
        Self { writer, serial: 0, objects: BTreeMap::new(), pending: None, newest: 0 }
    }

    pub fn known(&self, name: &str) -> Option<&Known> {
        self.objects.get(name)
    }

    /// The newest revision that an answer named.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    pub fn begin(&mut self, name: &str, what: Pending) {
        assert!(self.pending.is_none(), "one write at a time");
        self.pending = Some((name.to_owned(), what));
    }

    pub fn acknowledged(&mut self, object: &ConfigMap) {
        let (name, pending) = self.pending.take().unwrap();
        let now = state(object);
        assert_eq!(Pending::Put(now.serial), pending);
        assert!(now.revision > self.newest, "{name}: revision {} after {}", now.revision, self.newest);
        if let Some(before) = self.objects.get(&name) {
            assert_eq!(before.uid, now.uid, "{name} became another object");
        }
        self.newest = now.revision;
        self.objects.insert(name, now);
    }

    pub fn deleted(&mut self) {
        let (name, _) = self.pending.take().unwrap();
        self.objects.remove(&name);
    }

    /// Compares with what the server has, and takes over the fate of the write without an answer.
    fn compare(&mut self, mut found: BTreeMap<String, Known>) {
        if let Some((name, pending)) = self.pending.take() {
            let (before, after) = (self.objects.get(&name), found.get(&name));
            if before != after {
                match (pending, before, after) {
                    (Pending::Put(serial), None, Some(new)) => assert_eq!(new.serial, serial, "{name}"),
                    (Pending::Put(serial), Some(old), Some(new)) => {
                        assert_eq!((new.serial, &new.uid), (serial, &old.uid), "{name}");
                        assert!(new.revision > old.revision, "{name}: {old:?} then {new:?}");
                    }
                    (Pending::Delete, Some(_), None) => {}
                    _ => panic!("{name}: {pending:?} made {after:?} of {before:?}"),
                }
                match found.remove(&name) {
                    Some(new) => self.objects.insert(name.clone(), new),
                    None => self.objects.remove(&name),
                };
                if let Some(new) = self.objects.get(&name) {
                    found.insert(name, new.clone());
                }
            }
        }
        assert_eq!(
            found, self.objects,
            "writer {}: acknowledged on the right, found on the left",
            self.writer
        );
    }
}

/// Checks everything the server has against what was acknowledged; returns the list's revision.
pub async fn check(api: &Api<ConfigMap>, ledgers: &mut [Ledger], newest: u64) -> u64 {
    let list = api.list(&ListParams::default().labels("writer")).await.unwrap();
    let revision: u64 = list.metadata.resource_version.as_ref().unwrap().parse().unwrap();
    assert!(revision >= newest, "the server is at {revision}, but acknowledged {newest} before");
    for ledger in ledgers {
        let writer = ledger.writer.to_string();
        let found = list.items.iter().filter(|o| o.labels()["writer"] == writer);
        ledger.compare(found.map(|o| (o.name_any(), state(o))).collect());
    }
    assert!(list.items.iter().all(|o| version(o) <= revision));
    revision
}
