//! What a picture is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use causeway_api::InterceptRequest;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::jiff::Timestamp;

use super::swap::Replaced;
use super::target::TargetRef;
use crate::gateway::kinds::ObjectRef;
use crate::grants::Grants;

/// Everything that matters to intercepts.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// All requests.
    pub requests: BTreeMap<ObjectRef, Arc<InterceptRequest>>,
    /// All workstations.
    pub workstations: BTreeMap<ObjectRef, Station>,
    /// Namespaces that forbid intercepts.
    pub denied: BTreeSet<String>,
    /// Who may use what of other namespaces.
    pub grants: Grants,
    /// The objects of each namespace with requests; one that was not read yet is missing.
    pub near: BTreeMap<String, Near>,
    /// The pods of the cluster's end that take carriers.
    pub stowaways: Vec<Stowaway>,
    /// Which moment it is.
    pub now: Timestamp,
}

/// A developer's machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Station {
    /// The uid of its object.
    pub uid: String,
    /// Whose it is, for people.
    pub owner: Option<String>,
    /// Why nothing can be sent to it.
    pub unusable: Option<String>,
    /// The pod of the cluster's end that it is connected to.
    pub replica: Option<String>,
    /// Since when it is not connected, if it is not and was.
    pub away: Option<Timestamp>,
}

/// A pod of the cluster's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stowaway {
    /// The pod's name.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
}

/// The objects of one namespace.
#[derive(Debug, Clone, Default)]
pub struct Near {
    /// Services, but for those that carriers have.
    pub services: BTreeMap<String, Arc<Service>>,
    /// What Services selected before, of those that have a carrier; only what is known to be true.
    pub originals: BTreeMap<String, BTreeMap<String, String>>,
    /// Services that find original pods, by their name.
    pub twins: BTreeMap<String, Twin>,
    /// EndpointSlices, by Service.
    pub slices: BTreeMap<String, Vec<Arc<EndpointSlice>>>,
    /// Deployments.
    pub deployments: BTreeMap<String, Arc<Deployment>>,
    /// StatefulSets.
    pub stateful_sets: BTreeMap<String, Arc<StatefulSet>>,
    /// ReplicaSets.
    pub replica_sets: BTreeMap<String, Arc<ReplicaSet>>,
    /// Pods, but for those of carriers.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// NetworkPolicies, but for those of carriers.
    pub policies: BTreeMap<String, Arc<NetworkPolicy>>,
    /// Containers that were replaced, as they were before; only what is known to be true.
    pub replaced: BTreeMap<TargetRef, Replaced>,
    /// Pods that have a stand-in, with the labels that they have without it.
    pub stood_in: BTreeMap<TargetRef, BTreeMap<String, String>>,
}

/// A Service that finds the original pods behind a carrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Twin {
    /// Its uid.
    pub uid: String,
    /// Its address.
    pub address: Option<IpAddr>,
}

impl Twin {
    /// Whether a slice is its own: not that of an earlier one of its name.
    pub(super) fn has(&self, slice: &EndpointSlice) -> bool {
        let owners = slice.metadata.owner_references.iter().flatten();
        owners.filter(|owner| owner.kind == "Service").all(|owner| owner.uid == self.uid)
    }
}

impl Near {
    /// What a Service selects when nobody stands in front of it; none if it selects nothing.
    pub fn selector<'a>(&'a self, service: &'a Service) -> Option<&'a BTreeMap<String, String>> {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let own = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        self.originals.get(name).or(own).filter(|selector| !selector.is_empty())
    }
}
