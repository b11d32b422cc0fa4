//! The namespaces with intercepts: all that a request may be about is watched there, and nowhere else. A cluster has thousands
//! of pods, and few of them are near an intercept.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use causeway_api::conditions::Reason;
use causeway_base::lock::lock;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet, StatefulSet},
    core::v1::{Pod, Service},
    discovery::v1::EndpointSlice,
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, Resource,
    core::NamespaceResourceScope,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, Store},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinHandle},
};

use crate::framework::{
    children::{is_undefined, pace},
    finding::Finding,
    overseer::Changes,
};

/// The watched namespaces.
#[derive(Default)]
pub(crate) struct Neighbourhood {
    changed: Arc<Notify>,
    watched: Arc<Mutex<BTreeMap<String, Watched>>>,
}

/// The objects of one namespace, as they were at one moment: what is done goes by what was planned with.
pub(crate) struct Namespace {
    pub(crate) services: Seen<Service>,
    pub(crate) slices: Seen<EndpointSlice>,
    pub(crate) deployments: Seen<Deployment>,
    pub(crate) stateful_sets: Seen<StatefulSet>,
    pub(crate) replica_sets: Seen<ReplicaSet>,
    pub(crate) pods: Seen<Pod>,
    pub(crate) policies: Seen<NetworkPolicy>,
}

/// The objects of one kind.
pub(crate) struct Seen<K>(Vec<Arc<K>>);

impl<K> Seen<K> {
    /// What there was.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.0.clone()
    }
}

/// The watches of one namespace.
struct Watched {
    services: Kept<Service>,
    slices: Kept<EndpointSlice>,
    deployments: Kept<Deployment>,
    stateful_sets: Kept<StatefulSet>,
    replica_sets: Kept<ReplicaSet>,
    pods: Kept<Pod>,
    policies: Kept<NetworkPolicy>,
}

impl Neighbourhood {
    /// What to wait for; the watches end with it, as the term does.
    pub(crate) fn changes(&self) -> Changes {
        let end = End(self.watched.clone());
        let changed = self.changed.clone();
        stream::unfold((changed, end), async |(changed, end)| {
            changed.notified().await;
            Some((Ok(()), (changed, end)))
        })
        .boxed()
    }

    /// Watches these namespaces, and no others.
    pub(crate) fn follow(&self, client: &Client, wanted: &BTreeSet<String>) {
        let mut watched = lock(&self.watched);
        watched.retain(|name, _| wanted.contains(name));
        for name in wanted {
            if !watched.contains_key(name) {
                watched.insert(name.clone(), Watched::begin(client, name, &self.changed));
            }
        }
    }

    /// Why a namespace has not been read, if that is not a matter of time.
    pub(crate) fn trouble(&self, namespace: &str) -> Option<Finding> {
        let watched = lock(&self.watched);
        watched.get(namespace).filter(|namespace| !namespace.is_filled())?.trouble()
    }

    /// Those that have been read, as they are.
    pub(crate) fn known(&self) -> BTreeMap<String, Arc<Namespace>> {
        let watched = lock(&self.watched);
        let known = watched.iter().filter(|(_, namespace)| namespace.is_filled());
        known.map(|(name, namespace)| (name.clone(), Arc::new(namespace.look()))).collect()
    }
}

/// Ends all watches when it is dropped.
struct End(Arc<Mutex<BTreeMap<String, Watched>>>);

impl Drop for End {
    fn drop(&mut self) {
        lock(&self.0).clear();
    }
}

impl Watched {
    fn look(&self) -> Namespace {
        Namespace {
            services: self.services.look(),
            slices: self.slices.look(),
            deployments: self.deployments.look(),
            stateful_sets: self.stateful_sets.look(),
            replica_sets: self.replica_sets.look(),
            pods: self.pods.look(),
            policies: self.policies.look(),
        }
    }

    fn begin(client: &Client, name: &str, changed: &Arc<Notify>) -> Self {
        Self {
            services: Kept::watch(client, name, changed),
            slices: Kept::watch(client, name, changed),
            deployments: Kept::watch(client, name, changed),
            stateful_sets: Kept::watch(client, name, changed),
            replica_sets: Kept::watch(client, name, changed),
            pods: Kept::watch(client, name, changed),
            policies: Kept::watch(client, name, changed),
        }
    }

