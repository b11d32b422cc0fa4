//! The one applier: brings the objects a controller owns to the desired state with server-side apply. It stamps owner
//! and inventory labels, skips what is already so, removes what is no longer wanted, and never touches an object that
//! belongs to someone else. Every object is tried, whatever happens to the others.

mod compare;

pub(crate) use self::compare::digest;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use causeway_api::names;
use causeway_base::lock::lock;
use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
        PropagationPolicy,
    },
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::framework::{
    children::{ChildKind, Children, controller_uid, dynamic_api},
    error::{self, Category},
    kinds::{POD, ROLE_BINDING},
};

/// A version that no object has: with it, an apply makes an object, and is refused where there is one.
const NO_VERSION: &str = "1";

/// What the names of objects begin with that are only tried.
const TRIED: &str = "causeway-tried-";

/// Why one object is not as desired.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object could not be looked up before it was made.
    #[error("failed to look up {kind} {name}")]
    LookUp {
        /// Kind of the object.
        kind: &'static str,
        /// Its namespace and name.
        name: String,
        /// What the API server answered.
        source: kube::Error,
    },
    /// The API server did not take the object.
    #[error("failed to apply {kind} {name}")]
    Apply {
        /// Kind of the object.
        kind: &'static str,
        /// Its namespace and name.
        name: String,
        /// What the API server answered.
        source: kube::Error,
    },
    /// An object that is no longer wanted could not be removed.
    #[error("failed to delete {kind} {name}")]
    Delete {
        /// Kind of the object.
        kind: &'static str,
        /// Its namespace and name.
        name: String,
        /// What the API server answered.
        source: kube::Error,
    },
    /// The name is taken by an object that this owner does not control.
    #[error(
        "{kind} {name} already exists and belongs to {holder}; delete or rename it, or rename this object"
    )]
    Foreign {
        /// Kind of the object.
        kind: &'static str,
        /// Its namespace and name.
        name: String,
        /// Who holds it.
        holder: String,
    },
}

impl Error {
    /// Namespace and name of the object.
    pub fn object(&self) -> &str {
        match self {
            Self::LookUp { name, .. }
            | Self::Apply { name, .. }
            | Self::Delete { name, .. }
            | Self::Foreign { name, .. } => name,
        }
    }

    /// Whether the name is an earlier owner's of the same name, whose objects go by themselves.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::Foreign { holder, .. } if holder.ends_with(EARLIER))
    }

    /// The category for metrics, conditions and Events.
    pub fn category(&self) -> Category {
        match self {
            Self::LookUp { source, .. } | Self::Apply { source, .. } | Self::Delete { source, .. } => {
                Category::of(source)
            }
            Self::Foreign { .. } => Category::Conflict,
        }
    }
}

/// What was done to one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// It was as desired; nothing was sent.
    Unchanged,
    /// It was applied, and is now this; the caches may not know yet.
    Applied(Arc<DynamicObject>),
    /// It was removed.
    Deleted,
    /// It is being deleted and is made again once it is gone.
    Waiting,
}

/// The object that owns what is applied.
#[derive(Clone, Debug)]
pub struct Owner {
    /// None for what belongs to nobody, and others may belong to.
    reference: Option<OwnerReference>,
    /// None for an owner of the whole cluster.
    namespace: Option<String>,
}

impl Owner {
    /// The owner for children of `object`; none for an object that the API server has not stored yet.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Option<Self> {
        Some(Self {
            reference: Some(object.controller_owner_ref(&())?),
            namespace: object.meta().namespace.clone(),
        })
    }

    /// The same for an object of a kind that is known as this cluster serves it.
    pub(crate) fn of_dynamic(object: &DynamicObject, resource: &ApiResource) -> Option<Self> {
        Some(Self {
            reference: Some(object.controller_owner_ref(resource)?),
            namespace: object.metadata.namespace.clone(),
        })
    }

    /// For objects of a namespace that go with no other: who makes them removes them.
    pub(crate) fn nobody(namespace: &str) -> Self {
        Self { reference: None, namespace: Some(namespace.to_owned()) }
    }

    /// Whether an object of `namespace` can't refer to the owner: references do not cross namespaces.
    fn is_remote(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_some_and(|own| own != namespace)
    }

    /// The owner's uid; empty for nobody.
    pub fn uid(&self) -> &str {
        self.reference.as_ref().map_or("", |reference| &reference.uid)
    }
}

