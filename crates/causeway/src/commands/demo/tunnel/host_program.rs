//! The program on the host that containers shall reach: an echo server on loopback, and nowhere else.

use anyhow::Context;
use tokio::process::Child;

use crate::commands::demo::child;

pub(super) struct HostProgram {
    /// Killed with this value.
    _child: Child,
    pub(super) port: u16,
}

impl HostProgram {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let mut command = child::command()?;
        command.args(["echo", "--listen", "127.0.0.1:0"]);
        let port = |line: &str| line.rsplit(':').next()?.parse().ok();
        let (child, port) = child::start(command, port).await.context("there is no echo server")?;
        Ok(Self { _child: child, port })
    }
}
