//! A running or ended attempt as the node sees it: start it, find it again, signal it, await its end.

use std::{fs, io, net::IpAddr, os::fd::OwnedFd, path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use causeway_base::file;
use jiff::Timestamp;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Interest, unix::AsyncFd},
    process::Command,
    time::timeout,
};

use super::{
    Exit, Identity, Launch,
    attempt::{Attempt, Record},
};
use crate::config::ShimCommand;

const START_LIMIT: Duration = Duration::from_secs(30);
/// A runtime may have to lay out an image on a busy disk.
const CONTAINER_START_LIMIT: Duration = Duration::from_mins(3);

/// Why an attempt could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstanceError {
    #[error("cannot prepare {path}")]
    Prepare { path: PathBuf, source: io::Error },
    #[error("cannot start the shim {path}")]
    Spawn { path: PathBuf, source: io::Error },
    #[error("cannot record the shim in {path}")]
    Record { path: PathBuf, source: io::Error },
    #[error("the shim did not start the process: {message}")]
    NotStarted { message: String },
}

/// One attempt with, while it runs, a handle on its shim.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub attempt: Attempt,
    pub launch: Launch,
    pub started_at: Timestamp,
    shim: Option<Arc<AsyncFd<OwnedFd>>>,
}

impl Instance {
    /// Starts the process; when this returns it is on record and survives the node.
    pub(crate) async fn start(
        directory: PathBuf,
        launch: Launch,
        shim: &ShimCommand,
    ) -> Result<Self, InstanceError> {
        let prepare = |source| InstanceError::Prepare { path: directory.clone(), source };
        // What an attempt that never came to a start has left would be taken for news of this one.
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(prepare(error)),
            _ => {}
        }
        file::create_private_dir(&directory).map_err(prepare)?;
        let attempt = Attempt::at(&directory);
        attempt.write_launch(&launch).map_err(prepare)?;
        let messages = fs::File::create(directory.join("shim.log")).map_err(prepare)?;

        let mut child = Command::new(&shim.program)
            .args(&shim.args)
            .arg("run")
            .arg(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(messages)
            .current_dir("/")
            .spawn()
            .map_err(|source| InstanceError::Spawn { path: shim.program.clone(), source })?;

        let record_error = |source| InstanceError::Record { path: directory.clone(), source };
        let gone = || record_error(io::Error::other("the shim ended at once"));
        let pid = child.id().ok_or_else(gone)? as i32;
        let identity = Identity::of(pid).map_err(record_error)?;
        let pidfd = open_pidfd(&identity).map_err(record_error)?.ok_or_else(gone)?;
        let started_at = Timestamp::now();
        attempt.write_record(&Record { shim: identity, started_at }).map_err(record_error)?;

        // The shim starts the process only on this line: without a record there is never a process.
        let not_started = |message: &str| InstanceError::NotStarted { message: message.to_owned() };
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(not_started("its pipes are missing"));
        };
        let talk = async {
            stdin.write_all(b"go\n").await?;
            stdin.flush().await?;
            let mut answer = String::new();
            BufReader::new(stdout).read_line(&mut answer).await?;
            Ok::<_, io::Error>(answer)
        };
        let limit = if launch.runtime_container.is_some() { CONTAINER_START_LIMIT } else { START_LIMIT };
        match timeout(limit, talk).await {
            Ok(Ok(answer)) if answer.trim() == "started" => {}
            Ok(Ok(answer)) => return Err(not_started(answer.trim())),
            Ok(Err(error)) => return Err(not_started(&error.to_string())),
            Err(_) => {
                let _ = pidfd_send_signal(pidfd.get_ref(), Signal::KILL);
                return Err(not_started("no answer in time"));
            }
        }
        Ok(Self { attempt, launch, started_at, shim: Some(Arc::new(pidfd)) })
    }

    /// Finds an attempt of an earlier life of the node; `None` when it never came to a start.
    pub(crate) fn load(attempt: Attempt) -> io::Result<Option<Self>> {
        let (Some(launch), Some(record)) = (attempt.launch()?, attempt.record()?) else {
            return Ok(None);
        };
        let shim = open_pidfd(&record.shim)?.map(Arc::new);
        Ok(Some(Self { attempt, launch, started_at: record.started_at, shim }))
    }

    /// How it ended, or `None` while it runs.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match &self.shim {
            Some(_) if self.shim_alive() => None,
            _ => Some(self.read_exit()),
        }
    }

    /// The address of a container that has one of its own.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.launch.runtime_container.as_ref()?;
        self.attempt.address().ok().flatten()
    }

    /// Waits for the end.
    pub(crate) async fn wait(&self) -> Exit {
        if let Some(shim) = &self.shim {
            // A pidfd is readable once the process ended. An error can only mean that there is nothing to wait for.
            let _ = shim.readable().await;
        }
        self.read_exit()
    }

    /// Asks the process to end (SIGTERM).
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends the process and all of its process group at once (SIGKILL).
    pub(crate) fn kill(&self) {
        // SIGKILL on the shim would lose the exit record; the shim kills the group on SIGUSR1.
        self.signal(Signal::USR1);
    }

    /// Ends a shim that does not answer; the process ends with it, by its parent-death signal.
    pub(crate) fn kill_shim(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(shim) = &self.shim {
            // The only failure is that the process ended, which is what the caller wants.
            let _ = pidfd_send_signal(shim.get_ref(), signal);
        }
    }

    fn shim_alive(&self) -> bool {
        matches!(self.attempt.record(), Ok(Some(record)) if record.shim.is_alive())
    }

    fn read_exit(&self) -> Exit {
        if let Ok(Some(exit)) = self.attempt.exit() {
            return exit;
        }
        // The shim was killed: its process has got SIGKILL by then, but not what that had started.
        if let Ok(Some(child)) = self.attempt.child()
            && child.is_alive()
            && let Some(pid) = Pid::from_raw(child.pid)
        {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let exit = Exit::unseen(Timestamp::now());
        if let Err(error) = self.attempt.write_exit(&exit) {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot record the end of a process");
        }
        exit
    }
}

/// A pollable handle on the process, or `None` when it no longer runs.
fn open_pidfd(identity: &Identity) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let Some(pid) = Pid::from_raw(identity.pid) else {
        return Ok(None);
    };
    let pidfd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(pidfd) => pidfd,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Compared after opening: from here on the handle cannot come to mean another process.
    if !identity.is_alive() {
        return Ok(None);
    }
    // The constructor is deprecated for types whose descriptor can change; an OwnedFd keeps its one.
    #[expect(deprecated, reason = "its replacement is an unsafe function")]
    AsyncFd::with_interest(pidfd, Interest::READABLE).map(Some)
}
