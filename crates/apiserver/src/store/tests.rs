use serde_json::json;

use super::*;

fn things() -> GroupResource {
    GroupResource::new("example.dev", "things")
}

fn key(name: &str) -> Key {
    Key::new(&things(), "default", name)
}

async fn put(store: &Store, name: &str, expect: Expect, n: u64) -> Result<Arc<Stored>, WriteError> {
    let value = json!({"metadata": {"name": name, "labels": {"n": n.to_string()}}});
    store.write(key(name), expect, Mutation::Put(value)).await
}

async fn remove(store: &Store, name: &str, expect: Expect) -> Result<Arc<Stored>, WriteError> {
    store.write(key(name), expect, Mutation::Delete(json!({"metadata": {"name": name}}))).await
}

#[tokio::test]
async fn writes_in_order_and_refuses_stale_ones() {
    let store = Store::open(None).unwrap();
    let first = put(&store, "a", Expect::Absent, 1).await.unwrap();
    assert!(matches!(put(&store, "a", Expect::Absent, 2).await, Err(WriteError::Exists)));
    let second = put(&store, "a", Expect::Revision(first.revision), 2).await.unwrap();
    assert!(second.revision > first.revision);
    assert!(matches!(put(&store, "a", Expect::Revision(first.revision), 3).await, Err(WriteError::Stale)));
    assert_eq!(store.get(&key("a")).unwrap().value()["metadata"]["labels"]["n"], "2");
    assert_eq!(
        second.value()["metadata"]["resourceVersion"],
        second.revision.to_string(),
        "the stored text carries its own revision"
    );
}

#[tokio::test]
async fn a_watch_from_a_revision_sees_everything_after_it_once() {
    let store = Store::open(None).unwrap();
    let a = put(&store, "a", Expect::Absent, 1).await.unwrap();
    let mut watcher = store.watch(&things(), Some(a.revision)).unwrap();
    let b = put(&store, "b", Expect::Absent, 1).await.unwrap();
    remove(&store, "a", Expect::Revision(a.revision)).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(watcher.next().await.unwrap().iter().map(|c| (c.kind, c.object.key.name.to_string())));
    }
    assert_eq!(seen, [(ChangeKind::Added, "b".to_owned()), (ChangeKind::Deleted, "a".to_owned())]);
    assert!(watcher.position() > b.revision);
    assert!(watcher.poll().unwrap().is_empty());
}

#[tokio::test]
async fn an_older_revision_can_be_listed_as_it_was() {
    let store = Store::open(None).unwrap();
    let a = put(&store, "a", Expect::Absent, 1).await.unwrap();
    let b = put(&store, "b", Expect::Absent, 1).await.unwrap();
    put(&store, "a", Expect::Revision(a.revision), 2).await.unwrap();
    remove(&store, "b", Expect::Revision(b.revision)).await.unwrap();
    put(&store, "c", Expect::Absent, 1).await.unwrap();
    let then = store.list_at(&things(), Some("default"), b.revision).unwrap();
    let names: Vec<_> = then.items.iter().map(|o| (o.key.name.to_string(), o.labels["n"].clone())).collect();
    assert_eq!(names, [("a".into(), "1".into()), ("b".into(), "1".into())]);
}

#[tokio::test]
async fn history_is_bounded_and_a_watcher_behind_it_is_told() {
    let store = Store::open(None).unwrap();
    let first = put(&store, "a", Expect::Absent, 0).await.unwrap();
    let mut slow = store.watch(&things(), Some(first.revision)).unwrap();
    let mut last = first.revision;
    for n in 0..9000 {
        last = put(&store, "a", Expect::Revision(last), n).await.unwrap().revision;
    }
    assert!(slow.next().await.is_err());
    assert!(store.watch(&things(), Some(first.revision)).is_err());
    assert!(store.watch(&things(), Some(last)).is_ok());
    assert!(store.list_at(&things(), None, first.revision).is_err());
}

#[tokio::test]
async fn everything_acknowledged_is_there_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("store.log");
    let revision = {
        let store = Store::open(Some(&file)).unwrap();
        let a = put(&store, "a", Expect::Absent, 1).await.unwrap();
        put(&store, "b", Expect::Absent, 1).await.unwrap();
        remove(&store, "a", Expect::Revision(a.revision)).await.unwrap();
        store.revision()
    };
    let store = reopen(&file).await;
    assert_eq!(store.revision(), revision);
    assert!(store.get(&key("a")).is_none());
    assert!(store.get(&key("b")).is_some());
    assert!(store.watch(&things(), Some(revision)).is_ok());
    assert!(store.watch(&things(), Some(1)).is_err(), "history does not reach over a restart");
}

#[tokio::test]
async fn a_collection_emptied_before_a_reopen_has_no_older_history_either() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("store.log");
    let before = {
        let store = Store::open(Some(&file)).unwrap();
        let a = put(&store, "a", Expect::Absent, 1).await.unwrap();
        remove(&store, "a", Expect::Revision(a.revision)).await.unwrap();
        a.revision
    };
    let store = reopen(&file).await;
    assert!(store.list_at(&things(), None, before).is_err());
    assert!(store.watch(&things(), Some(before)).is_err(), "its deletion would be missed");
    put(&store, "b", Expect::Absent, 1).await.unwrap();
    assert!(store.watch(&things(), Some(before)).is_err());
}

/// The committer thread lets go of the file a moment after the last handle is dropped.
async fn reopen(file: &Path) -> Store {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        match Store::open(Some(file)) {
            Ok(store) => return store,
            Err(error) => assert!(std::time::Instant::now() < deadline, "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_file_that_is_no_store_is_refused_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("store.log");
    std::fs::write(&file, b"this is not a database, and it is long enough to be looked at").unwrap();
    let error = Store::open(Some(&file)).err().unwrap().to_string();
    assert!(error.contains("store.log") && error.contains("move it away"), "{error}");
}

#[tokio::test]
async fn many_writers_share_syncs_and_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(Some(&dir.path().join("s"))).unwrap());
    let writers = (0..32).map(|w| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..20 {
                put(&store, &format!("w{w}-{n}"), Expect::Absent, n).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let all = store.list(&things(), None);
    assert_eq!(all.items.len(), 640);
    let mut revisions: Vec<_> = all.items.iter().map(|o| o.revision).collect();
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 640, "every write has a revision of its own");
}
