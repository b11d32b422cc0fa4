//! What is served at one moment. A new plan makes a new snapshot that shares all that did not change with the one before.

use std::collections::HashSet;
use std::sync::Arc;

use causeway_ir::{Change, Listener, Plan, changes};
use envoy_types::pb::envoy::config::listener::v3 as envoy;
use envoy_types::util::pack_any;

use crate::resource::{Kind, Resource};
use crate::resources;
use crate::set::Set;

/// Everything for one plan.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Counts up; 0 is before the first plan.
    pub(crate) number: u64,
    pub(crate) plan: Option<Arc<Plan>>,
    sets: [Set; 3],
}

impl Snapshot {
    pub(crate) fn set(&self, kind: Kind) -> &Set {
        &self.sets[kind as usize]
    }

    /// The snapshot that follows this one, of a plan that is valid and that Envoy can run.
    pub(crate) fn next(&self, plan: Arc<Plan>) -> Self {
        let empty = Plan::default();
        let before = self.plan.as_deref().unwrap_or(&empty);
        let (mut clusters, mut endpoints) = (Vec::new(), Vec::new());
        // Clusters that came, went, or differ in what listeners show of them.
        let mut touched: HashSet<&str> = HashSet::new();
        for change in changes(&before.clusters, &plan.clusters) {
            let (Some(named), new) = (change.new.or(change.old), change.new) else { continue };
            let name = resources::cluster_name(&named.name);
            let same_head =
                matches!(change, Change { old: Some(old), new: Some(new) } if old.same_but_endpoints(new));
            if !same_head {
                touched.insert(&named.name);
                let made = |new| Resource::new(name.clone(), pack_any(resources::cluster::build(new)));
                clusters.push((name.clone(), new.map(made)));
            }
            let same_endpoints =
                matches!(change, Change { old: Some(old), new: Some(new) } if old.endpoints == new.endpoints);
            if !same_endpoints {
                let made = |new| Resource::new(name.clone(), pack_any(resources::endpoints::build(new)));
                endpoints.push((name.clone(), new.map(made)));
            }
        }
        let listeners = changed_listeners(before, &plan, &touched);
        let sets = [
            self.set(Kind::Cluster).with(clusters),
            self.set(Kind::Endpoints).with(endpoints),
            self.set(Kind::Listener).with(listeners),
        ];
        Self { number: self.number + 1, plan: Some(plan), sets }
    }
}

/// The listeners that are not what they were.
fn changed_listeners(
    before: &Plan,
    plan: &Plan,
    touched: &HashSet<&str>,
) -> Vec<(String, Option<Arc<Resource>>)> {
    let changed = changes(&before.listeners, &plan.listeners);
    let gone = changed.iter().filter(|change| change.new.is_none()).filter_map(|change| change.old);
    let mut made: Vec<_> = gone.map(|listener| (listener.name.to_string(), None)).collect();
    let mut due: HashSet<&str> =
        changed.iter().filter_map(|change| change.new).map(|listener| listener.name.as_str()).collect();
    // A listener shows the limits of the plan, and timeouts and policies of its clusters.
    let all = before.limits != plan.limits;
    if all || !touched.is_empty() {
        let shows = |listener: &&Listener| {
            all || resources::listener::targets(listener).any(|cluster| touched.contains(cluster))
        };
        due.extend(plan.listeners.iter().filter(shows).map(|listener| listener.name.as_str()));
    }
    if due.is_empty() {
        return made;
    }
    let clusters = resources::clusters(plan);
    for listener in plan.listeners.iter().filter(|listener| due.contains(listener.name.as_str())) {
        if let Some(built) = resources::listener::build(listener, &clusters, &plan.limits) {
            made.push((listener.name.to_string(), Some(resource(listener, built))));
        }
    }
    made
}

/// The map of names in a listener is written in another order each time, so the plan's names stand in for it.
fn resource(listener: &Listener, built: envoy::Listener) -> Arc<Resource> {
    let matcher = built.filter_chain_matcher;
    let rest = envoy::Listener { filter_chain_matcher: None, ..built };
    let names: Vec<_> =
        listener.tls_routes().iter().map(|route| (route.name.as_str(), &route.server_names)).collect();
    let trusted = listener.accept_proxy_protocol.as_ref().map(|accept| &accept.from);
    let bytes = pack_any(rest.clone()).value;
    let content = (&bytes, names, &listener.allowed_sources, trusted);
    let body = pack_any(envoy::Listener { filter_chain_matcher: matcher, ..rest });
    Resource::with_content(listener.name.to_string(), body, &content)
}

#[cfg(test)]
mod tests;
