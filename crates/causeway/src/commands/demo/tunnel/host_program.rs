//! The program on the host that containers shall reach: an echo server on loopback, and nowhere else.

use std::process::Stdio;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub struct HostProgram {
    /// Ends with this value.
    _child: Child,
    pub port: u16,
}

impl HostProgram {
    pub async fn start() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("can't find this program's own file")?;
        let mut child = Command::new(program)
            .args(["echo", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("can't start an echo server")?;
        let stdout = child.stdout.take().context("the echo server has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let first = lines.next_line().await?.context("the echo server ended at once")?;
        let port = first.rsplit(':').next().and_then(|port| port.parse().ok());
        let port = port.with_context(|| format!("the echo server does not say its port: {first}"))?;
        // What it says later must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { _child: child, port })
    }
}
