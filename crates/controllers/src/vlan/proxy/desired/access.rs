//! What a proxy may do: read its own object and write its status, by name, and read Services and EndpointSlices in the
//! namespaces that it forwards to, and where those are not its own, what they grant. Nothing else, and nowhere else.

use causeway_api::names;
use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject as Bound},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::Subject;
use crate::grants::REFERENCE_GRANT;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// The least of OpenShift's constraints that let a pod choose its own non-root user; `restricted-v2` gives one of the
/// namespace's range and refuses a fixed one.
const OPENSHIFT_CLUSTER_ROLE: &str = "system:openshift:scc:nonroot-v2";

/// The Role beside the proxy, and one in each other namespace that it forwards to.
pub(crate) fn roles(subject: &Subject<'_>) -> Vec<Role> {
    let own = names::GROUP;
    let mut rules = vec![
        rule(own, &["proxyservers"], &["get", "list", "watch"], Some(&subject.name)),
        rule(own, &["proxyservers/status"], &["patch"], Some(&subject.name)),
    ];
    if subject.targets.contains(subject.namespace.as_str()) {
        rules.extend(reading());
    }
    let mut roles = vec![Role { metadata: subject.metadata(subject.account()), rules: Some(rules) }];
    let mut there = reading();
    if subject.settings.require_grants {
        let (group, grants) = (REFERENCE_GRANT.group, REFERENCE_GRANT.plural);
        there.push(rule(group, &[grants], &["get", "list", "watch"], None));
    }
    roles.extend(elsewhere(subject).map(|metadata| Role { metadata, rules: Some(there.clone()) }));
    roles
}

/// The binding of each Role, and where asked for the one to OpenShift's constraints.
pub(crate) fn role_bindings(subject: &Subject<'_>) -> Vec<RoleBinding> {
    let bind = |metadata: ObjectMeta, kind: &str, role: &str| RoleBinding {
        metadata,
        role_ref: RoleRef { api_group: RBAC_GROUP.to_owned(), kind: kind.to_owned(), name: role.to_owned() },
        subjects: Some(vec![Bound {
            kind: "ServiceAccount".to_owned(),
            name: subject.account(),
            namespace: Some(subject.namespace.clone()),
            ..Bound::default()
        }]),
    };
    let mut bindings = vec![bind(subject.metadata(subject.account()), "Role", &subject.account())];
    bindings.extend(elsewhere(subject).map(|metadata| bind(metadata, "Role", &remote_name(subject))));
    if subject.settings.openshift {
        let metadata = subject.metadata(format!("{}-nonroot-scc", subject.name));
        bindings.push(bind(metadata, "ClusterRole", OPENSHIFT_CLUSTER_ROLE));
    }
    bindings
}

/// The objects' metadata in every other namespace that the proxy forwards to.
fn elsewhere(subject: &Subject<'_>) -> impl Iterator<Item = ObjectMeta> {
    let others = subject.targets.iter().filter(|namespace| **namespace != subject.namespace);
    others.map(|namespace| ObjectMeta {
        namespace: Some((*namespace).to_owned()),
        ..subject.metadata(remote_name(subject))
    })
}

/// A name that no other proxy's Role has: a namespace has no dot in it, and neither has a proxy's name.
fn remote_name(subject: &Subject<'_>) -> String {
    format!("{}.{}", subject.namespace, subject.account())
}

fn reading() -> Vec<PolicyRule> {
    let read = ["get", "list", "watch"];
    vec![rule("", &["services"], &read, None), rule("discovery.k8s.io", &["endpointslices"], &read, None)]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str], name: Option<&str>) -> PolicyRule {
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(list(resources)),
        verbs: list(verbs),
        resource_names: name.map(|name| vec![name.to_owned()]),
        ..PolicyRule::default()
    }
}
