//! Whoever writes a policy or binding must be able to read its params: what they say can be told from what is denied.

use serde_json::Value;

use super::params::ParamKind;
use super::{GROUP, policy_of};
use crate::access::{Attributes, User};
use crate::error::{ApiError, FieldError};
use crate::object;
use crate::resource::Resource;
use crate::rest::Call;
use crate::server::Server;

impl Server {
    /// For a policy or binding that is well-formed.
    pub(crate) fn check_param_access(
        &self,
        call: &Call<'_>,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let Resource { group, kind, plural, .. } = call.resource;
        if group != GROUP || call.target.subresource.is_some() {
            return Ok(());
        }
        let (field, refused) = match plural.as_str() {
            "validatingadmissionpolicies" => ("paramKind", self.refuse_kind(call.user, new, old)),
            _ => ("paramRef", self.refuse_reference(call.user, new, old)),
        };
        refused.map_or(Ok(()), |why| {
            let error = FieldError::forbidden(format!("spec.{field}"), why);
            Err(ApiError::invalid(group, kind, object::name(new), &[error]))
        })
    }

    fn refuse_kind(&self, user: &User, new: &Value, old: Option<&Value>) -> Option<String> {
        let kind = &new["spec"]["paramKind"];
        if kind.is_null() || old.is_some_and(|old| old["spec"]["paramKind"] == *kind) {
            return None;
        }
        let (group, resource) = self.params_place(kind);
        let attributes = Attributes {
            verb: "get",
            group: &group,
            resource: &resource,
            name: "*",
            namespace: "*",
            ..Attributes::default()
        };
        let text = |field: &str| kind[field].as_str().unwrap_or_default();
        (!self.access.check(user, &attributes).0).then(|| {
            format!(
                "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
                shown(user),
                text("kind"),
                text("apiVersion"),
            )
        })
    }

    fn refuse_reference(&self, user: &User, new: &Value, old: Option<&Value>) -> Option<String> {
        let (spec, reference) = (&new["spec"], &new["spec"]["paramRef"]);
        let same = |old: &Value| {
            old["spec"]["paramRef"] == *reference && old["spec"]["policyName"] == spec["policyName"]
        };
        if reference.is_null() || old.is_some_and(same) {
            return None;
        }
        let policy_name = spec["policyName"].as_str().unwrap_or_default();
        let policy = policy_of(&self.store, policy_name);
        let (group, resource) = match &policy {
            Some(policy) => self.params_place(&policy["spec"]["paramKind"]),
            None => ("*".to_owned(), "*".to_owned()),
        };
        let name = reference["name"].as_str().unwrap_or_default();
        let verb = if name.is_empty() { "list" } else { "get" };
        let attributes = Attributes {
            verb,
            group: &group,
            resource: &resource,
            name,
            namespace: reference["namespace"].as_str().unwrap_or_default(),
            ..Attributes::default()
        };
        if self.access.check(user, &attributes).0 {
            return None;
        }
        let user = shown(user);
        Some(if policy.is_some() {
            format!("user {user} does not have {verb:?} permission on the object referenced by paramRef")
        } else {
            format!(
                "unable to get policy {policy_name} to determine minimum required permissions and user {user} does not have {verb:?} permission for all groups, versions and resources"
            )
        })
    }

    /// The group and plural of params; where that can't be told, all of them.
    fn params_place(&self, kind: &Value) -> (String, String) {
        let any = || "*".to_owned();
        let Some(kind) = ParamKind::new(kind) else { return (any(), any()) };
        let resource = kind.find(self).map_or_else(|_| any(), |resource| resource.plural.clone());
        (kind.group().to_owned(), resource)
    }
}

/// A user as Go prints one.
fn shown(user: &User) -> String {
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
