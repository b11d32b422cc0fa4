//! A control plane for one demo: this program's own `up` in a new directory, removed at the end.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use kube::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;

use super::child;
use super::steps::Steps;
use crate::parts::{cluster, data_dir};

/// For its start and for its end; long enough for a slow machine.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct ControlPlane {
    child: Child,
    dir: PathBuf,
    pub(super) client: Client,
}

impl ControlPlane {
    /// Starts it as a step of the demo; `args` follow `up`.
    pub(super) async fn start(steps: &mut Steps, args: &[String]) -> anyhow::Result<Self> {
        let step = async {
            let plane = Self::spawn(args).await?;
            let line = format!("KUBECONFIG={}", plane.kubeconfig().display());
            Ok((plane, vec![line]))
        };
        steps.run("A control plane on this machine: Kubernetes API, operator, node", step).await
    }

    async fn spawn(args: &[String]) -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("causeway-demo-{}", std::process::id()));
        std::fs::create_dir(&dir).with_context(|| format!("can't make {}", dir.display()))?;
        let log = dir.join("log");
        let mut command = child::command()?;
        command
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.join("data"))
            .args(args)
            .stderr(std::fs::File::create(&log)?);
        let ready = child::start(command, |line| (line == "ready").then_some(()));
        let (child, ()) = tokio::time::timeout(TIMEOUT, ready)
            .await
            .context("the control plane did not start in time")?
            .with_context(|| format!("the control plane did not start; {} says why", log.display()))?;
        let client = cluster::client(&data_dir::kubeconfig(&dir.join("data"))).await?;
        Ok(Self { child, dir, client })
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        data_dir::kubeconfig(&self.dir.join("data"))
    }

    /// Stops it and removes its directory.
    pub(super) async fn remove(self) -> anyhow::Result<()> {
        let dir = self.dir.clone();
        self.stop().await?;
        std::fs::remove_dir_all(&dir).with_context(|| format!("can't remove {}", dir.display()))
    }

    /// Stops it with its pods and leaves its directory; the path of its log.
    pub(super) async fn stop(mut self) -> anyhow::Result<PathBuf> {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // Fails if it has ended already, which is as good.
            let _ = kill_process(pid, Signal::TERM);
        }
        tokio::time::timeout(TIMEOUT, self.child.wait())
            .await
            .context("the control plane did not stop")??;
        Ok(self.dir.join("log"))
    }
}
