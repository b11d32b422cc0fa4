//! What a record of the journal says: a group of changes. Sans-IO.
//!
//! ```text
//! revision u64 | entries…          (little endian)
//! entry: operation u8 | path length u32 | path | text length u32 | text
//! ```

use std::collections::BTreeMap;

use super::path_of;
use crate::object;
use crate::store::{GroupResource, Key, Stored};

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// One change of a group.
pub(super) enum Entry<'a> {
    Put(&'a Stored),
    Delete(&'a Key),
}

/// Writes a group behind what `record` holds.
pub(super) fn encode<'a>(record: &mut Vec<u8>, revision: u64, entries: impl Iterator<Item = Entry<'a>>) {
    record.extend_from_slice(&revision.to_le_bytes());
    for entry in entries {
        let (operation, key, text) = match entry {
            Entry::Put(stored) => (PUT, &stored.key, stored.json.as_ref()),
            Entry::Delete(key) => (DELETE, key, &[][..]),
        };
        record.push(operation);
        for part in [path_of(key).as_bytes(), text] {
            record.extend_from_slice(&(part.len() as u32).to_le_bytes());
            record.extend_from_slice(part);
        }
    }
}

/// The last revision and the objects that are left after these groups.
pub(super) fn objects<'a>(groups: impl Iterator<Item = &'a [u8]>) -> Result<(u64, Vec<Stored>), String> {
    let mut revision = 1;
    let mut left: BTreeMap<&str, &[u8]> = BTreeMap::new();
    for group in groups {
        let mut reader = Reader(group);
        revision = reader.number().ok_or("a record without a revision")?;
        while !reader.0.is_empty() {
            let (operation, path, text) = reader.entry().ok_or("a record that does not add up")?;
            match operation {
                PUT => left.insert(path, text),
                DELETE => left.remove(path),
                other => return Err(format!("operation {other} is not known to this version")),
            };
        }
    }
    let objects = left.into_iter().map(|(path, text)| load(path, text)).collect::<Result<_, _>>()?;
    Ok((revision, objects))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn part(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(length as usize)
    }

    fn entry(&mut self) -> Option<(u8, &'a str, &'a [u8])> {
        let operation = *self.take(1)?.first()?;
        let path = std::str::from_utf8(self.part()?).ok()?;
        Some((operation, path, self.part()?))
    }
}

fn load(path: &str, json: &[u8]) -> Result<Stored, String> {
    let mut parts = path.splitn(4, '/');
    let (Some(group), Some(plural), Some(namespace), Some(name)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(format!("unexpected key {path:?}"));
    };
    let value: serde_json::Value =
        serde_json::from_slice(json).map_err(|e| format!("object {path:?} is not JSON: {e}"))?;
    let revision = object::meta(&value, "resourceVersion")
        .parse()
        .map_err(|_| format!("object {path:?} has no revision"))?;
    Ok(Stored::new(Key::new(&GroupResource::new(group, plural), namespace, name), value, revision))
}