/// An object as it should be.
#[derive(Clone, Debug)]
pub struct Wanted {
    kind: ChildKind,
    /// Another namespace than the owner's.
    elsewhere: Option<String>,
    name: String,
    body: Map<String, Value>,
    /// Whether it stays as it is once it is there.
    is_once: bool,
}

impl Wanted {
    /// The desired form of `object`, without anything that is unset or that only the server writes.
    pub fn new<K: Resource<DynamicType = ()> + Serialize>(kind: ChildKind, object: &K) -> Self {
        let mut body = match serde_json::to_value(object) {
            Ok(Value::Object(body)) => body,
            // Resources serialise to JSON objects: they are plain structs with string keys.
            Ok(_) | Err(_) => Map::new(),
        };
        body.remove("status");
        body.values_mut().for_each(compare::strip_nulls);
        let metadata = object.meta();
        Self {
            kind,
            elsewhere: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
            body,
            // A pod is never changed: another one has another name.
            is_once: kind == POD,
        }
    }

    /// The same, made if it is not there and never changed: what it holds is another each time that it is made.
    pub(crate) fn once(self) -> Self {
        Self { is_once: true, ..self }
    }

    /// The same for an object of a kind that has no type here.
    pub(crate) fn raw(kind: ChildKind, object: Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().map(ToOwned::to_owned);
        let (elsewhere, name) = (text("namespace"), text("name").unwrap_or_default());
        let body = match object {
            Value::Object(body) => body,
            _ => Map::new(),
        };
        Self { kind, elsewhere, name, body, is_once: false }
    }

    /// The namespace it belongs in: its own if it says one, or the owner's.
    fn namespace<'a>(&'a self, owner: &'a Owner) -> &'a str {
        self.elsewhere.as_deref().or(owner.namespace.as_deref()).unwrap_or_default()
    }

    /// With all that says whose it is.
    pub(crate) fn stamped(&self, owner: &Owner) -> Map<String, Value> {
        let mut body = self.body.clone();
        let namespace = self.namespace(owner);
        body.insert("apiVersion".into(), json!(self.kind.resource().api_version));
        body.insert("kind".into(), json!(self.kind.kind));
        let metadata = object_in(&mut body, "metadata");
        metadata.insert("name".into(), json!(self.name));
        if !namespace.is_empty() {
            metadata.insert("namespace".into(), json!(namespace));
        }
        // The garbage collector would take an owner of another namespace for gone, and the object with it. There the
        // labels say whose it is, and the controller's finalizer removes it.
        let is_remote = owner.is_remote(namespace);
        if let (false, Some(reference)) = (is_remote, &owner.reference) {
            metadata.insert("ownerReferences".into(), json!([reference]));
        }
        let labels = object_in(metadata, "labels");
        if let (true, Some(reference)) = (is_remote, &owner.reference) {
            labels.insert(names::LABEL_OWNER_KIND.into(), json!(reference.kind));
            labels.insert(names::LABEL_OWNER_NAMESPACE.into(), json!(owner.namespace));
            labels.insert(names::LABEL_OWNER_NAME.into(), json!(reference.name));
        }
        labels.insert(names::LABEL_MANAGED_BY.into(), json!(names::MANAGED_BY));
        if owner.reference.is_some() {
            labels.insert(names::LABEL_INVENTORY.into(), json!(owner.uid()));
        }
        let digest = digest(&body);
        let annotations = object_in(object_in(&mut body, "metadata"), "annotations");
        annotations.insert(names::ANNOTATION_SPEC_HASH.into(), json!(digest));
        body
    }
}

/// What happened to each object of one pass.
#[derive(Debug, Default)]
pub struct Report {
    results: Vec<(ChildKind, String, Result<Action, Error>)>,
}

impl Report {
    /// What happened to the object of this kind and name, if the pass had one.
    pub fn of(&self, kind: ChildKind, name: &str) -> Option<&Result<Action, Error>> {
        self.results.iter().find(|(k, n, _)| *k == kind && n == name).map(|(_, _, result)| result)
    }

