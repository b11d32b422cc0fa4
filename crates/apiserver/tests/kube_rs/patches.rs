//! The patch types, and server-side apply with several managers.

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::cluster::{Cluster, config_map, create, refused, typed};

fn applied(data: Value) -> Patch<Value> {
    Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}))
}

fn data(object: &ConfigMap) -> Value {
    serde_json::to_value(&object.data).unwrap()
}

#[tokio::test]
async fn two_managers_share_an_object_and_conflicts_name_the_other() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    api.patch("c", &one, &applied(json!({"a": "1", "b": "1"}))).await.unwrap();
    let both = api.patch("c", &two, &applied(json!({"c": "2"}))).await.unwrap();
    assert_eq!(data(&both), json!({"a": "1", "b": "1", "c": "2"}));

    let status = refused(api.patch("c", &two, &applied(json!({"a": "2", "c": "2"}))).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .data.a");
    let causes = status.details.unwrap().causes;
    assert_eq!(causes.len(), 1);
    assert_eq!(
        (causes[0].reason.as_str(), causes[0].field.as_str(), causes[0].message.as_str()),
        ("FieldManagerConflict", ".data.a", "conflict with \"one\"")
    );

    // The same value is shared, not fought over.
    api.patch("c", &two, &applied(json!({"a": "1", "c": "2"}))).await.unwrap();
    let forced = api.patch("c", &two.clone().force(), &applied(json!({"a": "2", "c": "2"}))).await.unwrap();
    assert_eq!(data(&forced), json!({"a": "2", "b": "1", "c": "2"}));

    // One no longer owns `a`, and stops naming `b`, which goes.
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    let left = api.patch("c", &one, &Patch::Apply(nothing)).await.unwrap();
    assert_eq!(data(&left), json!({"a": "2", "c": "2"}));
    let managers: Vec<_> = left.managed_fields().iter().filter_map(|m| m.manager.clone()).collect();
    assert_eq!(managers, ["two"], "who owns nothing is not listed");
}

#[tokio::test]
async fn applying_a_new_object_needs_its_name() {
    let cluster = Cluster::start().await;
    let nameless = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap"}));
    let status = refused(cluster.config_maps().patch("c", &PatchParams::apply("me"), &nameless).await);
    assert_eq!(status.code, 400);
    assert_eq!(
        status.message,
        "the name of the object (c based on URL) was undeterminable: name must be provided"
    );
}

#[tokio::test]
async fn an_update_takes_fields_from_an_applier() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let me = PatchParams::apply("me");
    api.patch("c", &me, &applied(json!({"a": "1"}))).await.unwrap();
    let update = PatchParams { field_manager: Some("editor".into()), ..PatchParams::default() };
    api.patch("c", &update, &Patch::Merge(json!({"data": {"a": "edited"}}))).await.unwrap();
    let status = refused(api.patch("c", &me, &applied(json!({"a": "1"}))).await);
    assert!(
        status.message.starts_with("Apply failed with 1 conflict: conflict with \"editor\" using v1"),
        "{}",
        status.message
    );
}

#[tokio::test]
async fn json_merge_and_strategic_patches_do_what_each_is_for() {
    let cluster = Cluster::start().await;
    let api: Api<Service> = Api::namespaced(cluster.client.clone(), "default");
    let service: Service = typed(json!({
        "metadata": {"name": "s", "labels": {"keep": "me"}},
        "spec": {"selector": {"app": "s"}, "ports": [{"name": "http", "port": 80}]},
    }));
    api.create(&PostParams::default(), &service).await.unwrap();
    let params = PatchParams::default();
    let ports = |service: &Service| -> Vec<_> {
        let ports = service.spec.as_ref().unwrap().ports.as_ref().unwrap();
        ports.iter().map(|p| (p.name.clone().unwrap_or_default(), p.port)).collect()
    };

    let add = json!({"spec": {"ports": [{"name": "https", "port": 443}]}});
    let strategic = api.patch("s", &params, &Patch::Strategic(&add)).await.unwrap();
    let mut both = ports(&strategic);
    both.sort();
    assert_eq!(both, [("http".into(), 80), ("https".into(), 443)], "merged by port");
    let merged = api.patch("s", &params, &Patch::Merge(&add)).await.unwrap();
    assert_eq!(ports(&merged), [("https".into(), 443)], "a merge patch replaces lists");

    let status = refused(
        raw_json_patch(
            &cluster,
            json!([
                {"op": "test", "path": "/metadata/labels/keep", "value": "someone else"},
                {"op": "remove", "path": "/metadata/labels/keep"},
            ]),
        )
        .await,
    );
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let patched = raw_json_patch(
        &cluster,
        json!([
            {"op": "test", "path": "/metadata/labels/keep", "value": "me"},
            {"op": "remove", "path": "/metadata/labels/keep"},
            {"op": "add", "path": "/metadata/labels/new", "value": "label"},
        ]),
    )
    .await
    .unwrap();
    assert_eq!(serde_json::to_value(patched.labels()).unwrap(), json!({"new": "label"}));
}

/// kube's own JSON patch needs a feature that nothing else here does.
async fn raw_json_patch(cluster: &Cluster, operations: Value) -> Result<Service, kube::Error> {
    let request = http::Request::patch("/api/v1/namespaces/default/services/s")
        .header("content-type", "application/json-patch+json")
        .body(operations.to_string().into_bytes())
        .unwrap();
    cluster.client.request(request).await
}

#[tokio::test]
async fn a_patch_may_not_touch_what_identifies_the_object() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let made = create(&api, config_map("c", &[])).await;
    let params = PatchParams::default();
    let rename = Patch::Merge(json!({"metadata": {"name": "d"}}));
    assert_eq!(refused(api.patch("c", &params, &rename).await).code, 400);
    let uid = Patch::Merge(json!({"metadata": {"uid": "another"}}));
    assert_eq!(refused(api.patch("c", &params, &uid).await).code, 422);
    let birth = Patch::Merge(json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}));
    let kept = api.patch("c", &params, &birth).await.unwrap();
    assert_eq!(kept.metadata.creation_timestamp, made.metadata.creation_timestamp);
    let stale = Patch::Merge(json!({"metadata": {"resourceVersion": "1"}, "data": {"a": "b"}}));
    assert_eq!(refused(api.patch("c", &params, &stale).await).code, 409);
}

#[tokio::test]
async fn unknown_fields_are_warned_of_or_refused_as_asked() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    create(&api, config_map("c", &[])).await;
    let patch = Patch::Merge(json!({"dataa": {"a": "b"}}));
    let status = refused(api.patch("c", &PatchParams::default().validation_strict(), &patch).await);
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
    assert!(status.message.contains("strict decoding error: unknown field \"dataa\""), "{}", status.message);
    api.patch("c", &PatchParams::default().validation_ignore(), &patch).await.unwrap();
}
