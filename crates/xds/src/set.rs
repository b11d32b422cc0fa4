//! Resources of one type by name, in shards. A set that follows another shares every shard in which nothing changed, so
//! that making the next set and finding what differs between two cost what the change is worth.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::resource::Resource;

const SHARDS: u64 = 256;

type Shard = BTreeMap<String, Arc<Resource>>;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    shards: Arc<[Arc<Shard>]>,
}

impl Default for Set {
    fn default() -> Self {
        Self { shards: vec![Arc::default(); SHARDS as usize].into() }
    }
}

impl Set {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        self.shards[shard(name)].get(name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Every resource, in no particular order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.shards.iter().flat_map(|shard| shard.values())
    }

    /// The set with these resources put in or, where there is none, taken out.
    pub(crate) fn with(&self, changes: Vec<(String, Option<Arc<Resource>>)>) -> Self {
        if changes.is_empty() {
            return self.clone();
        }
        let mut shards = self.shards.to_vec();
        for (name, resource) in changes {
            let shard = Arc::make_mut(&mut shards[shard(&name)]);
            match resource {
                Some(resource) => shard.insert(name, resource),
                None => shard.remove(&name),
            };
        }
        Self { shards: shards.into() }
    }

    /// The names of what the two sets don't share.
    pub(crate) fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        let pairs = self.shards.iter().zip(other.shards.iter()).filter(|(a, b)| !Arc::ptr_eq(a, b));
        pairs.flat_map(|(a, b)| {
            let here = a
                .iter()
                .filter(|(name, resource)| b.get(*name).is_none_or(|theirs| !Arc::ptr_eq(resource, theirs)));
            let there = b.keys().filter(|name| !a.contains_key(*name));
            here.map(|(name, _)| name).chain(there).map(String::as_str)
        })
    }
}

fn shard(name: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    (hasher.finish() % SHARDS) as usize
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::google::protobuf::Any;

    use super::*;

    fn resource(name: &str) -> (String, Option<Arc<Resource>>) {
        (name.to_owned(), Some(Resource::new(name.to_owned(), Any::default())))
    }

    fn differing<'a>(a: &'a Set, b: &'a Set) -> Vec<&'a str> {
        let mut names: Vec<&str> = a.differing(b).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_set_shares_all_but_the_changed_shards() {
        let first = Set::default().with((0..10_000).map(|i| resource(&format!("c{i}"))).collect());
        assert_eq!(first.values().count(), 10_000);
        let second = first.with(vec![resource("c7"), ("c8".to_owned(), None), resource("new")]);
        assert_eq!(differing(&first, &second), ["c7", "c8", "new"]);
        assert!(!second.contains("c8") && second.contains("new"));
        let shared = first.shards.iter().zip(second.shards.iter()).filter(|(a, b)| Arc::ptr_eq(a, b));
        assert!(shared.count() >= 253);
        assert!(first.differing(&first.with(Vec::new())).next().is_none());
    }
}
