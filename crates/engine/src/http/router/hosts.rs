//! Things by host: one hash for an exact one, one for each label for wildcards.

use std::collections::HashMap;

use causeway_ir::Pattern;

pub(super) struct Hosts<T> {
    exact: HashMap<Box<str>, T>,
    below: HashMap<Box<str>, T>,
}

impl<T> Default for Hosts<T> {
    fn default() -> Self {
        Self { exact: HashMap::new(), below: HashMap::new() }
    }
}

impl<T> Hosts<T> {
    fn of<'a>(&mut self, host: &'a Pattern) -> (&mut HashMap<Box<str>, T>, &'a str) {
        match host {
            Pattern::Exact(name) => (&mut self.exact, name),
            Pattern::Below(domain) => (&mut self.below, domain),
        }
    }

    pub(super) fn insert(&mut self, host: &Pattern, thing: T) {
        let (map, name) = self.of(host);
        map.insert(name.into(), thing);
    }

    pub(super) fn or_default(&mut self, host: &Pattern) -> &mut T
    where
        T: Default,
    {
        let (map, name) = self.of(host);
        map.entry(name.into()).or_default()
    }

    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.exact.values_mut().chain(self.below.values_mut())
    }

    /// Everything that fits a host, the narrowest first.
    pub(super) fn fitting<'a>(&'a self, host: &str) -> impl Iterator<Item = &'a T> {
        // Without wildcards no label is looked at.
        let wide = if self.below.is_empty() { "" } else { host };
        let domains = std::iter::successors(parent(wide), |&domain| parent(domain));
        self.exact.get(host).into_iter().chain(domains.filter_map(|domain| self.below.get(domain)))
    }
}

fn parent(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, domain)| domain)
}
