//! The paths of one group and version. kubectl finds a kind by the paths of its resource, and looks into the patch
//! operation for the query parameters that the server understands.

use serde_json::{Map, Value, json};

use super::components::{component, list_component, meta_reference, reference};
use super::operations::{Operation, PATCH_TYPES, STRATEGIC, Scope};
use crate::catalog::Listing;
use crate::discovery::REVIEWS;
use crate::resource::Resource;

/// `/api/v1` or `/apis/GROUP/VERSION`.
pub(super) fn base(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

pub(super) fn of(group: &str, version: &str, listing: &Listing) -> Map<String, Value> {
    let base = base(group, version);
    let mut paths = Map::new();
    for resource in listing.iter().filter(|r| r.group == group && r.version == version) {
        add_resource(&base, resource, &mut paths);
    }
    for review in REVIEWS.iter().filter(|r| r.group == group && r.version == version) {
        let scope = Scope { group, version, kind: review.kind, namespaced: review.namespaced, custom: false };
        let schema = reference(&component(group, version, review.kind));
        let path = format!("{base}{}/{}", scope.prefix(), review.plural);
        let post = Operation::new("post", &schema).body(&schema);
        paths.insert(
            path,
            item(&scope, false, &[("post", post.render(&scope, scope.operation_id("create", "")))]),
        );
    }
    paths
}

fn add_resource(base: &str, resource: &Resource, paths: &mut Map<String, Value>) {
    let Resource { group, version, kind, plural, .. } = resource;
    let scope = Scope { group, version, kind, namespaced: resource.namespaced, custom: resource.is_custom() };
    let object = reference(&component(group, version, kind));
    let list = reference(&list_component(resource));
    let status = meta_reference("Status");
    let options = meta_reference("DeleteOptions");
    let collection = format!("{base}{}/{plural}", scope.prefix());

    let mut on_collection = vec![
        ("get", Operation::new("list", &list).render(&scope, scope.operation_id("list", ""))),
        (
            "post",
            Operation::new("post", &object).body(&object).render(&scope, scope.operation_id("create", "")),
        ),
    ];
    if !(group.is_empty() && plural == "namespaces") {
        let delete = Operation::new("deletecollection", &status).body(&options);
        on_collection.push(("delete", delete.render(&scope, scope.operation_id("deleteCollection", ""))));
    }
    paths.insert(collection.clone(), item(&scope, false, &on_collection));
    if resource.namespaced {
        let everywhere = Scope { namespaced: false, ..scope };
        let get = Operation::new("list", &list)
            .render(&everywhere, everywhere.operation_id("list", "ForAllNamespaces"));
        paths.insert(format!("{base}/{plural}"), item(&everywhere, false, &[("get", get)]));
    }
    let delete =
        Operation::new("delete", &status).body(&options).render(&scope, scope.operation_id("delete", ""));
    let mut on_object = part(&scope, &scope, &object, "");
    on_object.push(("delete", delete));
    paths.insert(format!("{collection}/{{name}}"), item(&scope, true, &on_object));

    if resource.subresources.status {
        paths.insert(
            format!("{collection}/{{name}}/status"),
            item(&scope, true, &part(&scope, &scope, &object, "Status")),
        );
    }
    if resource.subresources.scale.is_some() {
        // The answer is a Scale; the operation is named for its owner.
        let scale = Scope { group: "autoscaling", version: "v1", kind: "Scale", ..scope };
        let schema = reference(&component("autoscaling", "v1", "Scale"));
        let operations = part(&scale, &scope, &schema, "Scale");
        paths.insert(format!("{collection}/{{name}}/scale"), item(&scope, true, &operations));
    }
    for name in &resource.subresources.others {
        let operations = match name.as_str() {
            "log" => {
                let text = json!({ "type": "string" });
                let get = Operation::new("get", &text).media_type("text/plain");
                vec![("get", get.render(&scope, scope.operation_id("read", "Log")))]
            }
            "portforward" => {
                let options = Scope { kind: "PodPortForwardOptions", ..scope };
                let text = json!({ "type": "string" });
                let connect = |verb: &str, action| {
                    let id = scope.operation_id(verb, "Portforward");
                    Operation::new(action, &text).media_type("*/*").render(&options, id)
                };
                vec![("get", connect("connectGet", "connect")), ("post", connect("connectPost", "connect"))]
            }
            "token" => {
                let token = Scope { group: "authentication.k8s.io", kind: "TokenRequest", ..scope };
                let schema = reference(&component(token.group, "v1", token.kind));
                let post = Operation::new("post", &schema).body(&schema);
                vec![("post", post.render(&token, scope.operation_id("create", "Token")))]
            }
            "finalize" => {
                let put = Operation::new("put", &object).body(&object);
                vec![("put", put.render(&scope, scope.operation_id("replace", "Finalize")))]
            }
            _ => continue,
        };
        paths.insert(format!("{collection}/{{name}}/{name}"), item(&scope, true, &operations));
    }
}

/// Reading and writing one object, or one part of it.
fn part(scope: &Scope<'_>, owner: &Scope<'_>, schema: &Value, suffix: &str) -> Vec<(&'static str, Value)> {
    // kubectl takes this list at its word: only built-in kinds have strategic merges.
    let types: Vec<&str> = PATCH_TYPES.into_iter().filter(|ty| !(owner.custom && *ty == STRATEGIC)).collect();
    let patch = Operation::new("patch", schema).body(&meta_reference("Patch")).body_types(&types);
    let put = Operation::new("put", schema).body(schema);
    vec![
        ("get", Operation::new("get", schema).render(scope, owner.operation_id("read", suffix))),
        ("put", put.render(scope, owner.operation_id("replace", suffix))),
        ("patch", patch.render(scope, owner.operation_id("patch", suffix))),
    ]
}

fn item(scope: &Scope<'_>, named: bool, operations: &[(&str, Value)]) -> Value {
    let mut item: Map<String, Value> =
        operations.iter().map(|(method, operation)| ((*method).to_owned(), operation.clone())).collect();
    item.insert("parameters".into(), scope.parameters(named));
    Value::Object(item)
}
