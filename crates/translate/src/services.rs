//! Services with their EndpointSlices as they were last read, by namespace and name, and which of them the objects of
//! another namespace may use.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
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
    grants: Option<Grants>,
    unread: BTreeMap<String, String>,
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
        self.grants = Some(grants);
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
        self.grants.as_ref().is_none_or(|grants| grants.permit(users, &service.namespace, &service.name))
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
