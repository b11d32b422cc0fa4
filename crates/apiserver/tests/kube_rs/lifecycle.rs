//! Finalizers, owners and namespaces.

use std::sync::Arc;
use std::time::Duration;

use causeway_testkit::eventually;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use crate::cluster::{Cluster, config_map, create, refused, typed};

const FINALIZER: &str = "example.dev/cleanup";

async fn reconcile(api: &Api<ConfigMap>, name: &str) -> &'static str {
    let object = Arc::new(api.get(name).await.unwrap());
    let mut done = "added the finalizer";
    finalizer(api, FINALIZER, object, |event| {
        done = match event {
            Event::Apply(_) => "applied",
            Event::Cleanup(_) => "cleaned up",
        };
        async { Ok::<_, std::convert::Infallible>(Action::requeue(Duration::from_mins(1))) }
    })
    .await
    .unwrap();
    done
}

#[tokio::test]
async fn the_finalizer_helper_holds_an_object_until_it_is_cleaned_up() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    create(&api, config_map("c", &[])).await;
    assert_eq!(reconcile(&api, "c").await, "added the finalizer");
    assert_eq!(reconcile(&api, "c").await, "applied");
    api.delete("c", &DeleteParams::default()).await.unwrap().left().expect("it stays, marked");
    assert_eq!(reconcile(&api, "c").await, "cleaned up");
    assert!(api.get_opt("c").await.unwrap().is_none());
}

async fn family(cluster: &Cluster) -> (ConfigMap, Api<ConfigMap>) {
    let api = cluster.config_maps();
    let owner = create(&api, config_map("owner", &[])).await;
    let mut child = config_map("child", &[]);
    let mut reference = owner.controller_owner_ref(&()).unwrap();
    reference.block_owner_deletion = Some(true);
    child.metadata.owner_references = Some(vec![reference]);
    create(&api, child).await;
    (owner, api)
}

async fn is_gone(api: &Api<ConfigMap>, name: &str) -> bool {
    api.get_opt(name).await.unwrap().is_none()
}

#[tokio::test]
async fn background_deletion_removes_the_owner_first_and_the_child_soon() {
    let cluster = Cluster::start().await;
    let (_, api) = family(&cluster).await;
    api.delete("owner", &DeleteParams::background()).await.unwrap();
    assert!(is_gone(&api, "owner").await);
    eventually("the child is collected", || is_gone(&api, "child")).await;
}

#[tokio::test]
async fn foreground_deletion_keeps_the_owner_until_the_child_is_gone() {
    let cluster = Cluster::start().await;
    let (_, api) = family(&cluster).await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": [FINALIZER]}}));
    api.patch("child", &PatchParams::default(), &hold).await.unwrap();
    api.delete("owner", &DeleteParams::foreground()).await.unwrap();
    let owner = api.get("owner").await.unwrap();
    assert_eq!(owner.finalizers(), ["foregroundDeletion"]);
    eventually("the child is being deleted", || async {
        api.get("child").await.unwrap().metadata.deletion_timestamp.is_some()
    })
    .await;
    assert!(!is_gone(&api, "owner").await);
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("child", &PatchParams::default(), &release).await.unwrap();
    eventually("the owner follows", || is_gone(&api, "owner")).await;
    assert!(is_gone(&api, "child").await);
}

#[tokio::test]
async fn orphaned_children_stay_without_their_owner() {
    let cluster = Cluster::start().await;
    let (_, api) = family(&cluster).await;
    api.delete("owner", &DeleteParams::orphan()).await.unwrap();
    eventually("the owner is gone", || is_gone(&api, "owner")).await;
    let child = api.get("child").await.unwrap();
    assert!(child.owner_references().is_empty() && child.metadata.deletion_timestamp.is_none());
}

#[tokio::test]
async fn a_child_of_an_owner_that_never_was_is_collected() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let child: ConfigMap = typed(json!({"metadata": {"name": "child", "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "11111111-2222-3333-4444-555555555555"},
    ]}}));
    create(&api, child).await;
    eventually("the child is collected", || is_gone(&api, "child")).await;
}

#[tokio::test]
async fn a_namespace_gets_its_account_and_takes_its_objects_along() {
    let cluster = Cluster::start().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let team: Namespace = typed(json!({"metadata": {"name": "team"}}));
    let made = namespaces.create(&PostParams::default(), &team).await.unwrap();
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Active"));
    assert_eq!(made.metadata.labels.unwrap()["kubernetes.io/metadata.name"], "team");
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), "team");
    eventually("the default account is there", || async {
        accounts.get_opt("default").await.unwrap().is_some()
    })
    .await;

    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "team");
    let held: ConfigMap = typed(json!({"metadata": {"name": "held", "finalizers": [FINALIZER]}}));
    create(&api, held).await;
    create(&api, config_map("free", &[])).await;
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let going = namespaces.get("team").await.unwrap();
    assert_eq!(going.status.unwrap().phase.as_deref(), Some("Terminating"));
    let status = refused(api.create(&PostParams::default(), &config_map("late", &[])).await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        status.message,
        "configmaps \"late\" is forbidden: unable to create new content in namespace team because it is being terminated"
    );
    assert_eq!(status.details.unwrap().causes[0].reason, "NamespaceTerminating");
    eventually("the rest is emptied", || is_gone(&api, "free")).await;
    assert!(namespaces.get_opt("team").await.unwrap().is_some(), "it waits for the finalizer");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("held", &PatchParams::default(), &release).await.unwrap();
    eventually("the namespace is gone", || async { namespaces.get_opt("team").await.unwrap().is_none() })
        .await;
    let status = refused(api.create(&PostParams::default(), &config_map("late", &[])).await);
    assert_eq!((status.code, status.message.as_str()), (404, "namespaces \"team\" not found"));
}
