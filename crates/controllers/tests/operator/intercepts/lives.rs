//! The life of an intercept: install, use, change, fight, end.

use std::time::Duration;

use causeway_api::{GatewayPlan, InterceptRequest, InterceptState, Supply, Workstation};
use causeway_testkit::eventually;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Secret, Service, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::scene::Scene;
use crate::cluster::Cluster;

#[tokio::test]
async fn a_service_moves_when_its_carrier_is_ready_and_comes_back_before_that_goes() {
    let scene = Scene::start().await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    let header = json!({"match": [{"headers": [{"name": "X-User", "value": "alice"}]}]});
    scene.request("me", header).await;
    scene.says("me", "Accepted", "True", "Accepted").await;
    scene.says("me", "Installed", "False", "Progressing").await;
    let carrier = eventually("the carrier is made", || async {
        scene.api::<Deployment>().get_opt("web-carrier").await.unwrap()
    })
    .await;
    let pod = carrier.spec.unwrap().template;
    let labels = pod.metadata.unwrap().labels.unwrap();
    assert_eq!(labels["app"], "web-carrier.causeway", "the Service will find it by this");
    let container = &pod.spec.unwrap().containers[0];
    assert_eq!(
        container.ports.as_ref().unwrap()[0].name.as_deref(),
        Some("http"),
        "named target ports exist on it"
    );
    let original = scene.api::<Service>().get("web-carrier-original").await.unwrap();
    assert_eq!(original.spec.as_ref().unwrap().selector.as_ref().unwrap()["app"], "web");
    let address = original.spec.as_ref().unwrap().cluster_ip.clone().unwrap();
    assert_ne!(address, "None", "the last resort of the carrier");
    assert_eq!(scene.selector("web").await["app"], "web", "nothing moves before it is ready");
    assert!(scene.annotation("web").await.is_none());

    // What it may have of whom is told to the cluster's end.
    let plan = scene.api::<GatewayPlan>().get("web-carrier").await.unwrap();
    let workstation = scene.api::<Workstation>().get("alice").await.unwrap();
    eventually("the grant is told", || async {
        let told = scene.told().await;
        told["grants"] == json!([{
            "carrier": format!("carrier-{}", plan.uid().unwrap()), "workstation": workstation.uid().unwrap(), "port": 3000,
        }])
    })
    .await;

    scene.take_over("me").await;
    let request = scene.api::<InterceptRequest>().get("me").await.unwrap();
    let status = request.status.clone().unwrap();
    assert_eq!((status.state, status.active), (Some(InterceptState::Installed), false));
    assert_eq!(status.services, ["web"]);
    assert_eq!(request.finalizers(), ["causeway.dev/intercept"]);
    let message = scene.says("me", "Connected", "False", "Disconnected").await;
    assert!(message.contains("traffic goes to the original"), "{message}");
    let events = scene.events("Deployment", "web").await;
    let told = events.iter().find(|(reason, _)| reason == "Intercepted").expect("the target is told");
    assert!(
        told.1.contains("default/alice (Alice)") && told.1.contains("header x-user equal to alice"),
        "{}",
        told.1
    );

    scene.connect("alice", "stowaway-1", true).await;
    scene.says("me", "Ready", "True", "Ready").await;
    scene.machine_says("alice", "Connected", "True", "Connected").await;
    scene.machine_says("alice", "Ready", "True", "Intercepting").await;
    let status = scene.api::<InterceptRequest>().get("me").await.unwrap().status.unwrap();
    assert_eq!((status.state, status.active), (Some(InterceptState::Active), true));
    scene.connect("alice", "stowaway-1", false).await;
    scene.says("me", "Ready", "False", "Disconnected").await;

    // An edit reaches the pods by their plan, and nothing is made anew.
    let before = scene.api::<Deployment>().get("web-carrier").await.unwrap();
    scene.cluster.merge::<InterceptRequest>("me", &json!({"spec": {"destinationPort": 4000}})).await;
    scene.says("me", "Installed", "False", "Progressing").await;
    scene.run_plan("web-carrier", "web-carrier-pod").await;
    scene.says("me", "Installed", "True", "Installed").await;
    let after = scene.api::<Deployment>().get("web-carrier").await.unwrap();
    assert_eq!(before.metadata.generation, after.metadata.generation);

    // The Service first, the carrier when nobody is led to it, the request last.
    scene.delete::<InterceptRequest>("me").await;
    scene.selects("web", json!({"app": "web"})).await;
    assert!(scene.annotation("web").await.is_none(), "nothing is left on it");
    assert!(scene.cluster.exists::<GatewayPlan>("web-carrier").await, "somebody may still be led to it");
    assert!(scene.cluster.exists::<InterceptRequest>("me").await);
    scene.slice("web", &[("web-1", "10.1.0.1")]).await;
    scene.is_gone::<GatewayPlan>("web-carrier").await;
    scene.is_gone::<InterceptRequest>("me").await;
    scene.is_gone::<Deployment>("web-carrier").await;
    scene.is_gone::<Service>("web-carrier-original").await;
    scene.is_gone::<Service>("web-carrier").await;
    scene.is_gone::<Secret>("web-carrier-keys").await;
    scene.is_gone::<ServiceAccount>("web-carrier").await;
    scene.is_gone::<Role>("web-carrier").await;
    scene.is_gone::<RoleBinding>("web-carrier").await;
    eventually("no part of a plan is left", || async {
        scene.api::<Supply>().list(&ListParams::default()).await.unwrap().items.is_empty()
    })
    .await;
    let events = scene.events("Deployment", "web").await;
    assert!(events.iter().any(|(reason, _)| reason == "InterceptEnded"), "{events:?}");
    scene.operator.stop().await;
}

