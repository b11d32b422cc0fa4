use super::*;
use crate::catalog::Catalog;
use crate::resource::{Columns, Plain, Resource, Scale, Subresources};
use crate::schema::{ListType, Node, Schema, Type};

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> Resource {
    Resource {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        storage_version: version.into(),
        storage_group: group.into(),
        schema: Arc::default(),
        subresources: Subresources { status: true, ..Subresources::default() },
        columns: Columns::Paths(Vec::new()),
        selectable_fields: Vec::new(),
        strategy: Arc::new(Plain),
        deprecation_warning: None,
    }
}

fn custom_node() -> Node {
    let string = |description: &str| Node {
        ty: Some(Type::String),
        description: Some(description.into()),
        ..Node::default()
    };
    let size =
        Node { ty: Some(Type::Integer), minimum: Some(1.0), default: Some(json!(3)), ..Node::default() };
    let names = Node {
        ty: Some(Type::Array),
        items: Some(Arc::new(string("a name"))),
        list_type: ListType::Set,
        ..Node::default()
    };
    let spec = Node {
        ty: Some(Type::Object),
        required: vec!["size".into()],
        properties: [("size".to_owned(), Arc::new(size)), ("names".to_owned(), Arc::new(names))].into(),
        validations: vec![json!({ "rule": "self.size > 0" })],
        ..Node::default()
    };
    Node {
        ty: Some(Type::Object),
        description: Some("A thing.".into()),
        properties: [("spec".to_owned(), Arc::new(spec))].into(),
        ..Node::default()
    }
}

fn listing() -> Arc<Listing> {
    let scale = Scale {
        spec_replicas: "spec.replicas".into(),
        status_replicas: "status.replicas".into(),
        label_selector: None,
    };
    Catalog::new(vec![
        resource("", "v1", "Pod", "pods"),
        Resource { namespaced: false, ..resource("", "v1", "Namespace", "namespaces") },
        Resource {
            subresources: Subresources { status: true, scale: Some(scale), others: Vec::new() },
            ..resource("apps", "v1", "Deployment", "deployments")
        },
        Resource {
            schema: Arc::new(Schema::from_node(Arc::new(custom_node()))),
            ..resource("a.example", "v1alpha1", "Thing", "things")
        },
    ])
    .listing()
}

fn get(path: &str) -> Value {
    let path: Vec<&str> = path.split('/').collect();
    let document = Documents::default().respond(&path, "application/json", "", &listing()).unwrap().unwrap();
    serde_json::from_slice(&document.body).unwrap()
}

fn each_reference(value: &Value, see: &mut impl FnMut(&str)) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                see(reference);
            }
            map.values().for_each(|v| each_reference(v, see));
        }
        Value::Array(items) => items.iter().for_each(|v| each_reference(v, see)),
        _ => {}
    }
}

