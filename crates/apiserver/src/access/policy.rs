//! The roles and bindings of one moment, compiled for lookups, and kept until one of them changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, RwLock};

use causeway_base::lock::{read, write};
use serde_json::Value;

use super::attributes::Decision;
use super::rule::Rule;
use super::{Attributes, Objects, User, service_account_name};
use crate::error::qualified;
use crate::object::{self, name, namespace};

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
const COLLECTIONS: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];

/// The compiled policy and the collections' revisions it was made from.
#[derive(Default)]
pub(super) struct PolicyCache {
    compiled: RwLock<Option<([u64; 4], Arc<Policy>)>>,
}

impl PolicyCache {
    pub(super) fn current(&self, objects: &dyn Objects) -> Arc<Policy> {
        // Read before the objects: a change in between makes the result look older than it is, never newer.
        let revisions = COLLECTIONS.map(|plural| objects.last_change(RBAC, plural));
        if let Some((made_from, policy)) = &*read(&self.compiled)
            && *made_from == revisions
        {
            return policy.clone();
        }
        let policy = Arc::new(Policy::compile(objects));
        *write(&self.compiled) = Some((revisions, policy.clone()));
        policy
    }
}

/// Who may do what.
#[derive(Default)]
pub(super) struct Policy {
    cluster_roles: BTreeMap<String, Arc<[Rule]>>,
    roles: HashMap<(String, String), Arc<[Rule]>>,
    cluster_bindings: Vec<Binding>,
    bindings: HashMap<String, Vec<Binding>>,
}

struct Binding {
    /// `ClusterRoleBinding "x" of ClusterRole "y"`
    title: String,
    subjects: Vec<Subject>,
    /// What the binding grants, or why that is unknown.
    rules: Result<Arc<[Rule]>, String>,
}

struct Subject {
    title: String,
    matcher: Matcher,
}

enum Matcher {
    User(String),
    Group(String),
}

/// The rules a user has, and the bindings that could not be resolved.
pub(super) struct Rights {
    pub rules: Vec<Rule>,
    pub errors: Vec<String>,
}

impl Policy {
    fn compile(objects: &dyn Objects) -> Self {
        let [cluster_roles, cluster_bindings, roles, bindings] =
            COLLECTIONS.map(|plural| objects.objects(RBAC, plural));
        let mut policy = Self { cluster_roles: resolve_aggregation(&cluster_roles), ..Self::default() };
        for role in &roles {
            let key = (namespace(role).to_owned(), name(role).to_owned());
            policy.roles.insert(key, Rule::list(role).into());
        }
        policy.cluster_bindings =
            cluster_bindings.iter().map(|b| policy.binding(b, "ClusterRoleBinding")).collect();
        let mut by_namespace: HashMap<String, Vec<Binding>> = HashMap::new();
        for binding in &bindings {
            let compiled = policy.binding(binding, "RoleBinding");
            by_namespace.entry(namespace(binding).to_owned()).or_default().push(compiled);
        }
        policy.bindings = by_namespace;
        policy
    }

    fn binding(&self, binding: &Value, kind: &str) -> Binding {
        let place = namespace(binding);
        let own_name = name(binding);
        let own_title = if place.is_empty() { own_name.to_owned() } else { format!("{own_name}/{place}") };
        let role_kind = binding["roleRef"]["kind"].as_str().unwrap_or_default();
        let role_name = binding["roleRef"]["name"].as_str().unwrap_or_default();
        Binding {
            title: format!("{kind} {own_title:?} of {role_kind} {role_name:?}"),
            subjects: binding["subjects"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|s| subject(s, place))
                .collect(),
            rules: self.role_rules(role_kind, role_name, place).ok_or_else(|| {
                if matches!(role_kind, "Role" | "ClusterRole") {
                    format!("{} {role_name:?} not found", qualified(RBAC, &role_kind.to_lowercase()))
                } else {
                    format!("unsupported role reference kind: {role_kind:?}")
                }
            }),
        }
    }

    /// The rules of the role that a binding in `namespace` refers to.
    pub(super) fn role_rules(&self, kind: &str, name: &str, namespace: &str) -> Option<Arc<[Rule]>> {
        match kind {
            "ClusterRole" => self.cluster_roles.get(name).cloned(),
            "Role" => self.roles.get(&(namespace.to_owned(), name.to_owned())).cloned(),
            _ => None,
        }
    }

