use serde_json::json;

use super::*;
use crate::store::GroupResource;

fn stored(name: &str, revision: u64) -> Arc<Stored> {
    let value =
        json!({"metadata": {"name": name, "labels": {"a": "b"}, "resourceVersion": revision.to_string()}});
    Arc::new(Stored {
        key: Key::new(&GroupResource::new("example.dev", "things"), "default", name),
        revision,
        json: value.to_string().into(),
        labels: crate::object::labels(&value),
    })
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

/// A log with three groups, and where each ends.
fn log(path: &Path) -> Vec<u64> {
    let (mut disk, _, _) = Disk::open(path).unwrap();
    let mut ends = vec![disk.end];
    for (changes, revision) in
        [(vec![put("a", 2), put("b", 3)], 3), (vec![put("c", 4)], 4), (vec![delete("a", 5)], 5)]
    {
        disk.commit(&changes, revision).unwrap();
        ends.push(disk.end);
    }
    ends
}

#[test]
fn what_was_committed_is_there_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.log");
    log(&path);
    let (_, revision, objects) = Disk::open(&path).unwrap();
    assert_eq!((revision, names(&objects)), (5, vec![("b".into(), 3), ("c".into(), 4)]));
    assert_eq!(objects[0].labels["a"], "b");
}

#[test]
fn a_log_cut_at_any_byte_keeps_every_group_that_was_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.log");
    let ends = log(&path);
    let whole = std::fs::read(&path).unwrap();
    for cut in ends[0]..=ends[3] {
        std::fs::write(&path, &whole[..cut as usize]).unwrap();
        let (disk, revision, _) = Disk::open(&path).unwrap();
        let groups = ends.iter().filter(|end| **end <= cut).count() - 1;
        assert_eq!(revision, [1, 3, 4, 5][groups], "cut at {cut}");
        assert_eq!(disk.end, ends[groups], "the next group overwrites what was cut");
    }
}

#[test]
fn damage_before_whole_groups_is_refused_not_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.log");
    let ends = log(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[ends[1] as usize + 30] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let error = Disk::open(&path).err().unwrap().to_string();
    assert!(error.contains(&format!("damaged at byte {}", ends[1])) && error.contains("copy"), "{error}");
}

#[test]
fn a_rewrite_keeps_the_objects_and_drops_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.log");
    let (mut disk, _, _) = Disk::open(&path).unwrap();
    for revision in 2..600 {
        disk.commit(&[put("a", revision)], revision).unwrap();
    }
    let before = disk.end;
    disk.rewrite(599, &[stored("a", 599)]).unwrap();
    assert!(disk.end < before / 100, "{before} to {}", disk.end);
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
    let mut header = *HEADER;
    header[15] = 9;
    std::fs::write(&path, header).unwrap();
    let error = Disk::open(&path).err().unwrap().to_string();
    assert!(error.contains("format 9"), "{error}");
}
