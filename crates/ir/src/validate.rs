//! What only shows in the whole of a plan: names that are not unique, names that nothing has, ports that clash. Each
//! problem has the path of the field and what to write instead.

mod cluster;
mod http;
mod listener;
mod port_clash;
mod small_change;
mod warnings;

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use crate::{Cluster, Plan};

/// One thing to mend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where, like `listeners[0].protocol.tls.routes[2].serverNames[1]`.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

#[derive(Default)]
struct Findings(Vec<Problem>);

impl Findings {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { path: path.into(), message: message.into() });
    }

    /// Reports the name of a cluster that nobody has.
    fn unknown_cluster(&mut self, path: String, name: &str) {
        self.add(path, format!("there is no cluster `{name}`: add it to clusters or correct the name"));
    }

    /// Reports a second use of a name and where the first one is.
    /// Paths are written only when there is something to report: plans are large and mostly right.
    fn unique<'a>(
        &mut self,
        seen: &mut HashMap<&'a str, usize>,
        name: &'a str,
        index: usize,
        path: impl Fn(usize) -> String,
    ) {
        if let Some(first) = seen.get(name) {
            let first = path(*first);
            self.add(path(index), format!("the name `{name}` is already that of {first}: names are unique"));
        } else {
            seen.insert(name, index);
        }
    }
}

/// The parts of a plan that others name.
struct Named<'a> {
    plan: &'a Plan,
    clusters: HashMap<&'a str, usize>,
    links: HashMap<&'a str, usize>,
    pages: HashMap<&'a str, usize>,
}

impl<'a> Named<'a> {
    fn cluster(&self, name: &str) -> Option<&'a Cluster> {
        self.clusters.get(name).map(|index| &self.plan.clusters[*index])
    }
}

impl Plan {
    /// The same as [`Self::validate`], quicker if little differs from a plan that is known to be fine.
    pub fn validate_after(&self, fine: &Plan) -> Vec<Problem> {
        if small_change::is_fine(fine, self) { Vec::new() } else { self.validate() }
    }

    /// Everything that makes this plan impossible to run; empty when it is fine.
    pub fn validate(&self) -> Vec<Problem> {
        let mut found = Findings::default();
        let mut named = Named {
            plan: self,
            clusters: HashMap::with_capacity(self.clusters.len()),
            links: HashMap::new(),
            pages: HashMap::new(),
        };
        for (i, link) in self.links.iter().enumerate() {
            found.unique(&mut named.links, &link.name, i, |i| format!("links[{i}].name"));
        }
        for (i, page) in self.pages.iter().enumerate() {
            found.unique(&mut named.pages, &page.name, i, |i| format!("pages[{i}].name"));
        }
        for (i, cluster) in self.clusters.iter().enumerate() {
            found.unique(&mut named.clusters, &cluster.name, i, |i| format!("clusters[{i}].name"));
            cluster::check(&mut found, &|| format!("clusters[{i}]"), cluster, |name| {
                named.links.contains_key(name)
            });
        }
        let mut listeners = HashMap::new();
        for (i, listener) in self.listeners.iter().enumerate() {
            found.unique(&mut listeners, &listener.name, i, |i| format!("listeners[{i}].name"));
            listener::check(&mut found, &format!("listeners[{i}]"), listener, &named);
        }
        port_clash::check(&mut found, &self.listeners);
        found.0
    }

    /// What runs, but perhaps not as its author thinks: wildcards within wildcards that lead elsewhere, networks that are
    /// written as an address in them, and rules for clients that anybody can pretend to be.
    pub fn warnings(&self) -> Vec<Problem> {
        let mut found = Findings::default();
        for (i, listener) in self.listeners.iter().enumerate() {
            warnings::addresses_in_networks(&mut found, i, listener);
            warnings::nested_wildcards(&mut found, i, listener);
            warnings::believed_headers(&mut found, i, listener, &self.limits);
        }
        found.0
    }
}

#[cfg(test)]
mod tests;
