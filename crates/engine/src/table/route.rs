//! Where matched connections go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use causeway_ir::{Limit, Refusal};
use rustls::ServerConfig;

use crate::balance;
use crate::cluster::Cluster;
use crate::http::{self, Router};
use crate::metrics::{Active, Closes, HasActive};

pub(crate) struct Route {
    pub(crate) name: Arc<str>,
    pub(crate) destination: Destination,
    pub(crate) limit: Option<Limit>,
    pub(crate) shared: Arc<RouteShared>,
}

pub(crate) enum Destination {
    Cluster(Arc<Cluster>),
    /// Several by weight; at least one has some.
    Clusters(Box<[(Arc<Cluster>, u32)]>),
    Refuse(Refusal),
    Terminate(Box<Terminated>),
}

/// TLS that ends here, and the requests in it.
pub(crate) struct Terminated {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) requests: Router<Arc<http::Route>>,
}

/// What outlives a change of the route.
pub(crate) struct RouteShared {
    active: Active,
    pub(crate) closed: Closes,
    turn: AtomicUsize,
    over: AtomicBool,
}

impl HasActive for Route {
    fn active(&self) -> &Active {
        &self.shared.active
    }
}

impl Route {
    /// The cluster for the next connection.
    pub(crate) fn cluster(&self) -> Result<&Arc<Cluster>, Refusal> {
        match &self.destination {
            Destination::Cluster(cluster) => Ok(cluster),
            Destination::Clusters(shares) => {
                let turn = self.shared.turn.fetch_add(1, Relaxed);
                by_weight(shares, balance::evenly(turn)).ok_or(Refusal::Close)
            }
            Destination::Refuse(refusal) => Err(*refusal),
            // Requests have routes of their own.
            Destination::Terminate(_) => Err(Refusal::Close),
        }
    }

    /// Whether connections may go to this cluster.
    pub(crate) fn leads_to(&self, cluster: &Cluster) -> bool {
        let is_it = |found: &Arc<Cluster>| std::ptr::eq(Arc::as_ptr(found), cluster);
        match &self.destination {
            Destination::Cluster(found) => is_it(found),
            Destination::Clusters(shares) => shares.iter().any(|(found, weight)| *weight > 0 && is_it(found)),
            Destination::Refuse(_) | Destination::Terminate(_) => false,
        }
    }
}

/// The one at a point of the weights laid end to end.
fn by_weight<T>(shares: &[(T, u32)], point: f64) -> Option<&T> {
    let total: u64 = shares.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut left = (point * total as f64) as u64;
    for (target, weight) in shares {
        let weight = u64::from(*weight);
        if left < weight {
            return Some(target);
        }
        left -= weight;
    }
    None
}

impl RouteShared {
    pub(crate) fn new(closed: Closes) -> Self {
        Self { active: Active::default(), closed, turn: AtomicUsize::new(0), over: AtomicBool::new(false) }
    }

    /// Marks the route as removed, with its time to drain over.
    pub(crate) fn end(&self) {
        self.over.store(true, Relaxed);
        self.closed.forget();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_weights_and_0_gets_nothing() {
        let shares = [("a", 1), ("none", 0), ("b", 3)];
        let mut counts = std::collections::HashMap::new();
        for turn in 0..4000 {
            *counts.entry(*by_weight(&shares, balance::evenly(turn)).unwrap()).or_insert(0) += 1;
        }
        assert!((990..=1010).contains(&counts["a"]), "{counts:?}");
        assert_eq!(counts.get("none"), None);
        assert_eq!(counts["a"] + counts["b"], 4000);
        assert_eq!(by_weight(&[("none", 0)], 0.0), None);
    }
}
