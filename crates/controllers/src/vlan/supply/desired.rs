//! What a proxy should be supplied with, in as many parts as it takes: an object must stay small, and a change should cost
//! one part. Pure.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use causeway_api::{ProxyServer, SuppliedRoute, SuppliedService, Supply, SupplySpec, SupplyStatus, names};
use causeway_translate::{
    proxy::{
        Valid, references,
        routes::{Attached, Claims, Parent, Verdict, World, attach},
    },
    services::ServiceRef,
};
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt;

use super::observe::Observed;

/// What a part may weigh, about: an object may have 1.5 MiB, and every change of a part is sent to every proxy.
const PART_BYTES: usize = 96 * 1024;
/// What a route is told of its losses.
const MOST_TOLD: usize = 5;

/// What a proxy should be supplied with, and what is to be said of it.
pub(crate) struct Desired {
    /// The objects.
    pub(crate) supplies: Vec<Supply>,
    /// For the object's status.
    pub(crate) status: SupplyStatus,
    /// What is of use.
    pub(crate) uses: Uses,
    /// What is to be said in each route, by its place among those that were observed.
    pub(crate) parents: HashMap<usize, Vec<Parent>>,
}

/// Services that a proxy has to do with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    /// All that routes and backends name.
    pub(crate) services: BTreeSet<ServiceRef>,
    /// Those that it is supplied with.
    pub(crate) supplied: BTreeSet<ServiceRef>,
}

/// What this object, which can be run, should be supplied with; and with it the spec that proxies took last, `kept`, which
/// some of them may still run.
pub(crate) fn desired(
    proxy: &ProxyServer,
    kept: Option<&ProxyServer>,
    valid: &Valid,
    observed: &Observed,
) -> Desired {
    // Many routes lead to the same few Services.
    let known: RefCell<HashMap<ServiceRef, Option<Service>>> = RefCell::default();
    let service = |namespace: &str, name: &str| {
        let at = ServiceRef { namespace: namespace.to_owned(), name: name.to_owned() };
        known.borrow_mut().entry(at).or_insert_with(|| observed.service(namespace, name)).clone()
    };
    let world =
        World { grants: observed.grants.as_ref(), namespaces: &observed.namespaces, service: &service };
    let attached: Vec<Attached> =
        observed.routes.iter().map(|read| attach(proxy, valid, &read.route, &world)).collect();
    let (places, routes): (Vec<usize>, Vec<SuppliedRoute>) = attached
        .iter()
        .enumerate()
        .filter_map(|(place, attached)| Some((place, attached.route.clone()?)))
        .unzip();
    let mut parents: HashMap<usize, Vec<Parent>> =
        attached.into_iter().enumerate().map(|(place, attached)| (place, attached.parents)).collect();
    let claims = Claims::of(valid, &routes);
    let holders = claims.holders();
    for (index, lost) in &claims.lost {
        let Some(parents) = places.get(*index).and_then(|place| parents.get_mut(place)) else { continue };
        tell_loss(parents, lost, holders.contains(index));
    }
    let consent = consent(proxy, kept, &routes, observed);
    let ports: BTreeSet<u16> = holders
        .iter()
        .filter_map(|index| routes.get(*index))
        .flat_map(|route| route.ports.iter().copied())
        .collect();
    Desired {
        status: SupplyStatus {
            routes: i32::try_from(holders.len()).unwrap_or(i32::MAX),
            ports: ports.into_iter().collect(),
            namespaces: consent.read.iter().cloned().collect(),
            missing_namespaces: consent.missing.iter().cloned().collect(),
        },
        supplies: parts(proxy, &consent, routes, observed),
        uses: consent.uses,
        parents,
    }
}

fn tell_loss(parents: &mut [Parent], lost: &[String], has_some: bool) {
    let more = lost.len().saturating_sub(MOST_TOLD);
    let mut told = lost.iter().take(MOST_TOLD).cloned().collect::<Vec<_>>().join("; ");
    if more > 0 {
        told = format!("{told}; and {more} more");
    }
    for parent in parents.iter_mut().filter(|parent| parent.accepted.holds) {
        if has_some {
            parent.accepted.message = format!("{}; not served: {told}", parent.accepted.message);
        } else {
            parent.accepted = Verdict::no("Conflicted", told.clone());
        }
    }
}

/// What other namespaces have agreed to.
struct Consent {
    uses: Uses,
    /// Namespaces that proxies may read, their own among them if there is something to read.
    read: BTreeSet<String>,
    missing: BTreeSet<String>,
}

