//! Mode Container: the template of a workload, and the stand-in of a pod.

use causeway_api::{GatewayPlan, InterceptRequest};
use causeway_testkit::eventually;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, Pod, Secret},
    rbac::v1::RoleBinding,
};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::scene::{ORIGINAL, Scene};

async fn container(scene: &Scene) -> Container {
    let deployment = scene.api::<Deployment>().get("web").await.unwrap();
    deployment.spec.unwrap().template.spec.unwrap().containers.remove(0)
}

/// Plays the workload's controller: one pod that follows the newest template.
async fn roll_out(scene: &Scene) {
    let deployment = scene.api::<Deployment>().get("web").await.unwrap();
    let template = deployment.spec.clone().unwrap().template;
    if scene.api::<Pod>().get_opt("web-pod").await.unwrap().is_some() {
        let now = kube::api::DeleteParams::default().grace_period(0);
        scene.api::<Pod>().delete("web-pod", &now).await.unwrap();
        scene.is_gone::<Pod>("web-pod").await;
    }
    let labels = json!(template.metadata.unwrap().labels);
    let spec = template.spec.unwrap();
    let pod = json!({
        "metadata": {"name": "web-pod", "labels": labels, "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": deployment.uid(), "controller": true}]},
        "spec": {"containers": spec.containers, "volumes": spec.volumes},
    });
    scene.create::<Pod>(pod).await;
    scene.pod("default", "web-pod", "10.1.0.1", json!({}), json!([])).await;
    let status = json!({"status": {
        "observedGeneration": deployment.metadata.generation, "replicas": 1, "updatedReplicas": 1,
        "availableReplicas": 1, "readyReplicas": 1,
    }});
    scene
        .api::<Deployment>()
        .patch_status("web", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_container_is_replaced_through_its_template_and_put_back_as_it_was() {
    let scene = Scene::start().await;
    roll_out(&scene).await;
    let before = container(&scene).await;
    scene.request("me", json!({"mode": "Container", "fallback": false})).await;
    let worn = eventually("the template has the carrier", || async {
        Some(container(&scene).await).filter(|one| one.image != before.image)
    })
    .await;
    assert_eq!(worn.args.as_ref().unwrap()[0], "carrier");
    assert_eq!((worn.command.as_ref(), worn.name.as_str()), (None, "web"));
    assert!(worn.readiness_probe.as_ref().unwrap().http_get.is_some());
    assert_eq!(worn.ports, before.ports);
    assert!(worn.env.as_ref().unwrap().iter().any(|one| one.name == "COLOR"), "its environment stays");
    let deployment = scene.api::<Deployment>().get("web").await.unwrap();
    assert!(deployment.annotations().contains_key(ORIGINAL));
    assert_eq!(scene.selector("web").await["app"], "web", "no Service is touched");
    // The carrier follows its plan with the account of the target's pods.
    let binding = scene.api::<RoleBinding>().get("web-deploy-swap").await.unwrap();
    assert_eq!(binding.subjects.unwrap()[0].name, "default");
    assert!(scene.cluster.exists::<Secret>("web-deploy-swap-keys").await);
    scene.says("me", "Installed", "False", "Progressing").await;
    roll_out(&scene).await;
    scene.run_plan("web-deploy-swap", "web-pod").await;
    scene.says("me", "Installed", "True", "Installed").await;

    // Its owner brings another image meanwhile: that is what is put back later, and the carrier takes its place again.
    let edit = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}});
    scene.api::<Deployment>().patch("web", &PatchParams::default(), &Patch::Strategic(&edit)).await.unwrap();
    scene.says("me", "Installed", "False", "TakenBack").await;
    eventually("the carrier is back", || async {
        container(&scene).await.args.is_some_and(|args| args[0] == "carrier")
            && container(&scene).await.image.as_deref() != Some("web:2")
    })
    .await;
    roll_out(&scene).await;
    scene.says("me", "Installed", "True", "Installed").await;

    scene.delete::<InterceptRequest>("me").await;
    let after = eventually("it is put back", || async {
        Some(container(&scene).await).filter(|one| one.image.as_deref() == Some("web:2"))
    })
    .await;
    assert_eq!(Container { image: before.image.clone(), ..after }, before);
    let deployment = scene.api::<Deployment>().get("web").await.unwrap();
    assert!(!deployment.annotations().contains_key(ORIGINAL));
    let volumes = deployment.spec.unwrap().template.spec.unwrap().volumes.unwrap_or_default();
    assert!(volumes.iter().all(|one| !one.name.starts_with("causeway-")), "{volumes:?}");
    assert!(scene.cluster.exists::<InterceptRequest>("me").await, "its pods are not as they were yet");
    roll_out(&scene).await;
    scene.is_gone::<InterceptRequest>("me").await;
    scene.is_gone::<GatewayPlan>("web-deploy-swap").await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_target_gets_its_container_back_while_the_machine_is_away() {
    let scene = Scene::start().await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    roll_out(&scene).await;
    scene.request("me", json!({"mode": "Container"})).await;
    let message = scene.says("me", "Installed", "False", "Disconnected").await;
    assert!(message.contains("connects"), "{message}");
    assert_eq!(
        container(&scene).await.image.as_deref(),
        Some("web:1"),
        "nothing is changed for who is not there"
    );
    scene.connect("alice", "stowaway-1", true).await;
    eventually("the template has the carrier", || async {
        container(&scene).await.image.as_deref() != Some("web:1")
    })
    .await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_pod_that_nobody_made_gets_a_stand_in() {
    let scene = Scene::start().await;
    let containers = json!([{"name": "web", "image": "web:1", "command": ["/bin/web"],
        "ports": [{"containerPort": 8080, "name": "http"}]}]);
    scene.pod("default", "one", "10.1.0.5", json!({"app": "web", "role": "single"}), containers).await;
    scene.request("me", json!({"mode": "Container", "fallback": false, "target": "pod/one"})).await;
    let made = eventually("the stand-in is made", || async {
        scene.api::<Pod>().get_opt("one-pod-swap").await.unwrap()
    })
    .await;
    assert_eq!((made.labels()["app"].as_str(), made.labels()["role"].as_str()), ("web", "single"));
    let container = &made.spec.as_ref().unwrap().containers[0];
    assert_eq!((container.name.as_str(), container.args.as_ref().unwrap()[0].as_str()), ("web", "carrier"));
    assert_eq!(scene.api::<Pod>().get("one").await.unwrap().labels()["app"], "web", "not before it is ready");
    scene.pod("default", "one-pod-swap", "10.1.0.6", json!({}), json!([])).await;
    scene.run_plan("one-pod-swap", "one-pod-swap").await;
    eventually("no Service finds the pod", || async {
        let pod = scene.api::<Pod>().get("one").await.unwrap();
        pod.labels()["app"] == "one-pod-swap.causeway" && pod.annotations().contains_key(ORIGINAL)
    })
    .await;
    scene.says("me", "Installed", "True", "Installed").await;
    scene.delete::<InterceptRequest>("me").await;
    eventually("it is found again", || async {
        let pod = scene.api::<Pod>().get("one").await.unwrap();
        pod.labels()["app"] == "web" && pod.labels().len() == 2 && !pod.annotations().contains_key(ORIGINAL)
    })
    .await;
    scene.is_gone::<InterceptRequest>("me").await;
    eventually("the stand-in goes", || async {
        scene
            .api::<Pod>()
            .get_opt("one-pod-swap")
            .await
            .unwrap()
            .is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    })
    .await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn labels_that_hide_a_pod_are_never_taken_for_its_own() {
    let scene = Scene::start().await;
    let containers = json!([{"name": "web", "image": "web:1", "command": ["/bin/web"],
        "ports": [{"containerPort": 8080, "name": "http"}]}]);
    scene.pod("default", "one", "10.1.0.5", json!({"app": "web"}), containers).await;
    scene.request("me", json!({"mode": "Container", "fallback": false, "target": "pod/one"})).await;
    eventually("the stand-in is made", || async {
        scene.api::<Pod>().get_opt("one-pod-swap").await.unwrap()
    })
    .await;
    scene.pod("default", "one-pod-swap", "10.1.0.6", json!({}), json!([])).await;
    scene.run_plan("one-pod-swap", "one-pod-swap").await;
    scene.says("me", "Installed", "True", "Installed").await;
    // Whoever may write annotations must not make us forget what was there.
    let forget = json!({"metadata": {"annotations": {"causeway.dev/original": null}}});
    scene.cluster.merge::<Pod>("one", &forget).await;
    scene.says("me", "Installed", "False", "RestoreFailed").await;
    assert!(!scene.api::<Pod>().get("one").await.unwrap().annotations().contains_key(ORIGINAL));
    scene.delete::<InterceptRequest>("me").await;
    let message = scene.says("me", "Installed", "False", "RestoreFailed").await;
    assert!(message.contains("pod/one"), "{message}");
    scene.cluster.merge::<Pod>("one", &json!({"metadata": {"labels": {"app": "web"}}})).await;
    scene.is_gone::<InterceptRequest>("me").await;
    assert_eq!(scene.api::<Pod>().get("one").await.unwrap().labels()["app"], "web");
    scene.operator.stop().await;
}

#[tokio::test]
async fn whoever_sets_a_container_back_with_our_annotation_is_answered_after_a_while() {
    let scene = Scene::start().await;
    roll_out(&scene).await;
    let mut before = scene.api::<Deployment>().get("web").await.unwrap();
    scene.request("me", json!({"mode": "Container", "fallback": false})).await;
    eventually("the template has the carrier", || async {
        container(&scene).await.args.is_some_and(|args| args[0] == "carrier")
    })
    .await;
    roll_out(&scene).await;
    scene.run_plan("web-deploy-swap", "web-pod").await;
    scene.says("me", "Installed", "True", "Installed").await;
    before.metadata.resource_version = None;
    before.metadata.managed_fields = None;
    scene.api::<Deployment>().replace("web", &PostParams::default(), &before).await.unwrap();
    scene.says("me", "Installed", "False", "TakenBack").await;
    eventually("the carrier is back", || async {
        container(&scene).await.args.is_some_and(|args| args[0] == "carrier")
    })
    .await;
    // The annotation alone: what is there now is not what was there before.
    let forget = json!({"metadata": {"annotations": {"causeway.dev/original": null}}});
    scene.cluster.merge::<Deployment>("web", &forget).await;
    scene.says("me", "Installed", "False", "RestoreFailed").await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_container_that_its_owner_renames_meanwhile_is_put_back_by_its_new_name() {
    let scene = Scene::start().await;
    roll_out(&scene).await;
    let before = container(&scene).await;
    scene.request("me", json!({"mode": "Container", "fallback": false})).await;
    eventually("the template has the carrier", || async {
        container(&scene).await.args.is_some_and(|args| args[0] == "carrier")
    })
    .await;
    roll_out(&scene).await;
    scene.run_plan("web-deploy-swap", "web-pod").await;
    scene.says("me", "Installed", "True", "Installed").await;
    let Scene { cluster, operator } = scene;
    operator.stop().await;
    let api = cluster.api::<Deployment>();
    let mut live = api.get("web").await.unwrap();
    live.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers[0].name = "shop".to_owned();
    api.replace("web", &PostParams::default(), &live).await.unwrap();
    cluster.api::<InterceptRequest>().delete("me", &kube::api::DeleteParams::default()).await.unwrap();
    let scene = Scene { operator: cluster.whole(), cluster };
    let after = eventually("it is put back", || async {
        Some(container(&scene).await).filter(|one| one.image == before.image)
    })
    .await;
    assert_eq!(after, Container { name: "shop".to_owned(), ..before });
    roll_out(&scene).await;
    scene.is_gone::<InterceptRequest>("me").await;
    scene.operator.stop().await;
}
