//! Parts that the rights of pods are made of.

use k8s_openapi::{
    api::rbac::v1::{PolicyRule, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// The least of OpenShift's constraints that let a pod choose its own non-root user; `restricted-v2` gives one of the
/// namespace's range and refuses a fixed one.
pub(crate) const OPENSHIFT_CLUSTER_ROLE: &str = "system:openshift:scc:nonroot-v2";

/// Gives a role, by kind and name, to an account, by namespace and name.
pub(crate) fn bind(
    metadata: ObjectMeta,
    (kind, role): (&str, &str),
    (namespace, account): (&str, &str),
) -> RoleBinding {
    RoleBinding {
        metadata,
        role_ref: RoleRef { api_group: RBAC_GROUP.to_owned(), kind: kind.to_owned(), name: role.to_owned() },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(namespace.to_owned()),
            ..Subject::default()
        }]),
    }
}

/// These verbs on these resources, or on those of these names alone.
pub(crate) fn rule(group: &str, resources: &[&str], verbs: &[&str], names: &[&str]) -> PolicyRule {
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(list(resources)),
        verbs: list(verbs),
        resource_names: (!names.is_empty()).then(|| list(names)),
        ..PolicyRule::default()
    }
}
