//! What many requests for hostnames cost: on one machine with our own authority and DNS server, all of them applied at once, some for
//! names that others have; then all of them deleted, and counted whether anything is left.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::cpu;
use crate::process::Causeway;
use crate::samples::Samples;

/// How long everything may take to become ready, and to go.
const PATIENCE: Duration = Duration::from_mins(15);
const LOOK: Duration = Duration::from_secs(1);
/// Clients that apply at the same time.
const CLIENTS: usize = 8;
const ZONE: &str = "bench.test";
/// What hostnames are made of.
const MADE: [&str; 6] = [
    "domainclaims.causeway.dev",
    "gatewayhostnamerequests.causeway.dev",
    "gateways.gateway.networking.k8s.io",
    "listenersets.gateway.networking.k8s.io",
    "httproutes.gateway.networking.k8s.io",
    "secrets",
];

/// Measures many requests for hostnames on one machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program to measure.
    #[arg(long, value_name = "FILE")]
    causeway: PathBuf,
    /// How many requests there are.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    requests: usize,
    /// Of these, how many ask for a name that another one asks for, too.
    #[arg(long, default_value_t = 100, value_name = "N")]
    conflicts: usize,
    /// How many namespaces they are in.
    #[arg(long, default_value_t = 50, value_name = "N")]
    namespaces: usize,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(
        args.conflicts * 2 <= args.requests,
        "at most half of the requests can be for names of the others"
    );
    let dir = tempfile::tempdir()?;
    let up = Causeway::up(&args.causeway, &dir.path().join("data")).await?;
    let bench = Bench { args, kubeconfig: &up.kubeconfig };
    let namespaces = (0..args.namespaces).map(|number| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("team-{number}")}})
    });
    bench.apply(&namespaces.collect::<Vec<_>>())?;
    // The first name pays for what is made once: authority, DNS server.
    bench.apply(&[bench.request(args.requests, "first")])?;
    bench.until("the first is Ready", || Ok(bench.requests()?.ready.len() == 1))?;
    bench.kubectl(&["delete", "ghr", "-A", "--all"])?;
    let before = bench.counts()?;
    let (calls, work) = (bench.calls()?, cpu::seconds(up.process.pid)?);

    let started = Instant::now();
    bench.apply_all()?;
    let applied = started.elapsed();
    let wanted = args.requests - args.conflicts;
    bench.until("all names are Ready, and the others wait", || {
        let requests = bench.requests()?;
        Ok(requests.ready.len() == wanted && requests.waiting == args.conflicts)
    })?;
    let took = started.elapsed();
    let requests = bench.requests()?;
    let there = bench.counts()?;
    let claims = there.get("domainclaims.causeway.dev").copied().unwrap_or(0);
    ensure!(claims == wanted as u64, "{claims} claims for {wanted} names");
    let after = bench.calls()?;
    println!(
        "{} requests from {} namespaces, {} for names of others: applied in {:.1} s, all others Ready after {:.1} s",
        args.requests,
        args.namespaces,
        args.conflicts,
        applied.as_secs_f64(),
        took.as_secs_f64()
    );
    println!(
        "time to Ready: p50 {:.0} s, p99 {:.0} s (by the objects' own times, which are in whole seconds)",
        requests.ready.median(),
        requests.ready.quantile(0.99)
    );
    let writes = difference(&calls, &after);
    let total: u64 = writes.values().sum();
    println!(
        "{:.1} writes to the API server per request, those of the clients included:",
        per(total, args.requests)
    );
    for (what, count) in writes.iter().filter(|(_, count)| **count >= args.requests as u64 / 4) {
        println!("  {what}: {:.2}", per(*count, args.requests));
    }
    let zone = writes.iter().filter(|(what, _)| what.ends_with(" configmaps")).map(|(_, count)| count);
    println!("{} writes of the zone of our own DNS server", zone.sum::<u64>());
    println!("{} gateways", there.get(MADE[2]).copied().unwrap_or(0));
    let memory = mebibytes(up.process.pid)?;
    println!(
        "API server, operator and node together: {memory:.0} MiB, {:.1} s of processor time",
        cpu::seconds(up.process.pid)? - work
    );

    let started = Instant::now();
    bench.kubectl(&["delete", "ghr", "-A", "--all", "--wait=false"])?;
    bench.until("nothing is left", || Ok(bench.counts()? == before))?;
    println!("all deleted, and by count as before, after {:.1} s", started.elapsed().as_secs_f64());
    let memory = mebibytes(up.process.pid)?;
    println!("then {memory:.0} MiB");
    up.process.stop().await
}

fn mebibytes(pid: u32) -> anyhow::Result<f64> {
    Ok(cpu::memory(pid)?.0 / 1024.0 / 1024.0)
}

/// How many of one thing come to each request.
fn per(count: u64, requests: usize) -> f64 {
    count as f64 / requests as f64
}

/// What was counted since.
fn difference(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let since = after.iter().map(|(what, count)| (what.clone(), count - before.get(what).unwrap_or(&0)));
    since.filter(|(_, count)| *count > 0).collect()
}

#[derive(Default)]
struct Requests {
    /// Seconds from creation to Ready.
    ready: Samples,
    /// Those who are told that another one has the name.
    waiting: usize,
}

