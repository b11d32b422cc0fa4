//! The directory of one control plane: who holds it, and what is in it.
//!
//! `lock` is held with `flock` for as long as the process lives, so it can't go stale; its text says who holds it. One
//! `causeway up` has a directory for itself; operators that take turns share one, so that the next adopts what the last
//! one left. What one kind left is left over in the eyes of the other, so a directory is for one kind, for ever.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_base::file;
use causeway_containers::Choice;
use causeway_controllers::operator::Containers;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const LOCK: &str = "lock";
/// How often it is looked whether the directory is still there.
const LOOK: Duration = Duration::from_secs(1);

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
        path(self.data_dir.as_deref(), "causeway")
    }
}

/// The directory that was asked for, or the usual one of this name.
pub(crate) fn path(asked: Option<&Path>, name: &str) -> anyhow::Result<PathBuf> {
    if let Some(dir) = asked {
        return std::path::absolute(dir).with_context(|| format!("can't use {}", dir.display()));
    }
    if let Some(dir) = std::env::var_os("XDG_DATA_HOME").filter(|d| !d.is_empty()) {
        return Ok(PathBuf::from(dir).join(name));
    }
    let home = std::env::home_dir().context("there is no home directory; say where with --data-dir DIR")?;
    Ok(home.join(".local/share").join(name))
}

pub(crate) fn kubeconfig(dir: &Path) -> PathBuf {
    dir.join("kubeconfig")
}

/// Where the node keeps its pods.
pub(crate) fn node(dir: &Path) -> PathBuf {
    dir.join("node")
}

/// Where tunnels keep their ports, keys and journals.
pub(crate) fn tunnels(dir: &Path) -> PathBuf {
    dir.join("tunnels")
}

/// The id that what is made for this directory carries in a container runtime.
pub(crate) fn instance(dir: &Path) -> anyhow::Result<String> {
    // The node's pods run in the same runtime and carry the same id.
    causeway_containers::instance(&node(dir))
        .with_context(|| format!("can't tell which containers belong to {}", dir.display()))
}

/// What the controllers need to run containers on this machine; the directory is made where it is missing.
pub(crate) fn containers(dir: &Path, choice: Option<Choice>) -> anyhow::Result<Containers> {
    let (node, directory) = (node(dir), tunnels(dir));
    for dir in [&node, &directory] {
        file::create_private_dir(dir).with_context(|| {
            format!(
                "can't make the directory {}; choose another with --data-dir DIR, or do without containers with --container-runtime none",
                dir.display()
            )
        })?;
    }
    let instance = instance(dir)?;
    Ok(Containers { choice, directory, instance, ..Containers::default() })
}

/// Makes the directory if needed and holds it alone.
///
/// # Errors
/// When it can't be written to, or another process holds it; the text says which one.
pub(crate) fn hold(dir: &Path) -> anyhow::Result<Held> {
    let lock = open_lock(dir)?;
    if cluster_of_operators(dir).exists() {
        bail!(
            "{dir} is the data directory of a `causeway operator`, whose tunnels would be taken for left over; choose another with --data-dir DIR",
            dir = dir.display()
        );
    }
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

/// Makes the directory if needed and holds it together with other operators of the same cluster.
///
/// # Errors
/// When it can't be written to, or is that of a `causeway up`, whether that runs or not.
pub(crate) fn share(dir: &Path) -> anyhow::Result<Held> {
    let lock = open_lock(dir)?;
    let is_free = flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
    if !is_free || kubeconfig(dir).exists() {
        let who = holder(dir)?.map_or_else(String::new, |h| format!(" (pid {}, {})", h.pid, h.server));
        bail!(
            "{dir} is the data directory of `causeway up`{who}, which sees to its containers and tunnels itself; give the operator one of its own with --data-dir DIR",
            dir = dir.display()
        );
    }
    Ok(Held { dir: dir.to_owned(), lock })
}

/// The file with the id of the cluster that operators keep this directory for.
fn cluster_of_operators(dir: &Path) -> PathBuf {
    dir.join("cluster")
}

fn open_lock(dir: &Path) -> anyhow::Result<File> {
    file::create_private_dir(dir).with_context(|| {
        format!("can't make the data directory {}; choose another with --data-dir DIR", dir.display())
    })?;
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(file::PRIVATE)
        .open(dir.join(LOCK));
    opened.with_context(|| {
        format!("the data directory {} is not writable; choose another with --data-dir DIR", dir.display())
    })
}

impl Held {
    /// From now on the directory is for this cluster.
    ///
    /// # Errors
    /// When it is for another one, or can't be written to.
    pub(crate) fn claim_for(&self, cluster: &str) -> anyhow::Result<()> {
        let path = cluster_of_operators(&self.dir);
        match std::fs::read_to_string(&path) {
            Ok(known) if known.trim() == cluster => Ok(()),
            Ok(_) => bail!(
                "{dir} is the data directory of an operator of another cluster, whose tunnels would be taken for left over; choose another with --data-dir DIR, or, if that cluster is gone, end them with `causeway down --all --data-dir {dir}` and remove {}",
                path.display(),
                dir = self.dir.display(),
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                file::replace(&path, file::PRIVATE, cluster.as_bytes())
                    .with_context(|| format!("can't write {}", path.display()))
            }
            Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
        }
    }

    /// An error once another directory is there in its place, or none: nobody could find this process any more. Without
    /// a word when `stop` comes first.
    ///
    /// # Errors
    /// When the lock can't be held twice.
    pub(crate) fn watch(
        &self,
        stop: CancellationToken,
    ) -> io::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
        let (dir, lock) = (self.dir.clone(), self.lock.try_clone()?);
        Ok(async move {
            let path = dir.join(LOCK);
            while file::is_at(&lock, &path) {
                if timeout(LOOK, stop.cancelled()).await.is_ok() {
                    return Ok(());
                }
            }
            bail!(
                "{} was removed or replaced while it was in use: nobody could find this control plane any more, so it \
                 ends",
                dir.display()
            )
        })
    }

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
    let path = dir.join(LOCK);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
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

    #[test]
    fn a_directory_is_for_one_control_plane_or_for_operators_that_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (share(dir.path()).unwrap(), share(dir.path()).unwrap());
        one.claim_for("red").unwrap();
        other.claim_for("red").unwrap();
        let said = other.claim_for("blue").unwrap_err().to_string();
        assert!(said.contains("another cluster") && said.contains("--data-dir"), "{said}");
        drop((one, other));
        let said = hold(dir.path()).unwrap_err().to_string();
        assert!(said.contains("causeway operator") && said.contains("--data-dir"), "{said}");

        let dir = tempfile::tempdir().unwrap();
        let held = hold(dir.path()).unwrap();
        held.describe("https://127.0.0.1:1234").unwrap();
        let said = share(dir.path()).unwrap_err().to_string();
        assert!(said.contains("https://127.0.0.1:1234") && said.contains("--data-dir"), "{said}");
        std::fs::write(kubeconfig(dir.path()), "").unwrap();
        drop(held);
        let said = share(dir.path()).unwrap_err().to_string();
        assert!(said.contains("causeway up"), "it may come back: {said}");
    }
}
