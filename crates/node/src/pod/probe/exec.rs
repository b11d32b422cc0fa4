//! A command in the environment of a container.

use std::{path::PathBuf, process::Stdio};

use causeway_containers::{Choice, Runtime};

use crate::process::RuntimeContainer;

/// A resolved command.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub working_dir: PathBuf,
}

const SHOWN: usize = 1024;

impl Command {
    /// Runs it; an exit code other than 0 is a failure that shows the output.
    pub(crate) async fn run(&self) -> Result<(), String> {
        let output = tokio::process::Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.working_dir)
            .stdin(Stdio::null())
            // The caller's time limit drops this future, and the command must not outlive it.
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| format!("cannot execute {}: {error}", self.program.display()))?;
        if output.status.success() {
            return Ok(());
        }
        let mut text = output.stdout;
        text.extend_from_slice(&output.stderr);
        text.truncate(SHOWN);
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        Err(if text.is_empty() { format!("command ended with {}", output.status) } else { text })
    }
}

/// Runs a command inside a container of a runtime.
pub(super) async fn inside(container: &RuntimeContainer, command: &[String]) -> Result<(), String> {
    let runtime = Runtime::connect(&Choice::Socket(container.socket.clone()))
        .await
        .map_err(|error| error.to_string())?;
    let ended = runtime.exec(&container.spec.name, command).await.map_err(|error| error.report())?;
    if ended.code == 0 {
        return Ok(());
    }
    let shown = ended.output.get(..SHOWN.min(ended.output.len())).unwrap_or_default();
    let text = String::from_utf8_lossy(shown).trim().to_owned();
    Err(if text.is_empty() { format!("command ended with exit code {}", ended.code) } else { text })
}
