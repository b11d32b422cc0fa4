//! What many `ProxyServer`s cost a real cluster: requests to its API server and the operator's processor time and memory,
//! while they are made, at rest, for one change, and when the operator starts again.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::cpu;

/// How long everything may take to become ready.
const PATIENCE: Duration = Duration::from_mins(15);
const LOOK: Duration = Duration::from_millis(250);
/// The image of the operator, which is also that of the server behind the proxies.
const IMAGE: &str = "causeway.dev/causeway:0.1.0";

/// Measures many ProxyServers on a cluster that has the operator, Multus and nothing else to do. The operator must run on
/// this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Of the cluster's administrator.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The bridge that the proxies are attached to.
    #[arg(long, default_value = "fleet", value_name = "NAME")]
    bridge: String,
    /// How many there are.
    #[arg(long, default_value_t = 200, value_name = "N")]
    objects: u32,
    /// Backends of each.
    #[arg(long, default_value_t = 5, value_name = "N")]
    backends: u32,
    /// How long is looked at the cluster at rest.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    seconds: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let fleet = Fleet { args };
    fleet.prepare()?;
    let start = Instant::now();
    fleet.measure("made", || {
        let objects: Vec<Value> = (0..args.objects).map(|number| proxy(number, args.backends)).collect();
        fleet.apply(&objects)?;
        fleet.until_ready(args.objects)
    })?;
    println!(
        "{} ProxyServers with {} backends: all Ready after {:.1} s",
        args.objects,
        args.backends,
        start.elapsed().as_secs_f64()
    );
    // What the last of them caused is over then.
    sleep(Duration::from_secs(15));
    fleet.measure("at rest", || {
        sleep(Duration::from_secs_f64(args.seconds));
        Ok(())
    })?;
    fleet.measure("one change", || {
        fleet.apply(&[proxy(0, args.backends + 1)])?;
        fleet.until_ready(args.objects)?;
        // Until nobody has anything to say about it any more.
        sleep(Duration::from_secs(15));
        Ok(())
    })?;
    fleet.measure("operator started again", || {
        fleet.kubectl(&["-n", "causeway-system", "rollout", "restart", "deployment/causeway-operator"])?;
        fleet.kubectl(&[
            "-n",
            "causeway-system",
            "rollout",
            "status",
            "deployment/causeway-operator",
            "--timeout=120s",
        ])?;
        let start = Instant::now();
        fleet.apply(&[proxy(1, args.backends + 1)])?;
        fleet.until_ready(args.objects)?;
        println!("an edit beside it is Ready after {:.1} s", start.elapsed().as_secs_f64());
        sleep(Duration::from_secs(30));
        Ok(())
    })?;
    Ok(())
}

struct Fleet<'a> {
    args: &'a Args,
}

