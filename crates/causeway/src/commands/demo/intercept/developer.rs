//! The developer's machine: a directory of its own, the commands that are typed on it, and a program that listens on it.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::manifests::{LAPTOP, NAMESPACE};
use crate::commands::demo::stage::Stage;
use crate::parts::connection::Connection;
use crate::parts::own_program;

/// A machine that commands are typed on.
pub(super) struct Developer {
    data: PathBuf,
    kubeconfig: PathBuf,
}

impl Developer {
    pub(super) fn new(stage: &Stage) -> anyhow::Result<Self> {
        Ok(Self { data: stage.laptop(), kubeconfig: stage.kubeconfig() })
    }

    fn command(&self, args: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(own_program::path()?);
        let (first, rest) = args.split_first().context("no command")?;
        command.arg(first).args(["--namespace", NAMESPACE, "--data-dir"]).arg(&self.data).args(rest);
        command.env("KUBECONFIG", &self.kubeconfig).stdin(Stdio::null()).kill_on_drop(true);
        Ok(command)
    }

    /// Types a command; whether it succeeded, and what it said on standard error.
    pub(super) async fn try_run(&self, args: &[&str]) -> anyhow::Result<(bool, String)> {
        let output = self.command(args)?.output().await.context("can't start a process")?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// Types a command that must succeed.
    pub(super) async fn run(&self, args: &[&str]) -> anyhow::Result<()> {
        match self.try_run(args).await? {
            (true, _) => Ok(()),
            (false, said) => bail!("`causeway {}` failed: {}", args.join(" "), said.trim()),
        }
    }

    /// The same, and its answer.
    pub(super) async fn json(&self, args: &[&str]) -> anyhow::Result<Value> {
        let output = self.command(args)?.args(["--output", "json"]).output().await;
        let output = output.context("can't start a process")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`causeway {}` failed: {}", args.join(" "), said.trim());
        }
        serde_json::from_slice(&output.stdout).context("the answer is not JSON")
    }

    /// Kills the daemon; its process id.
    pub(super) fn kill(&self) -> anyhow::Result<i32> {
        let connection = Connection::all(&self.data).into_iter().next().context("there is no connection")?;
        let holder = connection.running()?;
        kill_process(Pid::from_raw(holder.pid).context("no process")?, Signal::KILL)?;
        Ok(holder.pid)
    }

    /// Whether nothing is left on it.
    pub(super) fn has_nothing(&self) -> bool {
        std::fs::read_dir(&self.data).map_or(true, |mut entries| entries.next().is_none())
    }
}

/// A program that answers HTTP on the machine's loopback. Ends with the value.
pub(super) struct LocalProgram {
    task: JoinHandle<()>,
    pub(super) port: u16,
}

impl LocalProgram {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("can't listen on 127.0.0.1")?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    // A peer that goes away is its own business.
                    let _ = stream.read(&mut request).await;
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{LAPTOP}",
                        LAPTOP.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Ok(Self { task, port })
    }
}

impl Drop for LocalProgram {
    fn drop(&mut self) {
        self.task.abort();
    }
}
