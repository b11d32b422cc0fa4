//! What sessions of clients that stay with their endpoint are signed with: a file, the same for all who share clients.

use std::path::Path;

use anyhow::Context;

/// Reads a key.
pub(crate) fn read(path: &Path) -> anyhow::Result<[u8; 32]> {
    let bytes = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    let length = bytes.len();
    bytes.try_into().map_err(|_| {
        anyhow::anyhow!(
            "{} has {length} bytes, and a key has 32: make one with head -c 32 /dev/urandom",
            path.display()
        )
    })
}
