//! Creating, updating and deleting, and what each of them may not do.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::cluster::{Cluster, config_map, create, events, labelled, refused, typed, version};

fn deployment(name: &str, replicas: i32) -> Deployment {
    typed(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.dev/main:1"}]},
            },
        },
    }))
}

#[tokio::test]
async fn a_stale_update_is_a_conflict_in_kubernetes_words() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let old = create(&api, config_map("c", &[("k", "1")])).await;
    api.patch("c", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "2"}}))).await.unwrap();
    let status = refused(api.replace("c", &PostParams::default(), &old).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on configmaps \"c\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let details = status.details.unwrap();
    assert_eq!((details.name.as_str(), details.kind.as_str()), ("c", "configmaps"));
}

#[tokio::test]
async fn an_entry_is_committed_once_and_then_conflicts() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let set = |object: &mut ConfigMap| {
        object.data.get_or_insert_default().insert("k".into(), "v".into());
    };
    let mut entry = api.entry("e").await.unwrap().or_insert(ConfigMap::default).and_modify(set);
    entry.commit(&PostParams::default()).await.unwrap();
    let mut late = api.entry("e").await.unwrap().or_insert(ConfigMap::default);
    let other = Patch::Merge(json!({"data": {"k": "other"}}));
    api.patch("e", &PatchParams::default(), &other).await.unwrap();
    late.get_mut().data.get_or_insert_default().insert("k".into(), "late".into());
    let error = late.commit(&PostParams::default()).await.unwrap_err();
    assert!(format!("{error:?}").contains("409"), "{error:?}");
    let status = refused(api.create(&PostParams::default(), &config_map("e", &[])).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(status.message, "configmaps \"e\" already exists");
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_and_emits_nothing() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let made = create(&api, config_map("c", &[("k", "v")])).await;
    let revision = cluster.revision().await;
    let replaced = api.replace("c", &PostParams::default(), &made).await.unwrap();
    let same = json!({"data": {"k": "v"}});
    let merged = api.patch("c", &PatchParams::default(), &Patch::Merge(&same)).await.unwrap();
    let strategic = api.patch("c", &PatchParams::default(), &Patch::Strategic(&same)).await.unwrap();
    for object in [replaced, merged, strategic] {
        assert_eq!(version(&object), version(&made));
    }
    assert_eq!(cluster.revision().await, revision);

    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"x": "y"}});
    let params = PatchParams::apply("me");
    let first = api.patch("s", &params, &Patch::Apply(&applied)).await.unwrap();
    let second = api.patch("s", &params, &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(version(&first), version(&second));
    create(&api, config_map("marker", &[])).await;
    let seen = events(&api, &WatchParams::default(), revision, 2).await;
    assert_eq!(seen, [("ADDED", "s".to_owned()), ("ADDED", "marker".to_owned())]);
}

#[tokio::test]
async fn a_dry_run_answers_and_writes_nothing() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    create(&api, config_map("c", &[("k", "1")])).await;
    let revision = cluster.revision().await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let made = api.create(&dry, &config_map("new", &[])).await.unwrap();
    assert!(made.uid().is_some());
    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    let patched = api.patch("c", &PatchParams::default().dry_run(), &patch).await.unwrap();
    assert_eq!(patched.data.unwrap()["k"], "2");
    api.delete("c", &DeleteParams::default().dry_run()).await.unwrap();
    let dry_apply = PatchParams::apply("me").dry_run();
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "b"}});
    api.patch("applied", &dry_apply, &Patch::Apply(&applied)).await.unwrap();
    let status = refused(api.create(&dry, &config_map("c", &[])).await);
    assert_eq!(status.reason, "AlreadyExists", "a dry run meets what a real one would");
    let nameless: ConfigMap = typed(json!({"metadata": {"generateName": "made-"}}));
    assert_ne!(api.create(&dry, &nameless).await.unwrap().name_any(), "");
    assert_eq!(cluster.revision().await, revision);
    assert!(api.get_opt("new").await.unwrap().is_none());
    assert_eq!(api.get("c").await.unwrap().data.unwrap()["k"], "1");
}

#[tokio::test]
async fn generated_names_differ_and_keep_their_prefix() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let nameless: ConfigMap = typed(json!({"metadata": {"generateName": "made-"}}));
    let mut names = Vec::new();
    for _ in 0..20 {
        names.push(create(&api, nameless.clone()).await.name_any());
    }
    assert!(names.iter().all(|n| n.len() == "made-".len() + 5 && n.starts_with("made-")), "{names:?}");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 20);
}

