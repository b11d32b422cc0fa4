//! Lists in pages, and other ways to read.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::cluster::{Cluster, config_map, create, labelled, refused};

#[tokio::test]
async fn pages_are_of_one_snapshot_while_writers_go_on() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    for n in 0..50 {
        create(&api, config_map(&format!("c{n:02}"), &[("v", "old")])).await;
    }
    let whole: Vec<_> = names(&api.list(&ListParams::default()).await.unwrap().items);
    let mut params = ListParams::default().limit(8);
    let (mut seen, mut versions) = (Vec::new(), Vec::new());
    loop {
        let page = api.list(&params).await.unwrap();
        assert!(page.items.len() <= 8);
        let old =
            |object: &ConfigMap| object.data.as_ref().is_none_or(|d| d.get("v").is_none_or(|v| v == "old"));
        assert!(page.items.iter().all(old), "every page shows the revision of the first");
        seen.extend(names(&page.items));
        versions.push(page.metadata.resource_version.clone().unwrap());
        let token = page.metadata.continue_.filter(|t| !t.is_empty());
        let left = page.metadata.remaining_item_count.unwrap_or(0) as usize;
        assert_eq!(left, whole.len() - seen.len());
        let Some(token) = token else { break };
        // Between pages: change all, remove one that is still to come, add one that would sort last.
        let step = seen.len();
        let change = Patch::Merge(json!({"data": {"v": "new"}}));
        for name in seen.iter().chain(&whole).filter(|n| n.starts_with('c')) {
            let _ = api.patch(name, &PatchParams::default(), &change).await;
        }
        let _ = api.delete(&whole[whole.len() - 1 - step / 8], &DeleteParams::default()).await;
        create(&api, config_map(&format!("z{step}"), &[])).await;
        params = ListParams::default().limit(8).continue_token(&token);
    }
    assert_eq!(seen, whole);
    versions.dedup();
    assert_eq!(versions.len(), 1, "all pages name one resourceVersion");
}

fn names(items: &[ConfigMap]) -> Vec<String> {
    items.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn a_broken_continue_token_is_refused() {
    let cluster = Cluster::start().await;
    let params = ListParams::default().limit(1).continue_token("rubbish");
    let status = refused(cluster.config_maps().list(&params).await);
    assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"), "{}", status.message);
}

#[tokio::test]
async fn every_selector_operator_selects() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    for (name, tier) in [("a", "web"), ("b", "db"), ("c", "cache")] {
        create(&api, labelled(name, "tier", tier)).await;
    }
    create(&api, config_map("bare", &[])).await;
    for (selector, expected) in [
        ("tier=web", vec!["a"]),
        ("tier==web", vec!["a"]),
        ("tier!=web", vec!["b", "bare", "c"]),
        ("tier in (web,db)", vec!["a", "b"]),
        ("tier notin (web,db)", vec!["bare", "c"]),
        ("tier", vec!["a", "b", "c"]),
        ("!tier", vec!["bare"]),
        ("tier,tier!=db", vec!["a", "c"]),
    ] {
        let list = api.list(&ListParams::default().labels(selector)).await.unwrap();
        let found: Vec<_> = names(&list.items).into_iter().filter(|n| n != "kube-root-ca.crt").collect();
        assert_eq!(found, expected, "{selector}");
    }
    let one = api.list(&ListParams::default().fields("metadata.name=b")).await.unwrap();
    assert_eq!(names(&one.items), ["b"]);
    for bad in ["tier in web", "a b", "=x"] {
        assert_eq!(refused(api.list(&ListParams::default().labels(bad)).await).code, 400, "{bad}");
    }
    let status = refused(api.list(&ListParams::default().fields("data.x=b")).await);
    assert_eq!(status.code, 400);
    assert!(status.message.contains("\"data.x\" is not a known field selector"), "{}", status.message);
}

#[tokio::test]
async fn metadata_alone_can_be_read() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    create(&api, config_map("c", &[("big", "value")])).await;
    let list = api.list_metadata(&ListParams::default().fields("metadata.name=c")).await.unwrap();
    assert_eq!(list.items.len(), 1);
    assert_eq!(api.get_metadata("c").await.unwrap().name_any(), "c");
}

/// As kube-apiserver does it: clients that need the type of an item know it from the list.
#[tokio::test]
async fn items_of_built_in_kinds_have_no_type_and_all_else_has_one() {
    let cluster = Cluster::start().await;
    create(&cluster.config_maps(), config_map("m", &[("a", "b")])).await;
    let maps = ApiResource::erase::<ConfigMap>(&());
    let api = Api::<DynamicObject>::default_namespaced_with(cluster.client.clone(), &maps);
    let listed = api.list(&ListParams::default()).await.unwrap();
    assert!(listed.items.iter().all(|item| item.types.is_none() && item.data["data"].is_object()));
    assert_eq!(listed.types.kind, "ConfigMapList");
    assert_eq!(api.get("m").await.unwrap().types.unwrap().kind, "ConfigMap");
    let mut events = Box::pin(api.watch(&WatchParams::default(), "0").await.unwrap());
    let Some(Ok(WatchEvent::Added(seen))) = events.next().await else { panic!("an object is there") };
    assert_eq!(seen.types.unwrap().kind, "ConfigMap");

    let crds = ApiResource::from_gvk(&GroupVersionKind::gvk("causeway.dev", "v1alpha1", "Infra"));
    let infras = Api::<DynamicObject>::default_namespaced_with(cluster.client.clone(), &crds);
    let infra = DynamicObject::new("lab", &crds).data(json!({"spec": {
        "networkConfig": {"cidr": "192.168.1.0/24", "gateway": "192.168.1.1", "networkAttachmentDefinition": "vlan"},
        "infraComponents": {},
    }}));
    infras.create(&PostParams::default(), &infra).await.unwrap();
    let listed = infras.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].types.as_ref().unwrap().kind, "Infra", "custom resources keep theirs");
}
