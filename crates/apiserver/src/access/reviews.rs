//! The kinds that are questions: created with a `spec`, answered with a `status`, stored nowhere. They are what
//! `kubectl auth can-i`, `kubectl auth whoami` and delegating servers use.

mod token_request;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::attributes::Decision;
use super::{Access, Attributes, User, token};
use crate::error::{ApiError, FieldError};
use crate::object::namespace;

/// Which question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "these are the kinds' own names")]
pub(crate) enum ReviewKind {
    TokenReview,
    SelfSubjectReview,
    SubjectAccessReview,
    SelfSubjectAccessReview,
    LocalSubjectAccessReview,
    SelfSubjectRulesReview,
}

impl ReviewKind {
    pub(crate) const ALL: [Self; 6] = [
        Self::TokenReview,
        Self::SelfSubjectReview,
        Self::SubjectAccessReview,
        Self::SelfSubjectAccessReview,
        Self::LocalSubjectAccessReview,
        Self::SelfSubjectRulesReview,
    ];

    /// The kind served at a group and plural; all are of version `v1`.
    pub(crate) fn find(group: &str, plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.group() == group && kind.plural() == plural)
    }

    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::TokenReview | Self::SelfSubjectReview => "authentication.k8s.io",
            _ => "authorization.k8s.io",
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::TokenReview => "TokenReview",
            Self::SelfSubjectReview => "SelfSubjectReview",
            Self::SubjectAccessReview => "SubjectAccessReview",
            Self::SelfSubjectAccessReview => "SelfSubjectAccessReview",
            Self::LocalSubjectAccessReview => "LocalSubjectAccessReview",
            Self::SelfSubjectRulesReview => "SelfSubjectRulesReview",
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::TokenReview => "tokenreviews",
            Self::SelfSubjectReview => "selfsubjectreviews",
            Self::SubjectAccessReview => "subjectaccessreviews",
            Self::SelfSubjectAccessReview => "selfsubjectaccessreviews",
            Self::LocalSubjectAccessReview => "localsubjectaccessreviews",
            Self::SelfSubjectRulesReview => "selfsubjectrulesreviews",
        }
    }
}

impl Access {
    /// Answers a review that `user` creates; `request_namespace` is that of the URL, for namespaced kinds.
    pub(crate) fn review(
        &self,
        user: &User,
        kind: ReviewKind,
        request_namespace: Option<&str>,
        mut body: Value,
    ) -> Result<Value, ApiError> {
        if !body["spec"].is_object() {
            body["spec"] = json!({});
        }
        let spec = &body["spec"];
        let status = match kind {
            ReviewKind::TokenReview => self.review_token(spec)?,
            ReviewKind::SelfSubjectReview => json!({ "userInfo": user_info(user) }),
            ReviewKind::SubjectAccessReview => {
                check_spec(kind, spec, true)?;
                access_status(self.decide_spec(&spec_user(spec), spec))
            }
            ReviewKind::SelfSubjectAccessReview => {
                check_spec(kind, spec, false)?;
                access_status(self.decide_spec(user, spec))
            }
            ReviewKind::LocalSubjectAccessReview => {
                check_spec(kind, spec, true)?;
                check_local(kind, &body, request_namespace.unwrap_or_default())?;
                access_status(self.decide_spec(&spec_user(spec), spec))
            }
            ReviewKind::SelfSubjectRulesReview => self.review_rules(user, spec)?,
        };
        if kind == ReviewKind::SelfSubjectReview
            && let Some(review) = body.as_object_mut()
        {
            review.remove("spec");
        }
        if !body["metadata"].is_object() {
            body["metadata"] = json!({});
        }
        body["apiVersion"] = json!(format!("{}/v1", kind.group()));
        body["kind"] = json!(kind.kind());
        body["status"] = status;
        Ok(body)
    }

