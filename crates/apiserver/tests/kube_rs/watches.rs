//! Watchers, reflectors and what they do when history is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_testkit::{eventually, soon};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::cluster::{Cluster, config_map, create, events, labelled, next, version};

/// More changes than the history of one collection keeps.
const PAST_HISTORY: usize = 9000;

async fn names_until_ready(api: Api<ConfigMap>, config: watcher::Config) -> Vec<String> {
    let mut stream = watcher(api, config).boxed();
    let mut names = Vec::new();
    loop {
        match next(&mut stream).await.unwrap() {
            watcher::Event::InitApply(object) => names.push(object.name_any()),
            watcher::Event::InitDone => return names,
            _ => {}
        }
    }
}

#[tokio::test]
async fn both_kinds_of_initial_list_see_the_same_objects() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    for n in 0..25 {
        create(&api, config_map(&format!("c{n:02}"), &[])).await;
    }
    let mut listed = names_until_ready(api.clone(), watcher::Config::default().page_size(7)).await;
    let mut streamed = names_until_ready(api.clone(), watcher::Config::default().streaming_lists()).await;
    listed.sort();
    streamed.sort();
    assert_eq!(listed, streamed);
    assert!(listed.len() >= 25);
}

#[tokio::test]
async fn a_streaming_list_goes_on_with_changes_after_its_bookmark() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    create(&api, config_map("before", &[])).await;
    let mut stream = watcher(api.clone(), watcher::Config::default().streaming_lists()).boxed();
    while !matches!(next(&mut stream).await.unwrap(), watcher::Event::InitDone) {}
    create(&api, config_map("after", &[])).await;
    let watcher::Event::Apply(object) = next(&mut stream).await.unwrap() else {
        panic!("a change comes next")
    };
    assert_eq!(object.name_any(), "after");
}

async fn churn(api: Api<ConfigMap>, writer: usize) {
    for n in 0..60 {
        let name = format!("w{writer}-{}", n % 10);
        if n % 7 == 6 {
            let _ = api.delete(&name, &DeleteParams::default()).await;
        } else {
            let patch = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": n.to_string()}});
            api.patch(&name, &PatchParams::apply("churn").force(), &Patch::Apply(&patch)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn reflectors_equal_the_server_after_churn() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let mut followers = Vec::new();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let (reader, writer) = reflector::store();
        let stream = reflector(writer, watcher(api.clone(), config)).default_backoff();
        let task = tokio::spawn(stream.try_for_each(|_| async { Ok(()) }));
        reader.wait_until_ready().await.unwrap();
        followers.push((reader, task));
    }
    let writers: Vec<_> = (0..4).map(|w| tokio::spawn(churn(api.clone(), w))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let truth: BTreeMap<_, _> = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|o| (o.name_any(), (version(&o), o.data)))
        .collect();
    for (reader, task) in followers {
        eventually("the reflector has caught up", || async {
            let state: BTreeMap<_, _> =
                reader.state().into_iter().map(|o| (o.name_any(), (version(&*o), o.data.clone()))).collect();
            state == truth
        })
        .await;
        task.abort();
    }
}

#[tokio::test]
async fn an_object_that_leaves_a_selector_is_deleted_for_that_watch() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let from = cluster.revision().await;
    create(&api, labelled("a", "app", "x")).await;
    create(&api, labelled("b", "app", "y")).await;
    let relabel = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"app": value}}}));
    let params = PatchParams::default();
    api.patch("a", &params, &relabel("y")).await.unwrap();
    api.patch("b", &params, &relabel("x")).await.unwrap();
    let left = api.get("a").await.unwrap();
    api.patch("b", &params, &Patch::Merge(json!({"data": {"k": "v"}}))).await.unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();

    let seen = events(&api, &WatchParams::default().labels("app=x"), from, 5).await;
    let expected = [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")];
    assert_eq!(seen, expected.map(|(kind, name)| (kind, name.to_owned())));

    let stream = api.watch(&WatchParams::default().labels("app=x"), &from.to_string()).await.unwrap();
    let mut stream = std::pin::pin!(stream);
    next(&mut stream).await.unwrap();
    let WatchEvent::Deleted(gone) = next(&mut stream).await.unwrap() else { panic!("a leaves the selector") };
    assert_eq!(version(&gone), version(&left), "a watch goes on from the event's revision");
}

