//! Pods of other images, with a fake runtime in this process: the keepers are real, the containers are not.

use causeway_containers::{
    Kind,
    fake::{Fake, FakeContainer, Fault, Operation},
};
use causeway_node::LogOptions;
use causeway_testkit::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::world::{World, is_ready, phase, restarts, waiting};

fn pod(name: &str, extra: Value) -> Value {
    let mut container = json!({"name": "main", "image": "web:1"});
    let fields = extra.as_object().expect("an object").clone();
    container.as_object_mut().expect("an object").extend(fields);
    json!({
        "metadata": {"name": name, "annotations": {"causeway.dev/networks": "blue", "causeway.dev/network-aliases": "api"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    })
}

fn runtime() -> Fake {
    let fake = Fake::start(Kind::Docker);
    fake.add_image("web:1");
    fake.add_network("blue");
    fake
}

/// The one container there is.
async fn only(fake: &Fake) -> FakeContainer {
    eventually("there is one container that runs", async || {
        let mut all = fake.containers();
        match (all.pop(), all.is_empty()) {
            (Some(one), true) if one.running => Ok(one),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_of_another_image_runs_in_the_runtime() {
    let fake = runtime();
    let world = World::start_with(Some(fake.choice())).await;
    world.create::<ConfigMap>(json!({"metadata": {"name": "settings"}, "data": {"colour": "red"}})).await;
    let mut spec = pod(
        "web",
        json!({
            "args": ["serve", "$(COLOUR)"],
            "env": [{"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}}],
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings", "readOnly": true}],
        }),
    );
    spec["spec"]["volumes"] = json!([{"name": "settings", "configMap": {"name": "settings"}}]);
    world.create::<Pod>(spec).await;
    let up = world.pod("web", "the pod is ready", is_ready).await;
    let container = only(&fake).await;
    let ip = up.status.unwrap().pod_ip.unwrap();
    assert!(ip.starts_with("10.99."), "the pod's address is the container's: {ip}");
    assert_eq!(container.command, ["serve", "red"]);
    assert!(container.env.contains(&"COLOUR=red".to_owned()), "{:?}", container.env);
    assert_eq!(container.networks["blue"], ["web", "api"]);
    assert_eq!(container.labels["dev.causeway/name"], "default/web");

    fake.write_log(&container.name, "hello");
    eventually("the line is in the log", async || {
        let text = world.logs("web", LogOptions::default()).await;
        (text == "hello\n").then_some(()).ok_or(text)
    })
    .await;

    fake.exit(&container.name, 3);
    let again = world.pod("web", "it was started again", |pod| restarts(pod) == 1 && is_ready(pod)).await;
    let last = again.status.unwrap().container_statuses.unwrap()[0].last_state.clone().unwrap();
    assert_eq!(last.terminated.unwrap().exit_code, 3);
    let second = only(&fake).await;
    assert_ne!(second.name, container.name);

    world.delete_pod("web", 1).await;
    eventually("pod and container are gone", async || {
        let pod = world.api::<Pod>().get_opt("web").await.unwrap();
        let left = fake.containers();
        if pod.is_none() && left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_runtime_a_pod_says_where_it_was_looked_for() {
    let fake = runtime();
    fake.die();
    let world = World::start_with(Some(fake.choice())).await;
    world.create::<Pod>(pod("web", json!({}))).await;
    let stuck = world
        .pod("web", "the pod says why", |pod| {
            waiting(pod).is_some_and(|(reason, _)| reason == "RuntimeUnavailable")
        })
        .await;
    let (_, message) = waiting(&stuck).unwrap();
    assert!(message.contains(&fake.socket().display().to_string()), "{message}");
    assert_eq!(phase(&stuck), "Pending");
    fake.restart();
    world.pod("web", "it runs once there is a runtime", is_ready).await;
    world.delete_pod("web", 0).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_is_missing_says_so() {
    let fake = runtime();
    let world = World::start_with(Some(fake.choice())).await;
    world.create::<Pod>(pod("never", json!({"image": "gone:1", "imagePullPolicy": "Never"}))).await;
    let stuck = world
        .pod("never", "the pod says why", |pod| {
            waiting(pod).is_some_and(|(reason, _)| reason == "ErrImageNeverPull")
        })
        .await;
    assert!(waiting(&stuck).unwrap().1.contains("gone:1"));
    fake.fault(Operation::Pull, Fault::error(500, "no route to host"), usize::MAX);
    world.create::<Pod>(pod("pull", json!({"image": "gone:1"}))).await;
    let stuck = world
        .pod("pull", "the pod says why", |pod| {
            waiting(pod).is_some_and(|(reason, _)| reason == "ErrImagePull")
        })
        .await;
    assert!(waiting(&stuck).unwrap().1.contains("no route to host"));
    world.delete_pod("never", 0).await;
    world.delete_pod("pull", 0).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_outlives_a_crash_of_the_node_and_is_swept_with_its_pod() {
    let fake = runtime();
    let mut world = World::start_with(Some(fake.choice())).await;
    world.create::<Pod>(pod("web", json!({}))).await;
    let ip = world.pod("web", "the pod is ready", is_ready).await.status.unwrap().pod_ip;
    let container = only(&fake).await;
    world.crash_node().await;
    fake.write_log(&container.name, "nobody looks after the node");
    world.start_node();
    eventually("the keeper went on", async || {
        let text = world.logs("web", LogOptions::default()).await;
        text.contains("nobody looks").then_some(()).ok_or(text)
    })
    .await;
    let adopted = world.pod("web", "the pod is ready", is_ready).await;
    assert_eq!((restarts(&adopted), adopted.status.unwrap().pod_ip), (0, ip));
    assert_eq!(only(&fake).await.id, container.id);

    world.crash_node().await;
    world.delete_pod("web", 0).await;
    world.start_node();
    eventually("the container of a deleted pod is gone", async || {
        let left = fake.containers();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_lives_on_over_a_restart_of_the_runtime() {
    let fake = runtime();
    let world = World::start_with(Some(fake.choice())).await;
    world.create::<Pod>(pod("web", json!({}))).await;
    world.pod("web", "the pod is ready", is_ready).await;
    let container = only(&fake).await;
    fake.die();
    fake.restart();
    fake.write_log(&container.name, "after the restart");
    eventually("the log goes on", async || {
        let text = world.logs("web", LogOptions::default()).await;
        text.contains("after the restart").then_some(()).ok_or(text)
    })
    .await;
    fake.die();
    fake.exit(&container.name, 1);
    fake.restart();
    world
        .pod("web", "what ended meanwhile is started again", |pod| restarts(pod) == 1 && is_ready(pod))
        .await;
    world.delete_pod("web", 0).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_of_a_pod_share_a_network() {
    let fake = runtime();
    let world = World::start_with(Some(fake.choice())).await;
    let mut spec = pod("pair", json!({}));
    spec["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "side", "image": "web:1"}));
    world.create::<Pod>(spec).await;
    world.pod("pair", "the pod is ready", is_ready).await;
    let all = fake.containers();
    let names: Vec<_> = all.iter().map(|one| one.labels["dev.causeway/container"].as_str()).collect();
    assert_eq!(names, ["main", "side"]);
    assert!(!all[0].networks.is_empty());
    assert_eq!(all[1].network_mode, format!("container:{}", all[0].name));
    world.delete_pod("pair", 0).await;
    world.finish().await;
}

/// The runtime makes the container, does not say that it has started it, and the shim is gone before it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_that_never_came_to_a_start_goes_with_its_pod() {
    let fake = runtime();
    let world = World::start_with(Some(fake.choice())).await;
    fake.fault(Operation::StartContainer, Fault::Hang, 1);
    world.create::<Pod>(pod("web", json!({}))).await;
    eventually("there is a container", async || {
        if fake.containers().is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
    let record = eventually("the shim is on record", async || {
        let text = std::fs::read_to_string(world.attempt("web", "main", 0).join("record.json"));
        text.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok()).ok_or("none")
    })
    .await;
    let shim = record["shim"]["pid"].as_i64().unwrap() as i32;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(shim).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    world
        .pod("web", "the pod says that it was not started", |pod| {
            waiting(pod).is_some_and(|(reason, _)| reason == "RunContainerError")
        })
        .await;
    world.delete_pod("web", 0).await;
    eventually("the container is gone with the pod", async || {
        let left = fake.containers();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_becomes_a_process_has_its_own_address_again() {
    let fake = runtime();
    let world = World::start_with(Some(fake.choice())).await;
    let forever = json!({"command": ["/bin/sh", "-c", "while :; do sleep 0.1; done"]});
    world.create::<Pod>(pod("web", forever)).await;
    let up = world.pod("web", "the container is ready", is_ready).await;
    assert!(up.status.unwrap().pod_ip.unwrap().starts_with("10.99."));
    let image = json!({"spec": {"containers": [{"name": "main", "image": "example.test/own:1"}]}});
    world.api::<Pod>().patch("web", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
    world
        .pod("web", "the process is reached where it is", |pod| {
            let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
            is_ready(pod) && restarts(pod) == 1 && address.starts_with("127.")
        })
        .await;
    world.delete_pod("web", 0).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_joins_the_networks_of_its_namespace_only() {
    let fake = runtime();
    let world = World::start_with(Some(fake.choice())).await;
    world.distrust().await;
    world.create::<Pod>(pod("web", json!({}))).await;
    let stuck = world.pod("web", "the pod says why", |pod| waiting(pod).is_some()).await;
    let (_, message) = waiting(&stuck).unwrap();
    assert!(
        message.contains("no ContainerNetwork of namespace default is the network \"blue\""),
        "{message}"
    );
    world.delete_pod("web", 0).await;

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("causeway.dev", "v1alpha1", "ContainerNetwork"));
    let networks = Api::<DynamicObject>::default_namespaced_with(world.client.clone(), &kind);
    let network =
        DynamicObject::new("app", &kind).data(json!({"spec": {"mode": "existing", "networkName": "blue"}}));
    networks.create(&PostParams::default(), &network).await.unwrap();
    let status = Patch::Merge(json!({"status": {"networkName": "blue"}}));
    networks.patch_status("app", &PatchParams::default(), &status).await.unwrap();
    world.create::<Pod>(pod("second", json!({}))).await;
    world.pod("second", "the pod is ready", is_ready).await;
    world.delete_pod("second", 0).await;
    world.finish().await;
}
