//! Many Envoys with many clusters: one endpoint changes; how long until all of them have applied it, and how many bytes
//! of xDS that took, incremental beside state of the world.
//!
//! Bytes are counted by a relay between each Envoy and the server. Everything stays on loopback.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::process::Process;

const LIMIT: Duration = Duration::from_mins(10);
const LOOK: Duration = Duration::from_millis(5);

/// Measures how a change of one endpoint reaches Envoys.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program to measure.
    #[arg(long, value_name = "FILE")]
    causeway: PathBuf,
    /// The Envoy to feed.
    #[arg(long, env = "ENVOY_BIN", value_name = "FILE")]
    envoy: PathBuf,
    /// Clusters with an endpoint each.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    backends: usize,
    /// Envoys.
    #[arg(long, default_value_t = 10, value_name = "N")]
    envoys: usize,
    /// Changes; the median counts.
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    println!(
        "{} Envoys, {} backends, one endpoint changes; median of {}",
        args.envoys, args.backends, args.rounds
    );
    for delta in [true, false] {
        let word = if delta { "delta" } else { "state of the world" };
        measure(args, delta).await.with_context(|| format!("measuring {word}"))?;
    }
    Ok(())
}

async fn measure(args: &Args, delta: bool) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let plan_path = dir.path().join("plan.yaml");
    std::fs::write(&plan_path, plan(args.backends, 1))?;
    let log = dir.path().join("log");
    let out = std::fs::File::create(&log)?;
    let mut command = Command::new(&args.causeway);
    command.args(["xds", "--listen", "127.0.0.1:0", "--config"]).arg(&plan_path);
    let server = Process::start(command.stdout(out.try_clone()?).stderr(out))?;
    let address = address(&log).await?;

    let bytes = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut envoys = Vec::new();
    for i in 0..args.envoys {
        let admin = free_address().await?;
        let relay = relay(address, Arc::clone(&bytes)).await?;
        let bootstrap = bootstrap(args, relay, admin, delta, i).await?;
        let path = dir.path().join(format!("envoy-{i}.json"));
        std::fs::write(&path, bootstrap)?;
        let mut command = Command::new(&args.envoy);
        command.args(["--use-dynamic-base-id", "--concurrency", "1", "-l", "error", "-c"]).arg(path);
        envoys.push((Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?, admin));
    }
    until_all(&envoys, args.backends, 1).await?;
    let first_bytes = bytes.load(Relaxed) / args.envoys as u64;
    let first = started.elapsed();

    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        let port = 2 + round as u16;
        let new = dir.path().join("plan.new");
        std::fs::write(&new, plan(args.backends, port))?;
        let before = bytes.load(Relaxed);
        std::fs::rename(&new, &plan_path)?;
        let began = Instant::now();
        signal_hangup(&server)?;
        until_all(&envoys, args.backends, port).await?;
        rounds.push((began.elapsed(), (bytes.load(Relaxed) - before) / args.envoys as u64));
    }
    rounds.sort();
    let (time, per_envoy) = rounds[rounds.len() / 2];
    println!(
        "{:18}  start {:>6.1} s, {:>9} bytes per Envoy   change {:>7.0} ms to all, {:>8} bytes per Envoy",
        if delta { "delta" } else { "state of the world" },
        first.as_secs_f64(),
        first_bytes,
        time.as_secs_f64() * 1000.0,
        per_envoy
    );
    for (envoy, _) in envoys {
        envoy.stop().await?;
    }
    server.stop().await
}

/// `backends` clusters on one port; the last one has its endpoint on `port`.
fn plan(backends: usize, port: u16) -> String {
    let mut text =
        String::from("listeners:\n- name: tls\n  bind: 127.0.0.1:0\n  protocol:\n    tls:\n      routes:\n");
    for i in 0..backends {
        let _ = writeln!(text, "      - {{name: r{i}, serverNames: [n{i}.test], action: {{forward: c{i}}}}}");
    }
    text.push_str("clusters:\n");
    for i in 0..backends {
        let port = if i + 1 == backends { port } else { 1 };
        let _ = writeln!(text, "- {{name: c{i}, endpoints: [{{address: '127.0.0.1:{port}'}}]}}");
    }
    text
}

/// Waits until every Envoy has the last cluster's endpoint on `port`.
async fn until_all(envoys: &[(Process, SocketAddr)], backends: usize, port: u16) -> anyhow::Result<()> {
    let deadline = Instant::now() + LIMIT;
    let cluster = format!("c{}", backends - 1);
    let wanted = format!("{cluster}::127.0.0.1:{port}::");
    for (_, admin) in envoys {
        while !page(*admin, &format!("/clusters?filter=^{cluster}$")).await.contains(&wanted) {
            ensure!(
                Instant::now() < deadline,
                "an Envoy did not apply the plan within {} s",
                LIMIT.as_secs()
            );
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}

async fn page(admin: SocketAddr, path: &str) -> String {
    let ask = async {
        let mut stream = TcpStream::connect(admin).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    ask.await.unwrap_or_default()
}

/// Where the server listens, by its own word.
async fn address(log: &Path) -> anyhow::Result<SocketAddr> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        let text = std::fs::read_to_string(log)?;
        if let Some(address) = text.lines().find_map(|line| line.strip_prefix("xds on ")) {
            return Ok(address.parse()?);
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("the server did not start")
}

async fn bootstrap(
    args: &Args,
    xds: SocketAddr,
    admin: SocketAddr,
    delta: bool,
    number: usize,
) -> anyhow::Result<Vec<u8>> {
    let mut command = Command::new(&args.causeway);
    command.args(["xds", "--print-bootstrap", "--listen", &xds.to_string(), "--admin", &admin.to_string()]);
    command.args(["--node", &format!("envoy-{number}")]).args((!delta).then_some("--sotw"));
    let printed = command.output().await?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    Ok(printed.stdout)
}

async fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?)
}

/// A way to the server that counts what comes back from it.
async fn relay(server: SocketAddr, bytes: Arc<AtomicU64>) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let Ok(upstream) = TcpStream::connect(server).await else { continue };
            let bytes = Arc::clone(&bytes);
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = upstream.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 << 10];
                while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
                    bytes.fetch_add(count as u64, Relaxed);
                    if to_client.write_all(&buffer[..count]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    Ok(address)
}

fn signal_hangup(server: &Process) -> anyhow::Result<()> {
    let pid = rustix::process::Pid::from_raw(server.pid.cast_signed()).context("a child without an id")?;
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).context("can't signal the server")
}
