//! Which requests a policy or binding is about.

use std::sync::Arc;

use serde_json::Value;

use super::attempt::{Act, Attempt};
use crate::builtin::selects;
use crate::resource::Resource;
use crate::server::Server;
use crate::store::{GroupResource, Key};

/// `matchConstraints` of a policy, `matchResources` of a binding.
#[derive(Debug)]
pub(super) struct Matching {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    namespaces: Value,
    objects: Value,
    exact: bool,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

/// What a request is about, as a policy asks for it.
pub(super) enum Matched {
    No,
    AsAsked,
    /// The same objects in another group or version, which the policy names.
    As(Arc<Resource>),
}

impl Matching {
    pub(super) fn new(source: &Value) -> Self {
        let rules =
            |field: &str| source[field].as_array().into_iter().flatten().map(Rule::new).collect::<Vec<_>>();
        Self {
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            namespaces: source["namespaceSelector"].clone(),
            objects: source["objectSelector"].clone(),
            exact: source["matchPolicy"] == "Exact",
        }
    }

    /// The plural names it speaks of; a policy's rules are never empty.
    pub(super) fn plurals(&self) -> impl Iterator<Item = &str> {
        let named = self.rules.iter().flat_map(|rule| &rule.resources);
        named.map(|name| name.split('/').next().unwrap_or_default())
    }

    /// Whether a request is meant, and as what.
    pub(super) fn find(&self, server: &Server, attempt: &Attempt<'_>) -> Result<Matched, String> {
        let in_namespace = self.selects_namespace(server, attempt);
        if in_namespace == Ok(false) || !self.selects_object(attempt) {
            return Ok(Matched::No);
        }
        if !matches!(self.find_among(&self.excluded, server, attempt), Matched::No) {
            return Ok(Matched::No);
        }
        let found = if self.rules.is_empty() {
            Matched::AsAsked
        } else {
            self.find_among(&self.rules, server, attempt)
        };
        // What is wrong with a namespace is told only where the policy is meant otherwise.
        if !matches!(found, Matched::No) {
            in_namespace?;
        }
        Ok(found)
    }

    fn find_among(&self, rules: &[Rule], server: &Server, attempt: &Attempt<'_>) -> Matched {
        if rules.iter().any(|rule| rule.is_for(attempt.resource, attempt)) {
            return Matched::AsAsked;
        }
        if self.exact || rules.is_empty() {
            return Matched::No;
        }
        let (asked, listing) = (attempt.resource, server.catalog.listing());
        let equivalents = listing.iter().filter(|other| {
            other.plural == asked.plural
                && other.storage_group == asked.storage_group
                && (other.group != asked.group || other.version != asked.version)
        });
        let equivalents: Vec<&Arc<Resource>> = equivalents.collect();
        let found = rules
            .iter()
            .find_map(|rule| equivalents.iter().find(|other| rule.is_for(other, attempt)).copied());
        found.map_or(Matched::No, |other| Matched::As(other.clone()))
    }

    /// Objects that are in no namespace are always meant, but for namespaces themselves.
    fn selects_namespace(&self, server: &Server, attempt: &Attempt<'_>) -> Result<bool, String> {
        if is_empty(&self.namespaces) || (attempt.namespace.is_empty() && !attempt.is_of_namespaces()) {
            return Ok(true);
        }
        let is_write = matches!(attempt.operation, Act::Create | Act::Update);
        if attempt.is_of_namespaces() && attempt.subresource.is_empty() && is_write {
            let labels =
                attempt.object.as_deref().map_or(&Value::Null, |object| &object["metadata"]["labels"]);
            return Ok(selects(&self.namespaces, labels));
        }
        let namespace = stored_namespace(server, attempt.namespace)?;
        Ok(selects(&self.namespaces, &namespace["metadata"]["labels"]))
    }

    /// The object as it was counts as well: taking a label away does not free it.
    fn selects_object(&self, attempt: &Attempt<'_>) -> bool {
        is_empty(&self.objects)
            || [&attempt.object, &attempt.old]
                .into_iter()
                .flatten()
                .any(|object| selects(&self.objects, &object["metadata"]["labels"]))
    }
}

pub(super) fn stored_namespace(server: &Server, name: &str) -> Result<Value, String> {
    let key = Key::new(&GroupResource::new("", "namespaces"), "", name);
    let found = server.store.get(&key).ok_or_else(|| format!("namespaces \"{name}\" not found"))?;
    Ok(found.value())
}

fn is_empty(selector: &Value) -> bool {
    let has = |field: &str| match &selector[field] {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    !has("matchLabels") && !has("matchExpressions")
}

impl Rule {
    fn new(source: &Value) -> Self {
        let list = |field: &str| {
            let texts = source[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        Self {
            operations: list("operations"),
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources"),
            names: list("resourceNames"),
            scope: source["scope"].as_str().unwrap_or("*").to_owned(),
        }
    }

    fn is_for(&self, resource: &Resource, attempt: &Attempt<'_>) -> bool {
        let names = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let in_scope = match self.scope.as_str() {
            "Namespaced" => !attempt.is_of_namespaces() && !attempt.namespace.is_empty(),
            "Cluster" => attempt.is_of_namespaces() || attempt.namespace.is_empty(),
            _ => true,
        };
        let is_resource = |named: &String| {
            let (plural, subresource) = named.split_once('/').unwrap_or((named, ""));
            (plural == "*" || plural == resource.plural)
                && (subresource == "*" || subresource == attempt.subresource)
        };
        in_scope
            && names(&self.operations, attempt.operation.name())
            && names(&self.groups, &resource.group)
            && names(&self.versions, &resource.version)
            && self.resources.iter().any(is_resource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == attempt.name))
    }
}