    /// Every object that is not as desired, and why.
    pub fn failures(&self) -> impl Iterator<Item = &Error> {
        self.results.iter().filter_map(|(_, _, result)| result.as_ref().err())
    }

    /// Leaves out the object of this kind and name: what became of it is somebody else's to say.
    pub(crate) fn forgive(&mut self, kind: ChildKind, name: &str) {
        self.results.retain(|(k, n, _)| *k != kind || n != name);
    }

    /// Leaves out what will be free in a moment; true if there was such.
    pub(crate) fn forgive_passing(&mut self) -> bool {
        let before = self.results.len();
        self.results.retain(|(_, _, result)| !result.as_ref().is_err_and(Error::passes));
        before != self.results.len()
    }

    /// Adds why an object is not as desired.
    pub(crate) fn add_failure(&mut self, kind: ChildKind, name: String, error: Error) {
        self.results.push((kind, name, Err(error)));
    }

    /// This and another pass, as one.
    pub(crate) fn join(&mut self, other: Self) {
        self.results.extend(other.results);
    }

    /// True when the pass had nothing to do.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// The pass as a whole.
    ///
    /// # Errors
    /// When some object failed: asks for the most eager retry among them.
    pub fn into_result(self) -> Result<(), error::Error> {
        let total = self.results.len();
        let mut errors: Vec<_> = self.results.into_iter().filter_map(|(_, _, result)| result.err()).collect();
        let failed = errors.len();
        errors.sort_by_key(|error| error.category().retry());
        errors
            .pop()
            .map_or(Ok(()), |source| Err(error::Error::Objects { failed, total, source: Box::new(source) }))
    }
}

/// Writes and removes the objects of one controller, under its own field manager.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    manager: &'static str,
    /// What was applied and the caches have not shown yet, by kind, namespace and name.
    ahead: Arc<Mutex<HashMap<Key, Arc<DynamicObject>>>>,
}

