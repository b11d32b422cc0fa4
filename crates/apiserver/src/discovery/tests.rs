use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::catalog::Catalog;
use crate::resource::{Columns, Plain, Resource, Scale, Subresources};

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
        subresources: Subresources::default(),
        columns: Columns::Printer(&[], |_, _| Vec::new()),
        selectable_fields: Vec::new(),
        strategy: Arc::new(Plain),
        deprecation_warning: None,
    }
}

fn listing() -> Arc<Listing> {
    let scale = Scale {
        spec_replicas: "spec.replicas".into(),
        status_replicas: "status.replicas".into(),
        label_selector: None,
    };
    let others = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    Catalog::new(vec![
        Resource {
            short_names: vec!["po".into()],
            categories: vec!["all".into()],
            subresources: Subresources { status: true, scale: None, others: others(&["log"]) },
            ..resource("", "v1", "Pod", "pods")
        },
        Resource {
            namespaced: false,
            subresources: Subresources { status: true, scale: None, others: others(&["finalize"]) },
            ..resource("", "v1", "Namespace", "namespaces")
        },
        Resource {
            subresources: Subresources { status: false, scale: None, others: others(&["token"]) },
            ..resource("", "v1", "ServiceAccount", "serviceaccounts")
        },
        Resource {
            subresources: Subresources { status: true, scale: Some(scale), others: Vec::new() },
            ..resource("apps", "v1", "Deployment", "deployments")
        },
        Resource { storage_version: "v1".into(), ..resource("a.example", "v1beta1", "Thing", "things") },
        resource("a.example", "v1", "Thing", "things"),
    ])
    .listing()
}

fn get(path: &[&str], accept: &str) -> (String, Value) {
    respond(path, accept, &listing()).unwrap()
}

fn find<'a>(list: &'a Value, name: &str) -> &'a Value {
    list["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap()
}

#[test]
fn lists_the_core_version_apart_from_the_groups() {
    assert_eq!(get(&["api"], "*/*").1["versions"], json!(["v1"]));
    let (content_type, groups) = get(&["apis"], "");
    assert_eq!(content_type, "application/json");
    let names: Vec<_> = groups["groups"].as_array().unwrap().iter().map(|g| &g["name"]).collect();
    assert_eq!(names, ["apps", "authentication.k8s.io", "authorization.k8s.io", "a.example"]);
}

#[test]
fn prefers_the_stable_version_of_a_group() {
    let (_, group) = get(&["apis", "a.example"], "");
    assert_eq!(group["kind"], "APIGroup");
    assert_eq!(group["preferredVersion"]["groupVersion"], "a.example/v1");
    assert_eq!(group["versions"][1]["version"], "v1beta1");
}

#[test]
fn shows_resources_with_the_hashes_that_kubernetes_shows() {
    let (_, core) = get(&["api", "v1"], "");
    assert_eq!(core["groupVersion"], "v1");
    assert_eq!(
        find(&core, "pods"),
        &json!({
            "name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["po"], "categories": ["all"], "storageVersionHash": "xPOwRZ+Yhw8=",
        })
    );
    assert!(!find(&core, "namespaces")["verbs"].to_string().contains("deletecollection"));
    let (_, apps) = get(&["apis", "apps", "v1"], "");
    assert_eq!(find(&apps, "deployments")["storageVersionHash"], "8aSe+NMegvE=");
}

#[test]
fn shows_subresources_with_the_kind_they_answer() {
    let (_, core) = get(&["api", "v1"], "");
    assert_eq!(
        find(&core, "pods/log"),
        &json!({ "name": "pods/log", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"] })
    );
    assert_eq!(find(&core, "namespaces/finalize")["verbs"], json!(["update"]));
    let token = find(&core, "serviceaccounts/token");
    assert_eq!((&token["group"], &token["kind"]), (&json!("authentication.k8s.io"), &json!("TokenRequest")));
    let (_, apps) = get(&["apis", "apps", "v1"], "");
    let scale = find(&apps, "deployments/scale");
    assert_eq!((&scale["group"], &scale["version"]), (&json!("autoscaling"), &json!("v1")));
    assert_eq!(find(&apps, "deployments/status")["verbs"], json!(["get", "patch", "update"]));
}

#[test]
fn offers_reviews_for_creation_only() {
    let (_, list) = get(&["apis", "authorization.k8s.io", "v1"], "");
    assert_eq!(find(&list, "selfsubjectaccessreviews")["verbs"], json!(["create"]));
    assert_eq!(find(&list, "localsubjectaccessreviews")["namespaced"], true);
}

#[test]
fn aggregates_when_the_client_asks() {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                  application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    let (content_type, list) = get(&["apis"], accept);
    assert_eq!(content_type, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2");
    let apps = &list["items"][0];
    assert_eq!(apps["metadata"]["name"], "apps");
    let deployments = &apps["versions"][0]["resources"][0];
    assert_eq!(deployments["scope"], "Namespaced");
    assert_eq!(deployments["responseKind"], json!({ "group": "", "version": "", "kind": "Deployment" }));
    assert_eq!(deployments["subresources"][0]["responseKind"]["kind"], "Scale");
    assert_eq!(deployments["subresources"][1]["subresource"], "status");

    let (_, core) = get(&["api"], accept);
    assert_eq!(core["items"][0]["metadata"], json!({}));
    assert_eq!(core["items"][0]["versions"][0]["version"], "v1");
}

#[test]
fn serves_the_beta_document_to_older_clients() {
    let accept = "application/json;as=APIGroupDiscoveryList;v=v2beta1;g=apidiscovery.k8s.io,application/json";
    assert_eq!(get(&["apis"], accept).1["apiVersion"], "apidiscovery.k8s.io/v2beta1");
    assert_eq!(get(&["apis"], "application/json, */*").1["kind"], "APIGroupList");
}

#[test]
fn knows_nothing_of_other_paths() {
    for path in [&["apis", "none"][..], &["apis", "apps", "v2"], &["api", "v2"], &["apis", "", "v1"], &[]] {
        assert!(respond(path, "", &listing()).is_none(), "{path:?}");
    }
}