#[tokio::test]
async fn status_and_spec_are_isolated_both_ways() {
    let cluster = Cluster::start().await;
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), "default");
    let mut sent = deployment("d", 2);
    sent.status = Some(typed(json!({"replicas": 7})));
    let made = api.create(&PostParams::default(), &sent).await.unwrap();
    assert_eq!(made.status.unwrap_or_default().replicas, None, "create drops the status");
    assert_eq!(made.metadata.generation, Some(1));

    let both =
        Patch::Merge(json!({"spec": {"replicas": 5}, "status": {"replicas": 3, "observedGeneration": 1}}));
    let params = PatchParams::default();
    let by_status = api.patch_status("d", &params, &both).await.unwrap();
    assert_eq!(by_status.spec.as_ref().unwrap().replicas, Some(2));
    assert_eq!(by_status.status.as_ref().unwrap().replicas, Some(3));
    assert_eq!(by_status.metadata.generation, Some(1), "a status write is no new generation");

    let both = Patch::Merge(json!({"spec": {"replicas": 4}, "status": {"replicas": 9}}));
    let by_spec = api.patch("d", &params, &both).await.unwrap();
    assert_eq!(by_spec.spec.as_ref().unwrap().replicas, Some(4));
    assert_eq!(by_spec.status.as_ref().unwrap().replicas, Some(3));
    assert_eq!(by_spec.metadata.generation, Some(2));

    let labels = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let labelled = api.patch("d", &params, &labels).await.unwrap();
    assert_eq!(labelled.metadata.generation, Some(2), "labels are no new generation");
}

#[tokio::test]
async fn scale_reads_and_writes_replicas_alone() {
    let cluster = Cluster::start().await;
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), "default");
    api.create(&PostParams::default(), &deployment("d", 2)).await.unwrap();
    let scale = api.get_scale("d").await.unwrap();
    assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(2));
    assert_eq!(scale.status.as_ref().unwrap().selector.as_deref(), Some("app=d"));
    let patch = Patch::Merge(json!({"spec": {"replicas": 6}}));
    let patched = api.patch_scale("d", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.spec.unwrap().replicas, Some(6));
    let now = api.get("d").await.unwrap();
    assert_eq!((now.spec.as_ref().unwrap().replicas, now.metadata.generation), (Some(6), Some(2)));
    let status = refused(api.replace_scale("d", &PostParams::default(), &scale).await);
    assert_eq!(status.code, 409, "a scale made from an older revision");
}

#[tokio::test]
async fn preconditions_guard_a_delete() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let made = create(&api, config_map("c", &[])).await;
    let with = |preconditions| DeleteParams::default().preconditions(preconditions);
    let wrong = Preconditions { uid: Some("not-this-one".into()), ..Preconditions::default() };
    let status = refused(api.delete("c", &with(wrong)).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        status.message,
        format!(
            "Operation cannot be fulfilled on ConfigMap \"c\": the UID in the precondition (not-this-one) does not match the UID in record ({}). The object might have been deleted and then recreated",
            made.uid().unwrap()
        )
    );
    let stale = Preconditions { resource_version: Some("1".into()), ..Preconditions::default() };
    assert_eq!(refused(api.delete("c", &with(stale)).await).code, 409);
    let right = Preconditions { uid: made.uid(), resource_version: made.resource_version() };
    api.delete("c", &with(right)).await.unwrap();
    let status = refused(api.delete("c", &DeleteParams::default()).await);
    assert_eq!((status.code, status.message.as_str()), (404, "configmaps \"c\" not found"));
}

#[tokio::test]
async fn a_collection_is_deleted_in_two_phases_where_finalizers_ask_for_it() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    for name in ["a", "b"] {
        create(&api, labelled(name, "set", "x")).await;
    }
    let kept: ConfigMap = typed(json!({
        "metadata": {"name": "kept", "labels": {"set": "x"}, "finalizers": ["example.dev/hold"]},
    }));
    create(&api, kept).await;
    create(&api, labelled("other", "set", "y")).await;
    let from = cluster.revision().await;
    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("set=x")).await.unwrap();

    let held = api.get("kept").await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    assert!(api.get_opt("a").await.unwrap().is_none() && api.get_opt("b").await.unwrap().is_none());
    assert!(api.get_opt("other").await.unwrap().is_some());
    let add = Patch::Merge(json!({"metadata": {"finalizers": ["example.dev/hold", "example.dev/more"]}}));
    let status = refused(api.patch("kept", &PatchParams::default(), &add).await);
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "no new finalizers while it goes");
    api.delete("kept", &DeleteParams::default()).await.unwrap();
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("kept", &PatchParams::default(), &release).await.unwrap();
    assert!(api.get_opt("kept").await.unwrap().is_none());

    let seen = events(&api, &WatchParams::default(), from, 4).await;
    let expected = [("DELETED", "a"), ("DELETED", "b"), ("MODIFIED", "kept"), ("DELETED", "kept")];
    assert_eq!(seen, expected.map(|(kind, name)| (kind, name.to_owned())), "a second delete emits nothing");
}
