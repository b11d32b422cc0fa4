use std::{collections::BTreeSet, fs};

use causeway_testkit::eventually;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    coordination::v1::Lease,
    core::v1::{Endpoints, Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::world::{World, container, is_ready};

const POLITE: &str = "trap 'exit 0' TERM; while :; do sleep 0.1; done";

fn deployment(replicas: i32, strategy: Value, extra: Value) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"terminationGracePeriodSeconds": 5, "containers": [container(POLITE, extra)]}},
        },
    })
}

async fn complete(world: &World, replicas: i32) -> Deployment {
    eventually("the rollout is complete", async || {
        let deployment = world.api::<Deployment>().get("web").await.expect("the Deployment is there");
        let status = deployment.status.clone().unwrap_or_default();
        let counts =
            [status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas];
        let all = counts.iter().all(|count| count.unwrap_or(0) == replicas);
        let seen = status.observed_generation == deployment.metadata.generation;
        if all && seen { Ok(deployment) } else { Err(format!("{status:?}")) }
    })
    .await
}

async fn change_image(world: &World, tag: &str) {
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": format!("example.test/own:{tag}")}]}}}});
    world
        .api::<Deployment>()
        .patch("web", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .expect("the Deployment is there");
}

fn images(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers[0].image.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_rolls_out_scales_and_is_undone() {
    let world = World::start().await;
    world.create::<Deployment>(deployment(2, json!({}), json!({}))).await;
    let first = complete(&world, 2).await;
    assert_eq!(first.annotations()["deployment.kubernetes.io/revision"], "1");

    change_image(&world, "2").await;
    let second = complete(&world, 2).await;
    assert_eq!(second.annotations()["deployment.kubernetes.io/revision"], "2");
    let progressing =
        second.status.unwrap().conditions.unwrap().into_iter().find(|c| c.type_ == "Progressing").unwrap();
    assert_eq!(progressing.reason.as_deref(), Some("NewReplicaSetAvailable"));
    eventually("only new pods are left", async || {
        let images = images(&world.pods().await);
        (images == BTreeSet::from(["example.test/own:2".to_owned()]))
            .then_some(())
            .ok_or(format!("{images:?}"))
    })
    .await;

    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    world.api::<Deployment>().patch_scale("web", &PatchParams::default(), &scale).await.unwrap();
    complete(&world, 3).await;

    change_image(&world, "1").await;
    let undone = complete(&world, 3).await;
    assert_eq!(undone.annotations()["deployment.kubernetes.io/revision"], "3");
    let sets = world.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(sets.len(), 2, "going back uses the ReplicaSet of the old template");

    world.api::<Deployment>().delete("web", &DeleteParams::background()).await.unwrap();
    eventually("its pods are gone with it", async || {
        let left = world.pods().await.len();
        if left == 0 { Ok(()) } else { Err(left.to_string()) }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recreate_never_mixes_templates() {
    let world = World::start().await;
    world.create::<Deployment>(deployment(2, json!({"type": "Recreate"}), json!({}))).await;
    complete(&world, 2).await;
    change_image(&world, "2").await;
    eventually("the new pods are there, and never beside the old ones", async || {
        let images = images(&world.pods().await);
        assert!(images.len() <= 1, "{images:?}");
        let deployment = world.api::<Deployment>().get("web").await.unwrap();
        let updated = deployment.status.and_then(|status| status.updated_replicas).unwrap_or(0);
        (images.contains("example.test/own:2") && updated == 2).then_some(()).ok_or(format!("{images:?}"))
    })
    .await;
    complete(&world, 2).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_pods_are_replaced_and_orphans_adopted() {
    let world = World::start().await;
    world.create::<Deployment>(deployment(1, json!({}), json!({}))).await;
    complete(&world, 1).await;
    let before = world.pods().await.remove(0);
    world.delete_pod(&before.name_any(), 5).await;
    let after = eventually("another pod is ready", async || {
        let pods = world.pods().await;
        pods.into_iter().find(|pod| pod.uid() != before.uid() && is_ready(pod)).ok_or_else(String::new)
    })
    .await;
    let release = Patch::Merge(json!({"metadata": {"labels": {"app": "other"}}}));
    world.api::<Pod>().patch(&after.name_any(), &PatchParams::default(), &release).await.unwrap();
    eventually("the pod that no longer matches is let go", async || {
        let pod = world.api::<Pod>().get(&after.name_any()).await.unwrap();
        if pod.owner_references().is_empty() { Ok(()) } else { Err(format!("{:?}", pod.owner_references())) }
    })
    .await;
    // The Deployment is complete until its status follows, so that says nothing yet.
    eventually("another pod is made in its place, and the first is gone", async || {
        let pods = world.pods().await;
        let is_new = |pod: &Pod| ![before.uid(), after.uid()].contains(&pod.uid());
        pods.iter().all(|pod| pod.uid() != before.uid())
            && pods.iter().any(|pod| is_new(pod) && is_ready(pod))
    })
    .await;
    complete(&world, 1).await;
    assert_eq!(world.pods().await.len(), 2);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_gates_endpoint_slices() {
    let world = World::start().await;
    let marker = world.path("ready");
    let extra = json!({
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"exec": {"command": ["/bin/sh", "-c", format!("test -f {marker}")]}, "periodSeconds": 1, "failureThreshold": 1},
    });
    world.create::<Service>(json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"name": "web", "port": 80, "targetPort": "http"}]}})).await;
    world.create::<Deployment>(deployment(1, json!({}), extra)).await;
    let ready = async |wanted: bool| {
        eventually("the endpoint follows its pod", async || {
            let labels = ListParams::default().labels("kubernetes.io/service-name=web");
            let slices = world.api::<EndpointSlice>().list(&labels).await.unwrap().items;
            let endpoints: Vec<_> = slices.iter().flat_map(|slice| &slice.endpoints).collect();
            let states: Vec<_> =
                endpoints.iter().filter_map(|endpoint| endpoint.conditions.as_ref()?.ready).collect();
            if states == [wanted] { Ok(slices) } else { Err(format!("{slices:?}")) }
        })
        .await
    };
    ready(false).await;
    fs::write(&marker, "").unwrap();
    let slices = ready(true).await;
    let slice = slices.iter().find(|slice| !slice.endpoints.is_empty()).unwrap();
    assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(8080));
    complete(&world, 1).await;
    eventually("the older Endpoints say the same", async || {
        let endpoints = world.api::<Endpoints>().get("web").await.unwrap();
        let subset = endpoints.subsets.clone().unwrap_or_default().into_iter().next();
        let ready =
            subset.is_some_and(|subset| subset.addresses.is_some_and(|addresses| addresses.len() == 1));
        if ready { Ok(()) } else { Err(format!("{endpoints:?}")) }
    })
    .await;
    fs::remove_file(&marker).unwrap();
    ready(false).await;
    world.api::<Service>().delete("web", &DeleteParams::default()).await.unwrap();
    eventually("the slices go with the Service", async || {
        let left = world
            .api::<EndpointSlice>()
            .list(&ListParams::default().labels("kubernetes.io/service-name=web"))
            .await
            .unwrap()
            .items
            .len();
        if left == 0 { Ok(()) } else { Err(left.to_string()) }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_registers_and_keeps_its_lease() {
    let world = World::start().await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    eventually("the node is ready", async || {
        let node = nodes.get_opt("test-node").await.unwrap();
        let conditions = node.and_then(|node| node.status?.conditions).unwrap_or_default();
        let ready =
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if ready { Ok(()) } else { Err(format!("{conditions:?}")) }
    })
    .await;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-node-lease");
    eventually("the lease is held", async || {
        let lease = leases.get_opt("test-node").await.unwrap();
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        if holder.as_deref() == Some("test-node") { Ok(()) } else { Err(format!("{holder:?}")) }
    })
    .await;
    world.finish().await;
}
