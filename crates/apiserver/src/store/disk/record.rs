//! One record of the log: a group of changes under one checksum. Sans-IO.
//!
//! ```text
//! magic u32 | length u32 | checksum 8 bytes | revision u64 | entries…          (little endian)
//! entry: operation u8 | path length u32 | path | text length u32 | text
//! ```

use std::collections::BTreeMap;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;

use super::path_of;
use crate::object;
use crate::store::{GroupResource, Key, Stored};

const MAGIC: [u8; 4] = [0xca, 0x05, 0xe7, 0xa1];
const HEAD: usize = 16;
const PUT: u8 = 1;
const DELETE: u8 = 2;

/// One change of a group.
pub(super) enum Entry<'a> {
    Put(&'a Stored),
    Delete(&'a Key),
}

/// The record of a group.
pub(super) fn encode<'a>(revision: u64, entries: impl Iterator<Item = Entry<'a>>) -> Vec<u8> {
    let mut record = vec![0; HEAD];
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
    let length = (record.len() - HEAD) as u32;
    let checksum = checksum(&record[HEAD..]);
    record[..4].copy_from_slice(&MAGIC);
    record[4..8].copy_from_slice(&length.to_le_bytes());
    record[8..HEAD].copy_from_slice(&checksum);
    record
}

fn checksum(payload: &[u8]) -> [u8; 8] {
    let mut sum = [0; 8];
    sum.copy_from_slice(&digest(&SHA256, payload).as_ref()[..8]);
    sum
}

/// The payload of the record at the beginning of `bytes`, if it is whole.
fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let head = bytes.get(..HEAD)?;
    let (magic, rest) = head.split_at(4);
    let (length, sum) = rest.split_at(4);
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let payload = bytes.get(HEAD..HEAD + length)?;
    (magic == MAGIC && checksum(payload) == sum).then_some(payload)
}

/// What a log says: the whole records at its beginning.
pub(super) struct Scan<'a> {
    payloads: Vec<&'a [u8]>,
    /// Bytes of them.
    pub length: usize,
}

impl<'a> Scan<'a> {
    /// Reads up to the end, or up to a record that a crash cut short. A broken record with whole ones after it is
    /// damage: those were acknowledged.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut scan = Self { payloads: Vec::new(), length: 0 };
        while let Some(payload) = payload(&bytes[scan.length..]) {
            scan.payloads.push(payload);
            scan.length += HEAD + payload.len();
        }
        let rest = &bytes[scan.length..];
        let later = (1..rest.len().saturating_sub(HEAD)).filter(|i| rest[*i..].starts_with(&MAGIC));
        for i in later {
            if payload(&rest[i..]).is_some() {
                let at = scan.length + super::HEADER.len();
                return Err(format!("it is damaged at byte {at}, and whole records follow"));
            }
        }
        Ok(scan)
    }

    /// The last revision and the objects that are left.
    pub(super) fn objects(&self) -> Result<(u64, Vec<Stored>), String> {
        let mut revision = 1;
        let mut left: BTreeMap<&str, &[u8]> = BTreeMap::new();
        for payload in &self.payloads {
            let mut reader = Reader(payload);
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
    Ok(Stored {
        key: Key::new(&GroupResource::new(group, plural), namespace, name),
        revision,
        labels: object::labels(&value),
        json: Bytes::copy_from_slice(json),
    })
}
