//! The Services that tunnels name, and the endpoints of their servers. A namespace is watched while some tunnel proxy names
//! a Service in it, and of what is there only that is kept which is named: a cluster may have thousands more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_api::ContainerNetworkTunnelProxy;
use causeway_base::{lock::lock, well_known::SERVICE_NAME_LABEL};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::observe::{client_of, server_of, users};
use super::uid;
use super::wakes::Wakes;
use crate::framework::error::Error;
use crate::grants::{Grants, Target};

/// How long a reconcile waits for the first answer of a namespace's watch.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is there of what one tunnel proxy names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    pub(super) services: Vec<Arc<Service>>,
    pub(super) slices: Vec<Arc<EndpointSlice>>,
}

impl Named {
    /// The Service of this name.
    pub(crate) fn service(&self, namespace: &str, name: &str) -> Option<&Service> {
        let found = self.services.iter().find(|service| is_at(&***service, namespace, Some(name)));
        found.map(|service| &**service)
    }

    /// The slices of the Service of this name.
    pub(crate) fn slices_of(&self, namespace: &str, name: &str) -> impl Iterator<Item = &EndpointSlice> {
        let slices = self.slices.iter().map(|slice| &**slice);
        slices
            .filter(move |slice| is_at(*slice, namespace, None) && service_of(slice).as_deref() == Some(name))
    }
}

fn is_at(object: &impl Resource, namespace: &str, name: Option<&str>) -> bool {
    let metadata = object.meta();
    metadata.namespace.as_deref() == Some(namespace) && (name.is_none() || metadata.name.as_deref() == name)
}

fn service_of(slice: &EndpointSlice) -> Option<String> {
    slice.labels().get(SERVICE_NAME_LABEL).cloned()
}

/// Watches what is named.
pub(super) struct NamedServices {
    client: Client,
    wakes: Arc<Wakes>,
    namespaces: Mutex<HashMap<String, Namespace>>,
}

struct Namespace {
    users: Users,
    watch: Watch,
}

/// Who names which Services of a namespace, by uid.
type Users = Arc<Mutex<HashMap<String, User>>>;

struct User {
    proxy: ObjectRef<ContainerNetworkTunnelProxy>,
    names: BTreeSet<String>,
}

struct Watch {
    /// What is kept; all that users name, and perhaps what they named before.
    names: Arc<BTreeSet<String>>,
    services: Store<Service>,
    slices: Store<EndpointSlice>,
    _task: AbortOnDropHandle<()>,
}

impl NamedServices {
    /// Watches nothing yet; changes wake objects by `wakes`.
    pub(super) fn new(client: Client, wakes: Arc<Wakes>) -> Self {
        Self { client, wakes, namespaces: Mutex::default() }
    }

    /// What is there of what `proxy` names and may use; from now on it is woken when that changes.
    ///
    /// # Errors
    /// When a namespace can't be listed in time.
    pub(super) async fn follow(
        &self,
        proxy: &ContainerNetworkTunnelProxy,
        grants: Option<&Grants>,
    ) -> Result<Named, Error> {
        let names = names_of(proxy, grants);
        self.enter(proxy, &names);
        let filled = async {
            let mut found = Named::default();
            for (namespace, names) in &names {
                // One that is replaced meanwhile, for others who name more, is not filled: look at the next.
                while let Some((services, slices)) = self.stores(namespace) {
                    if services.wait_until_ready().await.is_ok() && slices.wait_until_ready().await.is_ok() {
                        found.services.extend(services.state_filter(|one| names.contains(&one.name_any())));
                        let is_named =
                            |one: &EndpointSlice| service_of(one).is_some_and(|name| names.contains(&name));
                        found.slices.extend(slices.state_filter(is_named));
                        break;
                    }
                }
            }
            found
        };
        let seconds = PATIENCE.as_secs();
        timeout(PATIENCE, filled).await.map_err(|_| Error::NotSynced { kind: "Service", seconds })
    }

    /// An object is gone; what nobody else names is not watched any more.
    pub(super) fn forget(&self, proxy: &ContainerNetworkTunnelProxy) {
        self.enter(proxy, &BTreeMap::new());
    }

    /// Watches nothing any more.
    pub(super) fn leave(&self) {
        lock(&self.namespaces).clear();
    }

