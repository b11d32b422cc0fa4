//! What one demo is played on: a directory of its own and this program's own `up` in it. Nothing of it stays, however the
//! demo ends; what a demo that was killed has left is found by the next one and by `causeway clean`.
//!
//! `lock` is held for as long as the demo lives. `runtime` names the container runtime that it uses.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use causeway_base::file;
use causeway_containers::{Choice, Runtime};
use kube::Client;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, getuid, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::commands::connect;
use crate::parts::connection::Connection;
use crate::parts::{cluster, data_dir, ending, own_program};

/// For the control plane's start and for its end; long enough for a slow machine.
const TIMEOUT: Duration = Duration::from_secs(30);
const PREFIX: &str = "causeway-demo-";
/// The kinds whose objects have something in a container runtime. Networks last: containers use them.
const KINDS: [&str; 3] = ["Pod", "ContainerNetworkTunnelProxy", "ContainerNetwork"];

/// The directory of a demo, held by this process.
pub(crate) struct Stage {
    path: PathBuf,
    /// The control plane, if it was started by this process.
    control_plane: Option<Child>,
    _lock: File,
}

impl Stage {
    /// A new one for this process.
    pub(super) fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        // It gets its name when it is locked, so that nobody takes it for one that was left.
        let unlocked = path.with_extension("new");
        let made = || -> anyhow::Result<File> {
            file::create_private_dir(&unlocked)?;
            let lock = File::create(unlocked.join("lock"))?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            fs::rename(&unlocked, &path)?;
            Ok(lock)
        };
        let lock = made().with_context(|| format!("can't make {}", path.display()))?;
        Ok(Self { path, control_plane: None, _lock: lock })
    }

    /// Those whose demo is gone, of this user.
    pub(crate) fn abandoned() -> Vec<Self> {
        let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
        named.filter_map(|entry| Self::abandoned_at(entry.path())).collect()
    }

    fn abandoned_at(path: PathBuf) -> Option<Self> {
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_dir() || metadata.uid() != getuid().as_raw() {
            return None;
        }
        // Being made, or left by a version that made no locks: then its process says whether it is in use.
        let is_named = path.extension().is_none() && path.join("lock").exists();
        if !is_named && is_alive(path.file_stem()?.to_str()?.strip_prefix(PREFIX)?) {
            return None;
        }
        let lock = File::options().create(true).append(true).open(path.join("lock")).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { path, control_plane: None, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// The data directory of a developer's machine that is played here, too.
    pub(super) fn laptop(&self) -> PathBuf {
        self.path.join("laptop")
    }

    fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        data_dir::kubeconfig(&self.data())
    }

    /// Remembers the runtime that has to be cleaned up.
    pub(super) fn uses(&self, runtime: &Runtime) -> anyhow::Result<()> {
        let socket = runtime.socket().display().to_string();
        fs::write(self.path.join("runtime"), socket).context("can't write down which runtime is used")
    }

    /// Starts the control plane; `args` follow `up`.
    pub(super) async fn start(&mut self, args: &[String]) -> anyhow::Result<Client> {
        let log = self.log();
        let mut command = Command::new(own_program::path()?);
        command
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(self.data())
            .args(args)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            // Ctrl-C is for the demo, which needs its control plane to clean up.
            .process_group(0);
        let child = self.control_plane.insert(command.spawn().context("can't start a process")?);
        let stdout = child.stdout.take().context("the process has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await? {
                if line == "ready" {
                    return Ok(true);
                }
            }
            Ok::<_, io::Error>(false)
        };
        let is_ready = tokio::time::timeout(TIMEOUT, ready)
            .await
            .context("the control plane did not start in time")??;
        anyhow::ensure!(is_ready, "the control plane did not start");
        // What it prints later must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        cluster::client(&self.kubeconfig()).await
    }

    /// Saves the log from being removed; where it is.
    pub(super) fn save_log(&self) -> io::Result<PathBuf> {
        let saved = self.path.with_extension("log");
        fs::copy(self.log(), &saved)?;
        Ok(saved)
    }

    /// Ends all that still runs, removes what is in the container runtime, and then the directory.
    pub(crate) async fn remove(mut self) -> anyhow::Result<()> {
        for connection in Connection::all(&self.laptop()) {
            connect::daemon::end(&connection).await?;
        }
        self.stop().await?;
        let data = self.data();
        if data.exists() {
            // Left by a control plane that was killed: one that stops ends its pods.
            causeway_node::end_pods(&data_dir::node(&data)).await.context("can't end its pods")?;
            ending::end_tunnels(&data).await?;
            self.sweep(&data).await?;
        }
        // The machine of a demo that was killed has its process's number.
        if let Some(pid) = self.path.file_name().and_then(|name| name.to_str()?.strip_prefix(PREFIX)) {
            drop(causeway_node::networks::Machine::left(&machine(pid)));
        }
        fs::remove_dir_all(&self.path).with_context(|| format!("can't remove {}", self.path.display()))
    }

    async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.control_plane.take() else {
            return match data_dir::holder(&self.data())? {
                Some(holder) => ending::stop(&self.data(), &holder, Some(TIMEOUT)).await.map(drop),
                None => Ok(()),
            };
        };
        if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // Fails if it has ended already, which is as good.
            let _ = kill_process(pid, Signal::TERM);
        }
        tokio::time::timeout(TIMEOUT, child.wait()).await.context("the control plane did not stop")??;
        Ok(())
    }

    async fn sweep(&self, data: &Path) -> anyhow::Result<()> {
        let Ok(socket) = fs::read_to_string(self.path.join("runtime")) else { return Ok(()) };
        let runtime = Runtime::connect(&Choice::Socket(socket.into())).await?;
        let instance = data_dir::instance(data)?;
        for kind in KINDS {
            runtime.sweep(&instance, kind, |_| false).await?;
        }
        Ok(())
    }
}

/// The name of the machine of the demo with this process. It is that of an interface, too, which has 15 letters at most.
pub(super) fn machine(pid: impl fmt::Display) -> String {
    format!("cw-vm-{pid}")
}

fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_the_name_of_an_interface_whatever_its_process() {
        assert!(machine(4_194_304).len() <= 15, "the largest number that Linux gives to a process");
    }

    #[tokio::test]
    async fn only_what_nobody_holds_any_more_is_abandoned() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        assert!(Stage::abandoned_at(path.clone()).is_none(), "its process lives, and may be making it");
        fs::write(path.join("lock"), "").unwrap();
        fs::write(path.join("key"), "secret").unwrap();
        let held = Stage::abandoned_at(path.clone()).expect("nobody holds it");
        assert!(Stage::abandoned_at(path.clone()).is_none(), "it is held now");
        held.remove().await.unwrap();
        assert!(!path.exists());
        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(Stage::abandoned_at(path).is_none(), "what a link leads to is not ours");
    }
}
