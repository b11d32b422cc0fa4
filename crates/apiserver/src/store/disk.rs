//! The file behind the store: objects by key and the last revision, in one redb database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::collection::{Change, ChangeKind};
use super::{GroupResource, Key, Stored};
use crate::object;

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const FORMAT: u64 = 1;
/// Everything is in memory anyway: the page cache only serves the tree walk of a commit.
const CACHE_BYTES: usize = 8 << 20;

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
        "the store {path} has format {found}, this version reads {FORMAT}; use the version that wrote it"
    )]
    Format { path: PathBuf, found: u64 },
}

pub(super) struct Disk {
    database: Database,
}

impl Disk {
    /// Opens or creates the file; returns the last revision and all objects.
    pub fn open(path: &Path) -> Result<(Self, u64, Vec<Stored>), OpenError> {
        let unreadable = |reason: String| OpenError::Unreadable { path: path.to_owned(), reason };
        let database =
            redb::Builder::new().set_cache_size(CACHE_BYTES).create(path).map_err(|e| match e {
                redb::DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path: path.to_owned() },
                other => unreadable(other.to_string()),
            })?;
        let disk = Self { database };
        let (format, revision) = disk.prepare().map_err(|e| unreadable(e.to_string()))?;
        if format != FORMAT {
            return Err(OpenError::Format { path: path.to_owned(), found: format });
        }
        let objects = disk.objects().map_err(|e| unreadable(e.to_string()))?;
        Ok((disk, revision, objects))
    }

    /// Makes the tables on first use.
    fn prepare(&self) -> Result<(u64, u64), redb::Error> {
        let transaction = self.database.begin_write()?;
        let found = {
            transaction.open_table(OBJECTS)?;
            let mut meta = transaction.open_table(META)?;
            let format = meta.get("format")?.map(|v| v.value());
            if format.is_none() {
                meta.insert("format", FORMAT)?;
                meta.insert("revision", 1)?;
            }
            (format.unwrap_or(FORMAT), meta.get("revision")?.map_or(1, |v| v.value()))
        };
        transaction.commit()?;
        Ok(found)
    }

    fn objects(&self) -> Result<Vec<Stored>, Box<dyn std::error::Error>> {
        let transaction = self.database.begin_read()?;
        let table = transaction.open_table(OBJECTS)?;
        let mut objects = Vec::new();
        for entry in table.iter()? {
            let (key, json) = entry?;
            objects.push(load(key.value(), json.value())?);
        }
        Ok(objects)
    }

    /// Writes a group of changes; durable when it returns.
    pub fn commit(&mut self, changes: &[Arc<Change>], revision: u64) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for change in changes {
                let path = path_of(&change.object.key);
                match change.kind {
                    ChangeKind::Deleted => drop(objects.remove(path.as_str())?),
                    _ => drop(objects.insert(path.as_str(), change.object.json.as_ref())?),
                }
            }
            transaction.open_table(META)?.insert("revision", revision)?;
        }
        transaction.commit()?;
        Ok(())
    }
}

fn path_of(key: &Key) -> String {
    format!("{}/{}/{}/{}", key.resource.group, key.resource.plural, key.namespace, key.name)
}

fn load(path: &str, json: &[u8]) -> Result<Stored, Box<dyn std::error::Error>> {
    let mut parts = path.splitn(4, '/');
    let (Some(group), Some(plural), Some(namespace), Some(name)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(format!("unexpected key {path:?}").into());
    };
    let value: serde_json::Value =
        serde_json::from_slice(json).map_err(|e| format!("object {path:?} is not JSON: {e}"))?;
    let revision = object::meta(&value, "resourceVersion")
        .parse()
        .map_err(|_| format!("object {path:?} has no revision"))?;
    Ok(Stored {
        key: Key::new(&GroupResource::new(group, plural), namespace, name),
        revision,
        labels: object::labels(&value),
        json: Bytes::copy_from_slice(json),
    })
}
