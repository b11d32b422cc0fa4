//! The measured process: started with a plan file, given new plans, asked what it holds.

use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;

use crate::cpu;
use crate::process::Process;

const START: Duration = Duration::from_secs(30);

/// What the engine holds at a moment.
pub(crate) struct Sample {
    pub(crate) resident: f64,
    pub(crate) descriptors: f64,
    /// Connections, by its own word.
    pub(crate) connections: f64,
    pub(crate) cpu: f64,
}

pub(crate) struct Engine {
    process: Process,
    plan: PathBuf,
    admin: PathBuf,
    log: PathBuf,
}

impl Engine {
    pub(crate) async fn start(program: &Path, dir: &Path, plan: &str) -> anyhow::Result<Self> {
        let [path, admin, log] = ["plan.yaml", "admin.sock", "log"].map(|name| dir.join(name));
        std::fs::write(&path, plan)?;
        let out = File::create(&log)?;
        let mut command = Command::new(program);
        command.arg("engine").arg("--config").arg(&path).arg("--admin").arg(&admin);
        let process = Process::start(command.stdout(out.try_clone()?).stderr(out))?;
        let engine = Self { process, plan: path, admin, log };
        let deadline = Instant::now() + START;
        while engine.ask("/ready").await.is_err() {
            ensure!(Instant::now() < deadline, "the engine did not start:\n{}", engine.last_words());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(engine)
    }

    /// Replaces the plan file and tells the engine.
    pub(crate) fn give(&self, plan: &str) -> anyhow::Result<()> {
        let new = self.plan.with_extension("new");
        std::fs::write(&new, plan)?;
        std::fs::rename(&new, &self.plan)?;
        let pid = Pid::from_raw(self.process.pid.cast_signed()).context("a child without an id")?;
        kill_process(pid, Signal::HUP).context("can't signal the engine: it has ended")
    }

    /// Where its listeners are, by name.
    pub(crate) async fn listeners(&self) -> anyhow::Result<HashMap<String, SocketAddr>> {
        let list: serde_json::Value = serde_json::from_str(&self.ask("/listeners").await?)?;
        let list = list.as_array().context("/listeners is not a list")?;
        let address = |l: &serde_json::Value| {
            Some((l["name"].as_str()?.to_owned(), l["address"].as_str()?.parse().ok()?))
        };
        Ok(list.iter().filter_map(address).collect())
    }

    pub(crate) async fn sample(&self) -> anyhow::Result<Sample> {
        let pid = self.process.pid;
        let descriptors =
            std::fs::read_dir(format!("/proc/{pid}/fd")).context("the engine has ended")?.count();
        let metrics = self.ask("/metrics").await?;
        let connections = metrics
            .lines()
            .filter(|line| line.starts_with("envoy_listener_downstream_cx_active"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        Ok(Sample {
            resident: cpu::memory(pid)?.0,
            descriptors: descriptors as f64,
            connections,
            cpu: cpu::seconds(pid)?,
        })
    }

    async fn ask(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = UnixStream::connect(&self.admin).await.context("admin does not answer")?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("admin's answer has no body")?;
        ensure!(head.starts_with("HTTP/1.1 200"), "admin says {}", head.lines().next().unwrap_or_default());
        Ok(body.to_owned())
    }

    /// What it wrote beside what a soak brings with it: plans, listeners, endpoints that were killed.
    pub(crate) fn last_words(&self) -> String {
        const USUAL: [&str; 4] =
            ["plan applied", " listening on ", "admin on ", "endpoint rested for failing"];
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let odd = log.lines().filter(|line| !USUAL.iter().any(|usual| line.contains(usual)));
        odd.collect::<Vec<_>>().join("\n")
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.process.stop().await
    }
}