#[tokio::test]
async fn field_and_set_selectors_work_on_watches() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let from = cluster.revision().await;
    for (name, tier) in [("a", "web"), ("b", "db"), ("c", "cache")] {
        create(&api, labelled(name, "tier", tier)).await;
    }
    let by_name = events(&api, &WatchParams::default().fields("metadata.name=b"), from, 1).await;
    assert_eq!(by_name, [("ADDED", "b".to_owned())]);
    let by_set = events(&api, &WatchParams::default().labels("tier notin (web),tier"), from, 2).await;
    assert_eq!(by_set, [("ADDED", "b".to_owned()), ("ADDED", "c".to_owned())]);
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_with_a_bookmark() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let from = cluster.revision().await;
    // Changes of other kinds move the bookmark on.
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.client.clone());
    let other = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    let other = namespaces.create(&PostParams::default(), &other).await.unwrap();
    let stream = api.watch(&WatchParams::default().timeout(1), &from.to_string()).await.unwrap();
    let seen: Vec<_> = soon("the end of the watch", stream.try_collect()).await.unwrap();
    let Some(WatchEvent::Bookmark(bookmark)) = seen.last() else { panic!("ends with a bookmark: {seen:?}") };
    assert!(bookmark.metadata.resource_version.parse::<u64>().unwrap() >= version(&other));
}

/// Changes one object until the history before is gone.
async fn outrun(cluster: &Cluster) {
    let api = cluster.config_maps();
    for n in 0..PAST_HISTORY {
        let patch = Patch::Merge(json!({"data": {"n": n.to_string()}}));
        api.patch("busy", &PatchParams::default(), &patch).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_recovers_when_history_is_gone() {
    let cluster = Cluster::start().await;
    let api = cluster.config_maps();
    let first = create(&api, config_map("busy", &[])).await;
    create(&api, config_map("leaves", &[])).await;
    // Both stop reading before the history moves on.
    let mut recovering = watcher(api.clone(), watcher::Config::default()).boxed();
    while !matches!(next(&mut recovering).await.unwrap(), watcher::Event::InitDone) {}
    let slow = api.watch(&WatchParams::default(), &version(&first).to_string()).await.unwrap();
    let mut slow = std::pin::pin!(slow);

    let started = tokio::time::Instant::now();
    outrun(&cluster).await;
    api.delete("leaves", &DeleteParams::default()).await.unwrap();
    assert!(started.elapsed() < Duration::from_mins(2), "watchers that do not read delay no writer");

    let WatchEvent::Error(status) = ({
        let mut last = next(&mut slow).await.unwrap();
        while !matches!(last, WatchEvent::Error(_)) {
            last = next(&mut slow).await.unwrap();
        }
        last
    }) else {
        unreachable!("the loop ends with an error")
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"), "{status:?}");
    assert!(status.message.starts_with("too old resource version: "), "{}", status.message);
    assert!(slow.next().await.is_none(), "nothing follows the error");

    let mut names = Vec::new();
    loop {
        match soon("the next event", recovering.next()).await.unwrap() {
            Ok(watcher::Event::Init) => names.clear(),
            Ok(watcher::Event::InitApply(object)) => names.push(object.name_any()),
            Ok(watcher::Event::InitDone) => break,
            Ok(_) | Err(watcher::Error::WatchError(_)) => {}
            Err(error) => panic!("only 410 is expected: {error}"),
        }
    }
    assert!(names.contains(&"busy".to_owned()) && !names.contains(&"leaves".to_owned()), "{names:?}");
}