struct Bench<'a> {
    args: &'a Args,
    kubeconfig: &'a Path,
}

impl Bench<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.kubeconfig).args(arguments);
        command
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {said}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let mut child =
            self.command(&["create", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let documents: Vec<String> = objects.iter().map(|object| format!("---\n{object}\n")).collect();
        child.stdin.take().context("its input")?.write_all(documents.concat().as_bytes())?;
        ensure!(child.wait()?.success(), "kubectl create failed");
        Ok(())
    }

    fn request(&self, number: usize, name: &str) -> Value {
        json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "GatewayHostnameRequest",
            "metadata": {"name": format!("r{number}"), "namespace": format!("team-{}", number % self.args.namespaces)},
            "spec": {"zoneId": ZONE, "hostname": format!("{name}.{ZONE}")},
        })
    }

    /// All requests at once; the last of them are for names that the first ask for.
    fn apply_all(&self) -> anyhow::Result<()> {
        let own = self.args.requests - self.args.conflicts;
        // Another namespace than that of the one who has the name.
        let name = |number: usize| if number < own { number } else { (number - own + 1) % own };
        let all: Vec<Value> = (0..self.args.requests)
            .map(|number| self.request(number, &format!("n{}", name(number))))
            .collect();
        std::thread::scope(|scope| {
            let parts = all.chunks(all.len().div_ceil(CLIENTS).max(1));
            let clients: Vec<_> = parts.map(|part| scope.spawn(move || self.apply(part))).collect();
            clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
        })
    }

    fn requests(&self) -> anyhow::Result<Requests> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", "ghr", "-A", "-o", "json"])?)?;
        let mut requests = Requests::default();
        for item in list["items"].as_array().into_iter().flatten() {
            let conditions = item["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let find = |kind: &str| conditions.iter().find(|condition| condition["type"] == kind);
            if let Some(ready) = find("Ready").filter(|condition| condition["status"] == "True") {
                let since = seconds(&item["metadata"]["creationTimestamp"])?;
                requests.ready.push(seconds(&ready["lastTransitionTime"])? - since);
            } else if find("Claimed").is_some_and(|condition| condition["reason"] == "AlreadyClaimed") {
                requests.waiting += 1;
            }
        }
        Ok(requests)
    }

    /// A family of the server's metrics, by the labels of each line.
    fn metric(&self, name: &str) -> anyhow::Result<Vec<(String, u64)>> {
        let text = self.kubectl(&["get", "--raw", "/metrics"])?;
        let lines = text.lines().filter_map(|line| {
            let (labels, value) = line.strip_prefix(name)?.strip_prefix('{')?.split_once("} ")?;
            Some((labels.to_owned(), value.trim().parse::<f64>().ok()? as u64))
        });
        Ok(lines.collect())
    }

    /// Writes so far, by verb and resource.
    fn calls(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let mut calls = BTreeMap::new();
        for (labels, count) in self.metric("apiserver_request_total")? {
            let (verb, resource) = (label(&labels, "verb"), label(&labels, "resource"));
            let is_write = ["create", "update", "patch", "apply", "delete"]
                .iter()
                .any(|write| verb.eq_ignore_ascii_case(write));
            if is_write {
                *calls.entry(format!("{} {resource}", verb.to_lowercase())).or_default() += count;
            }
        }
        Ok(calls)
    }

    /// How many objects there are of what hostnames are made of.
    fn counts(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let all = self.metric("apiserver_storage_objects")?.into_iter();
        let all = all.map(|(labels, count)| (label(&labels, "resource"), count));
        Ok(all.filter(|(resource, count)| MADE.contains(&resource.as_str()) && *count > 0).collect())
    }

    fn until(&self, what: &str, done: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !done()? {
            if Instant::now() > deadline {
                bail!("after {PATIENCE:?} it is still not so that {what}: {:?}", self.counts()?);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// A label of a line of metrics.
fn label(labels: &str, name: &str) -> String {
    let mut parts = labels.split(',').filter_map(|part| part.split_once('='));
    let found = parts.find(|(key, _)| *key == name).map(|(_, value)| value.trim_matches('"'));
    found.unwrap_or_default().to_owned()
}

/// A time of the day, in seconds. The bench does not run at midnight.
fn seconds(time: &Value) -> anyhow::Result<f64> {
    let text = time.as_str().context("an object has no time")?;
    let (_, clock) = text.trim_end_matches('Z').split_once('T').context("no time of an object")?;
    let mut parts = clock.split(':').map(str::parse::<f64>);
    let mut next = || parts.next().context("no time of an object")?.context("no number in a time");
    Ok(next()? * 3600.0 + next()? * 60.0 + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_labels_are_read() {
        let difference = seconds(&json!("2026-01-01T10:01:02Z")).unwrap()
            - seconds(&json!("2026-01-01T10:00:59Z")).unwrap();
        assert!((difference - 3.0).abs() < f64::EPSILON);
        assert_eq!(label("verb=\"patch\",resource=\"secrets\",code=\"200\"", "resource"), "secrets");
        assert_eq!(label("verb=\"patch\"", "code"), "");
    }
}
