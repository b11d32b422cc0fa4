//! The file behind the store: a log of groups of changes, each written and synced in one step.
//!
//! All objects are in memory anyway, so the file only has to give them back at the next start: it is read once, from
//! its beginning, and written anew when most of what it holds is history. A database would write every page that a
//! change touches; a log writes the change.

mod record;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use causeway_base::file;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use super::collection::{Change, ChangeKind};
use super::{Key, Stored};
use record::{Entry, Scan};

/// The file begins with this; the last byte is the format.
const HEADER: &[u8; 16] = b"causeway-store\0\x01";
/// Space is taken in steps: a sync that does not have to record a new length is a quarter cheaper.
const STEP: u64 = 8 << 20;
/// A log smaller than this is never written anew.
const SMALL: u64 = 32 << 20;
/// Objects that share a record when the log is written anew.
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
}

/// Why a group of changes is not on disk.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommitError {
    #[error("{0}")]
    Write(io::Error),
    /// What a failed sync has left on the disk is unknown, so nothing may be written after it.
    #[error("an earlier sync failed ({0}); start again to go on from what is on the disk")]
    Broken(String),
}

pub(super) struct Disk {
    path: PathBuf,
    file: File,
    /// Where the next record goes.
    end: u64,
    /// Where the space that was taken ends.
    reserved: u64,
    /// The log is written anew when it reaches this size.
    rewrite_at: u64,
    broken: Option<String>,
}

impl Disk {
    /// Opens or creates the file; returns the last revision and all objects.
    pub(super) fn open(path: &Path) -> Result<(Self, u64, Vec<Stored>), OpenError> {
        let unreadable = |reason: String| OpenError::Unreadable { path: path.to_owned(), reason };
        let mut file = open_locked(path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => OpenError::InUse { path: path.to_owned() },
            _ => unreadable(error.to_string()),
        })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|e| unreadable(e.to_string()))?;
        if bytes.is_empty() {
            start(&file, path).map_err(|e| unreadable(e.to_string()))?;
            bytes.extend_from_slice(HEADER);
        }
        let body = bytes.strip_prefix(HEADER).ok_or_else(|| match bytes.strip_prefix(&HEADER[..15]) {
            Some([format, ..]) => {
                unreadable(format!("it has format {format}, which this version does not know"))
            }
            _ => unreadable("it is not a store of Causeway".to_owned()),
        })?;
        let scan = Scan::read(body).map_err(unreadable)?;
        let end = (HEADER.len() + scan.length) as u64;
        // What follows was never acknowledged: a write that a crash cut short, or space that was not used yet.
        file.set_len(end).and_then(|()| file.sync_all()).map_err(|e| unreadable(e.to_string()))?;
        let (revision, objects) = scan.objects().map_err(unreadable)?;
        let live: u64 = objects.iter().map(|o| o.json.len() as u64).sum();
        let disk = Self {
            path: path.to_owned(),
            file,
            end,
            reserved: end,
            rewrite_at: rewrite_at(live),
            broken: None,
        };
        Ok((disk, revision, objects))
    }

    /// Writes a group of changes; durable when it returns.
    pub(super) fn commit(&mut self, changes: &[Arc<Change>], revision: u64) -> Result<(), CommitError> {
        if let Some(reason) = &self.broken {
            return Err(CommitError::Broken(reason.clone()));
        }
        let entries = changes.iter().map(|change| match change.kind {
            ChangeKind::Deleted => Entry::Delete(&change.object.key),
            _ => Entry::Put(&change.object),
        });
        let record = record::encode(revision, entries);
        self.reserve(record.len() as u64);
        // A write that fails leaves a piece that the next one overwrites, or that a start takes for a cut one.
        self.file.write_all_at(&record, self.end).map_err(CommitError::Write)?;
        if let Err(error) = self.file.sync_data() {
            self.broken = Some(error.to_string());
            return Err(CommitError::Write(error));
        }
        self.end += record.len() as u64;
        Ok(())
    }

    /// Takes space ahead; where the file system can't, writes extend the file as they come.
    fn reserve(&mut self, more: u64) {
        if self.end + more <= self.reserved {
            return;
        }
        let step = STEP.max(more);
        if fallocate(&self.file, FallocateFlags::empty(), self.end, step).is_ok() {
            self.reserved = self.end + step;
        }
    }

    /// Whether most of the log is history.
    pub(super) fn wants_rewrite(&self) -> bool {
        self.end >= self.rewrite_at
    }

    /// Writes the log anew with nothing but these objects, and takes the old one's place in one step.
    pub(super) fn rewrite(&mut self, revision: u64, objects: &[Arc<Stored>]) -> io::Result<()> {
        let live: u64 = objects.iter().map(|o| o.json.len() as u64).sum();
        // Also if it fails: not again with every write.
        self.rewrite_at = rewrite_at(live.max(self.end / 2));
        let fresh = self.path.with_extension("new");
        let _ = std::fs::remove_file(&fresh);
        let mut file = open_locked(&fresh)?;
        file.write_all(HEADER)?;
        let mut end = HEADER.len() as u64;
        for batch in objects.chunks(BATCH) {
            let record = record::encode(revision, batch.iter().map(|object| Entry::Put(object)));
            file.write_all(&record)?;
            end += record.len() as u64;
        }
        let last = record::encode(revision, std::iter::empty());
        file.write_all(&last)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        file::sync_directory_of(&self.path)?;
        self.file = file;
        self.end = end + last.len() as u64;
        self.reserved = self.end;
        self.rewrite_at = rewrite_at(live);
        Ok(())
    }
}

fn rewrite_at(live: u64) -> u64 {
    (4 * live).max(SMALL)
}

fn open_locked(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn start(file: &File, path: &Path) -> io::Result<()> {
    file.write_all_at(HEADER, 0)?;
    file.sync_all()?;
    file::sync_directory_of(path)
}

/// The place of an object in the log.
fn path_of(key: &Key) -> String {
    format!("{}/{}/{}/{}", key.resource.group, key.resource.plural, key.namespace, key.name)
}
