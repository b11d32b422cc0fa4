//! What differs between two plans, by name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::Serialize;

use crate::changed::changed;
use crate::plan::{Cluster, Listener, Outcome, Plan, Route};

/// The names of what was added, removed and changed, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Only in the new plan.
    pub added: Vec<String>,
    /// Only in the old plan.
    pub removed: Vec<String>,
    /// In both, not equal.
    pub changed: Vec<String>,
}

impl Changes {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    fn between<K: Ord + Into<String>, T: PartialEq>(old: BTreeMap<K, T>, new: BTreeMap<K, T>) -> Self {
        let mut changes = Self::default();
        let mut old = old.into_iter().peekable();
        // Both are sorted by name, so that one walk finds what each has alone.
        for (name, value) in new {
            while let Some((gone, _)) = old.next_if(|(before, _)| *before < name) {
                changes.removed.push(gone.into());
            }
            match old.next_if(|(before, _)| *before == name) {
                None => changes.added.push(name.into()),
                Some((_, before)) if before != value => changes.changed.push(name.into()),
                Some(_) => {}
            }
        }
        changes.removed.extend(old.map(|(gone, _)| gone.into()));
        changes
    }
}

/// What differs between two plans.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanDiff {
    /// Listeners; a listener whose routes alone differ is not in here.
    pub listeners: Changes,
    /// Routes, as `listener/route`.
    pub routes: Changes,
    /// Clusters with their endpoints.
    pub clusters: Changes,
    /// Whether limits or the drain timeout differ.
    pub limits: bool,
}

impl PlanDiff {
    /// Whether the plans are equal in everything that an engine does.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.routes.is_empty() && self.clusters.is_empty() && !self.limits
    }
}

impl fmt::Display for PlanDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (what, changes) in
            [("listeners", &self.listeners), ("routes", &self.routes), ("clusters", &self.clusters)]
        {
            if !changes.is_empty() {
                let (added, removed, changed) =
                    (changes.added.len(), changes.removed.len(), changes.changed.len());
                parts.push(format!("{what} +{added} -{removed} ~{changed}"));
            }
        }
        if self.limits {
            parts.push("limits changed".to_owned());
        }
        if parts.is_empty() {
            return f.write_str("no change");
        }
        f.write_str(&parts.join(", "))
    }
}

/// Compares two plans.
pub fn diff(old: &Plan, new: &Plan) -> PlanDiff {
    fn by_name(clusters: &[Cluster]) -> BTreeMap<&str, &Cluster> {
        clusters.iter().map(|cluster| (cluster.name.as_str(), cluster)).collect()
    }
    // Only what is not the same at the same place is looked at by name.
    let (old_clusters, new_clusters) = changed(&old.clusters, &new.clusters);
    let (old_routes, new_routes) = changed_routes(old, new);
    PlanDiff {
        listeners: Changes::between(
            plan_listeners(old).collect::<BTreeMap<_, _>>(),
            plan_listeners(new).collect(),
        ),
        routes: Changes::between(old_routes, new_routes),
        clusters: Changes::between(by_name(old_clusters), by_name(new_clusters)),
        limits: old.limits != new.limits || old.drain_timeout != new.drain_timeout,
    }
}

type Routes<'a> = BTreeMap<String, &'a Route>;

/// The routes that may differ, by listener and name.
fn changed_routes<'a>(old: &'a Plan, new: &'a Plan) -> (Routes<'a>, Routes<'a>) {
    let before: HashMap<&str, &Listener> = old.listeners.iter().map(|l| (l.name.as_str(), l)).collect();
    let after: HashSet<&str> = new.listeners.iter().map(|l| l.name.as_str()).collect();
    let mut found = (Routes::new(), Routes::new());
    let mut add = |listener: &Listener, (gone, came): (&'a [Route], &'a [Route])| {
        let key = |route: &'a Route| (format!("{}/{}", listener.name, route.name), route);
        found.0.extend(gone.iter().map(key));
        found.1.extend(came.iter().map(key));
    };
    for listener in &new.listeners {
        let routes = before.get(listener.name.as_str()).map_or(&[][..], |l| &l.routes);
        add(listener, changed(routes, &listener.routes));
    }
    for listener in old.listeners.iter().filter(|l| !after.contains(l.name.as_str())) {
        add(listener, (&listener.routes, &[]));
    }
    found
}

pub(crate) type ListenerHead<'a> = (&'a str, crate::Protocol, crate::Sniff, bool, [&'a Outcome; 3]);

/// A listener without its name and routes, which are compared one by one.
pub(crate) fn head(listener: &Listener) -> ListenerHead<'_> {
    let l = listener;
    let outcomes = [&l.no_server_name, &l.unknown_server_name, &l.plaintext];
    (l.bind.as_str(), l.protocol, l.sniff, l.accept_proxy_protocol, outcomes)
}

fn plan_listeners(plan: &Plan) -> impl Iterator<Item = (&str, ListenerHead<'_>)> {
    plan.listeners.iter().map(|l| (l.name.as_str(), head(l)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Endpoint;

    fn plan() -> Plan {
        serde_saphyr::from_str(
            "listeners:\n- {name: a, bind: '127.0.0.1:1', sniff: tls, routes: [{name: r, serverNames: [x.test], cluster: c}]}\nclusters: [{name: c}]",
        )
        .unwrap()
    }

    #[test]
    fn equal_plans_do_not_differ() {
        assert!(diff(&plan(), &plan()).is_empty());
        assert_eq!(diff(&plan(), &plan()).to_string(), "no change");
    }

    #[test]
    fn sorts_what_differs_by_name_wherever_it_stands() {
        let clusters = |names: &str| {
            let of = |name: char| Cluster::new(name, vec![]);
            Plan { clusters: names.chars().map(of).collect(), ..Plan::default() }
        };
        let found = diff(&clusters("fbdxa"), &clusters("gcbdz")).clusters;
        assert_eq!(found.added, ["c", "g", "z"]);
        assert_eq!(found.removed, ["a", "f", "x"]);
        assert!(found.changed.is_empty());
    }

    #[test]
    fn names_what_was_added_removed_and_changed() {
        let mut new = plan();
        new.clusters[0].endpoints.push(Endpoint::new("127.0.0.1:9"));
        new.clusters.push(Cluster::new("d", vec![]));
        new.listeners[0].routes[0].name = "s".into();
        let found = diff(&plan(), &new);
        assert!(found.listeners.is_empty());
        assert_eq!(found.routes.added, ["a/s"]);
        assert_eq!(found.routes.removed, ["a/r"]);
        assert_eq!(found.clusters.added, ["d"]);
        assert_eq!(found.clusters.changed, ["c"]);
        assert_eq!(found.to_string(), "routes +1 -1 ~0, clusters +1 -0 ~1");
    }
}

/// Temporary.
pub trait Keyed: PartialEq { /// Key.
 fn key(&self) -> &str; }
