//! Facts about the built-in types that k8s-openapi's schemas leave out: how lists and objects merge in a
//! server-side apply and in a strategic merge patch, and the defaults that associative keys rely on.
//! Every list that is not named here is atomic. Type names lack their common prefix `io.k8s.`.

use List::{Atomic, Map, Object, Set};

/// How a field merges.
pub(super) struct Merge {
    pub list: List,
    /// The key of a strategic merge, empty for none.
    pub key: &'static str,
    /// The strategy of a strategic merge, empty for none.
    pub strategy: &'static str,
}

/// How server-side apply treats a field.
#[derive(Clone, Copy)]
pub(super) enum List {
    /// Not a list at all.
    Object,
    Atomic,
    Set,
    Map(&'static [&'static str]),
}

type Fact = (&'static str, &'static str, Merge);

const fn fact(
    ty: &'static str,
    field: &'static str,
    list: List,
    key: &'static str,
    strategy: &'static str,
) -> Fact {
    (ty, field, Merge { list, key, strategy })
}

/// Sorted by type and field.
#[rustfmt::skip]
const MERGES: &[Fact] = &[
    fact("api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec", "validationActions", Set, "", ""),
    fact("api.admissionregistration.v1.ValidatingAdmissionPolicySpec", "matchConditions", Map(&["name"]), "name", "merge"),
    fact("api.admissionregistration.v1.ValidatingAdmissionPolicySpec", "variables", Map(&["name"]), "name", "merge"),
    fact("api.admissionregistration.v1.ValidatingAdmissionPolicyStatus", "conditions", Map(&["type"]), "", ""),
    fact("api.apps.v1.DaemonSetStatus", "conditions", Map(&["type"]), "type", "merge"),
    fact("api.apps.v1.DeploymentSpec", "strategy", Object, "", "retainKeys"),
    fact("api.apps.v1.DeploymentStatus", "conditions", Map(&["type"]), "type", "merge"),
    fact("api.apps.v1.ReplicaSetStatus", "conditions", Map(&["type"]), "type", "merge"),
    fact("api.apps.v1.StatefulSetStatus", "conditions", Map(&["type"]), "type", "merge"),
    fact("api.autoscaling.v2.HorizontalPodAutoscalerStatus", "conditions", Map(&["type"]), "type", "merge"),
    fact("api.core.v1.Container", "env", Map(&["name"]), "name", "merge"),
    fact("api.core.v1.Container", "ports", Map(&["containerPort", "protocol"]), "containerPort", "merge"),
    fact("api.core.v1.Container", "volumeDevices", Map(&["devicePath"]), "devicePath", "merge"),
    fact("api.core.v1.Container", "volumeMounts", Map(&["mountPath"]), "mountPath", "merge"),
    fact("api.core.v1.ContainerRestartRuleOnExitCodes", "values", Set, "", ""),
    fact("api.core.v1.ContainerStatus", "allocatedResourcesStatus", Map(&["name"]), "name", "merge"),
    fact("api.core.v1.ContainerStatus", "volumeMounts", Map(&["mountPath"]), "mountPath", "merge"),
    fact("api.core.v1.EphemeralContainer", "env", Map(&["name"]), "name", "merge"),
    fact("api.core.v1.EphemeralContainer", "ports", Map(&["containerPort", "protocol"]), "containerPort", "merge"),
    fact("api.core.v1.EphemeralContainer", "volumeDevices", Map(&["devicePath"]), "devicePath", "merge"),
    fact("api.core.v1.EphemeralContainer", "volumeMounts", Map(&["mountPath"]), "mountPath", "merge"),
    fact("api.core.v1.NamespaceStatus", "conditions", Map(&["type"]), "type", "merge"),
    fact("api.core.v1.NodeSpec", "podCIDRs", Set, "", "merge"),
    fact("api.core.v1.NodeStatus", "addresses", Map(&["type"]), "type", "merge"),
    fact("api.core.v1.NodeStatus", "conditions", Map(&["type"]), "type", "merge"),
    fact("api.core.v1.PersistentVolumeClaimStatus", "conditions", Map(&["type"]), "type", "merge"),
    fact("api.core.v1.PodSpec", "containers", Map(&["name"]), "name", "merge"),
    fact("api.core.v1.PodSpec", "ephemeralContainers", Map(&["name"]), "name", "merge"),
    fact("api.core.v1.PodSpec", "hostAliases", Map(&["ip"]), "ip", "merge"),
    fact("api.core.v1.PodSpec", "imagePullSecrets", Map(&["name"]), "name", "merge"),
    fact("api.core.v1.PodSpec", "initContainers", Map(&["name"]), "name", "merge"),
    fact("api.core.v1.PodSpec", "resourceClaims", Map(&["name"]), "name", "merge,retainKeys"),
    fact("api.core.v1.PodSpec", "schedulingGates", Map(&["name"]), "name", "merge"),
    fact("api.core.v1.PodSpec", "topologySpreadConstraints", Map(&["topologyKey", "whenUnsatisfiable"]), "topologyKey", "merge"),
    fact("api.core.v1.PodSpec", "volumes", Map(&["name"]), "name", "merge,retainKeys"),
    fact("api.core.v1.PodStatus", "conditions", Map(&["type"]), "type", "merge"),
    fact("api.core.v1.PodStatus", "hostIPs", Atomic, "ip", "merge"),
    fact("api.core.v1.PodStatus", "podIPs", Map(&["ip"]), "ip", "merge"),
    fact("api.core.v1.PodStatus", "resourceClaimStatuses", Map(&["name"]), "name", "merge,retainKeys"),
    fact("api.core.v1.ResourceRequirements", "claims", Map(&["name"]), "", ""),
    fact("api.core.v1.ResourceStatus", "resources", Map(&["resourceID"]), "", ""),
    fact("api.core.v1.ServiceAccount", "secrets", Map(&["name"]), "name", "merge"),
    fact("api.core.v1.ServiceSpec", "ports", Map(&["port", "protocol"]), "port", "merge"),
    fact("api.core.v1.ServiceStatus", "conditions", Map(&["type"]), "type", "merge"),
    fact("api.discovery.v1.Endpoint", "addresses", Set, "", ""),
    fact("apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionStatus", "conditions", Map(&["type"]), "", ""),
    fact("apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", "x-kubernetes-validations", Map(&["rule"]), "rule", "merge"),
    fact("apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", Set, "", "merge"),
    fact("apimachinery.pkg.apis.meta.v1.ObjectMeta", "ownerReferences", Map(&["uid"]), "uid", "merge"),
];