    fn enter(&self, proxy: &ContainerNetworkTunnelProxy, names: &BTreeMap<String, BTreeSet<String>>) {
        let mut namespaces = lock(&self.namespaces);
        namespaces.retain(|namespace, known| {
            let mut users = lock(&known.users);
            if !names.contains_key(namespace) {
                users.remove(uid(proxy));
            }
            !users.is_empty()
        });
        for (namespace, names) in names {
            let user = User { proxy: ObjectRef::from_obj(proxy), names: names.clone() };
            if let Some(known) = namespaces.get_mut(namespace) {
                lock(&known.users).insert(uid(proxy).to_owned(), user);
                if !names.is_subset(&known.watch.names) {
                    known.watch = self.watch(namespace, &known.users);
                }
            } else {
                let users: Users = Arc::new(Mutex::new([(uid(proxy).to_owned(), user)].into()));
                let watch = self.watch(namespace, &users);
                namespaces.insert(namespace.clone(), Namespace { users, watch });
            }
        }
    }

    fn stores(&self, namespace: &str) -> Option<(Store<Service>, Store<EndpointSlice>)> {
        let namespaces = lock(&self.namespaces);
        let watch = &namespaces.get(namespace)?.watch;
        Some((watch.services.clone(), watch.slices.clone()))
    }

    fn watch(&self, namespace: &str, users: &Users) -> Watch {
        let names: BTreeSet<_> = lock(users).values().flat_map(|user| user.names.iter().cloned()).collect();
        let names = Arc::new(names);
        let (services, services_tx) = reflector::store();
        let (slices, slices_tx) = reflector::store();
        let changes = stream::select(
            changes(self.api(namespace), services_tx, names.clone(), |one: &Service| one.name_any().into()),
            changes(self.api(namespace), slices_tx, names.clone(), service_of),
        );
        let (users, wakes) = (users.clone(), self.wakes.clone());
        let task = changes.for_each(move |changed| {
            for user in lock(&users).values() {
                if changed.as_ref().is_none_or(|name| user.names.contains(name)) {
                    wakes.wake(user.proxy.clone());
                }
            }
            ready(())
        });
        Watch { names, services, slices, _task: AbortOnDropHandle::new(tokio::spawn(task)) }
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// The Services that a tunnel proxy names and may use, by namespace.
fn names_of(
    proxy: &ContainerNetworkTunnelProxy,
    grants: Option<&Grants>,
) -> BTreeMap<String, BTreeSet<String>> {
    let own = proxy.namespace().unwrap_or_default();
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for tunnel in &proxy.spec.tunnels {
        let (namespace, name) = server_of(&own, tunnel);
        let server = (namespace, name, Target::service(name));
        let (namespace, name) = client_of(&own, tunnel);
        let client = (namespace, name, Target::slices_of(name));
        for (namespace, name, target) in [server, client] {
            if grants.is_none_or(|grants| grants.permit_object(users(&own), namespace, target)) {
                names.entry(namespace.to_owned()).or_default().insert(name.to_owned());
            }
        }
    }
    names
}

/// Fills a cache with what has one of these names, and yields the name of what changed; none when anything may have.
fn changes<K>(
    api: Api<K>,
    writer: reflector::store::Writer<K>,
    names: Arc<BTreeSet<String>>,
    name_of: fn(&K) -> Option<String>,
) -> impl Stream<Item = Option<String>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    watcher(api, watcher::Config::default())
        .default_backoff()
        .filter(move |event| {
            ready(match event {
                Ok(
                    watcher::Event::Apply(one) | watcher::Event::InitApply(one) | watcher::Event::Delete(one),
                ) => name_of(one).is_some_and(|name| names.contains(&name)),
                Ok(watcher::Event::Init | watcher::Event::InitDone) => true,
                Err(error) => {
                    let error: &dyn std::error::Error = error;
                    tracing::warn!(kind = %K::kind(&()), error, "a watch failed and is restarted");
                    false
                }
            })
        })
        .reflect(writer)
        .filter_map(move |event| {
            ready(match event {
                Ok(watcher::Event::Apply(one) | watcher::Event::Delete(one)) => Some(name_of(&one)),
                Ok(watcher::Event::InitDone) => Some(None),
                Ok(watcher::Event::Init | watcher::Event::InitApply(_)) | Err(_) => None,
            })
        })
}

#[cfg(test)]
mod tests;
