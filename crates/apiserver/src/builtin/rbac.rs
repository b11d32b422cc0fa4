//! Roles, ClusterRoles and their bindings.

use serde_json::Value;

use super::check::{Errors, join};
use super::json::{child, fill_empty, items, items_mut, text};
use super::kind::Kind;
use super::print;
use super::syntax;
use crate::error::FieldError;
use crate::resource::{Resource, Strategy};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn kinds() -> Vec<Resource> {
    let kind = |kind: &str, plural: &str| Kind::new(GROUP, "v1", kind, plural);
    vec![
        kind("Role", "roles")
            .columns(print::CREATED, print::created)
            .strategy(Role { namespaced: true })
            .build(),
        kind("ClusterRole", "clusterroles")
            .cluster_scoped()
            .columns(print::CREATED, print::created)
            .strategy(Role { namespaced: false })
            .build(),
        kind("RoleBinding", "rolebindings")
            .columns(print::BINDING, print::binding)
            .strategy(Binding { namespaced: true })
            .build(),
        kind("ClusterRoleBinding", "clusterrolebindings")
            .cluster_scoped()
            .columns(print::BINDING, print::binding)
            .strategy(Binding { namespaced: false })
            .build(),
    ]
}

struct Role {
    namespaced: bool,
}

impl Strategy for Role {
    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        for (i, rule) in items(new, "rules").iter().enumerate() {
            self.rule(rule, &format!("rules[{i}]"), &mut errors);
        }
        let aggregation = &new["aggregationRule"];
        if !self.namespaced && aggregation.is_object() {
            let path = "aggregationRule.clusterRoleSelectors";
            let selectors = items(aggregation, "clusterRoleSelectors");
            if selectors.is_empty() {
                let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                errors.required(path, detail);
            }
            for (i, selector) in selectors.iter().enumerate() {
                errors.selector(selector, &format!("{path}[{i}]"));
            }
        }
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }
}

impl Role {
    fn rule(&self, rule: &Value, path: &str, errors: &mut Errors) {
        let empty = |key: &str| items(rule, key).is_empty();
        if empty("verbs") {
            errors.required(join(path, "verbs"), "verbs must contain at least one value");
        }
        if !empty("nonResourceURLs") {
            let (at, urls) = (join(path, "nonResourceURLs"), &rule["nonResourceURLs"]);
            if self.namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errors.invalid(at.clone(), urls.clone(), detail);
            }
            if !["apiGroups", "resources", "resourceNames"].into_iter().all(empty) {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(at, urls.clone(), detail);
            }
            return;
        }
        if empty("apiGroups") {
            errors.required(join(path, "apiGroups"), "resource rules must supply at least one api group");
        }
        if empty("resources") {
            errors.required(join(path, "resources"), "resource rules must supply at least one resource");
        }
    }
}

struct Binding {
    namespaced: bool,
}

impl Strategy for Binding {
    fn default(&self, binding: &mut Value) {
        if let Some(role) = child(binding, "roleRef") {
            fill_empty(role, "apiGroup", GROUP);
        }
        for subject in items_mut(binding, "subjects") {
            if matches!(text(subject, "kind"), "User" | "Group") {
                fill_empty(subject, "apiGroup", GROUP);
            }
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors::default();
        let role = &new["roleRef"];
        one_of(role, "roleRef", "apiGroup", &[GROUP], &mut errors);
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        one_of(role, "roleRef", "kind", kinds, &mut errors);
        if errors.need(role, "roleRef", "name") {
            let name = text(role, "name");
            errors.complain("roleRef.name", name, syntax::path_segment(name));
        }
        for (i, subject) in items(new, "subjects").iter().enumerate() {
            self.subject(subject, &format!("subjects[{i}]"), &mut errors);
        }
        if let Some(old) = old {
            errors.unchanged(new, old, "", "roleRef");
        }
        errors.into_vec()
    }

    fn has_generation(&self) -> bool {
        false
    }
}

impl Binding {
    fn subject(&self, subject: &Value, path: &str, errors: &mut Errors) {
        let named = errors.need(subject, path, "name");
        match text(subject, "kind") {
            "ServiceAccount" => {
                let name = text(subject, "name");
                if named {
                    errors.complain(&join(path, "name"), name, syntax::subdomain(name));
                }
                if !text(subject, "apiGroup").is_empty() {
                    one_of(subject, path, "apiGroup", &[""], errors);
                }
                if !self.namespaced && text(subject, "namespace").is_empty() {
                    errors.required(join(path, "namespace"), "");
                }
            }
            "User" | "Group" => one_of(subject, path, "apiGroup", &[GROUP], errors),
            _ => one_of(subject, path, "kind", &["ServiceAccount", "User", "Group"], errors),
        }
    }
}

/// Here an absent value is an unsupported one.
fn one_of(object: &Value, path: &str, key: &str, allowed: &[&str], errors: &mut Errors) {
    let value = text(object, key);
    if !allowed.contains(&value) {
        errors.push(FieldError::not_supported(join(path, key), &value.into(), allowed));
    }
}

#[cfg(test)]
mod tests;
