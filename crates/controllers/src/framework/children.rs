//! The objects that controllers make: which kinds there are, and a watched cache of each, filled with those that carry
//! Causeway's label; and those that controllers only read, whoever made them. What a cache can't know yet is asked live,
//! by those who need it.

mod served;

use std::{sync::Arc, time::Duration};

use causeway_api::names;
use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, TypeMeta},
    runtime::{WatchStreamExt, reflector, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use self::served::Served;
pub(crate) use self::served::{is_denied, is_undefined, pace, slow_pace};

use crate::framework::{
    error::Error,
    kinds::NAMESPACE,
    scope::{Kind, Scope as _},
};

/// A kind of object that some controller makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildKind {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// API version within the group.
    pub version: &'static str,
    /// Kind, in CamelCase.
    pub kind: &'static str,
    /// Resource name, as in URLs.
    pub plural: &'static str,
    /// Versions that will do where a cluster does not serve that one, the best first; for a kind that is only read.
    pub older: &'static [&'static str],
}

impl ChildKind {
    /// What a dynamic client needs to know of the kind.
    pub fn resource(&self) -> ApiResource {
        self.resource_in(self.version)
    }

    /// Whether a cluster may do without it: the embedded one has no budgets, as it has one node, and no policies.
    fn may_be_absent(&self) -> bool {
        matches!(self.group, "policy" | "networking.k8s.io")
    }

    fn resource_in(&self, version: &str) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: version.to_owned(),
            api_version: if self.group.is_empty() {
                version.to_owned()
            } else {
                format!("{}/{version}", self.group)
            },
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}

/// The watched caches of a controller's child kinds.
#[derive(Clone)]
pub struct Children {
    caches: Arc<[Cache]>,
}

struct Cache {
    kind: ChildKind,
    store: reflector::Store<DynamicObject>,
    /// Whether it has had its first list, said again with every list. The store's own word for that wakes only the last of
    /// those who wait.
    filled_rx: watch::Receiver<bool>,
    served: Served,
}

/// A stream that keeps a cache filled while it is polled, and yields each object that was touched.
pub type Watch = stream::BoxStream<'static, watcher::Result<DynamicObject>>;

