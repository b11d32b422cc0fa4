//! Commands run inside a running container, for probes and hooks.

use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use futures::StreamExt as _;

use crate::runtime::plain_name;
use crate::{Result, Runtime};

/// As much of a command's output as is kept.
const SHOWN: usize = 16 * 1024;

/// How a command in a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    pub code: i64,
    /// The beginning of what it wrote, both outputs in one.
    pub output: Vec<u8>,
}

impl Runtime {
    /// Runs a command in a running container until it ends. A caller that stops waiting does not end the command.
    ///
    /// # Errors
    /// When the container does not run, the command can't be started, or takes longer than the limit.
    pub async fn exec(&self, id: &str, command: &[String]) -> Result<Executed> {
        let id = plain_name("run a command in container", id)?;
        let run = async {
            let config = ExecConfig {
                cmd: Some(command.to_vec()),
                attach_stdout: Some(true),
                attach_stderr: Some(true),
                ..ExecConfig::default()
            };
            let created = self.docker.create_exec(id, config).await?;
            let mut output = Vec::new();
            if let StartExecResults::Attached { output: mut pieces, .. } =
                self.docker.start_exec(&created.id, None).await?
            {
                while let Some(piece) = pieces.next().await {
                    let piece = piece?.into_bytes();
                    let room = SHOWN.saturating_sub(output.len()).min(piece.len());
                    output.extend_from_slice(&piece[..room]);
                }
            }
            let ended = self.docker.inspect_exec(&created.id).await?;
            Ok(Executed { code: ended.exit_code.unwrap_or_default(), output })
        };
        self.call(format!("run {command:?} in container {id}"), self.limits.slow, run).await
    }
}
