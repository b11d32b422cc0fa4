//! A Gateway of ours with everything that is known of it: its listeners, its sets, and the routes that attached.

use std::collections::HashMap;

use causeway_api::GatewayParametersSpec;
use causeway_ir::{Name, Pattern};

use super::addresses::Requested;
use super::attach::attach;
use super::backends::Backends;
use super::class::{Class, Uses};
use super::kinds::{GROUP, Gateway, ListenerSet, ParentRef};
use super::listeners::{Bound, Set, listeners, sets_of};
use super::picture::Certificate;
use super::routes::{Parents, Route};
use super::rules::Compiler;
use super::secrets::{Lookup, Wrong};
use crate::grants::Users;
use crate::references::Verdict;

/// A Gateway of ours.
pub(super) struct Own<'a> {
    pub(super) gateway: &'a Gateway,
    /// The parameters in effect, or why there are none.
    pub(super) parameters: Result<GatewayParametersSpec, String>,
    pub(super) requested: Requested,
    /// The certificate that is shown to backends, if one is asked for.
    pub(super) certificate: Option<Result<(Name, Certificate), Wrong>>,
    pub(super) sets: Vec<Set<'a>>,
    pub(super) listeners: Vec<Bound<'a>>,
    /// The routes of each listener, in the order in which they have their say.
    pub(super) attached: Vec<Vec<Attached>>,
}

/// A route at a listener.
pub(super) struct Attached {
    /// Its place.
    pub(super) route: usize,
    /// Those of its hosts that the listener has; none for every host.
    pub(super) hosts: Vec<Pattern>,
    /// Whether it is accepted: one whose every rule is invalid answers and is not counted.
    pub(super) counts: bool,
}

/// What became of one reference of a route.
pub(super) struct Parent<'a> {
    pub(super) reference: &'a ParentRef,
    /// The Gateway, by its place.
    pub(super) gateway: usize,
    /// The listeners that took it, by their places.
    pub(super) listeners: Vec<usize>,
    pub(super) accepted: Verdict,
}

impl<'a> Own<'a> {
    pub(super) fn new(
        gateway: &'a Gateway,
        class: &Class,
        sets: &[&'a ListenerSet],
        uses: &mut Uses,
        lookup: &Lookup<'a>,
    ) -> Self {
        let sets = sets_of(gateway, sets, lookup.world);
        let listeners = listeners(gateway, &sets, lookup);
        let users = Users { group: GROUP, kind: "Gateway", namespace: &gateway.meta.at.namespace };
        let backend = gateway.spec.tls.as_ref().and_then(|tls| tls.backend.as_ref());
        let certificate = backend.and_then(|backend| backend.client_certificate_ref.as_ref());
        Self {
            gateway,
            parameters: uses.of(gateway, class, lookup.world),
            requested: Requested::of(&gateway.spec.addresses),
            certificate: certificate.map(|reference| lookup.certificate(users, reference)),
            attached: listeners.iter().map(|_| Vec::new()).collect(),
            sets,
            listeners,
        }
    }

    /// How many routes attached to a listener.
    pub(super) fn count(&self, listener: usize) -> usize {
        self.attached[listener].iter().filter(|attached| attached.counts).count()
    }
}

/// Attaches all routes to all Gateways; for each route, what became of each of its references to something of ours.
pub(super) fn attach_all<'a>(
    owns: &mut [Own<'_>],
    routes: &mut [Route<'a>],
    parents: &Parents,
    backends: &Backends<'_>,
) -> Vec<Vec<Parent<'a>>> {
    let world = backends.lookup.world;
    let mut states = Vec::with_capacity(routes.len());
    // By listener: two references of one route may mean the same.
    let mut seen: HashMap<(usize, usize), usize> = HashMap::new();
    for (place, route) in routes.iter_mut().enumerate() {
        let mut ends = Vec::new();
        for reference in route.parents {
            let Some((gateway, set)) = parents.find(reference, &route.meta.at.namespace) else { continue };
            let found = match route.unreadable {
                None => attach(route, &owns[gateway], set, reference, world),
                Some(why) => Err(Verdict::no("UnsupportedValue", format!("it can't be read: {why}"))),
            };
            ends.push((reference, gateway, found));
        }
        if !ends.is_empty() {
            let users =
                Users { group: GROUP, kind: route.kind.as_str(), namespace: &route.meta.at.namespace };
            let attaches = ends.iter().any(|(.., found)| found.is_ok());
            route.compile(&Compiler { backends, users, at: &route.meta.at, attaches });
        }
        let mut of_route = Vec::new();
        for (reference, gateway, found) in ends {
            let own = &mut owns[gateway];
            let mut listeners = Vec::new();
            let accepted = match found {
                Ok(taken) => {
                    let accepted = accepted(route, &taken, own);
                    for (listener, hosts) in taken {
                        listeners.push(listener);
                        if seen.insert((gateway, listener), place) != Some(place) {
                            let counts = accepted.holds;
                            own.attached[listener].push(Attached { route: place, hosts, counts });
                        }
                    }
                    accepted
                }
                Err(why) => why,
            };
            of_route.push(Parent { reference, gateway, listeners, accepted });
        }
        states.push(of_route);
    }
    states
}

/// Whether a route that listeners take makes sense itself.
fn accepted(route: &Route<'_>, taken: &[(usize, Vec<Pattern>)], own: &Own<'_>) -> Verdict {
    let rules = &route.rules;
    if let Some(first) = rules.invalid.first()
        && rules.invalid.len() == rules.count
    {
        return Verdict::no(
            first.reason,
            format!("no rule can be carried out: rule {}: {}", first.rule, first.message),
        );
    }
    let names: Vec<&str> =
        taken.iter().map(|(listener, _)| own.listeners[*listener].spec.name.as_str()).collect();
    Verdict::yes("Accepted", format!("attached to listener {}", names.join(", ")))
}
