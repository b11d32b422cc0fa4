//! The world that files describe. What a cluster has by itself, files need not say: there is a class `causeway`, every
//! namespace that is named exists, and an EndpointSlice without a Service is its own.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::names;
use causeway_base::well_known::SERVICE_NAME_LABEL;
use causeway_translate::gateway::{CONTROLLER_NAME, World};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::folder::{Written, key};

/// The label that every namespace of a cluster has.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// An object, by kind, namespace and name.
pub(super) type Key = (String, String, String);

/// The generations of objects, which in a cluster the API server counts.
#[derive(Default)]
pub(super) struct Generations(BTreeMap<Key, (Value, i64)>);

impl Generations {
    /// The generation of an object: one more whenever it asks for something else.
    fn of(&mut self, object: &DynamicObject) -> i64 {
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        let (before, generation) = self.0.entry(key(object)).or_insert_with(|| (spec.clone(), 1));
        if *before != spec {
            *before = spec;
            *generation += 1;
        }
        *generation
    }
}

/// The world, and what of the files can't be read.
pub(super) fn read(
    written: &[Written],
    statuses: &BTreeMap<Key, Value>,
    generations: &mut Generations,
) -> (World, Vec<String>) {
    let mut objects: Vec<DynamicObject> = written.iter().map(|written| written.object.clone()).collect();
    for object in &mut objects {
        object.metadata.generation = Some(generations.of(object));
        if let (Some(status), Some(fields)) = (statuses.get(&key(object)), object.data.as_object_mut()) {
            fields.insert("status".to_owned(), status.clone());
        }
        name_service(object);
    }
    objects.extend(implied(&objects));
    let (world, unread) = World::read(&objects);
    let problems = unread.into_iter().map(|(what, error)| {
        let error = error.to_string();
        let field = error.split(':').next().unwrap_or_default();
        let at = written.iter().find(|written| {
            let (kind, namespace, name) = key(&written.object);
            what == format!("{kind} {namespace}/{name}") || what == format!("{kind} {name}")
        });
        at.map_or_else(|| format!("{what}: {error}"), |at| format!("{}: {error}", at.place_of(field)))
    });
    (world, problems.collect())
}

/// A slice belongs to the Service of its own name, unless it says another.
fn name_service(object: &mut DynamicObject) {
    if object.types.as_ref().is_some_and(|types| types.kind == "EndpointSlice") {
        let name = object.name_any();
        object.labels_mut().entry(SERVICE_NAME_LABEL.to_owned()).or_insert(name);
    }
}

/// What goes without saying.
fn implied(objects: &[DynamicObject]) -> Vec<DynamicObject> {
    let known: BTreeSet<Key> = objects.iter().map(key).collect();
    let mut implied = Vec::new();
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": {"name": names::GATEWAY_CLASS, "generation": 1}, "spec": {"controllerName": CONTROLLER_NAME},
    });
    implied.push(class);
    let namespaces: BTreeSet<String> = objects.iter().filter_map(ResourceExt::namespace).collect();
    implied.extend(namespaces.iter().map(|name| {
        json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {NAME_LABEL: name}},
        })
    }));
    let mut services: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for object in objects.iter().filter(|object| key(object).0 == "EndpointSlice") {
        let name = object.labels().get(SERVICE_NAME_LABEL).cloned().unwrap_or_default();
        let ports = services.entry((object.namespace().unwrap_or_default(), name)).or_default();
        for port in object.data["ports"].as_array().into_iter().flatten() {
            let port = json!({
                "name": port["name"], "port": port["port"], "targetPort": port["port"],
                "protocol": port["protocol"], "appProtocol": port["appProtocol"],
            });
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
    }
    implied.extend(services.into_iter().map(|((namespace, name), ports)| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {"ports": ports},
        })
    }));
    let objects = implied.into_iter().filter_map(|object| serde_json::from_value(object).ok());
    objects.filter(|object: &DynamicObject| !known.contains(&key(object))).collect()
}
