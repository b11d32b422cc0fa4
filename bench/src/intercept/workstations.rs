//! What many workstations take of the cluster's end: real objects in `causeway up`, real pods of it, and laptops that are all in
//! this process.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_link::Key;
use causeway_netstack::wireguard::SecretKey;
use causeway_stowaway::laptop::{self, Approach, Handle};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::cluster::Cluster;
use crate::compare::namespace;
use crate::cpu;
use crate::http2::Connection;
use crate::kubernetes::Endpoint;

const OBJECTS: &str = "/apis/causeway.dev/v1alpha1/namespaces/bench";
const PATIENCE: Duration = Duration::from_mins(5);
const LOOK: Duration = Duration::from_millis(500);
const MIB: f64 = (1 << 20) as f64;
const AIM_MIB: f64 = 200.0;

/// Measures what many workstations take of memory. Needs root for a network namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program to measure [default: built in release mode with cargo, or found beside this one].
    #[arg(long, value_name = "FILE")]
    causeway: Option<PathBuf>,
    #[arg(long, default_value_t = 1000, value_name = "N")]
    workstations: usize,
    #[arg(long, default_value_t = 100, value_name = "N")]
    intercepts: usize,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let program = crate::run::program(args.causeway.as_deref())?;
    namespace::enter(args.causeway.is_none().then_some(program.as_path()))?;
    let dir = tempfile::Builder::new().prefix("causeway-bench-").tempdir()?;
    let cluster = Cluster::start(&program, dir.path(), Ipv4Addr::LOCALHOST)?;
    cluster.serve("web", 8080, None)?;
    let endpoint = Endpoint::from_kubeconfig(&cluster.kubeconfig())?;
    let mut api = Api { connection: endpoint.connect().await?, endpoint };
    let began = Instant::now();
    let mut keys = Vec::new();
    for number in 0..args.workstations {
        let key = Key::new()?;
        let spec = json!({
            "publicKey": SecretKey::generate().public().to_string(), "certificateRequest": key.request()?,
        });
        api.create("workstations", "Workstation", &name(number), spec).await?;
        keys.push((name(number), key));
    }
    let laptops = connect(&mut api, &keys).await?;
    println!("{} workstations are connected after {:.1} s", laptops.len(), began.elapsed().as_secs_f64());
    tell(&cluster, "with them")?;
    let began = Instant::now();
    for number in 0..args.intercepts {
        let spec = json!({
            "target": "deployment/web", "targetContainerPort": "app", "workstation": name(number % keys.len()),
            "destinationPort": 3000, "match": [{"headers": [{"name": "x-user", "value": name(number)}]}],
        });
        api.create("interceptrequests", "InterceptRequest", &name(number), spec).await?;
    }
    let active = |item: &Value| item["status"]["active"] == true;
    api.until("interceptrequests", args.intercepts, active).await?;
    println!("{} intercepts are active after {:.1} s", args.intercepts, began.elapsed().as_secs_f64());
    sleep(Duration::from_secs(10)).await;
    let most = tell(&cluster, "and at rest")?;
    let word = if most < AIM_MIB { "**reached**" } else { "not reached" };
    println!("the largest of its pods has {most:.0} MiB (aim: under {AIM_MIB} MiB, {word})");
    drop(laptops);
    Ok(())
}

fn name(number: usize) -> String {
    format!("laptop-{number}")
}

/// Connects all of them, by the port of the cluster's end.
async fn connect(api: &mut Api, keys: &[(String, Key)]) -> anyhow::Result<Vec<Handle>> {
    let is_signed = |item: &Value| {
        item["status"]["certificate"].is_string() && item["status"]["linkEndpoints"].is_array()
    };
    let items = api.until("workstations", keys.len(), is_signed).await?;
    let mut laptops = Vec::new();
    for (name, key) in keys {
        let item = items.iter().find(|item| item["metadata"]["name"] == **name).context("it was listed")?;
        let text = |field: &str| item["status"][field].as_str().unwrap_or_default();
        let identity = key.identity(text("certificate"), text("authority"))?;
        let places = item["status"]["linkEndpoints"].as_array().context("places")?.iter();
        let places = places.filter_map(Value::as_str).map(str::to_owned).collect();
        laptops.push(laptop::start(laptop::Config::new(identity, vec![Approach::Direct(places)])));
    }
    for laptop in &laptops {
        let mut state = laptop.state();
        let connected = state.wait_for(|state| state.connection.is_some());
        timeout(PATIENCE, connected).await.context("a laptop does not get through")??;
    }
    Ok(laptops)
}

/// Says what the pods of the cluster's end take; MiB of the largest.
fn tell(cluster: &Cluster, when: &str) -> anyhow::Result<f64> {
    let pids = cluster.stowaways();
    ensure!(!pids.is_empty(), "the cluster's end has no process");
    let mut all = Vec::new();
    for pid in pids {
        all.push((cpu::memory(pid)?.0 / MIB, cpu::seconds(pid)?));
    }
    let said: Vec<String> =
        all.iter().map(|(mib, seconds)| format!("{mib:.0} MiB, {seconds:.1} s of processor time")).collect();
    println!("the cluster's end {when}: {}", said.join("; "));
    Ok(all.iter().map(|(mib, _)| *mib).fold(0.0, f64::max))
}

/// Objects of the namespace.
struct Api {
    connection: Connection,
    endpoint: Endpoint,
}

impl Api {
    async fn create(&mut self, plural: &str, kind: &str, name: &str, spec: Value) -> anyhow::Result<()> {
        let object = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        let request = self.endpoint.post(&format!("{OBJECTS}/{plural}"), object.to_string());
        self.connection.call(request).await?.expect(201)?;
        Ok(())
    }

    /// Waits until so many are as they should be; gives all.
    async fn until(
        &mut self,
        plural: &str,
        count: usize,
        is_so: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Vec<Value>> {
        let began = Instant::now();
        loop {
            let answer = self.connection.call(self.endpoint.get(&format!("{OBJECTS}/{plural}"))).await?;
            let mut list: Value = serde_json::from_slice(&answer.expect(200)?.body)?;
            let items = match list["items"].take() {
                Value::Array(items) => items,
                _ => Vec::new(),
            };
            let so = items.iter().filter(|item| is_so(item)).count();
            if so >= count {
                return Ok(items);
            }
            ensure!(began.elapsed() < PATIENCE, "{so} of {count} {plural} are as they should be");
            sleep(LOOK).await;
        }
    }
}
