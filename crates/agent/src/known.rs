//! What was read of the namespaces that an object's Services are in: the part that a plan is made of, by namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_base::well_known::SERVICE_NAME_LABEL;
use causeway_translate::endpoints;
use causeway_translate::grants::ReferenceGrant;
use causeway_translate::services::{ServiceRef, Services};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// By namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(pub(crate) BTreeMap<String, Objects>);

/// The objects of one namespace, each kind by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    pub(crate) services: Vec<Arc<Service>>,
    pub(crate) slices: Vec<Arc<EndpointSlice>>,
    pub(crate) grants: Vec<Arc<ReferenceGrant>>,
}

/// What is kept of a namespace on disk: no more than a plan is made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bare {
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
    grants: Vec<ReferenceGrant>,
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
        self.grants.sort_by_key(|object| object.name_any());
        self
    }

    fn is_same(&self, other: &Self) -> bool {
        are_same(&self.services, &other.services)
            && are_same(&self.slices, &other.slices)
            && are_same(&self.grants, &other.grants)
    }
}

/// Whether both hold the same readings; one that was read again counts as another, whatever it says.
fn are_same<K>(some: &[Arc<K>], others: &[Arc<K>]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| Arc::ptr_eq(one, other))
}

impl Known {
    /// Whether both hold the same readings: quick, and wrong only in one direction.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self
                .0
                .iter()
                .zip(&other.0)
                .all(|((name, one), (other_name, other))| name == other_name && one.is_same(other))
    }

    /// The Services for a plan; `unread` are the namespaces that can't be read, with the reason.
    pub(crate) fn services(&self, require_grants: bool, unread: BTreeMap<String, String>) -> Services {
        let services = self.0.values().flat_map(|objects| objects.services.iter().cloned());
        let slices = self.0.values().flat_map(|objects| objects.slices.iter().cloned());
        let known = Services::new(services, slices).with_unread(unread);
        if require_grants {
            let grants = self.0.values().flat_map(|objects| objects.grants.iter().cloned());
            return known.granted_by(grants.collect());
        }
        known
    }

    /// For the disk.
    pub(crate) fn bare(&self) -> BTreeMap<String, Bare> {
        let bare = |objects: &Objects| Bare {
            services: objects.services.iter().map(|service| bare_service(service)).collect(),
            slices: objects.slices.iter().map(|slice| bare_slice(slice)).collect(),
            grants: objects.grants.iter().map(|grant| bare_grant(grant)).collect(),
        };
        self.0.iter().map(|(name, objects)| (name.clone(), bare(objects))).collect()
    }
}

impl From<BTreeMap<String, Bare>> for Known {
    fn from(namespaces: BTreeMap<String, Bare>) -> Self {
        let full = |bare: Bare| Objects {
            services: bare.services.into_iter().map(Arc::new).collect(),
            slices: bare.slices.into_iter().map(Arc::new).collect(),
            grants: bare.grants.into_iter().map(Arc::new).collect(),
        };
        Self(namespaces.into_iter().map(|(name, bare)| (name, full(bare))).collect())
    }
}

fn bare_metadata(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta { name: metadata.name.clone(), namespace: metadata.namespace.clone(), ..ObjectMeta::default() }
}

fn bare_service(service: &Service) -> Service {
    let spec = service.spec.as_ref().map(|spec| ServiceSpec {
        ports: spec.ports.clone(),
        type_: spec.type_.clone(),
        publish_not_ready_addresses: spec.publish_not_ready_addresses,
        ..ServiceSpec::default()
    });
    Service { metadata: bare_metadata(&service.metadata), spec, status: None }
}

fn bare_slice(slice: &EndpointSlice) -> EndpointSlice {
    let bare = |endpoint: &Endpoint| Endpoint {
        addresses: endpoint.addresses.clone(),
        conditions: endpoint.conditions.clone(),
        ..Endpoint::default()
    };
    let label = slice.labels().get_key_value(SERVICE_NAME_LABEL);
    EndpointSlice {
        metadata: ObjectMeta {
            labels: label.map(|(key, value)| [(key.clone(), value.clone())].into()),
            ..bare_metadata(&slice.metadata)
        },
        address_type: slice.address_type.clone(),
        endpoints: slice.endpoints.iter().map(bare).collect(),
        ports: slice.ports.clone(),
    }
}

fn bare_grant(grant: &ReferenceGrant) -> ReferenceGrant {
    ReferenceGrant { metadata: bare_metadata(&grant.metadata), spec: grant.spec.clone() }
}
