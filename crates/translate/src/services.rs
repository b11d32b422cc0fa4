//! Services with their EndpointSlices as they were last read, by namespace and name, and which of them the objects of
//! another namespace may use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use causeway_base::well_known::SERVICE_NAME_LABEL;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::endpoints;
use crate::grants::{Grants, Users};

/// Names a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for ServiceRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Services, their slices, and who may use them.
#[derive(Debug, Clone, Default)]
pub struct Services {
    objects: HashMap<ServiceRef, Arc<Service>>,
    slices: HashMap<ServiceRef, Vec<Arc<EndpointSlice>>>,
    consent: Consent,
    unread: BTreeMap<String, String>,
}

/// Which Services of other namespaces may be used.
#[derive(Debug, Clone, Default)]
enum Consent {
    #[default]
    All,
    Granted(Grants),
    Given(Given),
}

/// What other namespaces have agreed to, as somebody else has found out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// Namespaces with all their Services.
    pub namespaces: BTreeSet<String>,
    /// Single Services.
    pub services: BTreeSet<ServiceRef>,
    /// Namespaces that can't agree to anything: there are none of these names.
    pub missing: BTreeSet<String>,
}

impl Services {
    /// Puts Services and slices in order; more of them than are asked for do no harm.
    pub fn new(
        services: impl IntoIterator<Item = Arc<Service>>,
        slices: impl IntoIterator<Item = Arc<EndpointSlice>>,
    ) -> Self {
        let mut known = Self::default();
        for service in services {
            let at =
                ServiceRef { namespace: service.namespace().unwrap_or_default(), name: service.name_any() };
            known.objects.insert(at, service);
        }
        for slice in slices {
            let Some((namespace, name)) = endpoints::service_of(&slice) else { continue };
            let at = ServiceRef { namespace: namespace.to_owned(), name: name.to_owned() };
            known.slices.entry(at).or_default().push(slice);
        }
        known
    }

    /// The same, but in other namespaces only what these grants name may be used.
    #[must_use]
    pub fn granted_by(mut self, grants: Grants) -> Self {
        self.consent = Consent::Granted(grants);
        self
    }

    /// The same, but in other namespaces only what was given may be used.
    #[must_use]
    pub fn given(mut self, given: Given) -> Self {
        self.consent = Consent::Given(given);
        self
    }

    /// The same, but of these namespaces only what was known earlier, if anything; each with the reason.
    #[must_use]
    pub fn with_unread(mut self, namespaces: BTreeMap<String, String>) -> Self {
        self.unread = namespaces;
        self
    }

    /// Whether these users may use the Service.
    pub fn permit(&self, users: Users<'_>, service: &ServiceRef) -> bool {
        match &self.consent {
            Consent::All => true,
            Consent::Granted(grants) => grants.permit(users, &service.namespace, &service.name),
            Consent::Given(given) => {
                users.namespace == service.namespace
                    || given.namespaces.contains(&service.namespace)
                    || given.services.contains(service)
            }
        }
    }

    /// Whether it is known that there is no such namespace.
    pub fn is_missing(&self, namespace: &str) -> bool {
        matches!(&self.consent, Consent::Given(given) if given.missing.contains(namespace))
    }

    /// Why a namespace can't be read at the moment.
    pub fn unread(&self, namespace: &str) -> Option<&str> {
        self.unread.get(namespace).map(String::as_str)
    }

    /// The Service.
    pub fn get(&self, service: &ServiceRef) -> Option<&Service> {
        self.objects.get(service).map(|service| &**service)
    }

    /// Its slices.
    pub fn slices(&self, service: &ServiceRef) -> impl Iterator<Item = &EndpointSlice> + Clone {
        self.slices.get(service).into_iter().flatten().map(|slice| &**slice)
    }
}

/// The part of a Service that a plan is made of.
pub fn bare_service(service: &Service) -> Service {
    let spec = service.spec.as_ref().map(|spec| ServiceSpec {
        ports: spec.ports.clone(),
        type_: spec.type_.clone(),
        publish_not_ready_addresses: spec.publish_not_ready_addresses,
        ..ServiceSpec::default()
    });
    Service { metadata: bare_metadata(&service.metadata), spec, status: None }
}

/// The part of a slice that a plan is made of.
pub fn bare_slice(slice: &EndpointSlice) -> EndpointSlice {
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

fn bare_metadata(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta { name: metadata.name.clone(), namespace: metadata.namespace.clone(), ..ObjectMeta::default() }
}
