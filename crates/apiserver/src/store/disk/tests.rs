use serde_json::json;

use super::*;
use crate::store::GroupResource;

fn stored(name: &str, revision: u64) -> Arc<Stored> {
    let value = json!({"kind": "Thing", "metadata": {"name": name, "labels": {"a": "b"}}});
    let key = Key::new(&GroupResource::new("example.dev", "things"), "default", name);
    Arc::new(Stored::new(key, value, revision))
}

fn put(name: &str, revision: u64) -> Arc<Change> {
    Arc::new(Change::new(ChangeKind::Added, stored(name, revision), None))
}

fn delete(name: &str, revision: u64) -> Arc<Change> {
    Arc::new(Change::new(ChangeKind::Deleted, stored(name, revision), None))
}

fn names(objects: &[Stored]) -> Vec<(String, u64)> {
    objects.iter().map(|o| (o.key.name.to_string(), o.revision)).collect()
}

/// A store with three groups.
fn fill(path: &Path) {
    let (mut disk, _, _) = Disk::open(path).unwrap();
    for (changes, revision) in
        [(vec![put("a", 2), put("b", 3)], 3), (vec![put("c", 4)], 4), (vec![delete("a", 5)], 5)]
    {
        disk.commit(&changes, revision).unwrap();
    }
}

#[test]
fn what_was_committed_is_there_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.log");
    fill(&path);
    let (_, revision, objects) = Disk::open(&path).unwrap();
    assert_eq!((revision, names(&objects)), (5, vec![("b".into(), 3), ("c".into(), 4)]));
    assert_eq!(objects[0].labels["a"], "b");
}

#[test]
fn damage_is_told_with_the_ways_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.log");
    fill(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = Disk::open(&path).err().expect("what was acknowledged is not dropped").to_string();
    for said in [path.to_str().unwrap(), "damaged at byte 16", "copy", "truncate -s 16"] {
        assert!(error.contains(said), "{said} in {error}");
    }
}

#[test]
fn a_store_without_marks_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.log");
    fill(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[15] = 1;
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(Disk::open(&path).unwrap().1, 5);
}

#[test]
fn a_rewrite_keeps_the_objects_and_drops_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.log");
    let (mut disk, _, _) = Disk::open(&path).unwrap();
    for revision in 2..600 {
        disk.commit(&[put("a", revision)], revision).unwrap();
    }
    let before = disk.journal.size();
    disk.rewrite(599, &[stored("a", 599)]).unwrap();
    assert!(disk.journal.size() < before / 100, "{before} to {}", disk.journal.size());
    disk.commit(&[put("b", 600)], 600).unwrap();
    drop(disk);
    let (_, revision, objects) = Disk::open(&path).unwrap();
    assert_eq!((revision, names(&objects)), (600, vec![("a".into(), 599), ("b".into(), 600)]));
}

#[test]
fn a_rewrite_of_nothing_keeps_the_revision() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.log");
    let (mut disk, _, _) = Disk::open(&path).unwrap();
    disk.rewrite(77, &[]).unwrap();
    drop(disk);
    assert_eq!(Disk::open(&path).unwrap().1, 77);
}

#[test]
fn a_second_holder_and_an_unknown_format_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.log");
    let (held, _, _) = Disk::open(&path).unwrap();
    assert!(matches!(Disk::open(&path), Err(OpenError::InUse { .. })));
    drop(held);
    let mut header = FORM.header;
    header[15] = 9;
    std::fs::write(&path, header).unwrap();
    let error = Disk::open(&path).err().unwrap().to_string();
    assert!(error.contains("format 9"), "{error}");
}
