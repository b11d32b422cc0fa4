//! Nobody grants more than they have: writes of roles need the rights they list (or the verb `escalate`), writes
//! of bindings those of the role they bind (or the verb `bind`).

use std::fmt::Write;

use serde_json::Value;

use super::attributes::refused;
use super::policy::{Policy, RBAC};
use super::rule::{Rule, describe_all, quoted_list};
use super::{Access, Attributes, SYSTEM_MASTERS, User};
use crate::error::ApiError;
use crate::object::{name, namespace};

impl Access {
    /// Checks a create or update (`old` is the stored object) of `roles`, `clusterroles`, `rolebindings` or
    /// `clusterrolebindings`; other resources pass.
    pub(crate) fn check_escalation(
        &self,
        user: &User,
        resource: &str,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        if user.is_in(SYSTEM_MASTERS) {
            return Ok(());
        }
        match resource {
            "roles" | "clusterroles" => self.check_role(user, resource, object, old),
            "rolebindings" | "clusterrolebindings" => self.check_binding(user, resource, object, old),
            _ => Ok(()),
        }
    }

    fn check_role(
        &self,
        user: &User,
        resource: &str,
        role: &Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let same =
            |old: &Value| old["rules"] == role["rules"] && old["aggregationRule"] == role["aggregationRule"];
        if old.is_some_and(same) || self.may(user, "escalate", resource, namespace(role), name(role)) {
            return Ok(());
        }
        let policy = self.policy.current(self.objects.as_ref());
        check_rules(&policy, user, resource, role, &Rule::list(role))?;
        if role["aggregationRule"].is_object() {
            // Whatever will ever carry the selected labels is granted too.
            let everything = [
                Rule { verbs: star(), groups: star(), resources: star(), ..Rule::default() },
                Rule { verbs: star(), urls: star(), ..Rule::default() },
            ];
            let owned = policy.rights(user, "").rules;
            if everything.iter().any(|rule| !rule.not_covered_by(&owned).is_empty()) {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(refused(RBAC, resource, name(role), why));
            }
        }
        Ok(())
    }

    fn check_binding(
        &self,
        user: &User,
        resource: &str,
        binding: &Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let unchanged =
            |old: &Value| old["roleRef"] == binding["roleRef"] && old["subjects"] == binding["subjects"];
        if old.is_some_and(unchanged) {
            return Ok(());
        }
        let kind = binding["roleRef"]["kind"].as_str().unwrap_or_default();
        let role = binding["roleRef"]["name"].as_str().unwrap_or_default();
        let roles = if kind == "Role" { "roles" } else { "clusterroles" };
        if self.may(user, "bind", roles, namespace(binding), role) {
            return Ok(());
        }
        let policy = self.policy.current(self.objects.as_ref());
        let rules = policy
            .role_rules(kind, role, namespace(binding))
            .ok_or_else(|| ApiError::not_found(RBAC, roles, role))?;
        check_rules(&policy, user, resource, binding, &rules)
    }

    fn may(&self, user: &User, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let attributes =
            Attributes { verb, group: RBAC, resource, subresource: "", namespace, name, path: None };
        self.decide(user, &attributes).allowed
    }
}

fn star() -> Vec<String> {
    vec!["*".to_owned()]
}

/// Refuses when `rules`, granted by `object`, exceed what `user` has in its namespace.
fn check_rules(
    policy: &Policy,
    user: &User,
    resource: &str,
    object: &Value,
    rules: &[Rule],
) -> Result<(), ApiError> {
    let rights = policy.rights(user, namespace(object));
    let missing: Vec<Rule> = rules.iter().flat_map(|rule| rule.not_covered_by(&rights.rules)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quoted_list(&user.groups),
        describe_all(&missing).join("\n")
    );
    if !rights.errors.is_empty() {
        let _ = write!(why, "; resolution errors: [{}]", rights.errors.join(", "));
    }
    Err(refused(RBAC, resource, name(object), &why))
}
