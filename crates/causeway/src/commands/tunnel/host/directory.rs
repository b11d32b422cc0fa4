//! The directory of a host end: taken by one process at a time, and left behind clean.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use causeway_base::file;
use causeway_controllers::containers::tunnel::host::Record;
use causeway_ir::tunnel::files;
use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;

/// A directory that this process has taken.
pub(super) struct HostDirectory {
    path: PathBuf,
    /// Held to the end.
    lock: File,
    record: Record,
}

impl HostDirectory {
    /// Takes the directory, unless another host end has it, and says in it who this process is. The working directory is
    /// the same from now on.
    pub(super) fn take(path: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(path).with_context(|| format!("can't use {}", path.display()))?;
        let at = path.join(files::LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(file::PRIVATE)
            .open(&at)
            .with_context(|| format!("can't open {}", at.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another host end runs in {}", path.display());
        }
        std::env::set_current_dir(&path).with_context(|| format!("can't enter {}", path.display()))?;
        let record = Record::write_own(&path)
            .with_context(|| format!("can't write {}", path.join(files::RECORD).display()))?;
        Ok(Self { path, lock, record })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// Listens for operators; a socket that an earlier process left is replaced.
    pub(super) fn listen(&self) -> anyhow::Result<UnixListener> {
        // By its name alone: the path of a socket holds about a hundred bytes, which directories may exceed.
        let name = Path::new(files::SOCKET);
        match fs::remove_file(name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).context("can't replace the socket");
            }
            _ => {}
        }
        UnixListener::bind(name)
            .with_context(|| format!("can't listen on {}", self.path.join(files::SOCKET).display()))
    }

    /// Whether the directory is still the one that was taken.
    pub(super) fn is_there(&self) -> bool {
        file::is_at(&self.lock, &self.path.join(files::LOCK))
    }

    /// Removes what says that a process runs here; an operator does so too where this fails.
    pub(super) fn leave(self) {
        if self.is_there() {
            let _ = fs::remove_file(self.path.join(files::SOCKET));
            let _ = fs::remove_file(self.path.join(files::RECORD));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_has_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let directory = HostDirectory::take(dir.path()).unwrap();
        let Err(error) = HostDirectory::take(dir.path()) else { panic!("taken twice") };
        assert!(error.to_string().contains("another host end"), "{error}");
        assert!(directory.is_there());
        fs::remove_file(dir.path().join(files::LOCK)).unwrap();
        assert!(!directory.is_there(), "nobody can find it any more");
        std::env::set_current_dir("/").unwrap();
    }
}
