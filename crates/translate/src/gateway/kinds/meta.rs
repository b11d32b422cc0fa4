//! What every object has, and how one is read.

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Names an object of a kind that is known besides; the namespace is empty for what has none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
pub struct ObjectRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// The object of this namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The part of an object's metadata that matters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Meta {
    /// Which object it is.
    pub at: ObjectRef,
    /// The version of its spec.
    pub generation: i64,
    /// When it was created; none in a file.
    pub created: Option<Timestamp>,
    /// Whether it is going away.
    pub deleting: bool,
}

impl Meta {
    /// The order in which objects have their say: the oldest first, then by namespace and name. What has no time, as in a
    /// file, comes first, so that names decide there.
    pub fn rank(&self) -> (Option<Timestamp>, &str, &str) {
        (self.created, &self.at.namespace, &self.at.name)
    }
}

/// An object: what it asks for, and the status that it has.
#[derive(Debug, Clone, PartialEq)]
pub struct Object<S> {
    /// Who it is.
    pub meta: Meta,
    /// What it asks for; if that can't be read, only its outline.
    pub spec: S,
    /// Why what it asks for can't be read, if it can't. Whoever uses the object does not do what is left of it: it is told,
    /// and what it would have kept closed stays closed.
    pub unreadable: Option<Unreadable>,
    /// What is written in its status, by anybody; null if nothing is. Kept as it is, for foreign entries to stay.
    pub status: Value,
}

/// Why an object can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

/// What a kind asks for.
pub trait Spec: DeserializeOwned {
    /// What can be told of one that can't be read as a whole: what it is for, and nothing of what it asks for there.
    fn outline(spec: &Value) -> Self;
}

/// A field of a spec, if it can be read.
pub(super) fn field<T: DeserializeOwned + Default>(spec: &Value, name: &str) -> T {
    spec.get(name).and_then(|value| T::deserialize(value).ok()).unwrap_or_default()
}

/// Those items of a list in a spec that can be read.
pub(super) fn items<T: DeserializeOwned>(spec: &Value, name: &str) -> Vec<T> {
    let list = spec.get(name).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|item| T::deserialize(item).ok()).collect()
}

impl<S: Spec> Object<S> {
    /// Reads an object as the API server or a file has it. What upstream's validation has let through can be read. Dear: who
    /// watches keeps what was read until it changes.
    pub fn read(object: &DynamicObject) -> Self {
        let null = Value::Null;
        let written = object.data.get("spec").unwrap_or(&null);
        let (spec, unreadable) = match serde_path_to_error::deserialize(written) {
            Ok(spec) => (spec, None),
            Err(error) => {
                let why = format!("spec.{}: {}", error.path(), error.inner());
                (S::outline(written), Some(Unreadable(why)))
            }
        };
        let meta = Meta {
            at: ObjectRef::new(object.namespace().unwrap_or_default(), object.name_any()),
            generation: object.metadata.generation.unwrap_or_default(),
            created: object.creation_timestamp().map(|time| time.0),
            deleting: object.metadata.deletion_timestamp.is_some(),
        };
        let status = object.data.get("status").cloned().unwrap_or(Value::Null);
        Self { meta, spec, unreadable, status }
    }
}
