//! The journal behind the store: a record for each group of changes.
//!
//! All objects are in memory anyway, so the file only has to give them back at the next start. A database would write
//! every page that a change touches; a journal writes the change.

mod record;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway_journal::{AppendError, Form, Journal};

use super::collection::{Change, ChangeKind};
use super::{Key, Stored};
use record::Entry;

const FORM: Form = Form {
    header: *b"causeway-store\0\x02",
    // Without marks behind records.
    older: &[1],
    magic: [0xca, 0x05, 0xe7, 0xa1],
    step: 8 << 20,
    small: 32 << 20,
};
/// Objects that share a record when the journal is written anew.
const BATCH: usize = 256;

/// Why a store can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the store {path} is in use by another process; stop that one first (`causeway down`)")]
    InUse { path: PathBuf },
    #[error(
        "the store {path} can't be read: {reason}; restore it from a copy, or move it away to start empty"
    )]
    Unreadable { path: PathBuf, reason: String },
    #[error(
        "the store {path} is damaged at byte {place}: what was acknowledged there can't be read; restore the file from a copy, or give up all that was written from there on with `truncate -s {place} {path}`"
    )]
    Damaged { path: PathBuf, place: usize },
}

impl OpenError {
    fn new(path: &Path, error: causeway_journal::OpenError) -> Self {
        use causeway_journal::OpenError as Cause;
        let path = path.to_owned();
        match error {
            Cause::InUse => Self::InUse { path },
            Cause::Damaged(place) => Self::Damaged { path, place },
            _ => Self::Unreadable { path, reason: error.to_string() },
        }
    }
}

pub(super) struct Disk {
    journal: Journal,
}

impl Disk {
    /// Opens or creates the file; returns the last revision and all objects.
    pub(super) fn open(path: &Path) -> Result<(Self, u64, Vec<Stored>), OpenError> {
        let (mut journal, contents) =
            Journal::open(path, &FORM).map_err(|error| OpenError::new(path, error))?;
        let unreadable = |reason| OpenError::Unreadable { path: path.to_owned(), reason };
        let (revision, objects) = record::objects(contents.payloads()).map_err(unreadable)?;
        journal.expect(objects.iter().map(|o| o.json.len() as u64).sum());
        Ok((Self { journal }, revision, objects))
    }

    /// Writes a group of changes; durable when it returns.
    pub(super) fn commit(&mut self, changes: &[Arc<Change>], revision: u64) -> Result<(), AppendError> {
        let entries = changes.iter().map(|change| match change.kind {
            ChangeKind::Deleted => Entry::Delete(&change.object.key),
            _ => Entry::Put(&change.object),
        });
        self.journal.append(|record| record::encode(record, revision, entries))
    }

    /// Whether most of the journal is history.
    pub(super) fn wants_rewrite(&self) -> bool {
        self.journal.wants_rewrite()
    }

    /// Writes the journal anew with nothing but these objects, and takes the old one's place in one step.
    pub(super) fn rewrite(&mut self, revision: u64, objects: &[Arc<Stored>]) -> io::Result<()> {
        self.journal.rewrite(|fresh| {
            for batch in objects.chunks(BATCH) {
                let entries = batch.iter().map(|object| Entry::Put(object));
                fresh.append(|record| record::encode(record, revision, entries))?;
            }
            fresh.append(|record| record::encode(record, revision, std::iter::empty()))
        })
    }
}

/// The place of an object in the journal.
fn path_of(key: &Key) -> String {
    format!("{}/{}/{}/{}", key.resource.group, key.resource.plural, key.namespace, key.name)
}
