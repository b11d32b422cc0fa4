use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::record::MARK_LENGTH;
use super::*;

const FORM: Form = Form {
    header: *b"journal-of-test\x02",
    older: &[1],
    magic: [0xca, 0x05, 0xe7, 0x00],
    step: 4096,
    small: 8192,
};
const RECORDS: [&[u8]; 3] = [b"one", b"and two, with zeros \0\0\0\0", b"three"];

fn append(journal: &mut Journal, payload: &[u8]) {
    journal.append(|record| record.extend_from_slice(payload)).unwrap();
}

fn found(contents: &Contents) -> Vec<Vec<u8>> {
    contents.payloads().map(<[u8]>::to_vec).collect()
}

/// A journal of all records, and where each ends.
fn written(path: &Path) -> Vec<usize> {
    let (mut journal, _) = Journal::open(path, &FORM).unwrap();
    let mut ends = vec![journal.size() as usize];
    for payload in RECORDS {
        append(&mut journal, payload);
        ends.push(journal.size() as usize);
    }
    ends
}

fn error(path: &Path) -> OpenError {
    Journal::open(path, &FORM).err().expect("it can't be opened")
}

#[test]
fn what_was_appended_is_there_again_also_while_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    written(&path);
    let (mut journal, contents) = Journal::open(&path, &FORM).unwrap();
    assert_eq!(found(&contents), RECORDS);
    append(&mut journal, b"four");
    assert_eq!(found(&read(&path, &FORM).unwrap()).last().unwrap(), b"four");
    assert!(matches!(error(&path), OpenError::InUse));
}

/// The power fails at every byte of every write: what was synced before is there, and nothing that was never appended.
#[test]
fn a_power_cut_at_any_byte_keeps_what_was_synced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let ends = written(&path);
    let whole = std::fs::read(&path).unwrap();
    let cut_path = directory.path().join("cut");
    for cut in 0..=ends[3] {
        for behind in [0, 4096] {
            // Nothing is filled ahead before the header is on the disk.
            if cut < ends[0] && behind > 0 {
                continue;
            }
            let mut bytes = whole[..cut].to_vec();
            bytes.resize(cut + behind, 0);
            std::fs::write(&cut_path, &bytes).unwrap();
            let (mut journal, contents) = Journal::open(&cut_path, &FORM).unwrap();
            // A record is whole before its mark, and by zeros behind it if its own end is zeros.
            let mut synced = ends[1..].iter().filter(|end| **end - MARK_LENGTH <= cut).count();
            if behind > 0 && found(&contents).len() > synced {
                synced += 1;
            }
            assert_eq!(found(&contents), RECORDS[..synced], "cut at {cut}");
            append(&mut journal, b"next");
            assert_eq!(found(&read(&cut_path, &FORM).unwrap()).len(), synced + 1, "cut at {cut}");
        }
    }
}

#[test]
fn damage_of_the_last_record_is_told_from_a_write_that_was_cut_short() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let ends = written(&path);
    let whole = std::fs::read(&path).unwrap();
    assert!(whole.len() > ends[3], "space is filled ahead");
    let record = ends[2]..ends[3] - MARK_LENGTH;
    for at in record.clone() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(error(&path), OpenError::Damaged(place) if place == ends[2]), "byte {at}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing is lost by looking");
        // Without its mark nobody was told of it.
        bytes[record.end..record.end + MARK_LENGTH].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(found(&Journal::open(&path, &FORM).unwrap().1), RECORDS[..2], "byte {at}");
    }
}

#[test]
fn damage_before_whole_records_is_refused_not_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let ends = written(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[ends[0] + 17] ^= 1;
    // As a program would leave it that wrote no marks.
    for end in &ends[1..] {
        bytes[end - MARK_LENGTH..*end].fill(0);
    }
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(error(&path), OpenError::Damaged(place) if place == ends[0]));
    std::fs::File::options().write(true).open(&path).unwrap().set_len(ends[0] as u64).unwrap();
    assert!(found(&Journal::open(&path, &FORM).unwrap().1).is_empty(), "cut off there, it can be used");
}

