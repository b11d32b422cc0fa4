//! Custom resources from their definition to its deletion.

use causeway_testkit::{eventually, soon};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::cluster::{Cluster, refused, typed, version};

fn definition() -> CustomResourceDefinition {
    let schema = json!({"openAPIV3Schema": {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "x-kubernetes-validations": [
                        {"rule": "self >= oldSelf", "message": "size may not shrink"},
                    ]},
                    "colour": {"type": "string", "default": "blue", "enum": ["blue", "red"]},
                    "replicas": {"type": "integer"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
            },
            "status": {"type": "object", "properties": {
                "phase": {"type": "string"}, "replicas": {"type": "integer"},
            }},
        },
    }});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": schema,
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            }},
            "selectableFields": [{"jsonPath": ".spec.colour"}],
        })
    };
    typed(json!({
        "metadata": {"name": "boats.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    }))
}

pub(crate) async fn install(cluster: &Cluster) -> Api<CustomResourceDefinition> {
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    crds.create(&PostParams::default(), &definition()).await.unwrap();
    let established = await_condition(crds.clone(), "boats.example.dev", conditions::is_crd_established());
    soon("the definition is established", established).await.unwrap();
    crds
}

pub(crate) fn boats(cluster: &Cluster, version: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.dev", version, "Boat"));
    Api::namespaced_with(cluster.client.clone(), "default", &resource)
}

pub(crate) fn boat(name: &str, spec: Value) -> DynamicObject {
    typed(json!({
        "apiVersion": "example.dev/v1", "kind": "Boat", "metadata": {"name": name}, "spec": spec,
    }))
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_validated() {
    let cluster = Cluster::start().await;
    install(&cluster).await;
    let api = boats(&cluster, "v1");
    let spec = json!({"size": 3, "unknown": true, "free": {"any": {"thing": 1}}});
    let made = api.create(&PostParams::default(), &boat("b", spec)).await.unwrap();
    assert_eq!(made.data["spec"], json!({"size": 3, "colour": "blue", "free": {"any": {"thing": 1}}}));
    assert_eq!(made.metadata.generation, Some(1));

    for (spec, field) in [
        (json!({}), "spec.size: Required value"),
        (json!({"size": 0}), "spec.size: Invalid value"),
        (json!({"size": "big"}), "spec.size: Invalid value"),
        (json!({"size": 1, "colour": "green"}), "spec.colour: Unsupported value: \"green\""),
    ] {
        let status = refused(api.create(&PostParams::default(), &boat("x", spec)).await);
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
        assert!(status.message.starts_with("Boat.example.dev \"x\" is invalid: "), "{}", status.message);
        assert!(status.message.contains(field), "{}", status.message);
    }
    let params = PatchParams::default();
    let shrink = Patch::Merge(json!({"spec": {"size": 2}}));
    let status = refused(api.patch("b", &params, &shrink).await);
    assert_eq!(status.code, 422);
    assert!(
        status.message.contains("spec.size: Invalid value: 2: size may not shrink"),
        "{}",
        status.message
    );
    let grown = api.patch("b", &params, &Patch::Merge(json!({"spec": {"size": 4}}))).await.unwrap();
    assert_eq!(grown.metadata.generation, Some(2));

    let without: DynamicObject = boat("b", json!({"size": 9}));
    let status = refused(api.replace("b", &PostParams::default(), &without).await);
    assert!(status.message.contains("metadata.resourceVersion: Invalid value: 0"), "{}", status.message);
}

#[tokio::test]
async fn every_served_version_shows_the_same_object() {
    let cluster = Cluster::start().await;
    install(&cluster).await;
    let (new, old) = (boats(&cluster, "v1"), boats(&cluster, "v1beta1"));
    let made = new.create(&PostParams::default(), &boat("b", json!({"size": 3}))).await.unwrap();
    let seen = old.get("b").await.unwrap();
    assert_eq!(seen.types.as_ref().unwrap().api_version, "example.dev/v1beta1");
    assert_eq!((seen.uid(), version(&seen)), (made.uid(), version(&made)));
    old.patch("b", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 5}}))).await.unwrap();
    let seen = new.get("b").await.unwrap();
    assert_eq!(seen.types.as_ref().unwrap().api_version, "example.dev/v1");
    assert_eq!(seen.data["spec"]["size"], 5);
    let listed = old.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].types.as_ref().unwrap().api_version, "example.dev/v1beta1");
}

#[tokio::test]
async fn status_scale_and_selectable_fields_work() {
    let cluster = Cluster::start().await;
    install(&cluster).await;
    let api = boats(&cluster, "v1");
    let params = PatchParams::default();
    api.create(&PostParams::default(), &boat("b", json!({"size": 3, "replicas": 2}))).await.unwrap();
    api.create(&PostParams::default(), &boat("r", json!({"size": 3, "colour": "red"}))).await.unwrap();
    let both = Patch::Merge(json!({"spec": {"size": 9}, "status": {"phase": "Afloat"}}));
    let by_status = api.patch_status("b", &params, &both).await.unwrap();
    assert_eq!((&by_status.data["spec"]["size"], by_status.metadata.generation), (&json!(3), Some(1)));
    let by_spec = api.patch("b", &params, &Patch::Merge(json!({"status": {"phase": "Sunk"}}))).await.unwrap();
    assert_eq!(by_spec.data["status"]["phase"], "Afloat");
    let scale = api.patch_scale("b", &params, &Patch::Merge(json!({"spec": {"replicas": 7}}))).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(7));
    assert_eq!(api.get("b").await.unwrap().data["spec"]["replicas"], 7);
    let red = api.list(&ListParams::default().fields("spec.colour=red")).await.unwrap();
    assert_eq!(red.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["r"]);
}

#[tokio::test]
async fn deep_objects_are_refused_before_they_are_stored() {
    let cluster = Cluster::start().await;
    install(&cluster).await;
    let api = boats(&cluster, "v1");
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"n": inner}));
    let fits = json!({"size": 1, "free": nested(90)});
    api.create(&PostParams::default(), &boat("fits", fits)).await.unwrap();
    api.patch("fits", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 2}}))).await.unwrap();
    let deep = json!({"size": 1, "free": nested(110)});
    let status = refused(api.create(&PostParams::default(), &boat("deep", deep)).await);
    assert_eq!(status.code, 400);
    assert!(status.message.contains("nested too deep"), "{}", status.message);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn deleting_the_definition_removes_its_objects() {
    let cluster = Cluster::start().await;
    let crds = install(&cluster).await;
    let api = boats(&cluster, "v1");
    let mut held = boat("held", json!({"size": 1}));
    held.metadata.finalizers = Some(vec!["example.dev/hold".into()]);
    api.create(&PostParams::default(), &held).await.unwrap();
    api.create(&PostParams::default(), &boat("free", json!({"size": 1}))).await.unwrap();
    crds.delete("boats.example.dev", &DeleteParams::default()).await.unwrap();
    eventually("the free one is gone", || async { api.get_opt("free").await.unwrap().is_none() }).await;
    assert!(api.get_opt("held").await.unwrap().is_some(), "the finalizer's owner has its say");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("held", &PatchParams::default(), &release).await.unwrap();
    eventually("the definition is gone", || async {
        crds.get_opt("boats.example.dev").await.unwrap().is_none()
    })
    .await;
    let status = refused(api.list(&ListParams::default()).await);
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));

    install(&cluster).await;
    assert!(boats(&cluster, "v1").list(&ListParams::default()).await.unwrap().items.is_empty());
}
