//! Sockets in the file system.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;
use tokio::net::UnixListener;

/// Listens on a path; a socket that an earlier process left behind is replaced, anything else stays.
pub(crate) fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    if std::os::unix::net::UnixStream::connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path).with_context(|| format!("can't replace {}", path.display()))?;
    }
    UnixListener::bind(path).with_context(|| format!("can't listen on {}", path.display()))
}