#[test]
fn an_older_form_is_read_and_then_of_the_newest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let mut old = FORM.header.to_vec();
    old[15] = 1;
    let mut record = Vec::new();
    for payload in RECORDS {
        record::encode(&mut record, &FORM, |bytes| bytes.extend_from_slice(payload));
        old.extend_from_slice(&record);
    }
    std::fs::write(&path, &old).unwrap();
    let (mut journal, contents) = Journal::open(&path, &FORM).unwrap();
    assert_eq!(found(&contents), RECORDS);
    append(&mut journal, b"four");
    drop(journal);
    assert_eq!(found(&Journal::open(&path, &FORM).unwrap().1).len(), 4);
    assert_eq!(std::fs::read(&path).unwrap()[..16], FORM.header);
}

#[test]
fn another_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes");
    for contents in [&b"something else entirely"[..], b"journal-of-test\x09", b"short"] {
        std::fs::write(&path, contents).unwrap();
        let error = error(&path);
        let is_right = match error {
            OpenError::UnknownFormat(format) => format == contents[15],
            _ => matches!(error, OpenError::OtherFile),
        };
        assert!(is_right, "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), contents);
    }
}

#[test]
fn a_rewrite_drops_the_history() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let (mut journal, _) = Journal::open(&path, &FORM).unwrap();
    while !journal.wants_rewrite() {
        append(&mut journal, b"again");
    }
    let before = journal.size();
    journal.rewrite(|fresh| fresh.append(|record| record.extend_from_slice(b"again"))).unwrap();
    assert!(journal.size() < before / 100, "{before} to {}", journal.size());
    append(&mut journal, b"more");
    drop(journal);
    assert_eq!(found(&Journal::open(&path, &FORM).unwrap().1), [&b"again"[..], b"more"]);
}

#[test]
fn a_rewrite_that_fails_leaves_the_old_one_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    written(&path);
    let (mut journal, _) = Journal::open(&path, &FORM).unwrap();
    journal.rewrite(|_| Err(std::io::Error::other("no space"))).unwrap_err();
    append(&mut journal, b"four");
    assert_eq!(found(&read(&path, &FORM).unwrap()).len(), 4);
}

#[test]
fn one_that_can_not_be_written_on_is_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    written(&path);
    let (mut journal, _) = Journal::open(&path, &FORM).unwrap();
    journal.break_off("the disk is gone");
    let refused = journal.append(|_| {});
    assert!(matches!(refused, Err(AppendError::Broken(_))) && journal.wants_rewrite());
    journal.rewrite(|fresh| fresh.append(|record| record.extend_from_slice(b"one"))).unwrap();
    append(&mut journal, b"two");
    assert_eq!(found(&read(&path, &FORM).unwrap()), [b"one", b"two"]);
}

#[test]
fn a_mark_that_a_power_failure_took_is_not_missed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let ends = written(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[ends[1] - MARK_LENGTH..ends[1]].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(found(&Journal::open(&path, &FORM).unwrap().1), RECORDS);
}

#[test]
fn journals_in_one_directory_do_not_get_in_each_others_way() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("journal.one"), directory.path().join("journal.new"));
    let (mut journal, mut others) =
        (Journal::open(&path, &FORM).unwrap().0, Journal::open(&other, &FORM).unwrap().0);
    append(&mut others, b"other");
    journal.rewrite(|fresh| fresh.append(|record| record.extend_from_slice(b"one"))).unwrap();
    assert_eq!(found(&read(&other, &FORM).unwrap()), [b"other"]);
    assert_eq!(found(&read(&path, &FORM).unwrap()), [b"one"]);
}

#[test]
fn one_that_is_large_when_it_is_written_anew_is_not_written_anew_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(&directory.path().join("journal"), &FORM).unwrap();
    journal.rewrite(|fresh| fresh.append(|record| record.resize(2 * FORM.small as usize, 7))).unwrap();
    assert!(journal.size() > FORM.small && !journal.wants_rewrite());
}

#[test]
fn a_file_in_a_groups_directory_is_the_groups() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
    for (of_directory, expected) in [(0o755, 0o600), (0o1777, 0o600), (0o770, 0o660), (0o777, 0o660)] {
        std::fs::set_permissions(directory.path(), Permissions::from_mode(of_directory)).unwrap();
        let (mut journal, _) = Journal::open(&path, &FORM).unwrap();
        assert_eq!(mode(), expected, "in a directory of {of_directory:o}");
        journal.rewrite(|_| Ok(())).unwrap();
        assert_eq!(mode(), expected, "written anew in a directory of {of_directory:o}");
        drop(journal);
        std::fs::remove_file(&path).unwrap();
    }
}
