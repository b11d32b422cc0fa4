//! Small JSON files that are either whole or absent, whatever happens to the writer.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};

/// Writes `value` readable by the owner only: to a temporary file, then renamed into place.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.sync_data()?;
    fs::rename(&temporary, path)?;
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_data()?;
    }
    Ok(())
}

/// Reads a file of [`write_json`]; `None` when there is none.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