type Key = (&'static str, String, String);

impl Applier {
    /// An applier that owns fields as `manager`.
    pub fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager, ahead: Arc::default() }
    }

    /// The newest form known of an object that is in a cache: it may have been applied since, and needs no second time.
    fn newest(&self, key: &Key, cached: Arc<DynamicObject>) -> Arc<DynamicObject> {
        let version = |object: &DynamicObject| object.resource_version()?.parse::<u64>().ok();
        let mut ahead = lock(&self.ahead);
        if let Some(applied) = ahead.get(key) {
            if applied.uid() == cached.uid() && version(applied) > version(&cached) {
                return applied.clone();
            }
            ahead.remove(key);
        }
        cached
    }

    /// Applies every object of `wanted` and removes every other object of the owner, except those named in `keep`.
    pub async fn converge(
        &self,
        owner: &Owner,
        wanted: &[Wanted],
        keep: &[(ChildKind, String)],
        children: &Children,
    ) -> Report {
        let orphans: Vec<_> = children
            .owned_by(owner.uid())
            .into_iter()
            .filter(|(_, object)| self.has_made(object))
            .filter(|(kind, object)| {
                let name = object.name_any();
                let namespace = object.namespace();
                let is_wanted = wanted.iter().any(|wanted| {
                    wanted.kind == *kind
                        && wanted.name == name
                        && wanted.namespace(owner) == namespace.as_deref().unwrap_or_default()
                });
                !is_wanted && !keep.iter().any(|(k, n)| k == kind && *n == name)
            })
            .collect();
        let deleted = join_all(orphans.into_iter().map(|(kind, object)| async move {
            (kind, object.name_any(), self.delete(kind, &object).await)
        }));
        let (mut report, deleted) = futures::join!(self.apply_all(owner, wanted, children), deleted);
        report.results.extend(deleted);
        report
    }

    /// Applies every object of `wanted` and removes nothing.
    pub(crate) async fn apply_all(&self, owner: &Owner, wanted: &[Wanted], children: &Children) -> Report {
        // A binding is refused unless its role is there, and grants no more than its binder has.
        let (last, first): (Vec<_>, Vec<_>) = wanted.iter().partition(|wanted| wanted.kind == ROLE_BINDING);
        let mut results = Vec::with_capacity(wanted.len());
        for group in [first, last] {
            let applied = group.into_iter().map(|wanted| async move {
                let live = children.get(wanted.kind, wanted.namespace(owner), &wanted.name);
                (wanted.kind, wanted.name.clone(), self.apply(owner, wanted, live).await)
            });
            results.extend(join_all(applied).await);
        }
        Report { results }
    }

    /// Asks whether the API server would take an object as a new one, under a name that nobody has. Nothing is made.
    ///
    /// # Errors
    /// When it would not.
    pub(crate) async fn try_new(&self, owner: &Owner, wanted: &Wanted) -> Result<(), Error> {
        let kind = wanted.kind.kind;
        let namespace = wanted.namespace(owner);
        let name = format!("{namespace}/{}", wanted.name);
        let mut body = wanted.stamped(owner);
        let metadata = object_in(&mut body, "metadata");
        metadata.remove("name");
        metadata.insert("generateName".into(), json!(TRIED));
        let failed = |source| Error::Apply { kind, name: name.clone(), source };
        let object: DynamicObject = serde_json::from_value(Value::Object(body))
            .map_err(|error| failed(kube::Error::SerdeError(error)))?;
        let api = dynamic_api(self.client.clone(), namespace, &wanted.kind.resource());
        let params = PostParams { dry_run: true, field_manager: Some(self.manager.to_owned()) };
        api.create(&params, &object).await.map(drop).map_err(failed)
    }

    /// Applies one object, whatever the caches know of it.
    ///
    /// # Errors
    /// When the API server does not take it, or it is somebody else's.
    pub(crate) async fn found(
        &self,
        owner: &Owner,
        wanted: &Wanted,
        children: &Children,
    ) -> Result<Action, Error> {
        let live = children.get(wanted.kind, wanted.namespace(owner), &wanted.name);
        self.apply(owner, wanted, live).await
    }

    /// Whether this applier wrote `object`: a label or a reference can be set by anybody, for reasons of their own.
    pub(crate) fn has_made(&self, object: &DynamicObject) -> bool {
        object.managed_fields().iter().any(|entry| {
            entry.manager.as_deref() == Some(self.manager) && entry.operation.as_deref() == Some("Apply")
        })
    }

    async fn apply(
        &self,
        owner: &Owner,
        wanted: &Wanted,
        cached: Option<Arc<DynamicObject>>,
    ) -> Result<Action, Error> {
        let kind = wanted.kind.kind;
        let namespace = wanted.namespace(owner);
        let full_name = format!("{namespace}/{}", wanted.name);
        let api = dynamic_api(self.client.clone(), namespace, &wanted.kind.resource());
        // The caches hold only labelled objects, so a name that seems free may still be taken. Objects are made
        // rarely; the request is off the usual path.
        let key = (kind, namespace.to_owned(), wanted.name.clone());
        let version = cached.as_ref().and_then(|cached| cached.resource_version());
        let live = match cached {
            Some(cached) => Some(self.newest(&key, cached)),
            None => api
                .get_opt(&wanted.name)
                .await
                .map_err(|source| Error::LookUp { kind, name: full_name.clone(), source })?
                .map(Arc::new),
        };
        let mut body = wanted.stamped(owner);
        let mut params = PatchParams::apply(self.manager);
        if let Some(live) = &live {
            if let Some(holder) = foreign_holder(live, owner, self.has_made(live)) {
                return Err(Error::Foreign { kind, name: full_name, holder });
            }
            if live.metadata.deletion_timestamp.is_some() {
                return Ok(Action::Waiting);
            }
            if wanted.is_once || compare::is_applied(live, &body) {
                let is_cached = live.resource_version() == version;
                return Ok(if is_cached { Action::Unchanged } else { Action::Applied(live.clone()) });
            }
            // Ours for certain: what was edited by hand in the fields we name goes back. But only on this very object:
            // the name may be somebody else's by now.
            object_in(&mut body, "metadata").insert("uid".into(), json!(live.metadata.uid));
            params = params.force();
        } else {
            // Without it, what somebody makes under this name before the request is there would be taken for ours.
            object_in(&mut body, "metadata").insert("resourceVersion".into(), json!(NO_VERSION));
        }
        let applied = api
            .patch(&wanted.name, &params, &Patch::Apply(Value::Object(body)))
            .await
            .map_err(|source| Error::Apply { kind, name: full_name.clone(), source })?;
        tracing::info!(kind, name = full_name, version = applied.resource_version(), "applied object");
        let applied = Arc::new(applied);
        lock(&self.ahead).insert(key, applied.clone());
        Ok(Action::Applied(applied))
    }

    /// Removes every object of these kinds that the owner has in other namespaces, where no garbage collector follows
    /// it. Asks the API server itself: the caches may not know the latest of them. An empty report means that nothing is
    /// left.
    ///
    /// # Errors
    /// When they can't be listed. One that can't be removed is in the report.
    pub async fn remove_remote(&self, owner: &Owner, kinds: &[ChildKind]) -> Result<Report, error::Error> {
        let selector = format!(
            "{}={},{}={}",
            names::LABEL_INVENTORY,
            owner.uid(),
            names::LABEL_OWNER_NAMESPACE,
            owner.namespace.as_deref().unwrap_or_default()
        );
        let mut results = Vec::new();
        for kind in kinds {
            let everywhere = Api::<DynamicObject>::all_with(self.client.clone(), &kind.resource());
            let found = everywhere
                .list(&ListParams::default().labels(&selector))
                .await
                .map_err(|source| error::Error::ListRemote { kind: kind.kind, source })?;
            for object in found.items.into_iter().filter(|object| self.has_made(object)) {
                results.push((*kind, object.name_any(), self.delete(*kind, &object).await));
            }
        }
        Ok(Report { results })
    }

    /// Removes an object, and with it what belongs to it.
    pub(crate) async fn delete(&self, kind: ChildKind, object: &DynamicObject) -> Result<Action, Error> {
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(Action::Waiting);
        }
        let namespace = object.namespace().unwrap_or_default();
        let name = object.name_any();
        let full_name = format!("{namespace}/{name}");
        let api = dynamic_api(self.client.clone(), &namespace, &kind.resource());
        // The uid guards an object that someone made under the same name a moment ago.
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match api.delete(&name, &params).await {
            Ok(_) => {
                tracing::info!(kind = kind.kind, name = full_name, "deleted object that is no longer wanted");
                Ok(Action::Deleted)
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Action::Deleted),
            Err(source) => Err(Error::Delete { kind: kind.kind, name: full_name, source }),
        }
    }
}

