//! Hosts of listeners and of routes: what two of them have in common, which is the more specific, and which listener of a
//! port a host belongs to. `None` stands for every host.

use std::cmp::Reverse;
use std::collections::HashMap;

use causeway_ir::Pattern;

/// Reads a host; an empty one is every host.
pub(super) fn parse(text: Option<&str>) -> Result<Option<Pattern>, String> {
    text.filter(|text| !text.is_empty()).map(Pattern::parse).transpose()
}

/// Two hosts have nothing in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Apart;

/// The hosts that both have.
pub(super) fn intersect(a: Option<&Pattern>, b: Option<&Pattern>) -> Result<Option<Pattern>, Apart> {
    match (a, b) {
        (None, other) | (other, None) => Ok(other.cloned()),
        (Some(a), Some(b)) if a.covers(b) => Ok(Some(b.clone())),
        (Some(a), Some(b)) if b.covers(a) => Ok(Some(a.clone())),
        _ => Err(Apart),
    }
}

/// Smaller for the more specific: exact names, then longer wildcards, then every host.
pub(super) fn rank(host: Option<&Pattern>) -> (u8, Reverse<usize>) {
    match host {
        Some(Pattern::Exact(name)) => (0, Reverse(name.len())),
        Some(Pattern::Below(domain)) => (1, Reverse(domain.len())),
        None => (2, Reverse(0)),
    }
}

/// What has all of these hosts and more, the most specific first.
pub(super) fn wider(host: &Pattern) -> impl Iterator<Item = Option<Pattern>> {
    let (Pattern::Exact(name) | Pattern::Below(name)) = host;
    let above = |name: &str| name.split_once('.').map(|(_, above)| above.to_owned());
    let domains = std::iter::successors(above(name), move |name| above(name));
    domains.map(|domain| Some(Pattern::Below(domain))).chain([None])
}

/// The hosts of the listeners of one port, each with its place.
#[derive(Debug, Default)]
pub(super) struct Owners(HashMap<Option<Pattern>, usize>);

impl FromIterator<(Option<Pattern>, usize)> for Owners {
    fn from_iter<I: IntoIterator<Item = (Option<Pattern>, usize)>>(hosts: I) -> Self {
        let mut owners = HashMap::new();
        for (host, place) in hosts {
            owners.entry(host).or_insert(place);
        }
        Self(owners)
    }
}

impl Owners {
    /// The listener that all of these hosts belong to: the most specific one that has them.
    pub(super) fn owner(&self, host: Option<&Pattern>) -> Option<usize> {
        let Some(host) = host else { return self.0.get(&None).copied() };
        if let Some(place) = self.0.get(&Some(host.clone())) {
            return Some(*place);
        }
        wider(host).find_map(|wider| self.0.get(&wider).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Option<Pattern> {
        parse(Some(text)).unwrap()
    }

    #[test]
    fn hosts_meet_in_the_more_specific_one() {
        for (a, b, both) in [
            ("", "", Some("")),
            ("", "a.test", Some("a.test")),
            ("*.test", "a.test", Some("a.test")),
            ("*.test", "*.a.test", Some("*.a.test")),
            ("a.test", "a.test", Some("a.test")),
            ("*.test", "test", None),
            ("a.test", "b.test", None),
            ("*.a.test", "*.b.test", None),
        ] {
            let expected = both.map(host).ok_or(Apart);
            assert_eq!(intersect(host(a).as_ref(), host(b).as_ref()), expected, "{a} {b}");
            assert_eq!(intersect(host(b).as_ref(), host(a).as_ref()), expected, "{b} {a}");
        }
    }

    #[test]
    fn a_host_belongs_to_the_most_specific_listener() {
        let owners: Owners = ["", "*.test", "*.a.test", "x.a.test"].into_iter().map(host).zip(0..).collect();
        for (name, place) in [
            ("x.a.test", 3),
            ("y.a.test", 2),
            ("deep.y.a.test", 2),
            ("*.y.a.test", 2),
            ("*.a.test", 2),
            ("a.test", 1),
            ("other", 0),
            ("", 0),
        ] {
            assert_eq!(owners.owner(host(name).as_ref()), Some(place), "{name}");
        }
        assert_eq!(Owners::default().owner(host("a.test").as_ref()), None);
    }
}