    fn review_token(&self, spec: &Value) -> Result<Value, ApiError> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
        }
        let mut audiences = strings(&spec["audiences"]);
        if audiences.is_empty() {
            audiences.push(token::ISSUER.to_owned());
        }
        let audiences: Vec<&str> = audiences.iter().map(String::as_str).collect();
        Ok(match self.token_user(token, &audiences, Timestamp::now()) {
            Ok((user, audiences)) => {
                json!({ "authenticated": true, "user": user_info(&user), "audiences": audiences })
            }
            Err(error) => json!({ "user": {}, "error": error.to_string() }),
        })
    }

    fn review_rules(&self, user: &User, spec: &Value) -> Result<Value, ApiError> {
        let namespace = text(&spec["namespace"]);
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let rights = self.policy.current(self.objects.as_ref()).rights(user, namespace);
        let (mut resources, mut urls) = (Vec::new(), Vec::new());
        for rule in &rights.rules {
            if !rule.resources.is_empty() {
                let mut entry = json!({
                    "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources,
                });
                if !rule.names.is_empty() {
                    entry["resourceNames"] = json!(rule.names);
                }
                resources.push(entry);
            }
            if !rule.urls.is_empty() {
                urls.push(json!({ "verbs": rule.verbs, "nonResourceURLs": rule.urls }));
            }
        }
        let mut status = json!({ "resourceRules": resources, "nonResourceRules": urls, "incomplete": false });
        if !rights.errors.is_empty() {
            status["evaluationError"] = json!(rights.errors.join(", "));
        }
        Ok(status)
    }

    fn decide_spec(&self, user: &User, spec: &Value) -> Decision {
        let non_resource = &spec["nonResourceAttributes"];
        if non_resource.is_object() {
            let verb = text(&non_resource["verb"]);
            let path = Some(text(&non_resource["path"]));
            return self.decide(user, &Attributes { verb, path, ..Attributes::default() });
        }
        let resource = &spec["resourceAttributes"];
        let attributes = Attributes {
            verb: text(&resource["verb"]),
            group: text(&resource["group"]),
            resource: text(&resource["resource"]),
            subresource: text(&resource["subresource"]),
            namespace: text(&resource["namespace"]),
            name: text(&resource["name"]),
            path: None,
        };
        self.decide(user, &attributes)
    }
}

fn check_spec(kind: ReviewKind, spec: &Value, names_user: bool) -> Result<(), ApiError> {
    let (resource, non_resource) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = Vec::new();
    if resource.is_object() && non_resource.is_object() {
        let detail = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", non_resource, detail));
    }
    if !resource.is_object() && !non_resource.is_object() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, detail));
    }
    if names_user && text(&spec["user"]).is_empty() && strings(&spec["groups"]).is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid("spec.user", &json!(""), detail));
    }
    invalid_if_any(kind, &errors)
}

/// A namespace's own review may only ask about that namespace.
fn check_local(kind: ReviewKind, body: &Value, request_namespace: &str) -> Result<(), ApiError> {
    let own = namespace(body);
    if !own.is_empty() && own != request_namespace {
        return Err(ApiError::bad_request(format!(
            "spec.resourceAttributes.namespace must match namespace: {request_namespace}"
        )));
    }
    let spec = &body["spec"];
    let mut errors = Vec::new();
    let asked = &spec["resourceAttributes"]["namespace"];
    if spec["resourceAttributes"].is_object() && text(asked) != request_namespace {
        let path = "spec.resourceAttributes.namespace";
        errors.push(FieldError::invalid(path, &json!(text(asked)), "must match metadata.namespace"));
    }
    if spec["nonResourceAttributes"].is_object() {
        let detail = "disallowed on this kind of request";
        errors.push(FieldError::invalid(
            "spec.nonResourceAttributes",
            &spec["nonResourceAttributes"],
            detail,
        ));
    }
    invalid_if_any(kind, &errors)
}

fn invalid_if_any(kind: ReviewKind, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(kind.group(), kind.kind(), "", errors)) }
}

fn access_status(decision: Decision) -> Value {
    let mut status = json!({ "allowed": decision.allowed });
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    status
}

fn spec_user(spec: &Value) -> User {
    let extra: BTreeMap<_, _> = spec["extra"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.to_lowercase(), strings(values)))
        .collect();
    User {
        name: text(&spec["user"]).to_owned(),
        uid: text(&spec["uid"]).to_owned(),
        groups: strings(&spec["groups"]),
        extra,
    }
}

/// A user as the `UserInfo` of the review kinds.
fn user_info(user: &User) -> Value {
    let mut info = Map::from_iter([("username".to_owned(), json!(user.name))]);
    if !user.uid.is_empty() {
        info.insert("uid".to_owned(), json!(user.uid));
    }
    if !user.groups.is_empty() {
        info.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    Value::Object(info)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
