//! What differs between two plans, by name.

use std::fmt;

use serde::Serialize;

use super::{Change, Keyed, changes, route_changes};
use crate::{Listener, Plan, Protocol};

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

    fn add_all<T: Keyed>(&mut self, old: &[T], new: &[T], name: impl Fn(&str) -> String) {
        for change in changes(old, new) {
            self.add(&change, &name);
        }
    }

    fn add<T: Keyed>(&mut self, change: &Change<'_, T>, name: impl Fn(&str) -> String) {
        let (list, item) = match (change.old, change.new) {
            (Some(_), Some(new)) => (&mut self.changed, new),
            (None, Some(new)) => (&mut self.added, new),
            (Some(old), None) => (&mut self.removed, old),
            (None, None) => return,
        };
        list.push(name(item.key()));
    }

    fn sorted(mut self) -> Self {
        self.added.sort_unstable();
        self.removed.sort_unstable();
        self.changed.sort_unstable();
        self
    }

    fn of<T: Keyed>(old: &[T], new: &[T]) -> Self {
        let mut found = Self::default();
        found.add_all(old, new, str::to_owned);
        found.sorted()
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
    /// Links.
    pub links: Changes,
    /// What is said with errors.
    pub pages: Changes,
    /// Whether limits or the drain timeout differ.
    pub limits: bool,
}

impl PlanDiff {
    /// Whether the plans are equal in everything that an engine does.
    pub fn is_empty(&self) -> bool {
        let Self { listeners, routes, clusters, links, pages, limits } = self;
        [listeners, routes, clusters, links, pages].into_iter().all(Changes::is_empty) && !limits
    }
}

impl fmt::Display for PlanDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (what, changes) in [
            ("listeners", &self.listeners),
            ("routes", &self.routes),
            ("clusters", &self.clusters),
            ("links", &self.links),
            ("pages", &self.pages),
        ] {
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
    let mut found = PlanDiff {
        clusters: Changes::of(&old.clusters, &new.clusters),
        links: Changes::of(&old.links, &new.links),
        pages: Changes::of(&old.pages, &new.pages),
        limits: (&old.limits, old.drain_timeout, old.on_removal)
            != (&new.limits, new.drain_timeout, new.on_removal),
        ..PlanDiff::default()
    };
    for change in changes(&old.listeners, &new.listeners) {
        let same_head = change.old.zip(change.new).is_some_and(|(old, new)| old.same_but_routes(new));
        if !same_head {
            found.listeners.add(&change, str::to_owned);
        }
        add_routes(&mut found.routes, &change);
    }
    found.listeners = found.listeners.sorted();
    found.routes = found.routes.sorted();
    found
}

fn add_routes(found: &mut Changes, change: &Change<'_, Listener>) {
    let Some(listener) = change.new.or(change.old) else { return };
    let named = |route: &str| format!("{}/{route}", listener.name);
    let before = change.old.map(Routes::of).unwrap_or_default();
    let after = change.new.map(Routes::of).unwrap_or_default();
    found.add_all(before.tls, after.tls, named);
    for change in route_changes(before.http, after.http) {
        found.add(&change, named);
    }
    found.add_all(before.plain, after.plain, named);
}

/// The routes of a listener, of whichever kind they are.
#[derive(Default)]
struct Routes<'a> {
    plain: &'a [crate::ConnectionRoute],
    tls: &'a [crate::TlsRoute],
    http: Option<&'a crate::http::Http>,
}

impl<'a> Routes<'a> {
    fn of(listener: &'a Listener) -> Self {
        match &listener.protocol {
            Protocol::Tcp(route) | Protocol::Udp(route) => {
                Self { plain: std::slice::from_ref(route), ..Self::default() }
            }
            Protocol::Tls(tls) => Self { tls: &tls.routes, ..Self::default() },
            Protocol::Http(http) => Self { http: Some(http), ..Self::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, Endpoint, Name};

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    fn plan() -> Plan {
        serde_saphyr::from_str(
            "listeners:\n- {name: a, bind: '127.0.0.1:1', protocol: {tls: {routes: [{name: r, serverNames: [x.test], action: {forward: c}}]}}}\nclusters: [{name: c}]",
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
            let of = |letter: char| Cluster::new(name(&letter.to_string()), vec![]);
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
        new.clusters[0].endpoints.push(Endpoint::new(std::net::SocketAddr::from(([127, 0, 0, 1], 9))));
        new.clusters.push(Cluster::new(name("d"), vec![]));
        let Protocol::Tls(tls) = &mut new.listeners[0].protocol else { unreachable!("it is TLS") };
        tls.routes[0].name = name("s");
        let found = diff(&plan(), &new);
        assert!(found.listeners.is_empty());
        assert_eq!(found.routes.added, ["a/s"]);
        assert_eq!(found.routes.removed, ["a/r"]);
        assert_eq!(found.clusters.added, ["d"]);
        assert_eq!(found.clusters.changed, ["c"]);
        assert_eq!(found.to_string(), "routes +1 -1 ~0, clusters +1 -0 ~1");
    }

    #[test]
    fn a_page_differs_by_itself_and_not_in_those_who_say_it() {
        let of = |body: &str| -> Plan {
            serde_saphyr::from_str(&format!(
                "listeners:\n- {{name: a, bind: '127.0.0.1:1', protocol: {{http: {{errorPages: [{{statuses: [404], page: p}}]}}}}}}\n\
                 pages: [{{name: p, body: {body}}}]"
            ))
            .unwrap()
        };
        let found = diff(&of("one"), &of("two"));
        assert_eq!(found.pages.changed, ["p"]);
        assert!(!found.is_empty() && found.listeners.is_empty());
        assert_eq!(found.to_string(), "pages +0 -0 ~1");
    }
}
