//! The watches of the namespaces that an object's Services are in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use causeway_translate::grants::ReferenceGrant;
use causeway_translate::services::ServiceRef;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::feed::Feed;
use crate::known::{Known, Objects};

/// How long a namespace may take to be read before a plan is made without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Watches the namespaces that are asked for, and no others.
pub(crate) struct Namespaces {
    client: Client,
    /// The object's own, which needs no grant.
    own: String,
    require_grants: bool,
    changed: Arc<Notify>,
    watched: BTreeMap<String, Namespace>,
}

struct Namespace {
    services: Feed<Service>,
    slices: Feed<EndpointSlice>,
    /// What it lets others use; none where that is not asked.
    grants: Option<Feed<ReferenceGrant>>,
    started: Instant,
}

impl Namespaces {
    pub(crate) fn new(client: Client, own: &str, require_grants: bool, changed: Arc<Notify>) -> Self {
        Self { client, own: own.to_owned(), require_grants, changed, watched: BTreeMap::new() }
    }

    /// Watches the namespaces of these Services, and ends the other watches.
    pub(crate) fn follow(&mut self, services: &BTreeSet<ServiceRef>) {
        let wanted: BTreeSet<&str> = services.iter().map(|service| service.namespace.as_str()).collect();
        self.watched.retain(|name, _| wanted.contains(name.as_str()));
        for name in wanted {
            if !self.watched.contains_key(name) {
                self.watched.insert(name.to_owned(), self.start(name));
            }
        }
    }

    fn start(&self, name: &str) -> Namespace {
        let needs_grant = self.require_grants && self.own != name;
        let changed = || Arc::clone(&self.changed);
        Namespace {
            services: Feed::start(Api::namespaced(self.client.clone(), name), None, changed()),
            slices: Feed::start(Api::namespaced(self.client.clone(), name), None, changed()),
            grants: needs_grant
                .then(|| Feed::start(Api::namespaced(self.client.clone(), name), None, changed())),
            started: Instant::now(),
        }
    }

    /// Whether some were not read yet, and may be at any moment.
    pub(crate) fn are_incomplete(&self) -> bool {
        self.watched.values().any(|namespace| !namespace.is_complete())
    }

    /// Whether it is worth waiting for one, so that a backend never goes by way of having no endpoints. One that can't be
    /// read keeps nobody waiting.
    pub(crate) fn are_pending(&self) -> bool {
        self.watched.values().any(|namespace| {
            !namespace.is_complete()
                && namespace.started.elapsed() < PATIENCE
                && namespace.services.trouble().is_none()
        })
    }

    /// What is known of these Services, `last` where a namespace was not read yet, and the reasons for those.
    pub(crate) fn read(
        &self,
        services: &BTreeSet<ServiceRef>,
        last: &Known,
    ) -> (Known, BTreeMap<String, String>) {
        let mut known = Known::default();
        let mut unread = BTreeMap::new();
        for (name, namespace) in &self.watched {
            let objects = if namespace.is_complete() {
                namespace.objects()
            } else {
                unread.insert(name.clone(), namespace.trouble());
                last.0.get(name).cloned().unwrap_or_default()
            };
            known.0.insert(name.clone(), objects.of(name, services));
        }
        (known, unread)
    }
}

impl Namespace {
    fn is_complete(&self) -> bool {
        let granted = self.grants.as_ref().is_none_or(Feed::is_complete);
        self.is_closed() || (granted && self.services.is_complete() && self.slices.is_complete())
    }

    /// Whether it is certain that nothing is granted: the operator gives a proxy no right to look without a grant.
    fn is_closed(&self) -> bool {
        self.grants.as_ref().is_some_and(Feed::is_denied)
    }

    fn objects(&self) -> Objects {
        let grants = self.grants.as_ref().filter(|feed| !feed.is_denied());
        Objects {
            services: self.services.objects(),
            slices: self.slices.objects(),
            grants: grants.map(Feed::objects).unwrap_or_default(),
        }
    }

    fn trouble(&self) -> String {
        let of = |kind: &str, trouble: Option<String>| trouble.map(|t| format!("{kind} can't be read: {t}"));
        of("Services", self.services.trouble())
            .or_else(|| of("EndpointSlices", self.slices.trouble()))
            .or_else(|| of("ReferenceGrants", self.grants.as_ref().and_then(Feed::trouble)))
            .unwrap_or_else(|| "the API server does not answer".to_owned())
    }
}
