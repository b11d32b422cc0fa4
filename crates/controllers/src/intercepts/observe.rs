//! The world of intercepts as the caches have it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use causeway_api::{InterceptRequest, Workstation, names};
use causeway_base::well_known::SERVICE_NAME_LABEL;
use causeway_translate::{
    gateway::kinds::ObjectRef,
    intercept::{
        denies,
        front::OWNER_KIND,
        world::{Near, Station, Stowaway, Twin, World},
    },
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace as NamespaceObject, Node, Service};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::{neighbourhood::Namespace, services::Seen, workloads};
use crate::{
    framework::{
        children::{ChildKind, Children, typed},
        kinds::{INTERCEPT_REQUEST, NAMESPACE, NODE, WORKSTATION},
    },
    grants::{Grants, REFERENCE_GRANT},
};

/// All objects of a kind that can be read.
fn all<K: DeserializeOwned>(children: &Children, kind: ChildKind) -> Vec<Arc<K>> {
    children.all(kind).iter().filter_map(|object| typed(object).map(Arc::new)).collect()
}

/// All requests.
pub(crate) fn requests(children: &Children) -> BTreeMap<ObjectRef, Arc<InterceptRequest>> {
    all::<InterceptRequest>(children, INTERCEPT_REQUEST)
        .into_iter()
        .map(|request| (ObjectRef::new(request.namespace().unwrap_or_default(), request.name_any()), request))
        .collect()
}

/// All workstations.
pub(crate) fn workstations(children: &Children) -> Vec<Arc<Workstation>> {
    all(children, WORKSTATION)
}

/// All nodes.
pub(crate) fn nodes(children: &Children) -> Vec<Node> {
    children.all(NODE).iter().filter_map(|object| typed(object)).collect()
}

/// Everything.
pub(crate) fn world(
    children: &Children,
    requests: BTreeMap<ObjectRef, Arc<InterceptRequest>>,
    workstations: BTreeMap<ObjectRef, Station>,
    near: BTreeMap<String, Near>,
    stowaways: Vec<Stowaway>,
    now: Timestamp,
) -> World {
    let denied: BTreeSet<String> = children
        .all(NAMESPACE)
        .iter()
        .filter_map(|object| typed::<NamespaceObject>(object))
        .filter(|namespace| denies(&namespace.metadata))
        .map(|namespace| namespace.name_any())
        .collect();
    World {
        requests,
        workstations,
        denied,
        grants: Grants::read(&children.all(REFERENCE_GRANT)),
        near,
        stowaways,
        now,
    }
}

/// The objects of a namespace, without what belongs to carriers.
pub(crate) fn near(namespace: &Namespace, seen: &Seen, replaced: &workloads::Seen) -> Near {
    let mut slices: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for slice in namespace.slices.all() {
        if let Some(service) = slice.labels().get(SERVICE_NAME_LABEL) {
            slices.entry(service.clone()).or_default().push(slice);
        }
    }
    for of_service in slices.values_mut() {
        of_service.sort_by_key(|slice| slice.name_any());
    }
    Near {
        services: named(namespace.services.all()),
        originals: seen.originals.clone(),
        twins: namespace.services.all().iter().filter_map(|service| twin(service)).collect(),
        slices,
        deployments: named(namespace.deployments.all()),
        stateful_sets: named(namespace.stateful_sets.all()),
        replica_sets: named(namespace.replica_sets.all()),
        pods: named(namespace.pods.all()),
        policies: named(namespace.policies.all()),
        replaced: replaced.replaced.clone(),
        stood_in: replaced.stood_in.clone(),
    }
}

/// A Service that finds original pods.
fn twin(service: &Service) -> Option<(String, Twin)> {
    let address = service.spec.as_ref()?.cluster_ip.as_deref().and_then(|address| address.parse().ok());
    let twin = Twin { uid: service.uid()?, address };
    is_of_carrier(service).then(|| (service.name_any(), twin))
}

fn named<K: Resource<DynamicType = ()>>(objects: Vec<Arc<K>>) -> BTreeMap<String, Arc<K>> {
    let objects = objects.into_iter().filter(|object| !is_of_carrier(&**object));
    objects.map(|object| (object.name_any(), object)).collect()
}

/// Whether an object was made for a carrier.
pub(crate) fn is_of_carrier(object: &impl Resource) -> bool {
    object.labels().get(names::LABEL_OWNER_KIND).is_some_and(|kind| kind == OWNER_KIND)
}
