//! The statuses beside the files: a file for each object, below `status/`, replaced as a whole and only when it says something
//! else. What was written is read again at the next start, so that conditions keep their times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use causeway_base::file;
use causeway_translate::gateway::Picture;
use causeway_translate::gateway::kinds::ObjectRef;
use causeway_translate::gateway::picture::Status;
use serde_json::{Value, json};

use super::world::Key;
use crate::parts::output;

/// Everybody who may read the folder may read what became of it.
const READABLE: u32 = 0o644;

/// What was written last.
pub(super) struct Statuses {
    dir: PathBuf,
    known: BTreeMap<Key, Value>,
}

impl Statuses {
    /// Those below this folder.
    pub(super) fn new(folder: &Path) -> Self {
        let dir = folder.join("status");
        let mut known = BTreeMap::new();
        for entry in dir.read_dir().into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            // One that can't be read is written anew.
            let Ok(object) = serde_saphyr::from_str::<Value>(&text) else { continue };
            let field = |pointer: &str| {
                object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let key = (field("/kind"), field("/metadata/namespace"), field("/metadata/name"));
            known.insert(key, object["status"].clone());
        }
        Self { dir, known }
    }

    /// By object.
    pub(super) fn known(&self) -> &BTreeMap<Key, Value> {
        &self.known
    }

    /// Writes what differs, and removes what is of objects that are gone.
    pub(super) fn write(&mut self, picture: &Picture) {
        let now: BTreeMap<Key, &Status> = all(picture).collect();
        let gone: Vec<Key> = self.known.keys().filter(|key| !now.contains_key(*key)).cloned().collect();
        for key in gone {
            self.known.remove(&key);
            // Somebody may have removed it already.
            let _ = std::fs::remove_file(self.path(&key));
        }
        for (key, status) in now {
            if self.known.get(&key) == Some(&status.value) && self.path(&key).exists() {
                continue;
            }
            match self.replace(&key, &status.value) {
                Ok(()) => drop(self.known.insert(key, status.value.clone())),
                Err(error) => {
                    let path = self.path(&key);
                    output::note(format_args!("causeway: can't write {}: {error}", path.display()));
                }
            }
        }
    }

    fn replace(&self, key: &Key, status: &Value) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        let (kind, namespace, name) = key;
        let group = if matches!(kind.as_str(), "GatewayParameters" | "TrafficPolicy") {
            causeway_api::names::API_VERSION
        } else {
            "gateway.networking.k8s.io/v1"
        };
        let mut object =
            json!({"apiVersion": group, "kind": kind, "metadata": {"name": name}, "status": status});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        let text = serde_saphyr::to_string(&object).map_err(std::io::Error::other)?;
        file::replace(&self.path(key), READABLE, text.as_bytes())
    }

    fn path(&self, (kind, namespace, name): &Key) -> PathBuf {
        let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}.") };
        // A namespace has no dot in it.
        self.dir.join(format!("{}.{namespace}{name}.yaml", kind.to_ascii_lowercase()))
    }
}

fn all(picture: &Picture) -> impl Iterator<Item = (Key, &Status)> {
    let of = |kind: &str, at: &ObjectRef| (kind.to_owned(), at.namespace.clone(), at.name.clone());
    let classes = picture
        .classes
        .iter()
        .map(|(name, status)| (("GatewayClass".to_owned(), String::new(), name.clone()), status));
    let gateways = picture.gateways.iter().map(move |(at, gateway)| (of("Gateway", at), &gateway.status));
    let sets = picture.listener_sets.iter().map(move |(at, status)| (of("ListenerSet", at), status));
    let routes = picture.routes.iter().map(move |((kind, at), status)| (of(kind.as_str(), at), status));
    let policies = picture.policies.iter().map(move |(at, status)| (of("BackendTLSPolicy", at), status));
    let traffic = picture.traffic_policies.iter().map(move |(at, status)| (of("TrafficPolicy", at), status));
    let parameters = picture.parameters.iter().map(move |(at, status)| (of("GatewayParameters", at), status));
    classes.chain(gateways).chain(sets).chain(routes).chain(policies).chain(traffic).chain(parameters)
}
