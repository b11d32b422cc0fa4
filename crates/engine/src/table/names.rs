//! A map from names to routes in shards that copies share: to change one name costs one shard, not the map.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::Route;

/// Names in a shard, about.
const SHARD: usize = 256;

type Shard = HashMap<Box<str>, Arc<Route>>;

#[derive(Clone)]
pub(super) struct NameMap {
    hasher: RandomState,
    /// A power of two of them.
    shards: Arc<[Arc<Shard>]>,
    count: usize,
}

impl NameMap {
    pub(super) fn with_capacity(count: usize) -> Self {
        let shards = (count / SHARD).next_power_of_two();
        // One hasher for all: a name is hashed once to find its shard and once in it.
        Self { hasher: RandomState::new(), shards: (0..shards).map(|_| Arc::default()).collect(), count: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<Route>> {
        self.shards[self.place(name)].get(name)
    }

    pub(super) fn insert(&mut self, name: &str, route: &Arc<Route>) {
        if self.count > 4 * SHARD * self.shards.len() {
            self.grow();
        }
        let place = self.place(name);
        let before = self.shard(place).insert(name.into(), Arc::clone(route));
        self.count += usize::from(before.is_none());
    }

    pub(super) fn remove(&mut self, name: &str) {
        let place = self.place(name);
        let before = self.shard(place).remove(name);
        self.count -= usize::from(before.is_some());
    }

    fn place(&self, name: &str) -> usize {
        // The upper bits: the shard's own map has another key, but no need to lean on that.
        (self.hasher.hash_one(name) >> 32) as usize & (self.shards.len() - 1)
    }

    fn shard(&mut self, place: usize) -> &mut Shard {
        Arc::make_mut(&mut Arc::make_mut(&mut self.shards)[place])
    }

    fn grow(&mut self) {
        let mut larger = Self::with_capacity(self.count);
        for shard in self.shards.iter() {
            for (name, route) in shard.iter() {
                let place = larger.place(name);
                larger.shard(place).insert(name.clone(), Arc::clone(route));
            }
        }
        larger.count = self.count;
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_ir::Refusal;

    use crate::metrics::Metrics;
    use crate::table::{Destination, RouteShared};

    #[test]
    fn a_change_of_one_name_copies_one_shard() {
        let closed = Metrics::default().closes(&"l".into(), "r");
        let route = Arc::new(Route {
            name: "r".into(),
            destination: Destination::Refuse(Refusal::Close),
            limit: None,
            shared: Arc::new(RouteShared::new(closed)),
        });
        let mut old = NameMap::with_capacity(0);
        for i in 0..20_000 {
            old.insert(&format!("n{i}.test"), &route);
        }
        let mut new = old.clone();
        new.insert("other.test", &route);
        new.remove("n7.test");
        let copied = old.shards.iter().zip(new.shards.iter()).filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        assert!(old.shards.len() > 16 && copied <= 2, "{copied} of {}", old.shards.len());
        assert!(old.get("n7.test").is_some() && old.get("other.test").is_none());
        assert!(new.get("n7.test").is_none() && new.get("other.test").is_some());
        assert!((0..20_000).filter(|i| *i != 7).all(|i| new.get(&format!("n{i}.test")).is_some()));
    }
}