impl Fleet<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(&self.args.kubeconfig).args(arguments);
        command
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {said}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let mut child = self
            .command(&["apply", "--server-side", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        child.stdin.take().context("its input")?.write_all(list.to_string().as_bytes())?;
        ensure!(child.wait()?.success(), "kubectl apply failed");
        Ok(())
    }

    /// A namespace with a network and a server.
    fn prepare(&self) -> anyhow::Result<()> {
        let metadata = |name: &str| json!({"name": name, "namespace": "fleet"});
        let network = json!({
            "cniVersion": "1.0.0", "name": self.args.bridge,
            "plugins": [
                {"type": "bridge", "bridge": self.args.bridge, "ipam": {"type": "static"}},
                {"type": "tuning", "sysctl": {
                    "net.ipv4.conf.all.forwarding": "0", "net.ipv6.conf.all.forwarding": "0",
                }},
            ],
        });
        let server = json!({
            "name": "server", "image": IMAGE, "imagePullPolicy": "Never",
            "args": ["echo", "--listen", "0.0.0.0:8443", "--name", "web", "--tls-self-signed", "*.example.com"],
        });
        self.apply(&[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}),
            json!({
                "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
                "metadata": metadata("fleet"), "spec": {"config": network.to_string()},
            }),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web"),
                "spec": {
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [server]}},
                },
            }),
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": metadata("web"),
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 443, "targetPort": 8443}]},
            }),
        ])?;
        self.kubectl(&["-n", "fleet", "rollout", "status", "deployment/web", "--timeout=120s"]).map(drop)
    }

    /// Waits until so many are ready with their newest spec.
    fn until_ready(&self, wanted: u32) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let list: Value = serde_json::from_str(&self.kubectl(&[
                "-n",
                "fleet",
                "get",
                "proxyservers",
                "-o",
                "json",
            ])?)?;
            let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
            let ready = items.iter().filter(|item| is_ready(item)).count();
            if ready == wanted as usize {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{ready} of {wanted} are Ready");
            sleep(LOOK);
        }
    }

    /// Says what the API server and the operator had to do for it.
    fn measure(&self, what: &str, act: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let (requests, used) = (self.requests()?, operators()?);
        let start = Instant::now();
        act()?;
        let (requests_now, used_now) = (self.requests()?, operators()?);
        let processor: f64 =
            used_now.iter().map(|(pid, now)| now.0 - used.get(pid).map_or(0.0, |before| before.0)).sum();
        let memory = used_now.values().map(|now| now.1).fold(0.0, f64::max);
        println!(
            "\n{what}: {:.0} s; operators: {processor:.2} s of processor time, the largest has {:.0} MiB",
            start.elapsed().as_secs_f64(),
            memory / f64::from(1 << 20)
        );
        for (key, now) in requests_now {
            let more = now - requests.get(&key).copied().unwrap_or_default();
            if more > 0.0 {
                println!("  {more:>7} {key}");
            }
        }
        Ok(())
    }

    /// Writes that the API server has answered, by verb and resource. Leases are left out: everybody renews theirs.
    fn requests(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let metrics = self.kubectl(&["get", "--raw", "/metrics"])?;
        let mut found = BTreeMap::new();
        for line in metrics.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{")) {
            let (labels, count) = line.rsplit_once("} ").context("a figure has labels")?;
            let label = |name: &str| {
                labels.split(',').find_map(|label| {
                    Some(label.strip_prefix(name)?.strip_prefix('=')?.trim_matches('"').to_owned())
                })
            };
            let [verb, resource, part, code] =
                ["verb", "resource", "subresource", "code"].map(|name| label(name).unwrap_or_default());
            if resource == "leases" || ["GET", "LIST", "WATCH", "CONNECT"].contains(&verb.as_str()) {
                continue;
            }
            let slash = if part.is_empty() { "" } else { "/" };
            *found.entry(format!("{verb} {resource}{slash}{part} {code}")).or_default() +=
                count.parse::<f64>()?;
        }
        Ok(found)
    }
}

fn proxy(number: u32, backends: u32) -> Value {
    let backend = |name: u32| {
        json!({
            "name": format!("web-{name}"), "hostname": format!("web-{name}.example.com"), "port": 443,
            "targetService": "web", "targetPort": 443, "targetNamespace": "fleet",
        })
    };
    let address = format!("10.111.{}.{}/16", number / 200, number % 200 + 10);
    json!({
        "apiVersion": "causeway.dev/v1alpha1", "kind": "ProxyServer",
        "metadata": {"name": format!("proxy-{number}"), "namespace": "fleet"},
        "spec": {
            "networkConfig": {"serverIP": address, "networkAttachmentName": "fleet"},
            "backends": (0..backends).map(backend).collect::<Vec<_>>(),
            "engine": "Native",
            // Two cores have room for all of them.
            "podTemplate": {"resources": {"requests": {"cpu": "1m", "memory": "16Mi"}}},
        },
    })
}

fn is_ready(item: &Value) -> bool {
    let is_newest = item["status"]["observedGeneration"] == item["metadata"]["generation"];
    let conditions = item["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    is_newest && conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Processor seconds and resident bytes of every operator on this machine, by pid.
fn operators() -> anyhow::Result<BTreeMap<u32, (f64, f64)>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if command.split(|byte| *byte == 0).take(2).eq([&b"/causeway"[..], b"operator"])
            && let (Ok(seconds), Ok((resident, _))) = (cpu::seconds(pid), cpu::memory(pid))
        {
            found.insert(pid, (seconds, resident));
        }
    }
    Ok(found)
}
