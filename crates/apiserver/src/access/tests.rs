//! Tables of requests against a small list of objects.

mod authentication;
mod authorization;
mod escalation;
mod reviews;

use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::*;
use crate::object::{name, namespace};

/// Stored objects with their group and plural.
#[derive(Default)]
pub(crate) struct Fake {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    changes: u64,
    objects: Vec<(String, String, Value)>,
}

impl Fake {
    fn put(&self, group: &str, plural: &str, object: Value) {
        let mut guard = self.inner.lock().unwrap();
        guard.changes += 1;
        guard.objects.retain(|(g, p, o)| {
            g != group || p != plural || name(o) != name(&object) || namespace(o) != namespace(&object)
        });
        guard.objects.push((group.to_owned(), plural.to_owned(), object));
    }

    fn remove(&self, plural: &str, wanted: &str) {
        let mut guard = self.inner.lock().unwrap();
        guard.changes += 1;
        guard.objects.retain(|(_, p, o)| p != plural || name(o) != wanted);
    }
}

impl Objects for Fake {
    fn object(&self, group: &str, plural: &str, ns: &str, wanted: &str) -> Option<Value> {
        self.objects(group, plural).into_iter().find(|o| namespace(o) == ns && name(o) == wanted)
    }

    fn objects(&self, group: &str, plural: &str) -> Vec<Value> {
        let guard = self.inner.lock().unwrap();
        guard
            .objects
            .iter()
            .filter(|(g, p, _)| g == group && p == plural)
            .map(|(_, _, o)| o.clone())
            .collect()
    }

    fn last_change(&self, _group: &str, _plural: &str) -> u64 {
        self.inner.lock().unwrap().changes
    }
}

/// A server with the default roles, ServiceAccount `apps/robot` and its pod.
pub(crate) fn server() -> (Arc<Fake>, Access) {
    let objects = Arc::new(Fake::default());
    for role in default_roles() {
        rbac(&objects, role);
    }
    let meta = |name: &str, uid: &str| json!({ "name": name, "namespace": "apps", "uid": uid });
    objects.put("", "serviceaccounts", json!({ "metadata": meta("robot", "sa-1") }));
    let spec = json!({ "serviceAccountName": "robot", "nodeName": "here" });
    objects.put("", "pods", json!({ "metadata": meta("robot-0", "pod-1"), "spec": spec }));
    objects.put("", "secrets", json!({ "metadata": meta("keys", "secret-1") }));
    objects.put("", "nodes", json!({ "metadata": { "name": "here", "uid": "node-1" } }));
    let access = Access::new(&Pki::ephemeral().unwrap(), objects.clone());
    (objects, access)
}

/// Stores a role or binding under the plural of its kind.
fn rbac(objects: &Fake, object: Value) {
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    objects.put(policy::RBAC, &plural, object);
}

fn role(ns: &str, name: &str, rules: Value) -> Value {
    let kind = if ns.is_empty() { "ClusterRole" } else { "Role" };
    json!({ "kind": kind, "metadata": { "name": name, "namespace": ns }, "rules": rules })
}

/// Binds a ClusterRole, or a Role as `Role/name`, to a user.
fn bind(ns: &str, role: &str, user: &str) -> Value {
    let kind = if ns.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let (role_kind, role) = role.split_once('/').unwrap_or(("ClusterRole", role));
    json!({
        "kind": kind,
        "metadata": { "name": format!("{user}-{role}"), "namespace": ns },
        "roleRef": { "kind": role_kind, "name": role },
        "subjects": [{ "kind": "User", "name": user }],
    })
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (key, value) in pairs {
        map.append(HeaderName::try_from(*key).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    map
}

fn bearer(token: &str) -> HeaderMap {
    headers(&[("authorization", &format!("Bearer {token}"))])
}

pub(crate) fn robot_token(access: &Access, spec: Value) -> String {
    let answer = access.request_token("apps", "robot", json!({ "spec": spec })).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// `verb resource[/subresource][.group] [in NAMESPACE] [named NAME]`, or `verb /path`.
fn parse(text: &str) -> Attributes<'_> {
    let mut words = text.split(' ');
    let mut attributes = Attributes { verb: words.next().unwrap(), ..Attributes::default() };
    let target = words.next().unwrap();
    if target.starts_with('/') {
        attributes.path = Some(target);
    } else {
        let (resource, group) = target.split_once('.').unwrap_or((target, ""));
        attributes.group = group;
        (attributes.resource, attributes.subresource) = resource.split_once('/').unwrap_or((resource, ""));
    }
    while let Some(word) = words.next() {
        let value = words.next().unwrap();
        match word {
            "in" => attributes.namespace = value,
            "named" => attributes.name = value,
            other => panic!("unknown word {other}"),
        }
    }
    attributes
}
