//! What others write is never taken for the operator's own word.

use causeway_api::{GatewayPlan, InterceptRequest, Workstation};
use causeway_link::{Authority, Role};
use causeway_testkit::eventually;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::scene::{ORIGINAL, Scene};

async fn annotate(scene: &Scene, name: &str, value: Value) {
    scene.cluster.merge::<Service>(name, &json!({"metadata": {"annotations": {ORIGINAL: value}}})).await;
}

#[tokio::test]
async fn an_annotation_that_somebody_made_up_restores_nothing() {
    let scene = Scene::start().await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    let proof = scene.annotation("web").await.unwrap();
    // Another content with the old proof, and the proof of another object.
    annotate(&scene, "web", json!(proof.replace("\"web\"", "\"evil\""))).await;
    scene.delete::<InterceptRequest>("me").await;
    // The Service of the original pods has the proof, too.
    scene.selects("web", json!({"app": "web"})).await;
    scene.slice("web", &[("web-1", "10.1.0.1")]).await;
    scene.is_gone::<InterceptRequest>("me").await;

    // On a Service that nobody has taken over it means nothing.
    scene.service("other", json!({"app": "other"})).await;
    annotate(&scene, "other", json!(proof)).await;
    scene.request("again", json!({})).await;
    scene.take_over("again").await;
    assert_eq!(scene.selector("other").await["app"], "other");
    scene.operator.stop().await;
}

#[tokio::test]
async fn what_cannot_be_proved_is_told_and_waits_for_a_person() {
    let scene = Scene::start().await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    let Scene { cluster, operator } = scene;
    // The operator's own memory goes with it.
    operator.stop().await;
    let strip = json!({"metadata": {"annotations": {ORIGINAL: null}}});
    cluster.merge::<Service>("web", &strip).await;
    cluster.merge::<Service>("web-carrier-original", &strip).await;
    // What others may write is not believed, though it looks right.
    cluster
        .merge::<InterceptRequest>(
            "me",
            &json!({"metadata": {"annotations": {ORIGINAL: "{\"selector\":{\"app\":\"evil\"}}"}}}),
        )
        .await;
    let forged = json!({"status": {"originalConfig": {"services": {"web": {"selector": {"app": "evil"}}}}}});
    cluster
        .api::<InterceptRequest>()
        .patch_status("me", &PatchParams::default(), &Patch::Merge(&forged))
        .await
        .unwrap();
    cluster.api::<InterceptRequest>().delete("me", &kube::api::DeleteParams::default()).await.unwrap();
    let operator = cluster.whole();
    let scene = Scene { cluster, operator };
    let message = scene.says("me", "Installed", "False", "RestoreFailed").await;
    assert!(message.contains("Service web") && message.contains("by hand"), "{message}");
    assert_eq!(scene.selector("web").await["app"], "web-carrier.causeway");
    assert!(scene.cluster.exists::<GatewayPlan>("web-carrier").await, "traffic goes on");
    // A person mends it.
    scene.cluster.merge::<Service>("web", &json!({"spec": {"selector": {"app": "web"}}})).await;
    scene.slice("web", &[("web-1", "10.1.0.1")]).await;
    scene.is_gone::<InterceptRequest>("me").await;
    scene.is_gone::<GatewayPlan>("web-carrier").await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_part_of_a_selector_that_somebody_changes_never_selects_nothing_for_long() {
    let scene = Scene::start().await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    // kubectl edit, by somebody who wonders what happened to it.
    scene.cluster.merge::<Service>("web", &json!({"spec": {"selector": {"tier": "front"}}})).await;
    // None of the carrier's pods would be found by that.
    scene.selects("web", json!({"app": "web", "tier": "front"})).await;
    scene.slice("web", &[("web-1", "10.1.0.1")]).await;
    let ours = "web-carrier.causeway";
    scene.roll_carrier("web", "tier").await;
    scene.moves().await;
    scene.selects("web", json!({"app": ours, "tier": ours})).await;
    scene.delete::<InterceptRequest>("me").await;
    scene.selects("web", json!({"app": "web", "tier": "front"})).await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_certificate_that_somebody_else_signed_is_replaced() {
    let scene = Scene::start().await;
    let signed = eventually("it is signed", || async {
        let object = scene.api::<Workstation>().get("alice").await.unwrap();
        object.status.and_then(|status| status.certificate)
    })
    .await;
    let object = scene.api::<Workstation>().get("alice").await.unwrap();
    let request = object.spec.certificate_request.clone().unwrap();
    let name = format!("workstation-{}", object.uid().unwrap());
    let forged = Authority::new().unwrap().renew(&request, Role::Dialer, &name).unwrap();
    let patch = json!({"status": {"certificate": forged}});
    scene
        .api::<Workstation>()
        .patch_status("alice", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let again = eventually("it is signed again", || async {
        let object = scene.api::<Workstation>().get("alice").await.unwrap();
        object.status.and_then(|status| status.certificate).filter(|one| *one != forged)
    })
    .await;
    assert_ne!(again, signed);
    scene.operator.stop().await;
}

#[tokio::test]
async fn who_forbids_it_ends_what_is_there() {
    let scene = Scene::start().await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    let namespaces = Api::<Namespace>::all(scene.cluster.client.clone());
    let deny = json!({"metadata": {"labels": {"causeway.dev/intercept": "deny"}}});
    namespaces.patch("default", &PatchParams::default(), &Patch::Merge(&deny)).await.unwrap();
    let message = scene.says("me", "Accepted", "False", "Denied").await;
    assert!(message.contains("namespace default forbids"), "{message}");
    scene.selects("web", json!({"app": "web"})).await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_machine_of_another_namespace_needs_that_ones_consent() {
    let scene = Scene::start().await;
    let namespaces = Api::<Namespace>::all(scene.cluster.client.clone());
    let lab: Namespace = serde_json::from_value(json!({"metadata": {"name": "lab"}})).unwrap();
    namespaces.create(&PostParams::default(), &lab).await.unwrap();
    let machine: Workstation = serde_json::from_value(json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "Workstation", "metadata": {"name": "carol"},
        "spec": {"publicKey": super::scene::wireguard_key(9)},
    }))
    .unwrap();
    let in_lab = Api::<Workstation>::namespaced(scene.cluster.client.clone(), "lab");
    in_lab.create(&PostParams::default(), &machine).await.unwrap();
    scene.request("me", json!({"workstation": "lab/carol"})).await;
    let message = scene.says("me", "Accepted", "False", "RefNotPermitted").await;
    assert!(message.contains("ReferenceGrant in lab"), "{message}");
    assert_eq!(scene.selector("web").await["app"], "web");
    let grant = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": "intercepts", "namespace": "lab"},
        "spec": {
            "from": [{"group": "causeway.dev", "kind": "InterceptRequest", "namespace": "default"}],
            "to": [{"group": "causeway.dev", "kind": "Workstation", "name": "carol"}],
        },
    });
    let resource = kube::api::ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk(
        "gateway.networking.k8s.io",
        "v1",
        "ReferenceGrant",
    ));
    let grants =
        Api::<kube::api::DynamicObject>::namespaced_with(scene.cluster.client.clone(), "lab", &resource);
    grants.create(&PostParams::default(), &serde_json::from_value(grant).unwrap()).await.unwrap();
    scene.says("me", "Accepted", "True", "Accepted").await;
    scene.operator.stop().await;
}
