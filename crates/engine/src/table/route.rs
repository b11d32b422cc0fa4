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
    /// Several; at least one has some weight.
    Clusters(Box<[Share]>),
    Refuse(Refusal),
    Terminate(Box<Terminated>),
}

/// A cluster and what of the connections it gets.
pub(crate) struct Share {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) weight: u32,
    pub(crate) priority: u32,
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
    pub(crate) fn cluster(&self, now: u64) -> Result<&Arc<Cluster>, Refusal> {
        match &self.destination {
            Destination::Cluster(cluster) => Ok(cluster),
            Destination::Clusters(shares) => {
                let ranks = shares.iter().map(|share| Rank::of(&share.cluster, share.weight, share.priority));
                let place = self.shared.by_rank(ranks, now);
                place.map(|place| &shares[place].cluster).ok_or(Refusal::Close)
            }
            Destination::Refuse(refusal) => Err(*refusal),
            // What is inside has ways of its own.
            Destination::Terminate(_) => Err(Refusal::Close),
        }
    }

    /// The cluster that takes over when nothing of this one can be reached: one of the next priority.
    pub(crate) fn cluster_after(&self, cluster: &Cluster) -> Option<&Arc<Cluster>> {
        let Destination::Clusters(shares) = &self.destination else { return None };
        let here = shares.iter().find(|share| std::ptr::eq(Arc::as_ptr(&share.cluster), cluster))?.priority;
        let later = shares.iter().filter(|share| share.weight > 0 && share.priority > here);
        later.min_by_key(|share| share.priority).map(|share| &share.cluster)
    }

    /// Whether connections may go to this cluster.
    pub(crate) fn leads_to(&self, cluster: &Cluster) -> bool {
        let is_it = |found: &Arc<Cluster>| std::ptr::eq(Arc::as_ptr(found), cluster);
        match &self.destination {
            Destination::Cluster(found) => is_it(found),
            Destination::Clusters(shares) => {
                shares.iter().any(|share| share.weight > 0 && is_it(&share.cluster))
            }
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
        one.into_iter().chain(several.iter().map(|share| &share.cluster))
    }
}

/// What decides among clusters.
#[derive(Clone, Copy)]
pub(crate) struct Rank<'a> {
    cluster: &'a Cluster,
    weight: u32,
    priority: u32,
}

impl<'a> Rank<'a> {
    pub(crate) fn of(cluster: &'a Cluster, weight: u32, priority: u32) -> Self {
        Self { cluster, weight, priority }
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

    /// The place of the one whose turn it is: by their weights, among those of the lowest priority that has an endpoint
    /// which can be used. If none has, those that come first say so.
    pub(crate) fn by_rank<'a>(
        &self,
        ranks: impl Iterator<Item = Rank<'a>> + Clone,
        now: u64,
    ) -> Option<usize> {
        let mut with_weight = ranks.clone().filter(|rank| rank.weight > 0);
        let first = with_weight.next()?.priority;
        if with_weight.all(|rank| rank.priority == first) {
            return self.by_weight(ranks.map(|rank| rank.weight));
        }
        let usable: Vec<bool> =
            ranks.clone().map(|rank| rank.weight > 0 && rank.cluster.is_usable(now)).collect();
        let of_usable = ranks.clone().zip(&usable).filter(|(_, usable)| **usable);
        let level = of_usable.map(|(rank, _)| rank.priority).min();
        let of_all = ranks.clone().filter(|rank| rank.weight > 0).map(|rank| rank.priority).min()?;
        let share = |(rank, usable): (Rank<'a>, &bool)| match level {
            Some(level) if rank.priority == level && *usable => rank.weight,
            None if rank.priority == of_all => rank.weight,
            _ => 0,
        };
        self.by_weight(ranks.zip(&usable).map(share))
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

    /// Whether it has connections.
    pub(crate) fn is_used(&self) -> bool {
        self.active.get() > 0
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
