//! Files that only their owner may read, replaced in one step so that no reader or crash sees half of one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Creates a directory (and its parents) with mode 0700; an existing one stays as it is.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file with mode 0600 beside `path`, makes it durable, and renames it into place.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let temporary = dir.join(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
    // A crash may have left one of an earlier process with our id.
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let written = write_new(&temporary, contents).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to report; a leftover is removed by the next write.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    File::open(dir)?.sync_all()
}

fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}
