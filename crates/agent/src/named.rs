//! The watches of single objects with entries, by name: ConfigMaps and Secrets by which the operator, or a pod of another
//! object, tells the pods of this one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::feed::{Feed, Which};
use crate::followed::{Entries, SecretEntries};

/// How long one may take to be read before a plan is made without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// An object that is read for its entries.
pub(crate) trait Holds:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + Debug
    + Send
    + Sync
    + 'static
{
    /// What it holds.
    type Entries: PartialEq;

    fn entries(&self) -> Self::Entries;
}

impl Holds for ConfigMap {
    type Entries = Entries;

    fn entries(&self) -> Entries {
        self.data.clone().unwrap_or_default()
    }
}

impl Holds for Secret {
    type Entries = SecretEntries;

    fn entries(&self) -> SecretEntries {
        let data = self.data.iter().flatten();
        data.map(|(key, ByteString(value))| (key.clone(), ByteString(value.clone()))).collect()
    }
}

/// What was read of such objects, by name.
pub(crate) type Read<K> = BTreeMap<String, Arc<<K as Holds>::Entries>>;

/// Watches those that are asked for, and no others.
pub(crate) struct Named<K: Holds> {
    client: Client,
    namespace: String,
    changed: Arc<Notify>,
    watched: BTreeMap<String, (Feed<K>, Instant)>,
}

impl<K: Holds> Named<K> {
    /// Of this namespace.
    pub(crate) fn new(client: Client, namespace: &str, changed: Arc<Notify>) -> Self {
        Self { client, namespace: namespace.to_owned(), changed, watched: BTreeMap::new() }
    }

    /// Watches these, and ends the other watches.
    pub(crate) fn follow(&mut self, wanted: &BTreeSet<String>) {
        self.watched.retain(|name, _| wanted.contains(name));
        for name in wanted {
            if !self.watched.contains_key(name) {
                let api = Api::namespaced(self.client.clone(), &self.namespace);
                let feed = Feed::start(api, &Which::Named(name.clone()), Arc::clone(&self.changed));
                self.watched.insert(name.clone(), (feed, Instant::now()));
            }
        }
    }

    /// Whether some were not read yet, and may be at any moment.
    pub(crate) fn are_incomplete(&self) -> bool {
        self.watched.values().any(|(feed, _)| !feed.is_complete())
    }

    /// Whether it is worth waiting for one.
    pub(crate) fn are_pending(&self) -> bool {
        self.watched.values().any(|(feed, since)| {
            !feed.is_complete() && since.elapsed() < PATIENCE && feed.trouble().is_none()
        })
    }

    /// The entries of these, `last` where one was not read yet.
    pub(crate) fn read(&self, wanted: &BTreeSet<String>, last: &Read<K>) -> Read<K> {
        let of = |name: &String| {
            let before = last.get(name);
            let read = match self.watched.get(name) {
                Some((feed, _)) if feed.is_complete() => feed.objects().first()?.entries(),
                _ => return Some((name.clone(), Arc::clone(before?))),
            };
            // The same reading counts as the same.
            let same = before.filter(|before| ***before == read).map(Arc::clone);
            Some((name.clone(), same.unwrap_or_else(|| Arc::new(read))))
        };
        wanted.iter().filter_map(of).collect()
    }
}
