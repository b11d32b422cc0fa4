//! What a proxy may do: read its own object and write its status, by name; read what it is supplied with; and read Services
//! and EndpointSlices where it may use all of them: in its own namespace, and in those that grant all of theirs. Nothing
//! else, and nowhere else: EndpointSlices can't be given by the name of their Service, so of a namespace that grants some
//! Services only, the operator supplies those.

use causeway_api::names;
use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::Subject;
use crate::vlan::access::{OPENSHIFT_CLUSTER_ROLE, bind, rule};

/// The Role beside the proxy, and one in each other namespace that it may read.
pub(crate) fn roles(subject: &Subject<'_>) -> Vec<Role> {
    let own = names::GROUP;
    let mut rules = vec![
        rule(own, &["proxyservers"], &["get", "list", "watch"], &[&subject.name]),
        rule(own, &["proxyservers/status"], &["patch"], &[&subject.name]),
        rule(own, &["supplies"], &["get", "list", "watch"], &[]),
    ];
    if subject.targets.contains(subject.namespace.as_str()) {
        rules.extend(reading());
    }
    let mut roles = vec![Role { metadata: subject.metadata(subject.account()), rules: Some(rules) }];
    roles.extend(elsewhere(subject).map(|metadata| Role { metadata, rules: Some(reading()) }));
    roles
}

/// The binding of each Role, and where asked for the one to OpenShift's constraints.
pub(crate) fn role_bindings(subject: &Subject<'_>) -> Vec<RoleBinding> {
    let bind = |metadata: ObjectMeta, kind: &str, role: &str| {
        bind(metadata, (kind, role), (&subject.namespace, &subject.account()))
    };
    let mut bindings = vec![bind(subject.metadata(subject.account()), "Role", &subject.account())];
    bindings.extend(elsewhere(subject).map(|metadata| bind(metadata, "Role", &remote_name(subject))));
    if subject.settings.openshift {
        let metadata = subject.metadata(format!("{}-nonroot-scc", subject.name));
        bindings.push(bind(metadata, "ClusterRole", OPENSHIFT_CLUSTER_ROLE));
    }
    bindings
}

/// The objects' metadata in every other namespace that the proxy may read.
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
    vec![rule("", &["services"], &read, &[]), rule("discovery.k8s.io", &["endpointslices"], &read, &[])]
}