impl Children {
    /// Caches for the kinds that are `made` and those that are only `read`, in one namespace or all, and the watches that
    /// fill them, in the same order; the caller polls the watches.
    pub fn watch(
        client: &Client,
        namespace: Option<&str>,
        made: &[ChildKind],
        read: &[ChildKind],
    ) -> (Self, Vec<(ApiResource, Watch)>) {
        let own =
            watcher::Config::default().labels(&format!("{}={}", names::LABEL_MANAGED_BY, names::MANAGED_BY));
        let kinds = made.iter().map(|kind| (kind, own.clone()));
        let kinds = kinds.chain(read.iter().map(|kind| (kind, watcher::Config::default())));
        let mut caches = Vec::with_capacity(made.len() + read.len());
        let mut watches = Vec::with_capacity(made.len() + read.len());
        for (kind, config) in kinds {
            let resource = kind.resource();
            let writer = reflector::store::Writer::new(resource.clone());
            let served = Served::default();
            let (filled_tx, filled_rx) = watch::channel(false);
            caches.push(Cache { kind: *kind, store: writer.as_reader(), filled_rx, served: served.clone() });
            let namespace = namespace.unwrap_or_default().to_owned();
            let is_confined = !namespace.is_empty();
            let events = if is_confined && *kind == NAMESPACE {
                served.set(Some(resource.clone()));
                served::only(own_namespace(&namespace)).boxed()
            } else if read.contains(kind) {
                served::follow(client.clone(), namespace, *kind, config, served).modify(forget_others).boxed()
            } else if kind.may_be_absent() || is_confined {
                served::follow(client.clone(), namespace, *kind, config, served).boxed()
            } else {
                served.set(Some(resource.clone()));
                watcher(dynamic_api(client.clone(), &namespace, &resource), config).backoff(pace()).boxed()
            };
            let types = TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() };
            watches.push((resource, fill(events, types, writer, filled_tx).boxed()));
        }
        (Self { caches: caches.into() }, watches)
    }

    /// Caches that hold exactly `objects`, for tests of pure steps.
    #[cfg(test)]
    pub fn fixed(objects: &[(ChildKind, Vec<DynamicObject>)]) -> Self {
        let caches = objects.iter().map(|(kind, objects)| {
            let mut writer = reflector::store::Writer::new(kind.resource());
            writer.apply_watcher_event(&watcher::Event::Init);
            for object in objects {
                writer.apply_watcher_event(&watcher::Event::InitApply(object.clone()));
            }
            writer.apply_watcher_event(&watcher::Event::InitDone);
            let served = Served::default();
            served.set(Some(kind.resource()));
            Cache { kind: *kind, store: writer.as_reader(), filled_rx: watch::channel(true).1, served }
        });
        Self { caches: caches.collect() }
    }

    /// Waits until every cache has had its first list, for at most `patience`.
    pub async fn ready(&self, patience: Duration) -> Result<(), Error> {
        let deadline = tokio::time::Instant::now() + patience;
        for cache in self.caches.iter() {
            let mut filled_rx = cache.filled_rx.clone();
            match tokio::time::timeout_at(deadline, filled_rx.wait_for(|filled| *filled)).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => {
                    return Err(Error::NotSynced { kind: cache.kind.kind, seconds: patience.as_secs() });
                }
            }
        }
        Ok(())
    }

    /// Waits until every cache has had its first list; false when that can no longer happen.
    pub async fn filled(&self) -> bool {
        for cache in self.caches.iter() {
            if cache.filled_rx.clone().wait_for(|filled| *filled).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Yields whenever a kind was listed: a watch yields neither what went while it was broken, nor that its kind is defined
    /// by now.
    pub fn lists(&self) -> impl Stream<Item = ()> + Send + use<> {
        stream::select_all(self.caches.iter().map(|cache| {
            stream::unfold(cache.filled_rx.clone(), async |mut filled_rx| {
                filled_rx.changed().await.ok().map(|()| ((), filled_rx))
            })
            .boxed()
        }))
    }

    /// Every cached object that was made for the owner with this uid: it is its controller, or, in another namespace,
    /// its label says so.
    pub fn owned_by(&self, owner_uid: &str) -> Vec<(ChildKind, Arc<DynamicObject>)> {
        let mut owned = Vec::new();
        for cache in self.caches.iter() {
            let mine = cache.store.state_filter(|object| is_of(object, owner_uid));
            owned.extend(mine.into_iter().map(|object| (cache.kind, object)));
        }
        // The caches are hash maps; a fixed order keeps logs and requests comparable.
        owned.sort_by(|(a, x), (b, y)| {
            (a.kind, x.namespace(), x.name_any()).cmp(&(b.kind, y.namespace(), y.name_any()))
        });
        owned
    }

    /// Every cached object of this kind.
    pub fn all(&self, kind: ChildKind) -> Vec<Arc<DynamicObject>> {
        self.cache(kind).map(|cache| cache.store.state()).unwrap_or_default()
    }

    /// The kind as this cluster serves it; none if nobody has defined it.
    pub fn served(&self, kind: ChildKind) -> Option<ApiResource> {
        self.cache(kind)?.served.get()
    }

    fn cache(&self, kind: ChildKind) -> Option<&Cache> {
        self.caches.iter().find(|cache| cache.kind == kind)
    }

    /// Every cached object of this kind in `namespace` with this label, by name.
    pub fn labelled(&self, kind: ChildKind, namespace: &str, label: (&str, &str)) -> Vec<Arc<DynamicObject>> {
        let Some(cache) = self.cache(kind) else {
            return Vec::new();
        };
        let mut found = cache.store.state_filter(|object| {
            object.metadata.namespace.as_deref() == Some(namespace)
                && object.labels().get(label.0).is_some_and(|value| value == label.1)
        });
        found.sort_by_key(|object| object.name_any());
        found
    }

    /// The cached object of this kind, namespace (empty for a kind of the whole cluster) and name.
    pub fn get(&self, kind: ChildKind, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        let cache = self.cache(kind)?;
        let object = reflector::ObjectRef::new_with(name, kind.resource());
        cache.store.get(&if namespace.is_empty() { object } else { object.within(namespace) })
    }
}

/// Who has written what is of no matter in objects of others; in those of this program's making it tells them apart.
fn forget_others(object: &mut DynamicObject) {
    if object.labels().get(names::LABEL_MANAGED_BY).map(String::as_str) != Some(names::MANAGED_BY) {
        object.metadata.managed_fields = None;
    }
}

/// All that is known of a namespace by those who may not look at namespaces.
fn own_namespace(name: &str) -> DynamicObject {
    let mut object = DynamicObject::new(name, &NAMESPACE.resource());
    object.metadata.labels =
        Some([("kubernetes.io/metadata.name".to_owned(), name.to_owned())].into_iter().collect());
    object
}

/// Objects of one namespace, or, for an empty name, of the whole cluster.
pub(crate) fn dynamic_api(client: Client, namespace: &str, resource: &ApiResource) -> Api<DynamicObject> {
    if namespace.is_empty() {
        Api::all_with(client, resource)
    } else {
        Api::namespaced_with(client, namespace, resource)
    }
}

/// Whether a watched object is of this kind.
pub(crate) fn is_kind(object: &DynamicObject, kind: ChildKind) -> bool {
    object.types.as_ref().is_some_and(|types| types.kind == kind.kind)
}

/// The object as its type; none if it does not look like one.
pub(crate) fn typed<K: DeserializeOwned>(object: &DynamicObject) -> Option<K> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

/// The object's owner of this kind, by reference or, if it has no controller of that kind, by label.
pub fn owner_of<K: Kind>(object: &DynamicObject) -> Option<reflector::ObjectRef<K>> {
    let found = |name: &str, namespace: Option<&str>| {
        let owner = reflector::ObjectRef::new(name);
        if K::Scope::IS_NAMESPACED { Some(owner.within(namespace?)) } else { Some(owner) }
    };
    let references = object.owner_references();
    let kind = K::kind(&());
    let reference = references.iter().find(|owner| {
        owner.controller == Some(true) && owner.kind == kind && owner.api_version == K::api_version(&())
    });
    let namespace = object.namespace();
    if let Some(reference) = reference {
        return found(&reference.name, namespace.as_deref());
    }
    let label = |key: &str| object.labels().get(key).map(String::as_str);
    let name = label(names::LABEL_OWNER_NAME).filter(|_| label(names::LABEL_OWNER_KIND) == Some(&*kind))?;
    found(name, label(names::LABEL_OWNER_NAMESPACE).or(namespace.as_deref()))
}

fn is_of(object: &DynamicObject, owner_uid: &str) -> bool {
    let label = |key: &str| object.labels().get(key).map(String::as_str);
    // A local object that lost its reference was orphaned on purpose.
    let is_held = controller_uid(object)
        .map_or_else(|| label(names::LABEL_OWNER_NAMESPACE).is_some(), |uid| uid == owner_uid);
    is_held && label(names::LABEL_INVENTORY) == Some(owner_uid)
}

/// The uid of the object's controller, if it has one.
pub fn controller_uid(object: &impl Resource) -> Option<&str> {
    let owners = object.meta().owner_references.as_deref()?;
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

fn fill(
    events: impl Stream<Item = watcher::Result<watcher::Event<DynamicObject>>> + Send + 'static,
    types: TypeMeta,
    writer: reflector::store::Writer<DynamicObject>,
    filled_tx: watch::Sender<bool>, // → reconciles
) -> impl Stream<Item = watcher::Result<DynamicObject>> + Send + 'static {
    events
        // An API server leaves the type out of the items of a list.
        .modify(move |object| object.types = Some(types.clone()))
        .reflect(writer)
        .inspect(move |event| {
            if matches!(event, Ok(watcher::Event::InitDone)) {
                filled_tx.send_replace(true);
            }
        })
        .touched_objects()
}
