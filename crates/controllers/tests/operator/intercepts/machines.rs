//! Developers' machines, and the cluster's end of them.

use std::collections::BTreeSet;

use causeway_api::{InterceptRequest, Workstation};
use causeway_testkit::eventually;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Secret, Service},
    rbac::v1::{ClusterRole, PolicyRule, Role, RoleBinding},
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::scene::{SYSTEM, Scene, wireguard_key};
use crate::cluster::Cluster;

async fn status(scene: &Scene, name: &str) -> causeway_api::WorkstationStatus {
    scene.api::<Workstation>().get(name).await.unwrap().status.unwrap_or_default()
}

#[tokio::test]
async fn the_first_machine_brings_the_cluster_s_end_with_all_that_it_needs_to_know() {
    let scene = Scene::start().await;
    scene.machine_says("alice", "Ready", "Unknown", "Initializing").await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    scene.stowaway("stowaway-2", "10.9.0.2").await;
    scene.machine_says("alice", "Ready", "True", "Standby").await;
    let said = status(&scene, "alice").await;
    assert_eq!(said.address.as_deref(), Some("10.213.0.2"));
    assert_eq!(said.server_public_key.as_ref().map(String::len), Some(44));
    let authority = said.authority.clone().unwrap();
    assert!(authority.starts_with("-----BEGIN CERTIFICATE-----") && !authority.contains("PRIVATE"));
    assert!(said.certificate.clone().unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    eventually("the pods are told", || async {
        let pods = status(&scene, "alice").await.stowaway.unwrap_or_default();
        pods.pods == ["stowaway-1", "stowaway-2"] && (pods.namespace.as_str(), pods.port) == (SYSTEM, 7844)
    })
    .await;
    let deployment = scene.system::<Deployment>().get("causeway-stowaway").await.unwrap();
    let spec = deployment.spec.unwrap();
    assert_eq!(spec.replicas, Some(2));
    let pod = spec.template.spec.unwrap();
    assert_eq!(pod.containers[0].args.as_ref().unwrap()[0], "stowaway");
    let entry = scene.system::<Service>().get("causeway-stowaway-entry").await.unwrap();
    let ports: Vec<_> = entry.spec.unwrap().ports.unwrap().iter().map(|port| port.node_port).collect();
    assert_eq!(ports, [Some(31844), Some(31820)]);
    // Everybody who is somebody reaches these pods through the API server, and no others.
    eventually("the role names the pods", || async {
        let role = scene.system::<Role>().get_opt("causeway-stowaway-connect").await.unwrap()?;
        let rules = role.rules.unwrap();
        let forward =
            rules.iter().find(|rule| rule.resources == Some(vec!["pods/portforward".to_owned()]))?;
        (forward.resource_names == Some(vec!["stowaway-1".to_owned(), "stowaway-2".to_owned()])).then_some(())
    })
    .await;
    let binding = scene.system::<RoleBinding>().get("causeway-stowaway-connect").await.unwrap();
    assert_eq!(binding.subjects.unwrap()[0].name, "system:authenticated");
    // No key of ours is in a custom resource.
    let text = serde_json::to_string(&scene.api::<Workstation>().get("alice").await.unwrap()).unwrap();
    assert!(!text.contains("PRIVATE"));
    let events = scene.events("Workstation", "alice").await;
    let reasons: BTreeSet<&str> = events.iter().map(|(reason, _)| reason.as_str()).collect();
    assert!(reasons.contains("Initializing") && reasons.contains("Standby"), "{reasons:?}");
    scene.operator.stop().await;
}

#[tokio::test]
async fn every_machine_has_an_address_of_its_own_and_keeps_it() {
    let scene = Scene::start().await;
    for (n, name) in ["bob", "carol", "dave"].iter().enumerate() {
        scene.workstation(name, 10 + n as u8).await;
    }
    let all = || async {
        let mut found = Vec::new();
        for name in ["alice", "bob", "carol", "dave"] {
            found.extend(status(&scene, name).await.address);
        }
        found
    };
    let given =
        eventually("all have one", || async { Some(all().await).filter(|given| given.len() == 4) }).await;
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 4, "{given:?}");
    scene.delete::<Workstation>("bob").await;
    scene.is_gone::<Workstation>("bob").await;
    scene.workstation("erin", 20).await;
    eventually("the free one is given again", || async {
        status(&scene, "erin").await.address.as_ref() == Some(&given[1])
    })
    .await;
    assert_eq!(status(&scene, "dave").await.address.as_ref(), Some(&given[3]));
    let peers = scene.told().await["peers"].as_array().unwrap().len();
    assert_eq!(peers, 4);
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_key_that_another_machine_has_is_refused() {
    let scene = Scene::start().await;
    scene.machine_says("alice", "Ready", "Unknown", "Initializing").await;
    scene.workstation("thief", 1).await;
    let message = scene.machine_says("thief", "Ready", "False", "KeyReused").await;
    assert!(message.contains("default/alice"), "{message}");
    let said = status(&scene, "thief").await;
    assert!(said.address.is_none() && said.certificate.is_none());
    assert_eq!(scene.told().await["peers"].as_array().unwrap().len(), 1);
    scene.request("me", json!({"workstation": "thief"})).await;
    scene.says("me", "Accepted", "False", "WorkstationNotFound").await;
    // The first one goes, and the key is free.
    scene.delete::<Workstation>("alice").await;
    scene.is_gone::<Workstation>("alice").await;
    scene.machine_says("thief", "Ready", "Unknown", "Initializing").await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn one_that_can_not_be_written_keeps_nobody_else_waiting() {
    let cluster = Cluster::start().await;
    let client = cluster.operator_refused(|request| {
        request.method() == http::Method::PATCH && request.uri().path().contains("/workstations/a-large")
    });
    let operator = Cluster::run_whole(client);
    let scene = Scene { cluster, operator };
    scene.workstation("a-large", 3).await;
    scene.workstation("alice", 1).await;
    scene.machine_says("alice", "Ready", "Unknown", "Initializing").await;
    let has_finalizer =
        || async { !scene.api::<Workstation>().get("alice").await.unwrap().finalizers().is_empty() };
    eventually("the younger one is held", has_finalizer).await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_request_for_a_certificate_that_is_none_is_said() {
    let scene = Scene::start().await;
    let spec = json!({
        "publicKey": wireguard_key(7),
        "certificateRequest": "-----BEGIN CERTIFICATE REQUEST-----\nrubbish\n-----END CERTIFICATE REQUEST-----\n",
    });
    scene
        .create::<Workstation>(json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "Workstation", "metadata": {"name": "odd"}, "spec": spec,
        }))
        .await;
    let message = scene.machine_says("odd", "Ready", "False", "InvalidSpec").await;
    assert!(message.contains("spec.certificateRequest"), "{message}");
    scene.operator.stop().await;
}

/// What is there before the operator comes.
async fn with_before(kind: &str, object: Value) -> Scene {
    let cluster = Cluster::start().await;
    let client = cluster.client.clone();
    match kind {
        "Service" => {
            let api = Api::<Service>::namespaced(
                client,
                object["metadata"]["namespace"].as_str().unwrap_or(SYSTEM),
            );
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
        "Deployment" => {
            let api = Api::<Deployment>::namespaced(client, SYSTEM);
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
        _ => {
            let api = Api::<Secret>::namespaced(client, SYSTEM);
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
    }
    let operator = cluster.whole();
    let scene = Scene { cluster, operator };
    scene.workstation("alice", 1).await;
    scene
}

#[tokio::test]
async fn a_busy_port_of_the_nodes_is_told_and_another_is_taken() {
    let taken = json!({
        "metadata": {"name": "taken", "namespace": "default"},
        "spec": {"type": "NodePort", "ports": [{"port": 1, "nodePort": 31820, "protocol": "UDP"}]},
    });
    let scene = with_before("Service", taken).await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    let entry = eventually("the entry is made", || async {
        scene.system::<Service>().get_opt("causeway-stowaway-entry").await.unwrap()
    })
    .await;
    let ports: Vec<_> = entry.spec.unwrap().ports.unwrap().iter().filter_map(|port| port.node_port).collect();
    assert!(ports.len() == 2 && ports[0] == 31844 && ports[1] != 31820, "{ports:?}");
    let message = scene.machine_says("alice", "Ready", "True", "Standby").await;
    eventually("it is said which", || async {
        let all = status(&scene, "alice").await.conditions;
        all.iter()
            .any(|one| one.message.contains(&format!("node port 31820 was taken, {} is used", ports[1])))
    })
    .await;
    assert!(message.contains("may connect"), "{message}");
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_busy_port_is_named_where_no_other_may_be_taken() {
    let cluster = Cluster::start().await;
    let taken = json!({
        "metadata": {"name": "taken"},
        "spec": {"type": "NodePort", "ports": [{"port": 1, "nodePort": 31844}]},
    });
    let services = cluster.api::<Service>();
    services.create(&PostParams::default(), &serde_json::from_value(taken).unwrap()).await.unwrap();
    let operator = cluster.configured(|config| config.intercepts.next_port = false);
    let scene = Scene { cluster, operator };
    scene.workstation("alice", 1).await;
    let message = scene.machine_says("alice", "Ready", "False", "NodePortBusy").await;
    assert!(message.contains("31844") && message.contains("already allocated"), "{message}");
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    // It goes on by itself once the port is free.
    scene.delete::<Service>("taken").await;
    scene.machine_says("alice", "Ready", "True", "Standby").await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_right_that_the_operator_lacks_is_named() {
    let cluster = Cluster::start().await;
    let roles = Api::<ClusterRole>::all(cluster.client.clone());
    let mut role = roles.get("causeway-operator").await.unwrap();
    let is_of_deployments =
        |rule: &&mut PolicyRule| rule.resources.iter().flatten().any(|resource| resource == "deployments");
    for rule in role.rules.iter_mut().flatten().filter(is_of_deployments) {
        rule.verbs.retain(|verb| ["get", "list", "watch"].contains(&verb.as_str()));
    }
    roles.replace("causeway-operator", &PostParams::default(), &role).await.unwrap();
    let operator = cluster.whole();
    let scene = Scene { cluster, operator };
    scene.workstation("alice", 1).await;
    let message = scene.machine_says("alice", "Ready", "False", "MissingPrivileges").await;
    assert!(message.contains("deployments"), "{message}");
    scene.operator.stop().await;
}

#[tokio::test]
async fn what_is_in_the_way_has_a_name() {
    let plain = |name: &str, rest: Value| {
        let mut object = json!({"metadata": {"name": name}});
        for (field, value) in rest.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        object
    };
    for (kind, object, reason, part) in [
        (
            "Service",
            plain("causeway-stowaway", json!({"spec": {"ports": [{"port": 80}]}})),
            "ServiceExists",
            "causeway-system/causeway-stowaway already exists",
        ),
        (
            "Secret",
            plain("causeway-stowaway-authority", json!({"stringData": {"x": "y"}})),
            "AnotherInstance",
            "already exists and belongs to nobody",
        ),
        (
            "Deployment",
            plain(
                "causeway-stowaway",
                json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
                    "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}}}),
            ),
            "AnotherInstance",
            "causeway-system/causeway-stowaway already exists",
        ),
    ] {
        let scene = with_before(kind, object).await;
        let message = scene.machine_says("alice", "Ready", "False", reason).await;
        assert!(message.contains(part), "{kind}: {message}");
        scene.operator.stop().await;
    }
}

#[tokio::test]
async fn pods_that_do_not_start_are_told_by_what_keeps_them() {
    let scene = Scene::start().await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    scene.machine_says("alice", "Ready", "True", "Standby").await;
    let pods = scene.system::<k8s_openapi::api::core::v1::Pod>();
    for (state, reason) in [
        (json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}), "ImagePullFailed"),
        (json!({"waiting": {"reason": "CrashLoopBackOff", "message": "again"}}), "PodsFailing"),
    ] {
        let entry = json!({"name": "stowaway", "ready": false, "restartCount": 0, "image": "x", "imageID": "", "state": state});
        let status = json!({"status": {
            "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [entry],
        }});
        pods.patch_status("stowaway-1", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        let message = scene.machine_says("alice", "Ready", "False", reason).await;
        assert!(message.contains("stowaway-1"), "{message}");
    }
    let deployments = scene.system::<Deployment>();
    pods.delete("stowaway-1", &kube::api::DeleteParams::default().grace_period(0)).await.unwrap();
    let refused = json!({"status": {"conditions": [{
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": "pods is forbidden: violates PodSecurity",
    }]}});
    deployments
        .patch_status("causeway-stowaway", &PatchParams::default(), &Patch::Merge(&refused))
        .await
        .unwrap();
    scene.machine_says("alice", "Ready", "False", "MissingPrivileges").await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn words_of_a_pod_that_is_gone_are_taken_back() {
    let scene = Scene::start().await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    scene.connect("alice", "stowaway-1", true).await;
    scene.machine_says("alice", "Connected", "True", "Connected").await;
    let pods = scene.system::<k8s_openapi::api::core::v1::Pod>();
    pods.delete("stowaway-1", &kube::api::DeleteParams::default().grace_period(0)).await.unwrap();
    scene.machine_says("alice", "Connected", "False", "Disconnected").await;
    eventually("the entry is gone", || async { status(&scene, "alice").await.connections.is_empty() }).await;
    scene.operator.stop().await;
}

#[tokio::test]
async fn what_is_forgotten_ends_by_itself() {
    let scene = Scene::start().await;
    scene.request("me", json!({"ttl": "60s"})).await;
    scene.take_over("me").await;
    // As if it were a long time ago.
    let Scene { cluster, operator } = scene;
    operator.stop().await;
    let operator = cluster.later(|| jiff::Timestamp::now() + jiff::SignedDuration::from_secs(120));
    let scene = Scene { cluster, operator };
    scene.selects("web", json!({"app": "web"})).await;
    scene.slice("web", &[("web-1", "10.1.0.1")]).await;
    scene.is_gone::<InterceptRequest>("me").await;
    let events = scene.events("InterceptRequest", "me").await;
    assert!(events.iter().any(|(reason, _)| reason == "Expired"), "{events:?}");
    assert!(scene.api::<Workstation>().get("alice").await.unwrap().uid().is_some(), "it has no time to live");
    scene.operator.stop().await;
}

#[tokio::test]
async fn keys_are_never_replaced_though_the_caches_do_not_show_them() {
    let scene = Scene::start().await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    scene.machine_says("alice", "Ready", "True", "Standby").await;
    let secrets = scene.system::<Secret>();
    let before = secrets.get("causeway-stowaway-authority").await.unwrap().data;
    let unlabel = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}});
    let params = PatchParams::default();
    secrets.patch("causeway-stowaway-authority", &params, &Patch::Merge(&unlabel)).await.unwrap();
    for (name, key) in [("bob", 2), ("carol", 3)] {
        scene.workstation(name, key).await;
        scene.machine_says(name, "Ready", "True", "Standby").await;
    }
    assert_eq!(secrets.get("causeway-stowaway-authority").await.unwrap().data, before);
    scene.operator.stop().await;
}

#[tokio::test]
async fn a_machine_that_is_not_let_in_any_more_is_not_connected() {
    let scene = Scene::start().await;
    scene.stowaway("stowaway-1", "10.9.0.1").await;
    scene.connect("alice", "stowaway-1", true).await;
    scene.machine_says("alice", "Connected", "True", "Connected").await;
    let none = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
    let spoil = json!({"spec": {"certificateRequest": none}});
    scene.cluster.merge::<Workstation>("alice", &spoil).await;
    scene.machine_says("alice", "Ready", "False", "InvalidSpec").await;
    scene.machine_says("alice", "Connected", "False", "Disconnected").await;
    scene.operator.stop().await;
}
