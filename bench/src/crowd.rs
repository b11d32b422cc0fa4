//! What a crowd in two tunnels does to everybody else: `kubectl get` of the control plane on the same machine, and new
//! streams of another tunnel in the same processes. The crowd comes from one address, as that of a container does, takes
//! all it is given, holds it, and asks again for what it was refused.

mod hold;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::process::Command;
use tokio::time::{interval, sleep, timeout};

pub(crate) use hold::{Args as HoldArgs, run as hold};

use crate::process::{Causeway, Process};
use crate::samples::Samples;

/// Connections that one process of the crowd holds: the usual limit of open files allows as many.
const EACH: usize = 10_000;
/// Where others come from; the crowd has an address of its own.
const OTHERS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);
const STREAMS: Duration = Duration::from_millis(25);
const KUBECTL: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program to measure.
    #[arg(long, value_name = "FILE")]
    causeway: PathBuf,
    /// Connections that the crowd wants, in two tunnels.
    #[arg(long, default_value_t = 30_000, value_name = "N")]
    connections: usize,
    /// How long it is measured, with the crowd and before it.
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    seconds: f64,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("can't raise the open files")?;
    let dir = tempfile::tempdir()?;
    let up = Causeway::up(&args.causeway, &dir.path().join("data")).await?;
    let backend = backend().await?;
    let ends = Ends::start(&args.causeway, dir.path(), backend).await?;
    let lasts = Duration::from_secs_f64(args.seconds);

    let (streams, kubectl) = measure(ends.ports[2], &up.kubeconfig, lasts).await?;
    println!("alone:        new stream {}, kubectl get {}", shown(&streams), shown(&kubectl));
    let own = std::env::current_exe()?;
    let mut crowd = Vec::new();
    for first in (0..args.connections).step_by(EACH) {
        let count = EACH.min(args.connections - first);
        let mut command = Command::new(&own);
        command.arg("hold").arg(count.to_string());
        command.args(ends.ports[..2].iter().map(ToString::to_string)).stdout(Stdio::null());
        crowd.push(Process::start(&mut command)?);
    }
    let (streams, kubectl) = measure(ends.ports[2], &up.kubeconfig, lasts).await?;
    println!("with a crowd: new stream {}, kubectl get {}", shown(&streams), shown(&kubectl));
    println!("the crowd of {} holds {} streams", args.connections, ends.descriptors()?);
    drop(crowd);
    ends.stop().await?;
    up.process.stop().await
}

fn shown(samples: &Samples) -> String {
    let [middle, p99, worst] = [0.5, 0.99, 1.0].map(|share| samples.quantile(share));
    format!("p50 {middle:.1} ms, p99 {p99:.1} ms, worst {worst:.1} ms of {}", samples.len())
}

/// Opens streams and asks the control plane at a steady pace; how long each took, in milliseconds.
async fn measure(port: u16, kubeconfig: &Path, lasts: Duration) -> anyhow::Result<(Samples, Samples)> {
    let until = Instant::now() + lasts;
    let streams = async {
        let (mut samples, mut pace) = (Samples::default(), interval(STREAMS));
        while Instant::now() < until {
            pace.tick().await;
            samples.push(new_stream(port).await?);
        }
        anyhow::Ok(samples)
    };
    let kubectl = async {
        let (mut samples, mut pace) = (Samples::default(), interval(KUBECTL));
        while Instant::now() < until {
            pace.tick().await;
            let began = Instant::now();
            let mut command = Command::new("kubectl");
            command.arg("--kubeconfig").arg(kubeconfig).args(["get", "cntp", "-A"]);
            let output = command.output().await.context("kubectl can't be started")?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            samples.push(began.elapsed().as_secs_f64() * 1e3);
        }
        anyhow::Ok(samples)
    };
    tokio::try_join!(streams, kubectl)
}

/// From the connect to the first byte that came back.
async fn new_stream(port: u16) -> anyhow::Result<f64> {
    let began = Instant::now();
    let echo = async {
        let socket = TcpSocket::new_v4()?;
        socket.bind((OTHERS, 0).into())?;
        let mut stream = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
        stream.write_all(b"x").await?;
        stream.read_exact(&mut [0]).await
    };
    timeout(LIMIT, echo).await.context("a stream got no answer")?.context("a stream broke")?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// A server that sends everything back.
async fn backend() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { continue };
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                // A client that is gone is no news.
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    Ok(address)
}

/// Both ends of three tunnels.
struct Ends {
    client: Process,
    server: Process,
    ports: [u16; 3],
}

impl Ends {
    async fn start(program: &Path, dir: &Path, backend: SocketAddr) -> anyhow::Result<Self> {
        let keys =
            Command::new(program).args(["tunnel", "keys"]).arg(dir).stdout(Stdio::null()).status().await?;
        ensure!(keys.success(), "no keys were made");
        let mut free = Vec::new();
        for _ in 0..5 {
            free.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?);
        }
        let ports: Vec<u16> =
            free.iter().map(|one| Ok(one.local_addr()?.port())).collect::<anyhow::Result<_>>()?;
        drop(free);
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let tunnels: Vec<_> = (0..3)
            .map(|n| {
                json!({
                    "id": n + 1, "name": format!("tunnel-{n}"), "port": {"fixed": ports[n]},
                    "endpoints": [{"address": backend}],
                })
            })
            .collect();
        let plan = json!({
            "authority": "authority.pem", "tunnels": tunnels, "dial": {"control": at(ports[3]), "data": at(ports[4])},
        });
        let path = dir.join("tunnels.json");
        std::fs::write(&path, plan.to_string())?;
        let mut client = Command::new(program);
        client.args(["tunnel", "client", "--identity"]).arg(dir.join("container.pem"));
        client.args(["--control", &at(ports[3]).to_string(), "--data", &at(ports[4]).to_string()]);
        let mut server = Command::new(program);
        server.args(["tunnel", "server", "--config"]).arg(&path);
        let quiet =
            |command: &mut Command| Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let (client, server) = (quiet(&mut client)?, quiet(&mut server)?);
        let ports = [ports[0], ports[1], ports[2]];
        for port in ports {
            let listens = async {
                while TcpStream::connect(at(port)).await.is_err() {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            timeout(LIMIT, listens).await.context("the tunnels did not come up")?;
        }
        Ok(Self { client, server, ports })
    }

    /// How many the host end has open.
    fn descriptors(&self) -> anyhow::Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.server.pid))?.count())
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.server.stop().await?;
        self.client.stop().await
    }
}