#[test]
fn indexes_every_group_and_version_with_a_hash() {
    let index = get("openapi/v3");
    let names: Vec<_> = index["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    for name in ["api/v1", "apis/apps/v1", "apis/a.example/v1alpha1", "apis/authorization.k8s.io/v1"] {
        assert!(names.contains(&name), "{name} not in {names:?}");
        let url = index["paths"][name]["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with(&format!("/openapi/v3/{name}?hash=")), "{url}");
    }
}

#[test]
fn a_document_asked_for_by_its_hash_may_be_kept() {
    let documents = Documents::default();
    let listing = listing();
    let path = ["openapi", "v3", "apis", "apps", "v1"];
    let ask = |hash: &str| documents.respond(&path, "", hash, &listing).unwrap().unwrap();
    let first = ask("");
    assert!(!first.immutable);
    let index = documents.respond(&path[..2], "", "", &listing).unwrap().unwrap();
    assert!(String::from_utf8_lossy(&index.body).contains(&first.etag));
    assert!(ask(&first.etag).immutable);
    assert!(!ask("0123").immutable);
    assert_eq!(ask("").body.as_ptr(), first.body.as_ptr(), "the document was built again");
}

#[test]
fn another_listing_gives_other_documents() {
    let documents = Documents::default();
    let path = ["openapi", "v3", "apis", "a.example", "v1alpha1"];
    assert!(documents.respond(&path, "", "", &listing()).is_some());
    assert!(documents.respond(&path, "", "", &Catalog::new(Vec::new()).listing()).is_none());
}

#[test]
fn a_change_of_one_group_leaves_the_documents_of_the_others() {
    let documents = Documents::default();
    let catalog = Catalog::new(vec![
        resource("apps", "v1", "Deployment", "deployments"),
        resource("a.example", "v1", "Thing", "things"),
    ]);
    let ask = |group: &str| {
        let path = ["openapi", "v3", "apis", group, "v1"];
        documents.respond(&path, "", "", &catalog.listing()).unwrap().unwrap()
    };
    let before = (ask("apps"), ask("a.example"));
    catalog.replace("a.example", "things", vec![resource("a.example", "v1", "Other", "things")]);
    let after = (ask("apps"), ask("a.example"));
    assert_eq!(before.0.body.as_ptr(), after.0.body.as_ptr());
    assert_ne!(before.1.etag, after.1.etag);
    let index = documents.respond(&["openapi", "v3"], "", "", &catalog.listing()).unwrap().unwrap();
    assert!(String::from_utf8_lossy(&index.body).contains(&after.1.etag));
}

/// What kubectl's templates for `explain` look for.
#[test]
fn explain_finds_the_kind_by_path_and_its_schema_by_kind() {
    for (document, path, group, version, kind) in [
        ("openapi/v3/api/v1", "/api/v1/namespaces/{namespace}/pods", "", "v1", "Pod"),
        ("openapi/v3/api/v1", "/api/v1/namespaces", "", "v1", "Namespace"),
        (
            "openapi/v3/apis/a.example/v1alpha1",
            "/apis/a.example/v1alpha1/namespaces/{namespace}/things",
            "a.example",
            "v1alpha1",
            "Thing",
        ),
    ] {
        let document = get(document);
        let gvk = &document["paths"][path]["get"]["x-kubernetes-group-version-kind"];
        assert_eq!(gvk, &json!({ "group": group, "version": version, "kind": kind }));
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let found: Vec<_> = schemas
            .iter()
            .filter(|(_, s)| {
                s["x-kubernetes-group-version-kind"].as_array().is_some_and(|list| list.contains(gvk))
            })
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(found.len(), 1, "{kind}: {found:?}");
    }
}

/// What kubectl asks before it sends `fieldValidation` or `dryRun`.
#[test]
fn every_patch_of_a_kind_takes_the_parameters_kubectl_probes_for() {
    for name in ["api/v1", "apis/apps/v1", "apis/a.example/v1alpha1"] {
        let document = get(&format!("openapi/v3/{name}"));
        let mut patches = 0;
        for item in document["paths"].as_object().unwrap().values() {
            let Some(patch) = item.get("patch") else { continue };
            patches += 1;
            for wanted in ["fieldValidation", "dryRun"] {
                let parameters = patch["parameters"].as_array().unwrap();
                assert!(parameters.iter().any(|p| p["name"] == wanted && p["in"] == "query"));
            }
        }
        assert!(patches >= 2, "{name} has {patches} patch operations");
    }
}

#[test]
fn every_reference_of_a_document_resolves_in_it() {
    for name in ["api/v1", "apis/apps/v1", "apis/a.example/v1alpha1", "apis/authorization.k8s.io/v1"] {
        let document = get(&format!("openapi/v3/{name}"));
        each_reference(&document, &mut |reference| {
            let component = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(document["components"]["schemas"].get(component).is_some(), "{name}: no {component}");
        });
    }
    let document = get("openapi/v2");
    each_reference(&document, &mut |reference| {
        let definition = reference.strip_prefix("#/definitions/").unwrap();
        assert!(document["definitions"].get(definition).is_some(), "v2: no {definition}");
    });
}

#[test]
fn operations_have_names_of_their_own() {
    let document = get("openapi/v2");
    let mut seen = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if let Some(id) = operation["operationId"].as_str() {
                assert!(seen.insert(id.to_owned()), "{method} {path} repeats {id}");
            }
        }
    }
    for id in [
        "patchAppsV1NamespacedDeployment",
        "patchAppsV1NamespacedDeploymentScale",
        "listCoreV1PodForAllNamespaces",
        "deleteCoreV1CollectionNamespacedPod",
        "createAuthorizationV1SelfSubjectAccessReview",
    ] {
        assert!(seen.contains(id), "no {id}");
    }
}

#[test]
fn a_custom_kind_has_its_schema_and_the_fields_of_every_object() {
    let document = get("openapi/v3/apis/a.example/v1alpha1");
    let thing = &document["components"]["schemas"]["example.a.v1alpha1.Thing"];
    assert_eq!(thing["description"], "A thing.");
    assert_eq!(thing["properties"]["apiVersion"]["type"], "string");
    let meta = &thing["properties"]["metadata"]["allOf"][0]["$ref"];
    assert_eq!(meta, "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    assert_eq!(
        thing["properties"]["spec"],
        json!({
            "type": "object", "required": ["size"],
            "properties": {
                "names": {
                    "type": "array", "items": { "type": "string", "description": "a name" },
                    "x-kubernetes-list-type": "set",
                },
                "size": { "type": "integer", "minimum": 1, "default": 3 },
            },
            "x-kubernetes-validations": [{ "rule": "self.size > 0" }],
        })
    );
    assert!(document["components"]["schemas"].get("example.a.v1alpha1.ThingList").is_some());
}

#[test]
fn version_2_speaks_swagger() {
    let document = get("openapi/v2");
    assert_eq!(document["swagger"], "2.0");
    let path = "/api/v1/namespaces/{namespace}/pods/{name}";
    let patch = &document["paths"][path]["patch"];
    assert!(patch["consumes"].as_array().unwrap().contains(&json!("application/merge-patch+json")));
    let body = patch["parameters"].as_array().unwrap().iter().find(|p| p["in"] == "body").unwrap();
    assert_eq!(body["schema"]["$ref"], "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch");
    let dry_run = patch["parameters"].as_array().unwrap().iter().find(|p| p["name"] == "dryRun").unwrap();
    assert_eq!(dry_run["type"], "string");
    assert_eq!(patch["responses"]["200"]["schema"]["$ref"], "#/definitions/io.k8s.api.core.v1.Pod");
    let spec = &document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"]["spec"];
    assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    let quantity = &document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!((&quantity["type"], quantity.get("oneOf")), (&json!("string"), None));
}

#[test]
fn refuses_what_is_not_json() {
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = Documents::default().respond(&["openapi", "v2"], accept, "", &listing()).unwrap();
    assert_eq!(answer.unwrap_err().code, 406);
}

#[test]
fn knows_nothing_of_other_paths() {
    let documents = Documents::default();
    for path in
        ["openapi", "openapi/v4", "openapi/v3/apis", "openapi/v3/apis/apps/v2", "openapi/v3/api/v1/pods"]
    {
        let parts: Vec<&str> = path.split('/').collect();
        assert!(documents.respond(&parts, "", "", &listing()).is_none(), "{path}");
    }
}
