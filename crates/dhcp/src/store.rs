//! The journal of leases: a record for each group of changes, synced before any client of the group is told.

mod record;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use causeway_journal::{Contents, Form, Journal};

use crate::lease::{Lease, Seconds};

const FORM: Form = Form {
    header: *b"causeway-leases\x01",
    older: &[],
    magic: [0xca, 0x05, 0xe7, 0xd4],
    step: 1 << 20,
    small: 8 << 20,
};
/// What a lease takes, about.
const LEASE_SIZE: u64 = 64;
/// Leases that share a record when the journal is written anew.
const BATCH: usize = 512;

/// Why a file of leases can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Two servers would give out the same addresses.
    #[error("the leases {path} are in use by another server; stop that one first, or name another file")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file system refuses, or it is another file.
    #[error("the leases {path} can't be read: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// What clients were told can't be read any more.
    #[error(
        "the leases {path} are damaged at byte {place}: restore the file from a copy, or give up all that was leased from there on with `truncate -s {place} {path}`"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        place: usize,
    },
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

/// All leases in a file, in no order, also while a server uses it. Of an address that had several clients it is the last.
///
/// # Errors
/// When the file can't be read, or is damaged.
pub fn read(path: &Path) -> Result<Vec<Lease>, OpenError> {
    let contents = causeway_journal::read(path, &FORM).map_err(|error| OpenError::new(path, error))?;
    leases(path, &contents)
}

fn leases(path: &Path, contents: &Contents) -> Result<Vec<Lease>, OpenError> {
    record::leases(contents.payloads()).ok_or_else(|| OpenError::Unreadable {
        path: path.to_owned(),
        reason: "a record does not add up".to_owned(),
    })
}

/// The file while a server writes it.
pub(crate) struct Store {
    journal: Journal,
    /// When an earlier server wrote last.
    written: Seconds,
}

impl Store {
    /// Opens or creates the file, which nobody else can write from then on.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Lease>), OpenError> {
        let (mut journal, contents) =
            Journal::open(path, &FORM).map_err(|error| OpenError::new(path, error))?;
        let leases = leases(path, &contents)?;
        journal.expect(LEASE_SIZE * leases.len() as u64);
        let written = contents.written().duration_since(SystemTime::UNIX_EPOCH);
        Ok((Self { journal, written: written.map_or(0, |since| since.as_secs()) }, leases))
    }

    /// When an earlier server wrote last.
    pub(crate) fn written(&self) -> Seconds {
        self.written
    }

    /// Writes a group of changes; durable when it returns.
    ///
    /// # Errors
    /// When they may not be on disk: then no client may be told of them.
    pub(crate) fn commit(&mut self, changes: &[Lease]) -> io::Result<()> {
        Ok(self.journal.append(|record| record::encode(record, changes))?)
    }

    /// Whether most of the journal is history, or nothing can be added to it any more.
    pub(crate) fn wants_rewrite(&self) -> bool {
        self.journal.wants_rewrite()
    }

    /// Writes the journal anew with nothing but these leases, and takes the old one's place in one step.
    ///
    /// # Errors
    /// When that is not possible; the old one goes on, if it could.
    pub(crate) fn rewrite(&mut self, leases: &[Lease]) -> io::Result<()> {
        self.journal.rewrite(|fresh| {
            leases.chunks(BATCH).try_for_each(|batch| fresh.append(|record| record::encode(record, batch)))
        })
    }
}
