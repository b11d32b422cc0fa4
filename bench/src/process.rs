//! Children: started, waited for, measured and ended by their id.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const READY_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// A running child. Killed if it is dropped before it was stopped.
pub(crate) struct Process {
    child: Child,
    pub(crate) pid: u32,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("can't start {program}"))?;
        let pid = child.id().context("a child ended at once")?;
        Ok(Self { child, pid })
    }

    /// Asks the child to stop and waits until it has.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.pid.cast_signed()).context("a child without an id")?;
        kill_process(pid, Signal::TERM).context("can't stop a child")?;
        if let Ok(status) = timeout(STOP_LIMIT, self.child.wait()).await {
            return status.map(drop).context("can't wait for a child");
        }
        self.child.kill().await.context("can't kill a child")?;
        bail!("process {} did not stop within {} s and was killed", self.pid, STOP_LIMIT.as_secs())
    }
}

/// `causeway up` that has said it is ready.
pub(crate) struct Causeway {
    pub(crate) process: Process,
    pub(crate) kubeconfig: PathBuf,
    /// From the start of the process to its ready line.
    pub(crate) ready_after: Duration,
    /// Kept open: a closed pipe would end the program at its next line.
    _stdout: BufReader<ChildStdout>,
}

impl Causeway {
    pub(crate) async fn up(program: &Path, data_dir: &Path) -> anyhow::Result<Self> {
        let log = std::fs::File::create(data_dir.with_extension("log")).context("can't make a log file")?;
        let started = Instant::now();
        let mut process = Process::start(
            Command::new(program)
                .arg("up")
                .arg("--data-dir")
                .arg(data_dir)
                .args(["--listen", "127.0.0.1:0"])
                .stdout(Stdio::piped())
                .stderr(log),
        )?;
        let stdout = process.child.stdout.take().context("a child without output")?;
        let mut stdout = BufReader::new(stdout);
        let ready = async {
            let mut line = String::new();
            while stdout.read_line(&mut line).await? > 0 {
                if line.trim_end() == "ready" {
                    return anyhow::Ok(started.elapsed());
                }
                line.clear();
            }
            let said = std::fs::read_to_string(data_dir.with_extension("log")).unwrap_or_default();
            bail!("causeway up ended before it was ready: {said}")
        };
        let ready_after =
            timeout(READY_LIMIT, ready).await.context("causeway up was not ready in time")??;
        Ok(Self { process, kubeconfig: data_dir.join("kubeconfig"), ready_after, _stdout: stdout })
    }
}
