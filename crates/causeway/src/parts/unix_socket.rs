//! Sockets in the file system.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tokio::net::UnixListener;

/// The path in a flag that takes `ADDR:PORT|PATH`, once the text has proved to be no address and port.
pub(crate) fn path(text: &str) -> anyhow::Result<PathBuf> {
    let path = PathBuf::from(text);
    ensure!(
        path.is_absolute() || text.starts_with('.'),
        "`{text}` is neither an address and port nor the path of a socket"
    );
    Ok(path)
}

/// Listens on a path; a socket that an earlier process left behind is replaced, anything else stays.
pub(crate) fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    if std::os::unix::net::UnixStream::connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path).with_context(|| format!("can't replace {}", path.display()))?;
    }
    UnixListener::bind(path).with_context(|| format!("can't listen on {}", path.display()))
}