/// What is said of the holder of a name that will be free in a moment.
const EARLIER: &str = "that is being cleaned up";

/// Who holds `live`, if that is not `owner`. An object that this applier has made and that was orphaned is free to be
/// taken.
fn foreign_holder(live: &DynamicObject, owner: &Owner, has_made: bool) -> Option<String> {
    match controller_uid(live) {
        Some(uid) if uid == owner.uid() && has_made => return None,
        Some(uid) if uid == owner.uid() => {
            return Some(format!("{}, though it names this object as its controller", nobody(live)));
        }
        Some(uid) => {
            let reference = live.owner_references().iter().find(|reference| reference.uid == uid)?;
            let own = owner.reference.as_ref();
            let namesake = own.is_some_and(|own| reference.kind == own.kind && reference.name == own.name);
            let holder = format!("{} {}", reference.kind, reference.name);
            return Some(if namesake { format!("an earlier {holder} {EARLIER}") } else { holder });
        }
        None if !has_made => return Some(nobody(live)),
        None => {}
    }
    // Labels say whose an object is whose owner is in another namespace.
    let label = |key: &str| live.labels().get(key).map(String::as_str);
    let namespace = label(names::LABEL_OWNER_NAMESPACE)?;
    let (kind, name) = (label(names::LABEL_OWNER_KIND)?, label(names::LABEL_OWNER_NAME)?);
    let is_own = owner.reference.as_ref().is_some_and(|own| kind == own.kind && name == own.name)
        && owner.namespace.as_deref() == Some(namespace);
    (!is_own).then(|| format!("{kind} {namespace}/{name}"))
}

/// An object without an owner, and who wrote it.
fn nobody(live: &DynamicObject) -> String {
    let manager = live.managed_fields().iter().find_map(|entry| entry.manager.as_deref());
    manager.map_or_else(|| "nobody".to_owned(), |manager| format!("nobody (written by {manager})"))
}

fn object_in<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = parent.entry(key).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    slot.as_object_mut().expect("was made an object just above")
}

#[cfg(test)]
mod tests;
