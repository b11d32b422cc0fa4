//! The directory of one control plane: who holds it, and what is in it.
//!
//! `lock` is held with `flock` for as long as the process lives, so it can't go stale; its text says who holds it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use causeway_base::file;
use causeway_containers::Choice;
use causeway_controllers::operator::Containers;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// The flag; flatten it into a command's arguments.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DataDirArg {
    /// Where the control plane keeps its state [default: $XDG_DATA_HOME/causeway or ~/.local/share/causeway].
    #[arg(long, env = "CAUSEWAY_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Who holds a directory.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: i32,
    /// Empty until the server listens.
    pub(crate) server: String,
}

/// A directory held by this process.
#[derive(Debug)]
pub(crate) struct Held {
    dir: PathBuf,
    lock: File,
}

impl DataDirArg {
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(dir) = &self.data_dir {
            return std::path::absolute(dir).with_context(|| format!("can't use {}", dir.display()));
        }
        if let Some(dir) = std::env::var_os("XDG_DATA_HOME").filter(|d| !d.is_empty()) {
            return Ok(PathBuf::from(dir).join("causeway"));
        }
        let home =
            std::env::home_dir().context("there is no home directory; say where with --data-dir DIR")?;
        Ok(home.join(".local/share/causeway"))
    }
}

pub(crate) fn kubeconfig(dir: &Path) -> PathBuf {
    dir.join("kubeconfig")
}

/// What the controllers need to run containers on this machine; the directory is made where it is missing.
pub(crate) fn containers(dir: &Path, choice: Option<Choice>) -> anyhow::Result<Containers> {
    let (node, directory) = (dir.join("node"), dir.join("tunnels"));
    for dir in [&node, &directory] {
        file::create_private_dir(dir).with_context(|| {
            format!(
                "can't make the directory {}; choose another with --data-dir DIR, or do without containers with --container-runtime none",
                dir.display()
            )
        })?;
    }
    // The node's pods run in the same runtime and carry the same id.
    let instance = causeway_containers::instance(&node)
        .with_context(|| format!("can't tell which containers belong to {}", dir.display()))?;
    Ok(Containers { choice, directory, instance, ..Containers::default() })
}

/// Makes the directory if needed and holds it.
///
/// # Errors
/// When it can't be written to, or another process holds it; the text says which one.
pub(crate) fn hold(dir: &Path) -> anyhow::Result<Held> {
    file::create_private_dir(dir).with_context(|| {
        format!("can't make the data directory {}; choose another with --data-dir DIR", dir.display())
    })?;
    let path = dir.join("lock");
    let lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(file::PRIVATE)
        .open(&path)
        .with_context(|| {
            format!(
                "the data directory {} is not writable; choose another with --data-dir DIR",
                dir.display()
            )
        })?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        let who = holder(dir)?.map_or_else(String::new, |h| format!(" (pid {}, {})", h.pid, h.server));
        bail!(
            "a control plane is already running on {dir}{who}; stop it with `causeway down --data-dir {dir}`, or use another --data-dir",
            dir = dir.display()
        );
    }
    let held = Held { dir: dir.to_owned(), lock };
    held.describe("")?;
    Ok(held)
}

impl Held {
    /// Writes down who holds the directory; `down`, `status` and a second `up` read it.
    pub(crate) fn describe(&self, server: &str) -> anyhow::Result<()> {
        let holder =
            Holder { pid: rustix::process::getpid().as_raw_nonzero().get(), server: server.to_owned() };
        let mut file = &self.lock;
        let text = serde_json::to_vec(&holder)?;
        file.rewind()?;
        file.set_len(0)?;
        file.write_all(&text).with_context(|| format!("can't write to {}", self.dir.display()))
    }
}

/// Who holds `dir`; `None` when it is free.
pub(crate) fn holder(dir: &Path) -> anyhow::Result<Option<Holder>> {
    let path = dir.join("lock");
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("can't read {}", path.display())),
    };
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(None);
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let holder = serde_json::from_str(&text)
        .with_context(|| format!("{} is held, but does not say by whom: {text:?}", path.display()))?;
    Ok(Some(holder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_directory_is_refused_and_says_by_whom() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path()).unwrap(), None);
        let held = hold(dir.path()).unwrap();
        held.describe("https://127.0.0.1:1234").unwrap();
        let error = hold(dir.path()).unwrap_err().to_string();
        assert!(error.contains("already running") && error.contains("https://127.0.0.1:1234"), "{error}");
        assert_eq!(holder(dir.path()).unwrap().unwrap().pid, std::process::id().cast_signed());
        drop(held);
        assert_eq!(holder(dir.path()).unwrap(), None);
        hold(dir.path()).unwrap();
    }
}
