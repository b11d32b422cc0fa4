//! The kinds that controllers make and read, each said once.

use causeway_api::names;

use crate::framework::children::ChildKind;

pub(crate) const SERVICE: ChildKind = core("Service", "services");
pub(crate) const CONFIG_MAP: ChildKind = core("ConfigMap", "configmaps");
pub(crate) const SERVICE_ACCOUNT: ChildKind = core("ServiceAccount", "serviceaccounts");
pub(crate) const POD: ChildKind = core("Pod", "pods");
pub(crate) const DEPLOYMENT: ChildKind = kind("apps", "Deployment", "deployments");
pub(crate) const ENDPOINT_SLICE: ChildKind = kind("discovery.k8s.io", "EndpointSlice", "endpointslices");
pub(crate) const ROLE: ChildKind = rbac("Role", "roles");
pub(crate) const ROLE_BINDING: ChildKind = rbac("RoleBinding", "rolebindings");
pub(crate) const CONTAINER_NETWORK: ChildKind = own("ContainerNetwork", "containernetworks");

/// A kind of Causeway's own.
pub(crate) const fn own(kind: &'static str, plural: &'static str) -> ChildKind {
    ChildKind { group: names::GROUP, version: names::VERSION, kind, plural }
}

const fn core(name: &'static str, plural: &'static str) -> ChildKind {
    kind("", name, plural)
}

const fn rbac(name: &'static str, plural: &'static str) -> ChildKind {
    kind("rbac.authorization.k8s.io", name, plural)
}

const fn kind(group: &'static str, kind: &'static str, plural: &'static str) -> ChildKind {
    ChildKind { group, version: "v1", kind, plural }
}