    pub(super) fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        let mut errors = Vec::new();
        for (binding, subject) in self.applying(user, attributes.namespace) {
            match &binding.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    let reason = format!("RBAC: allowed by {} to {}", binding.title, subject.title);
                    return Decision { allowed: true, reason };
                }
                Ok(_) => {}
                Err(error) => push_once(&mut errors, error),
            }
        }
        let reason = match errors.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        };
        Decision { allowed: false, reason }
    }

    /// Everything `user` may do in `namespace`, with what holds in all of them.
    pub(super) fn rights(&self, user: &User, namespace: &str) -> Rights {
        let mut rights = Rights { rules: Vec::new(), errors: Vec::new() };
        for (binding, _) in self.applying(user, namespace) {
            match &binding.rules {
                Ok(rules) => rights.rules.extend(rules.iter().cloned()),
                Err(error) => push_once(&mut rights.errors, error),
            }
        }
        rights
    }

    fn applying<'a>(
        &'a self,
        user: &'a User,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Binding, &'a Subject)> {
        let local = self.bindings.get(namespace).into_iter().flatten();
        self.cluster_bindings.iter().chain(local).filter_map(move |binding| {
            binding.subjects.iter().find(|s| s.is(user)).map(|subject| (binding, subject))
        })
    }
}

impl Subject {
    fn is(&self, user: &User) -> bool {
        match &self.matcher {
            Matcher::User(name) => *name == user.name,
            Matcher::Group(group) => user.is_in(group),
        }
    }
}

/// A ServiceAccount without a namespace is one of the binding's namespace.
fn subject(subject: &Value, binding_namespace: &str) -> Option<Subject> {
    let text = |key: &str| subject[key].as_str().unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    let title = |name: &str| format!("{kind} {name:?}");
    match kind {
        "User" => Some(Subject { title: title(name), matcher: Matcher::User(name.to_owned()) }),
        "Group" => Some(Subject { title: title(name), matcher: Matcher::Group(name.to_owned()) }),
        "ServiceAccount" => {
            let namespace = match text("namespace") {
                "" => binding_namespace,
                explicit => explicit,
            };
            (!namespace.is_empty()).then(|| Subject {
                title: title(&format!("{name}/{namespace}")),
                matcher: Matcher::User(service_account_name(namespace, name)),
            })
        }
        _ => None,
    }
}

fn push_once(errors: &mut Vec<String>, error: &str) {
    if !errors.iter().any(|e| e == error) {
        errors.push(error.to_owned());
    }
}

/// The rules of each ClusterRole; one with an `aggregationRule` has those of all roles its selectors reach, also
/// through other aggregating roles.
fn resolve_aggregation(cluster_roles: &[Value]) -> BTreeMap<String, Arc<[Rule]>> {
    let mut cluster_roles: Vec<&Value> = cluster_roles.iter().collect();
    // The order of the result must not depend on the order of the objects, or it would look changed.
    cluster_roles.sort_by_key(|role| name(role));
    let labels: Vec<_> = cluster_roles.iter().map(|role| object::labels(role)).collect();
    let matching = |role: &Value| {
        let selectors = selectors(role);
        (0..labels.len()).filter(|&i| selectors.iter().any(|s| selects(s, &labels[i]))).collect::<Vec<_>>()
    };
    let mut resolved = BTreeMap::new();
    for (start, role) in cluster_roles.iter().enumerate() {
        let mut reached = BTreeSet::from([start]);
        let mut waiting = vec![start];
        while let Some(index) = waiting.pop() {
            waiting.extend(matching(cluster_roles[index]).into_iter().filter(|&i| reached.insert(i)));
        }
        let mut rules: Vec<Rule> = Vec::new();
        let own = reached.into_iter().map(|i| cluster_roles[i]).filter(|role| selectors(role).is_empty());
        for rule in own.flat_map(Rule::list) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        resolved.insert(name(role).to_owned(), rules.into());
    }
    resolved
}

/// Aggregating roles whose `rules` are out of date, brought up to date.
pub(super) fn stale_aggregates(cluster_roles: &[Value]) -> Vec<Value> {
    let resolved = resolve_aggregation(cluster_roles);
    let mut stale = Vec::new();
    for role in cluster_roles.iter().filter(|role| !selectors(role).is_empty()) {
        let Some(rules) = resolved.get(name(role)) else {
            continue;
        };
        if Rule::list(role) != **rules {
            let mut role = role.clone();
            role["rules"] = rules.iter().map(Rule::to_json).collect();
            stale.push(role);
        }
    }
    stale
}

fn selectors(role: &Value) -> &[Value] {
    role["aggregationRule"]["clusterRoleSelectors"].as_array().map_or(&[], Vec::as_slice)
}

/// Whether a `LabelSelector` selects an object with these labels.
fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str());
    equal && selector["matchExpressions"].as_array().into_iter().flatten().all(|e| satisfies(e, labels))
}

fn satisfies(expression: &Value, labels: &BTreeMap<String, String>) -> bool {
    let actual = labels.get(expression["key"].as_str().unwrap_or_default());
    let listed = || {
        let values = expression["values"].as_array().into_iter().flatten();
        actual.is_some_and(|actual| values.filter_map(Value::as_str).any(|v| v == actual))
    };
    match expression["operator"].as_str() {
        Some("In") => listed(),
        Some("NotIn") => !listed(),
        Some("Exists") => actual.is_some(),
        Some("DoesNotExist") => actual.is_none(),
        _ => false,
    }
}