#[tokio::test]
async fn two_developers_share_a_carrier_and_the_last_one_closes_the_door() {
    let scene = Scene::start().await;
    scene.workstation("bob", 2).await;
    let header = |user: &str| json!([{"headers": [{"name": "x-user", "value": user}]}]);
    scene.request("one", json!({"match": header("alice")})).await;
    scene.take_over("one").await;
    scene.request("two", json!({"match": header("bob"), "workstation": "bob"})).await;
    scene.says("two", "Accepted", "True", "Accepted").await;
    scene.says("two", "Installed", "False", "Progressing").await;
    scene.run_plan("web-carrier", "web-carrier-pod").await;
    scene.says("two", "Installed", "True", "Installed").await;

    scene.request("three", json!({"match": header("bob")})).await;
    let message = scene.says("three", "Accepted", "False", "Conflict").await;
    assert!(message.contains("default/three") && message.contains("default/two"), "{message}");

    scene.delete::<InterceptRequest>("two").await;
    scene.is_gone::<InterceptRequest>("two").await;
    assert_eq!(scene.selector("web").await["app"], "web-carrier.causeway", "the other goes on");
    // Whoever waited gets its turn.
    scene.says("three", "Accepted", "True", "Accepted").await;
    scene.delete::<InterceptRequest>("three").await;
    scene.is_gone::<InterceptRequest>("three").await;
    scene.delete::<InterceptRequest>("one").await;
    scene.selects("web", json!({"app": "web"})).await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn who_sets_the_selector_back_is_named_and_the_service_is_taken_over_again() {
    let scene = Scene::start().await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    // A tool applies what it has in its repository, which has changed since.
    let applied = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web", "tier": "front"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    });
    let params = PatchParams::apply("argocd-controller").force();
    scene.api::<Service>().patch("web", &params, &Patch::Apply(&applied)).await.unwrap();
    scene.slice("web", &[("web-1", "10.1.0.1")]).await;
    let message = scene.says("me", "Installed", "False", "TakenBack").await;
    assert!(message.contains("argocd-controller") && message.contains("Service web"), "{message}");
    // The carrier follows what the Service selects now, and then it is taken over again.
    eventually("the original pods are found by the new selector", || async {
        let twin = scene.api::<Service>().get("web-carrier-original").await.unwrap();
        twin.spec.unwrap().selector.unwrap().contains_key("tier")
    })
    .await;
    let ours = "web-carrier.causeway";
    scene.roll_carrier("web", "tier").await;
    scene.moves().await;
    scene.selects("web", json!({"app": ours, "tier": ours})).await;
    scene.slice("web", &[("web-carrier-pod", "10.9.9.9")]).await;
    scene.says("me", "Installed", "True", "Installed").await;
    scene.delete::<InterceptRequest>("me").await;
    scene.selects("web", json!({"app": "web", "tier": "front"})).await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn traffic_goes_back_to_the_original_when_the_carrier_does_not_serve() {
    let scene = Scene::start().await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    scene.delete::<Pod>("web-carrier-pod").await;
    scene.selects("web", json!({"app": "web"})).await;
    let message = scene.says("me", "Installed", "False", "CarrierNotReady").await;
    assert!(message.contains("Service web leads to its own pods"), "{message}");
    scene.slice("web", &[("web-1", "10.1.0.1")]).await;
    scene.take_over("me").await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_target_that_goes_is_given_up_and_one_that_comes_is_taken() {
    let scene = Scene::start().await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    scene.delete::<Deployment>("web").await;
    scene.says("me", "Accepted", "False", "TargetNotFound").await;
    scene.selects("web", json!({"app": "web"})).await;
    scene.slice("web", &[("web-1", "10.1.0.1")]).await;
    scene.is_gone::<GatewayPlan>("web-carrier").await;
    eventually("it waits for its target", || async {
        let request = scene.api::<InterceptRequest>().get("me").await.unwrap();
        request.status.unwrap().state == Some(InterceptState::Missing)
    })
    .await;
    scene.deployment("web").await;
    scene.take_over("me").await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn the_end_of_a_machine_restores_what_it_had_and_then_the_cluster_s_end_goes() {
    let scene = Scene::start().await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    scene.delete::<Workstation>("alice").await;
    scene.says("me", "Accepted", "False", "WorkstationNotFound").await;
    scene.selects("web", json!({"app": "web"})).await;
    assert!(scene.cluster.exists::<Workstation>("alice").await, "its target is not as it was yet");
    scene.slice("web", &[("web-1", "10.1.0.1")]).await;
    scene.is_gone::<Workstation>("alice").await;
    eventually("the cluster's end is gone", || async {
        scene.system::<Deployment>().get_opt("causeway-stowaway").await.unwrap().is_none()
            && scene.system::<Secret>().get_opt("causeway-stowaway").await.unwrap().is_none()
    })
    .await;
    scene.delete::<InterceptRequest>("me").await;
    scene.is_gone::<InterceptRequest>("me").await;
    eventually("no key is left", || async {
        scene.system::<Secret>().get_opt("causeway-stowaway-authority").await.unwrap().is_none()
    })
    .await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn the_next_operator_goes_on_where_the_last_one_was_killed() {
    let scene = Scene::start().await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    let Scene { cluster, operator } = scene;
    operator.stop().await;
    // Deleted while nobody is there to see it.
    let api = cluster.api::<InterceptRequest>();
    api.delete("me", &DeleteParams::default()).await.unwrap();
    let operator = cluster.whole();
    let scene = Scene { cluster, operator };
    scene.selects("web", json!({"app": "web"})).await;
    scene.slice("web", &[("web-1", "10.1.0.1")]).await;
    scene.is_gone::<InterceptRequest>("me").await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn the_next_operator_takes_nothing_back_of_a_namespace_that_it_has_not_read() {
    let scene = Scene::start().await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    let told = scene.told().await;
    let granted = &told["grants"];
    assert_eq!(granted.as_array().map(Vec::len), Some(1), "{told}");
    let Scene { cluster, operator } = scene;
    operator.stop().await;
    let client =
        cluster.operator_refused(|request| request.uri().path().ends_with("/namespaces/default/services"));
    let scene = Scene { operator: Cluster::run_whole(client), cluster };
    // Whoever comes is told of, and so all else is, too.
    scene.workstation("bob", 2).await;
    eventually("the other machine is told of", || async {
        let told = scene.told().await;
        if told["peers"].as_array().map(Vec::len) == Some(2) { Ok(()) } else { Err(told.to_string()) }
    })
    .await;
    assert_eq!(scene.told().await["grants"], *granted, "streams to the laptop would end");
    scene.operator.stop().await;
}

#[tokio::test]
async fn at_rest_nothing_is_written() {
    let scene = Scene::start().await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    scene.connect("alice", "stowaway-1", true).await;
    scene.says("me", "Ready", "True", "Ready").await;
    scene.machine_says("alice", "Ready", "True", "Intercepting").await;
    eventually("the revision stands still", || async {
        let before = scene.cluster.revision().await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        scene.cluster.revision().await == before
    })
    .await;
    // Something that concerns nobody changes, and brings no write but its own.
    scene.service("unrelated", json!({"app": "other"})).await;
    let before = scene.cluster.revision().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.cluster.revision().await, before);
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_service_goes_back_though_somebody_has_deleted_the_plan_of_its_carrier() {
    let scene = Scene::start().await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    scene.request("me", json!({})).await;
    scene.take_over("me").await;
    let Scene { cluster, operator } = scene;
    operator.stop().await;
    let now = DeleteParams::default();
    cluster.api::<GatewayPlan>().delete("web-carrier", &now).await.unwrap();
    cluster.api::<InterceptRequest>().delete("me", &now).await.unwrap();
    let scene = Scene { operator: cluster.whole(), cluster };
    scene.is_gone::<GatewayPlan>("web-carrier").await;
    scene.is_gone::<InterceptRequest>("me").await;
    assert_eq!(scene.selector("web").await["app"], "web", "the request goes last");
    assert!(scene.annotation("web").await.is_none());
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_plan_stays_for_as_long_as_nobody_knows_the_original_pods() {
    let scene = Scene::start().await;
    scene.request("me", json!({})).await;
    let made = || async { scene.api::<GatewayPlan>().get_opt("web-carrier").await.unwrap() };
    eventually("the carrier is made", || async {
        scene.api::<Deployment>().get_opt("web-carrier").await.unwrap().is_some()
    })
    .await;
    assert!(made().await.unwrap().spec.parts.is_empty(), "it would lead to nobody");
    scene.take_over("me").await;
    let before = made().await.unwrap().spec;
    let twin = scene.api::<Service>().get("web-carrier-original").await.unwrap().uid();
    // Somebody cleans up.
    scene.delete::<Service>("web-carrier-original").await;
    eventually("it is made again", || async {
        let found = scene.api::<Service>().get_opt("web-carrier-original").await.unwrap();
        found.is_some_and(|found| found.uid() != twin)
    })
    .await;
    scene.cluster.merge::<InterceptRequest>("me", &json!({"spec": {"destinationPort": 4000}})).await;
    scene.says("me", "Installed", "False", "Progressing").await;
    assert_eq!(made().await.unwrap().spec, before, "what runs leads to the original pods");
    let kept = scene.api::<Supply>().list(&ListParams::default()).await.unwrap().items;
    let digests: Vec<String> = kept.into_iter().filter_map(|part| Some(part.spec.plan?.digest)).collect();
    assert!(before.parts.iter().all(|part| digests.contains(part)), "{digests:?}");
    assert_eq!(scene.selector("web").await["app"], "web-carrier.causeway");
    scene.slice("web-carrier-original", &[("web-1", "10.1.0.1")]).await;
    eventually("the plan follows", || async { made().await.unwrap().spec != before }).await;
    scene.run_plan("web-carrier", "web-carrier-pod").await;
    scene.says("me", "Installed", "True", "Installed").await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_request_too_many_is_refused_and_the_older_ones_go_on() {
    // A quarter of it is for one namespace: two requests.
    let scene = Scene::configured(|config| config.intercepts.room = 1200).await;
    let header = |user: &str| json!({"match": [{"headers": [{"name": "x-user", "value": user}]}]});
    scene.request("one", header("one")).await;
    scene.take_over("one").await;
    scene.request("two", header("two")).await;
    scene.says("two", "Installed", "False", "Progressing").await;
    scene.run_plan("web-carrier", "web-carrier-pod").await;
    scene.says("two", "Installed", "True", "Installed").await;
    scene.request("three", header("three")).await;
    let message = scene.says("three", "Accepted", "False", "LimitReached").await;
    assert!(message.contains("namespace default"), "{message}");
    // The carrier of the others is looked after as before.
    let parts = || async { scene.api::<GatewayPlan>().get("web-carrier").await.unwrap().spec.parts };
    let before = parts().await;
    scene.slice("web-carrier-original", &[("web-1", "10.1.0.1"), ("web-2", "10.1.0.2")]).await;
    eventually("the carrier hears of another original pod", || async { parts().await != before }).await;
    for older in ["one", "two"] {
        scene.says(older, "Installed", "True", "Installed").await;
    }
    assert_eq!(scene.selector("web").await["app"], "web-carrier.causeway");
    assert!(scene.api::<InterceptRequest>().get("three").await.unwrap().finalizers().is_empty());
    // Whoever waited gets its turn.
    scene.delete::<InterceptRequest>("two").await;
    scene.says("three", "Accepted", "True", "Accepted").await;
    scene.operator.stop().await;
}