/// Types that server-side apply replaces as a whole.
const ATOMIC_TYPES: &[&str] = &[
    "api.admissionregistration.v1.MatchResources",
    "api.admissionregistration.v1.NamedRuleWithOperations",
    "api.admissionregistration.v1.ParamKind",
    "api.admissionregistration.v1.ParamRef",
    "api.admissionregistration.v1.Variable",
    "api.core.v1.ConfigMapKeySelector",
    "api.core.v1.EndpointAddress",
    "api.core.v1.EndpointPort",
    "api.core.v1.FileKeySelector",
    "api.core.v1.LocalObjectReference",
    "api.core.v1.NodeSelector",
    "api.core.v1.NodeSelectorTerm",
    "api.core.v1.ObjectFieldSelector",
    "api.core.v1.ObjectReference",
    "api.core.v1.ResourceFieldSelector",
    "api.core.v1.SecretKeySelector",
    "api.core.v1.TypedLocalObjectReference",
    "api.discovery.v1.EndpointPort",
    "api.rbac.v1.RoleRef",
    "api.rbac.v1.Subject",
    "apimachinery.pkg.apis.meta.v1.LabelSelector",
    "apimachinery.pkg.apis.meta.v1.OwnerReference",
];

/// Maps that server-side apply replaces as a whole.
const ATOMIC_FIELDS: &[(&str, &str)] =
    &[("api.core.v1.PodSpec", "nodeSelector"), ("api.core.v1.ServiceSpec", "selector")];

/// Schema defaults; whatever needs more than a constant is up to the kind's strategy.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("api.core.v1.AzureDiskVolumeSource", "cachingMode", "ReadWrite"),
    ("api.core.v1.AzureDiskVolumeSource", "fsType", "ext4"),
    ("api.core.v1.AzureDiskVolumeSource", "kind", "Shared"),
    ("api.core.v1.ContainerPort", "protocol", "TCP"),
    ("api.core.v1.ISCSIVolumeSource", "iscsiInterface", "default"),
    ("api.core.v1.RBDVolumeSource", "keyring", "/etc/ceph/keyring"),
    ("api.core.v1.RBDVolumeSource", "pool", "rbd"),
    ("api.core.v1.RBDVolumeSource", "user", "admin"),
    ("api.core.v1.ScaleIOVolumeSource", "fsType", "xfs"),
    ("api.core.v1.ScaleIOVolumeSource", "storageMode", "ThinProvisioned"),
    ("api.core.v1.ServicePort", "protocol", "TCP"),
];

fn short(name: &str) -> &str {
    name.strip_prefix("io.k8s.").unwrap_or(name)
}

/// How one field of a type merges, if it is anything but an atomic list or a plain object.
pub(super) fn merge(ty: &str, field: &str) -> Option<&'static Merge> {
    let key = (short(ty), field);
    let index = MERGES.binary_search_by(|(t, f, _)| (*t, *f).cmp(&key)).ok()?;
    MERGES.get(index).map(|(_, _, merge)| merge)
}

/// Whether a type is replaced as a whole.
pub(super) fn is_atomic_type(ty: &str) -> bool {
    ATOMIC_TYPES.contains(&short(ty))
}

/// Whether a map field is replaced as a whole.
pub(super) fn is_atomic_field(ty: &str, field: &str) -> bool {
    ATOMIC_FIELDS.contains(&(short(ty), field))
}

/// The default of a field.
pub(super) fn default(ty: &str, field: &str) -> Option<&'static str> {
    let ty = short(ty);
    DEFAULTS.iter().find(|(t, f, _)| *t == ty && *f == field).map(|(_, _, value)| *value)
}

/// Every type and field that has a fact, for the test that they all exist.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (String, Option<&'static str>)> {
    let full = |ty: &str| format!("io.k8s.{ty}");
    let fields = MERGES.iter().map(|(t, f, _)| (*t, *f)).chain(ATOMIC_FIELDS.iter().copied());
    let fields = fields.chain(DEFAULTS.iter().map(|(t, f, _)| (*t, *f)));
    fields.map(move |(t, f)| (full(t), Some(f))).chain(ATOMIC_TYPES.iter().map(move |t| (full(t), None)))
}
