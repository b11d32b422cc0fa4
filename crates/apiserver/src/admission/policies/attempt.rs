//! What somebody attempts, as policies see it.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::access::User;
use crate::resource::Resource;

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Create,
    Update,
    Delete,
    Connect,
}

impl Act {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The kind of what is sent to a subresource, where it is another than the resource's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Other {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
}

impl Other {
    pub(crate) const SCALE: Self = Self { group: "autoscaling", version: "v1", kind: "Scale" };
    pub(crate) const BINDING: Self = Self { group: "", version: "v1", kind: "Binding" };
    pub(crate) const PORT_FORWARD: Self = Self { group: "", version: "v1", kind: "PodPortForwardOptions" };
    pub(crate) const TOKEN_REQUEST: Self =
        Self { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest" };
}

/// One request that changes something, before it does.
pub(crate) struct Attempt<'a> {
    pub operation: Act,
    pub resource: &'a Resource,
    pub subresource: &'a str,
    pub kind: Option<Other>,
    /// Empty for cluster-scoped objects; a namespace is in itself.
    pub namespace: &'a str,
    /// Empty where the server makes it up, or several objects are meant.
    pub name: &'a str,
    pub object: Option<Cow<'a, Value>>,
    pub old: Option<Cow<'a, Value>>,
    pub options: Value,
    pub dry_run: bool,
    pub user: &'a User,
}

impl Attempt<'_> {
    pub(super) fn is_of_namespaces(&self) -> bool {
        self.resource.group.is_empty() && self.resource.plural == "namespaces"
    }

    /// The variable `request`; `matched` is the resource in the version that the policy asks for.
    pub(super) fn request(&self, matched: &Resource) -> Value {
        let kind = |resource: &Resource| match self.kind {
            Some(Other { group, version, kind }) => json!({"group": group, "version": version, "kind": kind}),
            None => json!({"group": resource.group, "version": resource.version, "kind": resource.kind}),
        };
        let plural = |resource: &Resource| json!({"group": resource.group, "version": resource.version, "resource": resource.plural});
        let mut request = json!({
            "uid": "",
            "kind": kind(matched),
            "resource": plural(matched),
            "requestKind": kind(self.resource),
            "requestResource": plural(self.resource),
            "operation": self.operation.name(),
            "userInfo": user_info(self.user),
            "object": null,
            "oldObject": null,
            "dryRun": self.dry_run,
            "options": self.options,
        });
        let texts = [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ];
        for (field, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            request[field] = json!(text);
        }
        request
    }
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".into(), json!(user.name));
    if !user.uid.is_empty() {
        info.insert("uid".into(), json!(user.uid));
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    Value::Object(info)
}
