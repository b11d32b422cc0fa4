//! `causeway up` with small services in it, and a laptop that commands are typed on.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::far::Far;

const NAMESPACE: &str = "bench";
const IMAGE: &str = "causeway.dev/causeway:0.1.0";

pub(super) struct Cluster {
    program: PathBuf,
    dir: PathBuf,
    up: Child,
    /// Kept open: a closed pipe would end the program at its next line.
    _said: BufReader<ChildStdout>,
}

impl Cluster {
    /// Starts it in a directory that holds nothing yet.
    pub(super) fn start(program: &Path, dir: &Path, at: Ipv4Addr) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let log = std::fs::File::create(dir.join("up.log"))?;
        let mut up = Command::new(program)
            .args(["up", "--container-runtime", "none", "--listen", &format!("{at}:0"), "--data-dir"])
            .arg(dir.join("up"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("can't start causeway up")?;
        let mut said = BufReader::new(up.stdout.take().context("a child without output")?);
        let mut line = String::new();
        while line.trim_end() != "ready" {
            line.clear();
            if said.read_line(&mut line)? == 0 {
                bail!("causeway up ended: {}", std::fs::read_to_string(dir.join("up.log"))?);
            }
        }
        let cluster = Self { program: program.to_owned(), dir: dir.to_owned(), up, _said: said };
        cluster
            .apply(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})])?;
        Ok(cluster)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("up/kubeconfig")
    }

    /// A Deployment and a Service. What answers at the pod's port is this bench: pods have addresses of the machine.
    pub(super) fn serve(
        &self,
        name: &str,
        port: u16,
        protocol: Option<&str>,
    ) -> anyhow::Result<SocketAddrV4> {
        let (metadata, labels) = (json!({"name": name, "namespace": NAMESPACE}), json!({"app": name}));
        let container = json!({
            "name": "app", "image": IMAGE, "args": ["echo", "--listen", "$(POD_IP):8080"],
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "ports": [{"name": "app", "containerPort": port}],
        });
        let mut service_port = json!({"name": "app", "port": 80, "targetPort": "app"});
        if let Some(protocol) = protocol {
            service_port["appProtocol"] = json!(protocol);
        }
        self.apply(&[
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                "spec": {"selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels}, "spec": {"containers": [container]},
                }},
            }),
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": metadata,
                "spec": {"selector": labels, "ports": [service_port]},
            }),
        ])?;
        self.kubectl(&["rollout", "status", &format!("deployment/{name}"), "--timeout=60s"])?;
        let address = self.kubectl(&["get", "service", name, "-o", "jsonpath={.spec.clusterIP}"])?;
        Ok(SocketAddrV4::new(address.parse()?, 80))
    }

    /// The address of a pod of a Deployment.
    pub(super) fn pod(&self, name: &str) -> anyhow::Result<Ipv4Addr> {
        let selector = format!("app={name}");
        let path = "jsonpath={.items[0].status.podIP}";
        Ok(self.kubectl(&["get", "pods", "-l", &selector, "-o", path])?.parse()?)
    }

    fn kubectl_command(&self) -> Command {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(["-n", NAMESPACE]);
        command
    }

    pub(super) fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        said(self.kubectl_command().args(arguments))
    }

    pub(super) fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let mut child = self
            .kubectl_command()
            .args(["apply", "--server-side", "--validate=false", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("can't start kubectl")?;
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        child.stdin.take().context("its input")?.write_all(list.to_string().as_bytes())?;
        ensure!(child.wait()?.success(), "kubectl apply failed");
        Ok(())
    }

    /// Types a command on the laptop, which may be elsewhere.
    pub(super) fn laptop(&self, far: Option<&Far>, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = match far {
            Some(far) => far.command(&self.program),
            None => Command::new(&self.program),
        };
        let (first, rest) = arguments.split_first().context("no command")?;
        command.arg(first).args(["-n", NAMESPACE, "--data-dir"]).arg(self.dir.join("laptop")).args(rest);
        // The laptop is another user than whoever runs the bench.
        command.env("KUBECONFIG", self.kubeconfig()).env("USER", "bench").stdin(Stdio::null());
        said(&mut command)
    }

    /// All processes of it: the control plane, the pods and the laptop.
    pub(super) fn pids(&self) -> Vec<u32> {
        pids_of(&self.program)
    }

    /// The processes of the cluster's end.
    pub(super) fn stowaways(&self) -> Vec<u32> {
        let is_one = |pid: &u32| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.split(|byte| *byte == 0).nth(1) == Some(b"stowaway")
        };
        self.pids().into_iter().filter(is_one).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.dir.join("laptop").exists()
            && let Err(error) = self.laptop(None, &["disconnect", "--force"])
        {
            eprintln!("bench: the laptop can't leave: {error:#}");
        }
        if let Some(pid) = Pid::from_raw(self.up.id().cast_signed()) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.up.wait();
    }
}

/// What a program that must succeed says.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("can't start {command:?}"))?;
    let wrong = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", wrong.trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// All processes that run a program in this network or in one that this bench has made.
fn pids_of(program: &Path) -> Vec<u32> {
    let Ok(program) = program.canonicalize() else { return Vec::new() };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program))
        .collect()
}