fn consent(
    proxy: &ProxyServer,
    kept: Option<&ProxyServer>,
    routes: &[SuppliedRoute],
    observed: &Observed,
) -> Consent {
    let own = proxy.namespace().unwrap_or_default();
    let grants = observed.grants.as_ref();
    let mut consent = Consent { uses: Uses::default(), read: BTreeSet::new(), missing: BTreeSet::new() };
    let is_open = |namespace: &str| {
        namespace == own || grants.is_none_or(|grants| grants.permit_all(references::users(&own), namespace))
    };
    let kept = kept.into_iter().flat_map(|kept| &kept.spec.backends);
    let backends = proxy.spec.backends.iter().chain(kept).map(|backend| {
        let at =
            ServiceRef { namespace: backend.target_namespace.clone(), name: backend.target_service.clone() };
        (at, references::is_permitted(proxy, backend, grants))
    });
    let targets = routes.iter().flat_map(|route| &route.targets).map(|target| {
        let at = ServiceRef { namespace: target.namespace.clone(), name: target.service.clone() };
        (at, !target.refused)
    });
    for (at, is_permitted) in backends.chain(targets) {
        if !observed.namespaces.contains_key(&at.namespace) {
            consent.missing.insert(at.namespace.clone());
        }
        if is_permitted && is_open(&at.namespace) {
            consent.read.insert(at.namespace.clone());
        } else if is_permitted {
            consent.uses.supplied.insert(at.clone());
        }
        consent.uses.services.insert(at);
    }
    consent
}

/// One thing to supply, and where it goes.
enum Item {
    Route(SuppliedRoute),
    Service(Box<SuppliedService>),
}

fn parts(
    proxy: &ProxyServer,
    consent: &Consent,
    routes: Vec<SuppliedRoute>,
    observed: &Observed,
) -> Vec<Supply> {
    let mut slices = observed.slices(&consent.uses.supplied);
    let services = consent.uses.supplied.iter().filter_map(|at| {
        let service = observed.service(&at.namespace, &at.name)?;
        let slices = slices.remove(at).unwrap_or_default();
        Some((format!("Service {at}"), Item::Service(Box::new(SuppliedService { service, slices }))))
    });
    let mut items: Vec<(String, Item)> = services.collect();
    items.extend(routes.into_iter().map(|route| {
        let key = format!("{} {}/{}", route.kind.as_str(), route.namespace, route.name);
        (key, Item::Route(route))
    }));
    let weight: usize = items.iter().map(|(_, item)| item.weight()).sum();
    let count = weight.div_ceil(PART_BYTES).max(1).next_power_of_two();
    let mut specs = vec![SupplySpec { parts: number(count), ..SupplySpec::default() }; count];
    for (key, item) in items {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let place = usize::try_from(hasher.finish()).unwrap_or_default() % count;
        match (specs.get_mut(place), item) {
            (Some(spec), Item::Route(route)) => spec.routes.push(route),
            (Some(spec), Item::Service(service)) => spec.services.push(*service),
            (None, _) => {}
        }
    }
    let own = proxy.namespace().unwrap_or_default();
    if let Some(first) = specs.first_mut() {
        first.namespaces = consent.read.iter().filter(|name| **name != own).cloned().collect();
        first.missing_namespaces = consent.missing.iter().cloned().collect();
    }
    let labels = BTreeMap::from([
        (names::LABEL_OWNER_KIND.to_owned(), "ProxyServer".to_owned()),
        (names::LABEL_OWNER_NAME.to_owned(), proxy.name_any()),
    ]);
    let one = |(part, spec): (usize, SupplySpec)| Supply {
        metadata: ObjectMeta {
            name: Some(format!("{}.{count}.{part}", proxy.name_any())),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        spec: SupplySpec { part: number(part), ..spec },
    };
    specs.into_iter().enumerate().map(one).collect()
}

impl Item {
    /// About how many bytes it takes.
    fn weight(&self) -> usize {
        match self {
            Self::Route(route) => {
                let names: usize = route.hostnames.iter().map(|name| name.len() + 4).sum();
                160 + route.namespace.len() + route.name.len() + names + 120 * route.targets.len()
            }
            Self::Service(service) => {
                let endpoints: usize = service.slices.iter().map(|slice| slice.endpoints.len()).sum();
                400 + 250 * service.slices.len() + 140 * endpoints
            }
        }
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
