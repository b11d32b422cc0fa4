//! Small JSON files that are either whole or absent, whatever happens to the writer.

use std::{fs, io, path::Path};

use causeway_base::file;
use serde::{Serialize, de::DeserializeOwned};

/// Puts `value` in the file's place, readable by the owner only.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    file::replace(path, file::PRIVATE, &serde_json::to_vec(value)?)
}

/// Reads a file of [`write_json`]; `None` when there is none.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