    fn is_filled(&self) -> bool {
        self.services.is_filled()
            && self.slices.is_filled()
            && self.deployments.is_filled()
            && self.stateful_sets.is_filled()
            && self.replica_sets.is_filled()
            && self.pods.is_filled()
            && self.policies.is_filled()
    }

    fn trouble(&self) -> Option<Finding> {
        let all = [
            &self.services.trouble,
            &self.slices.trouble,
            &self.deployments.trouble,
            &self.stateful_sets.trouble,
            &self.replica_sets.trouble,
            &self.pods.trouble,
            &self.policies.trouble,
        ];
        all.into_iter().find_map(|trouble| lock(trouble).clone())
    }
}

/// The objects of one kind in one namespace, watched until it is dropped.
struct Kept<K: Resource<DynamicType = ()> + 'static> {
    store: Store<K>,
    filled: Arc<AtomicBool>,
    /// Why it was not read when that was tried last.
    trouble: Arc<Mutex<Option<Finding>>>,
    task: AbortHandle,
}

impl<K> Kept<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    fn watch(client: &Client, namespace: &str, changed: &Arc<Notify>) -> Self {
        let (store, writer) = reflector::store::<K>();
        let filled = Arc::new(AtomicBool::new(false));
        let trouble: Arc<Mutex<Option<Finding>>> = Arc::default();
        let (is_filled, changed, told) = (filled.clone(), changed.clone(), trouble.clone());
        let of = namespace.to_owned();
        let api = Api::<K>::namespaced(client.clone(), namespace);
        // Who has set a Service's selector back is read off the managers of its fields.
        let keeps_managers = K::kind(&()) == "Service";
        let task: JoinHandle<()> = tokio::spawn(async move {
            let events = watcher(api, watcher::Config::default()).backoff(pace()).modify(move |object| {
                if !keeps_managers {
                    object.meta_mut().managed_fields = None;
                }
            });
            let mut events = std::pin::pin!(events.reflect(writer));
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => continue,
                    Ok(watcher::Event::InitDone) => is_filled.store(true, Ordering::Relaxed),
                    Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_)) => {}
                    // A cluster may do without a kind: then it has none of it.
                    Err(error) if is_undefined(&error) => is_filled.store(true, Ordering::Relaxed),
                    Err(error) => {
                        let finding = missing(&error, &K::plural(&()), &of);
                        let error: &dyn std::error::Error = &error;
                        tracing::warn!(kind = &*K::kind(&()), error, "a watch failed and is restarted");
                        let before = std::mem::replace(&mut *lock(&told), finding.clone());
                        if before == finding {
                            continue;
                        }
                    }
                }
                changed.notify_one();
            }
        });
        Self { store, filled, trouble, task: task.abort_handle() }
    }

    fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Relaxed)
    }

    /// What there is.
    fn look(&self) -> Seen<K> {
        Seen(self.store.state())
    }
}

/// What the operator may not do, if that is why a watch failed.
fn missing(error: &watcher::Error, plural: &str, namespace: &str) -> Option<Finding> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    let (InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error)) = error else {
        return None;
    };
    let message = format!(
        "the operator may not list or watch {plural} of namespace {namespace}, so nothing is begun or put back there: give its \
         ServiceAccount the verbs get, list and watch"
    );
    matches!(error, kube::Error::Api(status) if status.code == 403)
        .then(|| Finding::no(Reason::MissingPrivileges, message))
}

impl<K: Resource<DynamicType = ()> + 'static> Drop for Kept<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_may_not_read_is_named() {
        let answer = |code| {
            let status = kube::core::Status::failure("no", "Forbidden").with_code(code);
            watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
        };
        let finding = missing(&answer(403), "endpointslices", "shop").unwrap();
        assert_eq!(finding.reason, Reason::MissingPrivileges);
        assert!(finding.message.contains("list or watch endpointslices of namespace shop"));
        assert_eq!(missing(&answer(500), "endpointslices", "shop"), None);
    }
}
