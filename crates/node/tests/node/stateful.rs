//! StatefulSets in process: their pods are small scripts that write into their claims.

use std::collections::BTreeMap;

use causeway_testkit::eventually;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{Event, PersistentVolumeClaim, Pod},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::world::{World, container, is_ready};

/// Writes a line into its claim at every start.
const DIARY: &str =
    "trap 'exit 0' TERM; echo started >> $CAUSEWAY_ROOT/data/diary; while :; do sleep 0.1; done";

fn set(replicas: i32, more: Value) -> Value {
    let mut set = json!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {
                "terminationGracePeriodSeconds": 5,
                "containers": [container(DIARY, json!({"volumeMounts": [{"name": "data", "mountPath": "/data"}]}))],
            }},
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
            }],
        },
    });
    set["spec"].as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    set
}

async fn complete(world: &World, replicas: i32) -> StatefulSet {
    eventually("the rollout is complete", async || {
        let set = world.api::<StatefulSet>().get("db").await.expect("the set is there");
        let status = set.status.clone().unwrap_or_default();
        let counts = [
            Some(status.replicas),
            status.updated_replicas,
            status.ready_replicas,
            status.available_replicas,
        ];
        let all = counts.iter().all(|count| count.unwrap_or(0) == replicas);
        let seen = status.observed_generation == set.metadata.generation;
        let done = status.current_revision == status.update_revision;
        if all && seen && done { Ok(set) } else { Err(format!("{status:?}")) }
    })
    .await
}

async fn patch(world: &World, patch: Value) {
    let patched =
        world.api::<StatefulSet>().patch("db", &PatchParams::default(), &Patch::Strategic(patch)).await;
    patched.expect("the set is there");
}

fn image(tag: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": format!("example.test/own:{tag}")}]}}}})
}

async fn uids(world: &World) -> BTreeMap<String, String> {
    world.pods().await.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_keep_their_names_and_files() {
    let world = World::start().await;
    world.create::<StatefulSet>(set(2, json!({}))).await;
    complete(&world, 2).await;
    let before = uids(&world).await;
    assert_eq!(before.keys().collect::<Vec<_>>(), ["db-0", "db-1"]);
    world.delete_pod("db-0", 5).await;
    world.pod("db-0", "it is back", |pod| is_ready(pod) && pod.uid().as_ref() != before.get("db-0")).await;
    let claim = world.api::<PersistentVolumeClaim>().get("data-db-0").await.expect("its claim is there");
    let diary =
        world.data_dir().join("claims/default/data-db-0").join(claim.uid().unwrap()).join("data/diary");
    eventually("it found what the one before had written", async || {
        let text = std::fs::read_to_string(&diary).unwrap_or_default();
        if text == "started\nstarted\n" { Ok(()) } else { Err(text) }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_goes_from_the_last_pod_to_the_first_and_back() {
    let world = World::start().await;
    world.create::<StatefulSet>(set(3, json!({}))).await;
    complete(&world, 3).await;
    patch(&world, image("2")).await;
    complete(&world, 3).await;
    let events = world.api::<Event>().list(&ListParams::default()).await.expect("Events can be listed").items;
    let mut deleted: Vec<_> =
        events.iter().filter(|event| event.reason.as_deref() == Some("SuccessfulDelete")).collect();
    deleted.sort_by_key(|event| {
        event.metadata.resource_version.as_ref().and_then(|version| version.parse::<u64>().ok())
    });
    let words: Vec<_> =
        deleted.iter().filter_map(|event| event.message.as_deref()?.split(' ').nth(2)).collect();
    assert_eq!(words, ["db-2", "db-1", "db-0"]);

    // What kubectl does for `rollout undo`.
    let revisions =
        world.api::<ControllerRevision>().list(&ListParams::default()).await.expect("a list").items;
    assert_eq!(revisions.len(), 2);
    let first = revisions.into_iter().find(|revision| revision.revision == 1).expect("the first one");
    patch(&world, first.data.clone().expect("a patch").0).await;
    complete(&world, 3).await;
    let images: Vec<_> =
        world.pods().await.iter().filter_map(|pod| pod.spec.as_ref()?.containers[0].image.clone()).collect();
    assert_eq!(images, ["example.test/own:1"; 3]);
    let again = world.api::<ControllerRevision>().get(&first.name_any()).await.expect("it is used again");
    assert_eq!(again.revision, 3);
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_is_not_ready_holds_back_the_next_and_history_is_bounded() {
    let world = World::start().await;
    let flag = world.path("flag");
    let probe =
        json!({"exec": {"command": ["/bin/sh", "-c", format!("test -e {flag}")]}, "periodSeconds": 1});
    let mut waiting = set(2, json!({"revisionHistoryLimit": 1}));
    waiting["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe;
    world.create::<StatefulSet>(waiting).await;
    world
        .pod("db-0", "the first one runs", |pod| {
            pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
                && !is_ready(pod)
        })
        .await;
    assert_eq!(uids(&world).await.len(), 1, "the second one waits for it");
    std::fs::write(&flag, "").expect("a file");
    complete(&world, 2).await;
    for tag in ["2", "3", "4"] {
        patch(&world, image(tag)).await;
        complete(&world, 2).await;
    }
    eventually("old revisions are forgotten", async || {
        let left =
            world.api::<ControllerRevision>().list(&ListParams::default()).await.expect("a list").items;
        let numbers: Vec<_> = left.iter().map(|revision| revision.revision).collect();
        if numbers.len() == 2 && numbers.contains(&4) && numbers.contains(&3) {
            Ok(())
        } else {
            Err(format!("{numbers:?}"))
        }
    })
    .await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_are_adopted_and_strangers_left_alone() {
    let world = World::start().await;
    let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
    let pod = |name: &str| {
        let mut pod = crate::world::pod(name, script, json!({}));
        pod["metadata"]["labels"] = json!({"app": "db"});
        pod
    };
    world.create::<Pod>(pod("db-0")).await;
    world.create::<Pod>(pod("stranger")).await;
    let before = uids(&world).await;
    let mut plain = set(1, json!({"updateStrategy": {"type": "OnDelete"}}));
    plain["spec"].as_object_mut().expect("an object").remove("volumeClaimTemplates");
    plain["spec"]["template"]["spec"]["containers"] = json!([container(script, json!({}))]);
    world.create::<StatefulSet>(plain).await;
    let adopted = world
        .pod("db-0", "it is adopted", |pod| {
            pod.owner_references().len() == 1 && pod.labels().contains_key("apps.kubernetes.io/pod-index")
        })
        .await;
    assert_eq!(adopted.uid().as_ref(), before.get("db-0"));
    let stranger = world.api::<Pod>().get("stranger").await.expect("it is there");
    assert!(stranger.owner_references().is_empty());
    world.api::<StatefulSet>().delete("db", &DeleteParams::background()).await.expect("it can be deleted");
    eventually("the stranger is left", async || {
        let left = uids(&world).await;
        if left.len() == 1 && left.contains_key("stranger") { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    world.finish().await;
}
