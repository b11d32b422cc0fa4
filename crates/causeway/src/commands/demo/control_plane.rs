//! A control plane for one demo: this program's own `up` in a new directory, gone at the end unless it is kept.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::parts::data_dir;

/// Long enough for a slow machine.
const START: Duration = Duration::from_secs(30);

pub struct ControlPlane {
    child: Child,
    dir: PathBuf,
    pub client: Client,
}

impl ControlPlane {
    /// Starts it; `args` follow `up`.
    pub async fn start(args: &[String]) -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("causeway-demo-{}", std::process::id()));
        std::fs::create_dir(&dir).with_context(|| format!("can't make {}", dir.display()))?;
        let log = std::fs::File::create(dir.join("log"))?;
        let mut child = Command::new(std::env::current_exe().context("can't find this program's own file")?)
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.join("data"))
            .args(args)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("can't start the control plane")?;
        let stdout = child.stdout.take().context("the control plane has no output")?;
        let mut lines = BufReader::new(stdout).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await? {
                if line == "ready" {
                    return Ok(());
                }
            }
            bail!("the control plane ended; {} says why", dir.join("log").display())
        };
        tokio::time::timeout(START, ready).await.context("the control plane did not start in time")??;
        // What it says later must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let kubeconfig = Kubeconfig::read_from(data_dir::kubeconfig(&dir.join("data")))?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Self { child, client: Client::try_from(config)?, dir })
    }

    pub fn kubeconfig(&self) -> PathBuf {
        data_dir::kubeconfig(&self.dir.join("data"))
    }

    /// Waits until the person ends it with Ctrl-C.
    pub async fn keep(&mut self) -> anyhow::Result<()> {
        tokio::signal::ctrl_c().await?;
        Ok(())
    }

    /// Stops it and removes its directory.
    pub async fn stop(self) -> anyhow::Result<()> {
        let dir = self.dir.clone();
        self.halt().await?;
        std::fs::remove_dir_all(&dir).with_context(|| format!("can't remove {}", dir.display()))
    }

    /// Stops it with its pods and leaves what it wrote; the path of its log.
    pub async fn halt(mut self) -> anyhow::Result<PathBuf> {
        if let Some(pid) = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id as i32)) {
            // One that has ended already needs no word.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        tokio::time::timeout(START, self.child.wait()).await.context("the control plane did not stop")??;
        Ok(self.dir.join("log"))
    }
}
