//! What was read of an object's surroundings: the part that a plan is made of. Namespaces that the pod may read, by name,
//! and what the operator has supplied of others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::{PlanPart, SuppliedRoute, SuppliedTarget, Supply, SupplySpec};
use causeway_translate::endpoints;
use causeway_translate::services::{Given, ServiceRef, Services, bare_service, bare_slice};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use crate::followed::{Entries, SecretEntries};

/// Everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Namespaces that were read.
    pub(crate) namespaces: BTreeMap<String, Objects>,
    /// What was supplied, all parts of it.
    pub(crate) supplies: Vec<Arc<Supply>>,
    /// ConfigMaps that were read.
    pub(crate) config_maps: BTreeMap<String, Arc<Entries>>,
    /// Secrets that were read.
    pub(crate) secrets: BTreeMap<String, Arc<SecretEntries>>,
    /// Parts of the plan, by digest.
    pub(crate) parts: BTreeMap<String, Arc<Supply>>,
}

/// The objects of one namespace, each kind by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    pub(crate) services: Vec<Arc<Service>>,
    pub(crate) slices: Vec<Arc<EndpointSlice>>,
}

/// What is kept on disk: no more than a plan is made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bare {
    namespaces: BTreeMap<String, BareObjects>,
    supplies: Vec<SupplySpec>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    config_maps: BTreeMap<String, Entries>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    secrets: BTreeMap<String, SecretEntries>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<PlanPart>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BareObjects {
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
}

impl Objects {
    /// Those of the wanted Services, in an order that does not depend on how they were read.
    pub(crate) fn of(mut self, namespace: &str, wanted: &BTreeSet<ServiceRef>) -> Self {
        let is_wanted = |name: &str| {
            wanted.contains(&ServiceRef { namespace: namespace.to_owned(), name: name.to_owned() })
        };
        self.services.retain(|service| is_wanted(&service.name_any()));
        self.slices.retain(|slice| endpoints::service_of(slice).is_some_and(|(_, name)| is_wanted(name)));
        self.services.sort_by_key(|object| object.name_any());
        self.slices.sort_by_key(|object| object.name_any());
        self
    }

    fn is_same(&self, other: &Self) -> bool {
        are_same(&self.services, &other.services) && are_same(&self.slices, &other.slices)
    }
}

/// Whether both hold the same readings; one that was read again counts as another, whatever it says.
fn are_same<K>(some: &[Arc<K>], others: &[Arc<K>]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| Arc::ptr_eq(one, other))
}

impl Known {
    /// Whether both hold the same readings: quick, and wrong only in one direction.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        are_same(&self.supplies, &other.supplies)
            && self.config_maps == other.config_maps
            && self.secrets == other.secrets
            && self.parts.keys().eq(other.parts.keys())
            && self.namespaces.len() == other.namespaces.len()
            && self
                .namespaces
                .iter()
                .zip(&other.namespaces)
                .all(|((name, one), (other_name, other))| name == other_name && one.is_same(other))
    }

    /// The Services for a plan; `unread` are the namespaces that can't be read, with the reason.
    pub(crate) fn services(&self, require_grants: bool, unread: BTreeMap<String, String>) -> Services {
        let supplied = || self.supplies.iter().flat_map(|supply| &supply.spec.services);
        let services = self.namespaces.values().flat_map(|objects| objects.services.iter().cloned());
        let services = services.chain(supplied().map(|supplied| Arc::new(supplied.service.clone())));
        let slices = self.namespaces.values().flat_map(|objects| objects.slices.iter().cloned());
        let slices =
            slices.chain(supplied().flat_map(|supplied| supplied.slices.iter().cloned().map(Arc::new)));
        let known = Services::new(services, slices).with_unread(unread);
        if require_grants { known.given(given(&self.supplies)) } else { known }
    }

    /// The routes that are attached to the object.
    pub(crate) fn routes(&self) -> Vec<SuppliedRoute> {
        self.supplies.iter().flat_map(|supply| &supply.spec.routes).cloned().collect()
    }

    /// For the disk.
    pub(crate) fn bare(&self) -> Bare {
        let bare = |objects: &Objects| BareObjects {
            services: objects.services.iter().map(|service| bare_service(service)).collect(),
            slices: objects.slices.iter().map(|slice| bare_slice(slice)).collect(),
        };
        Bare {
            namespaces: self.namespaces.iter().map(|(name, objects)| (name.clone(), bare(objects))).collect(),
            supplies: self.supplies.iter().map(|supply| supply.spec.clone()).collect(),
            config_maps: self
                .config_maps
                .iter()
                .map(|(name, map)| (name.clone(), Entries::clone(map)))
                .collect(),
            secrets: self
                .secrets
                .iter()
                .map(|(name, secret)| (name.clone(), SecretEntries::clone(secret)))
                .collect(),
            parts: self.parts.values().filter_map(|supply| supply.spec.plan.clone()).collect(),
        }
    }
}

impl From<Bare> for Known {
    fn from(bare: Bare) -> Self {
        let full = |bare: BareObjects| Objects {
            services: bare.services.into_iter().map(Arc::new).collect(),
            slices: bare.slices.into_iter().map(Arc::new).collect(),
        };
        let supply = |spec: SupplySpec| Arc::new(Supply { spec, ..Supply::default() });
        let part = |part: PlanPart| {
            let digest = part.digest.clone();
            (digest, supply(SupplySpec { plan: Some(part), ..SupplySpec::default() }))
        };
        Self {
            namespaces: bare.namespaces.into_iter().map(|(name, bare)| (name, full(bare))).collect(),
            supplies: bare.supplies.into_iter().map(supply).collect(),
            config_maps: bare.config_maps.into_iter().map(|(name, map)| (name, Arc::new(map))).collect(),
            secrets: bare.secrets.into_iter().map(|(name, secret)| (name, Arc::new(secret))).collect(),
            parts: bare.parts.into_iter().map(part).collect(),
        }
    }
}

/// What other namespaces have agreed to.
pub(crate) fn given(supplies: &[Arc<Supply>]) -> Given {
    let mut given = Given::default();
    for SupplySpec { namespaces, services, missing_namespaces, .. } in supplies.iter().map(|h| &h.spec) {
        given.namespaces.extend(namespaces.iter().cloned());
        given.missing.extend(missing_namespaces.iter().cloned());
        given.services.extend(services.iter().map(|supplied| ServiceRef {
            namespace: supplied.service.namespace().unwrap_or_default(),
            name: supplied.service.name_any(),
        }));
    }
    given
}

/// The Services that attached routes lead to.
pub(crate) fn targets(supplies: &[Arc<Supply>]) -> impl Iterator<Item = ServiceRef> {
    let routes = supplies.iter().flat_map(|supply| &supply.spec.routes);
    let targets = routes.flat_map(|route| &route.targets).filter(|target| !target.refused);
    targets.map(|SuppliedTarget { namespace, service, .. }| ServiceRef {
        namespace: namespace.clone(),
        name: service.clone(),
    })
}
