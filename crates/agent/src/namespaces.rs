//! The watches of an object's surroundings: what the operator supplies of other namespaces, and the namespaces that the
//! pod may read, its own and those that let the object use all their Services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use causeway_api::{Supply, names};
use causeway_translate::services::ServiceRef;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::feed::{Feed, Which};
use crate::known::{self, Known, Objects};

/// How long a namespace may take to be read before a plan is made without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Watches what is supplied, and the namespaces that are asked for, and no others.
pub(crate) struct Namespaces {
    client: Client,
    /// The object's own, which needs no grant.
    own: String,
    require_grants: bool,
    changed: Arc<Notify>,
    /// None for an object that is supplied with nothing.
    supplied: Option<Feed<Supply>>,
    started: Instant,
    watched: BTreeMap<String, Namespace>,
}

struct Namespace {
    services: Feed<Service>,
    slices: Feed<EndpointSlice>,
    started: Instant,
}

impl Namespaces {
    /// For the object of this kind, namespace and name.
    pub(crate) fn new(
        client: Client,
        (kind, own, name): (&str, &str, &str),
        is_supplied: bool,
        require_grants: bool,
        changed: Arc<Notify>,
    ) -> Self {
        let labels = format!("{}={kind},{}={name}", names::LABEL_OWNER_KIND, names::LABEL_OWNER_NAME);
        let api = Api::namespaced(client.clone(), own);
        let supplied = is_supplied.then(|| Feed::start(api, &Which::Labelled(labels), Arc::clone(&changed)));
        Self {
            client,
            own: own.to_owned(),
            require_grants,
            changed,
            supplied,
            started: Instant::now(),
            watched: BTreeMap::new(),
        }
    }

    /// Watches the namespaces of these Services and of those that routes lead to, as far as the pod may, and ends the
    /// other watches. What was supplied need not be watched.
    pub(crate) fn follow(&mut self, services: &BTreeSet<ServiceRef>, last: &Known) {
        let supplies = self.supplies(last);
        let given = known::given(&supplies);
        let is_open = |namespace: &str| {
            !self.require_grants || namespace == self.own || given.namespaces.contains(namespace)
        };
        let targets: Vec<ServiceRef> = known::targets(&supplies).collect();
        let wanted: BTreeSet<&str> = services
            .iter()
            .chain(&targets)
            .filter(|service| !given.services.contains(service) && is_open(&service.namespace))
            .map(|service| service.namespace.as_str())
            .collect();
        self.watched.retain(|name, _| wanted.contains(name.as_str()));
        for name in wanted {
            if !self.watched.contains_key(name) {
                self.watched.insert(name.to_owned(), self.start(name));
            }
        }
    }

    fn start(&self, name: &str) -> Namespace {
        let changed = || Arc::clone(&self.changed);
        Namespace {
            services: Feed::start(Api::namespaced(self.client.clone(), name), &Which::All, changed()),
            slices: Feed::start(Api::namespaced(self.client.clone(), name), &Which::All, changed()),
            started: Instant::now(),
        }
    }

    /// What is supplied: its parts count only together, and until they are together, what was there before.
    fn supplies(&self, last: &Known) -> Vec<Arc<Supply>> {
        let mut sets: BTreeMap<i32, Vec<Arc<Supply>>> = BTreeMap::new();
        let supplied = self.supplied.iter().flat_map(Feed::objects);
        for supply in supplied.filter(|supply| supply.spec.plan.is_none()) {
            sets.entry(supply.spec.parts).or_default().push(supply);
        }
        let newest = |set: &[Arc<Supply>]| {
            let version =
                |supply: &Arc<Supply>| supply.metadata.resource_version.as_ref()?.parse::<u64>().ok();
            set.iter().filter_map(version).max()
        };
        let whole = sets.into_iter().filter(|(parts, set)| usize::try_from(*parts) == Ok(set.len()));
        let Some((_, mut set)) = whole.max_by_key(|(_, set)| newest(set)) else {
            return last.supplies.clone();
        };
        set.sort_by_key(|supply| supply.spec.part);
        set
    }

    /// Those of these parts of a plan that there are, by digest. None of them ever changes, so one that was known before and
    /// is gone by now is still good.
    pub(crate) fn parts(&self, wanted: &[String], last: &Known) -> BTreeMap<String, Arc<Supply>> {
        if wanted.is_empty() {
            return BTreeMap::new();
        }
        let digest = |supply: Arc<Supply>| Some((supply.spec.plan.as_ref()?.digest.clone(), supply));
        let mut there: BTreeMap<String, Arc<Supply>> =
            self.supplied.iter().flat_map(Feed::objects).filter_map(digest).collect();
        let part = |name: &String| {
            let part = last.parts.get(name).map(Arc::clone).or_else(|| there.remove(name))?;
            Some((name.clone(), part))
        };
        wanted.iter().collect::<BTreeSet<_>>().into_iter().filter_map(part).collect()
    }

    /// Whether the operator's word is known, or can't be had.
    fn is_told(&self) -> bool {
        self.supplied.as_ref().is_none_or(|supplied| supplied.is_complete() || supplied.is_denied())
    }

    /// Whether some were not read yet, and may be at any moment.
    pub(crate) fn are_incomplete(&self) -> bool {
        !self.is_told() || self.watched.values().any(|namespace| !namespace.is_complete())
    }

    /// Whether it is worth waiting for one, so that a backend never goes by way of having no endpoints. One that can't be
    /// read keeps nobody waiting.
    pub(crate) fn are_pending(&self) -> bool {
        let is_silent = self.supplied.as_ref().is_some_and(|supplied| supplied.trouble().is_none());
        let untold = !self.is_told() && self.started.elapsed() < PATIENCE && is_silent;
        let unread = self.watched.values().any(|namespace| {
            !namespace.is_complete()
                && namespace.started.elapsed() < PATIENCE
                && namespace.services.trouble().is_none()
        });
        untold || unread
    }

    /// What is known of these Services, `last` where a namespace was not read yet, and the reasons for those.
    pub(crate) fn read(
        &self,
        services: &BTreeSet<ServiceRef>,
        last: &Known,
    ) -> (Known, BTreeMap<String, String>) {
        let supplies = self.supplies(last);
        let wanted: BTreeSet<ServiceRef> =
            services.iter().cloned().chain(known::targets(&supplies)).collect();
        let mut known = Known { supplies, ..Known::default() };
        let mut unread = BTreeMap::new();
        for (name, namespace) in &self.watched {
            let objects = if namespace.is_complete() {
                namespace.objects()
            } else {
                unread.insert(name.clone(), namespace.trouble());
                last.namespaces.get(name).cloned().unwrap_or_default()
            };
            known.namespaces.insert(name.clone(), objects.of(name, &wanted));
        }
        (known, unread)
    }
}

impl Namespace {
    fn is_complete(&self) -> bool {
        self.services.is_complete() && self.slices.is_complete()
    }

    fn objects(&self) -> Objects {
        Objects { services: self.services.objects(), slices: self.slices.objects() }
    }

    fn trouble(&self) -> String {
        let of = |kind: &str, trouble: Option<String>| trouble.map(|t| format!("{kind} can't be read: {t}"));
        of("Services", self.services.trouble())
            .or_else(|| of("EndpointSlices", self.slices.trouble()))
            .unwrap_or_else(|| "the API server does not answer".to_owned())
    }
}
