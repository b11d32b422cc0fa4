//! Where matched connections go.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use causeway_ir::{Limit, Refusal};
use rustls::ServerConfig;

use crate::balance;
use crate::cluster::Cluster;
use crate::http::{self, Rates, Router};
use crate::metrics::{Active, Closes, HasActive};
use crate::tls::Clients;

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

/// TLS that ends here, and what is in it.
pub(crate) struct Terminated {
    pub(crate) config: Arc<ServerConfig>,
    /// What is asked of clients, if anything is.
    pub(crate) clients: Option<Arc<Clients>>,
    pub(crate) inside: Inside,
}

/// What is inside of TLS that ends here.
pub(crate) enum Inside {
    Requests(Box<Router<Arc<http::Route>>>),
    /// All go the same way.
    Bytes(Arc<Route>),
}

/// What outlives a change of the route.
pub(crate) struct RouteShared {
    active: Active,
    pub(crate) closed: Closes,
    turn: AtomicUsize,
    over: AtomicBool,
    /// How often clients ask, where that is limited.
    rates: OnceLock<Box<Rates>>,
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
                let place = self.shared.by_weight(shares.iter().map(|(_, weight)| *weight));
                place.map(|place| &shares[place].0).ok_or(Refusal::Close)
            }
            Destination::Refuse(refusal) => Err(*refusal),
            // What is inside has ways of its own.
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

impl Destination {
    /// The clusters that connections may go to, in the order of the plan.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &Arc<Cluster>> {
        let (one, several) = match self {
            Self::Cluster(cluster) => (Some(cluster), &[][..]),
            Self::Clusters(shares) => (None, &**shares),
            Self::Refuse(_) | Self::Terminate(_) => (None, &[][..]),
        };
        one.into_iter().chain(several.iter().map(|(cluster, _)| cluster))
    }
}

/// The place of the one at a point of the weights laid end to end.
fn at_point(weights: impl Iterator<Item = u32> + Clone, point: f64) -> Option<usize> {
    let total: u64 = weights.clone().map(u64::from).sum();
    let mut left = (point * total as f64) as u64;
    for (place, weight) in weights.enumerate() {
        let weight = u64::from(weight);
        if left < weight {
            return Some(place);
        }
        left -= weight;
    }
    None
}

impl RouteShared {
    pub(crate) fn new(closed: Closes) -> Self {
        Self {
            active: Active::default(),
            closed,
            turn: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            rates: OnceLock::new(),
        }
    }

    /// How often clients ask.
    pub(crate) fn rates(&self) -> &Rates {
        self.rates.get_or_init(Box::default)
    }

    /// The place of the one whose turn it is, by their weights.
    pub(crate) fn by_weight(&self, weights: impl Iterator<Item = u32> + Clone) -> Option<usize> {
        at_point(weights, balance::evenly(self.turn.fetch_add(1, Relaxed)))
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
        let mut counts = [0; 3];
        for turn in 0..4000 {
            counts[at_point([1, 0, 3].into_iter(), balance::evenly(turn)).unwrap()] += 1;
        }
        assert!((990..=1010).contains(&counts[0]), "{counts:?}");
        assert_eq!((counts[1], counts[0] + counts[2]), (0, 4000));
        assert_eq!(at_point([0].into_iter(), 0.0), None);
    }
}
