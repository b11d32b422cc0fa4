//! A process of this program that a demo needs, and the lines that it prints.

use std::process::Stdio;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::parts::own_program;

/// A command line of this program. Its process is killed with the value that [`start`] returns.
pub(super) fn command() -> anyhow::Result<Command> {
    let mut command = Command::new(own_program::path()?);
    command.env_remove("KUBECONFIG").stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

/// Starts it, and waits for the line of its output that `wanted` takes.
///
/// # Errors
/// When it can't be started, or ends before it prints such a line.
pub(super) async fn start<T>(
    mut command: Command,
    wanted: impl Fn(&str) -> Option<T>,
) -> anyhow::Result<(Child, T)> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("can't start a process")?;
    let stdout = child.stdout.take().context("the process has no output")?;
    let mut lines = BufReader::new(stdout).lines();
    let found = first(&mut lines, wanted).await?.context("the process ended")?;
    // What it prints later must not fill the pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok((child, found))
}

async fn first<T>(
    lines: &mut Lines<BufReader<ChildStdout>>,
    wanted: impl Fn(&str) -> Option<T>,
) -> anyhow::Result<Option<T>> {
    while let Some(line) = lines.next_line().await? {
        if let Some(found) = wanted(&line) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
