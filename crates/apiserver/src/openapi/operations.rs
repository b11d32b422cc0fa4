//! One operation on one path.

use serde_json::{Map, Value, json};

/// The content type of a patch that only built-in kinds understand.
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The content types of a patch.
pub(super) const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    STRATEGIC,
];

/// The kind that operations work on, and where.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub namespaced: bool,
    /// Whether the kind comes from a CRD.
    pub custom: bool,
}

/// A query parameter: name, type, what it does.
type Parameter = (&'static str, &'static str, &'static str);

const DRY_RUN: Parameter =
    ("dryRun", "string", "When present, changes are checked but not kept. The only valid value is All.");
const FIELD_MANAGER: Parameter =
    ("fieldManager", "string", "The name of who makes the change; required for apply requests.");
const FIELD_VALIDATION: Parameter = (
    "fieldValidation",
    "string",
    "What to do about unknown or duplicate fields: Ignore, Warn (the default) or Strict.",
);
const FORCE: Parameter =
    ("force", "boolean", "Take over fields that other managers own. For apply requests only.");
const LIST: [Parameter; 9] = [
    ("allowWatchBookmarks", "boolean", "Ask for events of type BOOKMARK in a watch."),
    ("continue", "string", "Where the next page of a list begins, as an earlier answer said."),
    ("fieldSelector", "string", "Only objects whose fields match."),
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "The greatest number of objects in one answer."),
    ("resourceVersion", "string", "The version that a list shows or that a watch begins after."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
    ("sendInitialEvents", "boolean", "Begin a watch with the objects that exist."),
    ("timeoutSeconds", "integer", "How long a watch may last."),
];
const WATCH: Parameter = ("watch", "boolean", "Answer with a stream of changes in place of a list.");
const PORTS: Parameter = ("ports", "integer", "Ports to forward to; required for WebSockets with channels.");
const DELETE: [Parameter; 3] = [
    ("gracePeriodSeconds", "integer", "How long the object may take to end by itself."),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    ("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground."),
];

fn parameters(action: &str) -> Vec<Parameter> {
    match action {
        "list" => LIST.into_iter().chain([WATCH]).collect(),
        "post" | "put" => vec![DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION],
        "patch" => vec![DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE],
        "delete" => [DRY_RUN].into_iter().chain(DELETE).collect(),
        "connect" => vec![PORTS],
        "deletecollection" => LIST.into_iter().chain([DRY_RUN]).chain(DELETE).collect(),
        _ => Vec::new(),
    }
}

fn parameter(place: &str, (name, ty, description): Parameter) -> Value {
    let mut value = json!({
        "name": name, "in": place, "description": description, "schema": { "type": ty, "uniqueItems": true },
    });
    if place == "path" {
        value["required"] = true.into();
    }
    value
}

impl Scope<'_> {
    /// The path between the version and the resource.
    pub(super) fn prefix(&self) -> &'static str {
        if self.namespaced { "/namespaces/{namespace}" } else { "" }
    }

    /// The parameters of a whole path.
    pub(super) fn parameters(&self, named: bool) -> Value {
        let name = named.then(|| parameter("path", ("name", "string", "The name of the object.")));
        let namespace = ("namespace", "string", "The namespace of the object.");
        let namespace = self.namespaced.then(|| parameter("path", namespace));
        let pretty = parameter("query", ("pretty", "string", "If true, the output is indented."));
        name.into_iter().chain(namespace).chain([pretty]).collect()
    }

    /// A name such as `patchAppsV1NamespacedDeploymentStatus`.
    pub(super) fn operation_id(&self, verb: &str, suffix: &str) -> String {
        let group = self.group.strip_suffix(".k8s.io").unwrap_or(self.group);
        let group: String = group.split('.').map(capital).collect();
        let group = if group.is_empty() { "Core".to_owned() } else { group };
        let scope = if self.namespaced { "Namespaced" } else { "" };
        let (verb, collection) = verb.split_once("Collection").map_or((verb, ""), |(v, _)| (v, "Collection"));
        format!("{verb}{group}{}{collection}{scope}{}{suffix}", capital(self.version), self.kind)
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// What a request carries and what comes back.
pub(super) struct Operation<'a> {
    action: &'static str,
    answer: &'a Value,
    media_type: &'static str,
    body: Option<Value>,
    body_types: &'a [&'a str],
}

impl<'a> Operation<'a> {
    pub(super) fn new(action: &'static str, answer: &'a Value) -> Self {
        Self { action, answer, media_type: "application/json", body: None, body_types: &["*/*"] }
    }

    pub(super) fn body(self, schema: &Value) -> Self {
        Self { body: Some(schema.clone()), ..self }
    }

    pub(super) fn body_types(self, body_types: &'a [&'a str]) -> Self {
        Self { body_types, ..self }
    }

    pub(super) fn media_type(self, media_type: &'static str) -> Self {
        Self { media_type, ..self }
    }

    pub(super) fn render(self, scope: &Scope<'_>, id: String) -> Value {
        let group = if scope.group.is_empty() { "core" } else { scope.group };
        let tag = group.strip_suffix(".k8s.io").unwrap_or(group);
        let answer = |text: &str| json!({ "description": text, "content": { self.media_type: { "schema": self.answer } } });
        let mut responses = Map::from_iter([("200".to_owned(), answer("OK"))]);
        if matches!(self.action, "post" | "put" | "patch") {
            responses.insert("201".into(), answer("Created"));
        }
        if self.action == "delete" {
            responses.insert("202".into(), answer("Accepted"));
        }
        responses.insert("401".into(), json!({ "description": "Unauthorized" }));
        let mut operation = json!({
            "description": format!("{} {}", words(self.action), scope.kind),
            "operationId": id,
            "tags": [format!("{tag}_{}", scope.version)],
            "parameters": parameters(self.action).into_iter().map(|p| parameter("query", p)).collect::<Vec<_>>(),
            "responses": responses,
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": {
                "group": scope.group, "version": scope.version, "kind": scope.kind,
            },
        });
        if let Some(body) = &self.body {
            let content = self.body_types.iter().map(|ty| ((*ty).to_owned(), json!({ "schema": body })));
            operation["requestBody"] = json!({ "content": content.collect::<Map<_, _>>() });
            if !self.action.starts_with("delete") {
                operation["requestBody"]["required"] = true.into();
            }
        }
        operation
    }
}

fn words(action: &str) -> &'static str {
    match action {
        "list" => "list or watch objects of kind",
        "post" => "create a",
        "put" => "replace the specified",
        "patch" => "partially update the specified",
        "delete" => "delete a",
        "deletecollection" => "delete collection of",
        "connect" => "connect requests to the ports of",
        _ => "read the specified",
    }
}
