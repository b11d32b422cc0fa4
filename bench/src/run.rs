//! The order of the measurements.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::etcd::{self, Etcd};
use crate::kubernetes::{self, Endpoint};
use crate::machine::Machine;
use crate::process::Causeway;
use crate::report::Report;
use crate::samples::Samples;
use crate::writes::{Round, Target};
use crate::{Args, cpu, watches, writes};

const START_LIMIT_MS: f64 = 150.0;
const IDLE_LIMIT_MIB: f64 = 60.0;
const EVENT_LIMIT_MS: f64 = 10.0;
/// From ready until memory is looked at.
const SETTLE: Duration = Duration::from_secs(5);
const WATCH_LENGTH: Duration = Duration::from_secs(10);
const LISTS: usize = 10;
const PAGE: usize = 500;
const MIB: f64 = 1024.0 * 1024.0;

/// A part that can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    Start,
    Memory,
    Writes,
    List,
    Watch,
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let program = program(args.causeway.as_deref())?;
    let base = match &args.dir {
        Some(dir) => dir.clone(),
        None => own_directory()?,
    };
    let base = std::path::absolute(base)?;
    let dir = tempfile::Builder::new()
        .prefix("causeway-bench-")
        .tempdir_in(&base)
        .with_context(|| format!("can't write to {}; choose another with --dir DIR", base.display()))?;
    let machine = Machine::look(dir.path())?;
    let etcd_version = etcd::version(&args.etcd).await;
    if let Err(error) = &etcd_version {
        note(&format!("{error:#}: measuring without it"));
    }
    let has_etcd = etcd_version.is_ok();
    let shown = etcd_version.unwrap_or_else(|_| "not installed".into());
    let mut report = Report::new(machine, version(&program)?, shown);

    if args.wants(Part::Start) {
        starts(args, &program, dir.path(), &mut report).await?;
    }
    if args.wants(Part::Memory) {
        idle(&program, dir.path(), &mut report).await?;
    }
    if args.wants(Part::Writes) {
        write_rounds(args, &program, dir.path(), has_etcd, &mut report).await?;
    }
    if args.wants(Part::List) {
        lists(args, &program, dir.path(), &mut report).await?;
    }
    if args.wants(Part::Watch) {
        watch_latency(args, &program, dir.path(), &mut report).await?;
    }
    Ok(report)
}

fn note(text: &str) {
    eprintln!("bench: {text}");
}

/// The program to measure: the one named, or a fresh one.
pub(crate) fn program(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match named {
        Some(path) => Ok(path.to_owned()),
        None => build(),
    }
}

pub(crate) fn own_directory() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("can't find this program's own file")?;
    own.parent().map(Path::to_owned).context("this program is in no directory")
}

/// Builds the program when cargo runs the bench, so that no stale one is measured; else takes the one beside it.
fn build() -> anyhow::Result<PathBuf> {
    let program = own_directory()?.join("causeway");
    if let Some(cargo) = std::env::var_os("CARGO") {
        note("building causeway in release mode");
        let status = Command::new(cargo)
            .args(["build", "--release", "-p", "causeway"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .context("can't start cargo")?;
        ensure!(status.success(), "causeway could not be built");
    }
    ensure!(
        program.exists(),
        "there is no {}; build it (cargo build --release -p causeway) or name one with --causeway FILE",
        program.display()
    );
    Ok(program)
}

fn version(program: &Path) -> anyhow::Result<String> {
    let output = Command::new(program)
        .arg("version")
        .output()
        .with_context(|| format!("can't run {}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

async fn starts(args: &Args, program: &Path, dir: &Path, report: &mut Report) -> anyhow::Result<()> {
    note("starts");
    let (mut fresh, mut used) = (Samples::default(), Samples::default());
    for n in 0..args.starts {
        let data_dir = dir.join(format!("start-{n}"));
        for samples in [&mut fresh, &mut used] {
            let causeway = Causeway::up(program, &data_dir).await?;
            samples.push(millis(causeway.ready_after));
            causeway.process.stop().await?;
        }
        std::fs::remove_dir_all(&data_dir)?;
    }
    report.under("start to ready, new directory", "ms", fresh.median(), START_LIMIT_MS);
    report.under("start to ready, used directory", "ms", used.median(), START_LIMIT_MS);
    Ok(())
}

async fn idle(program: &Path, dir: &Path, report: &mut Report) -> anyhow::Result<()> {
    note("idle memory");
    let causeway = Causeway::up(program, &dir.join("idle")).await?;
    let before = cpu::seconds(causeway.process.pid)?;
    tokio::time::sleep(SETTLE).await;
    let (rss, pss) = cpu::memory(causeway.process.pid)?;
    let spent = (cpu::seconds(causeway.process.pid)? - before) / SETTLE.as_secs_f64() * 100.0;
    report.under("idle memory, all CRDs (RSS)", "MiB", rss / MIB, IDLE_LIMIT_MIB);
    report.figure("idle memory, all CRDs (PSS)", "MiB", pss / MIB);
    report.figure("processor in the 5 s after ready", "% core", spent);
    causeway.process.stop().await
}

/// The rounds of one number of clients, for each side.
#[derive(Default)]
struct Rounds {
    causeway: Vec<Round>,
    etcd: Vec<Round>,
}

async fn write_rounds(
    args: &Args,
    program: &Path,
    dir: &Path,
    has_etcd: bool,
    report: &mut Report,
) -> anyhow::Result<()> {
    let causeway = Causeway::up(program, &dir.join("writes")).await?;
    let ours = Target::Causeway(Endpoint::from_kubeconfig(&causeway.kubeconfig)?);
    let etcd = if has_etcd { Some(Etcd::start(&args.etcd, &dir.join("etcd")).await?) } else { None };
    for clients in [1, 32] {
        let mut rounds = Rounds::default();
        for n in 0..args.rounds {
            note(&format!("writes, {clients} clients, round {} of {}", n + 1, args.rounds));
            let label = format!("c{clients}-r{n}");
            // Who begins alternates too.
            for side in [n % 2 == 0, n % 2 != 0] {
                if side {
                    let pid = causeway.process.pid;
                    rounds.causeway.push(writes::round(&ours, pid, clients, args.round(), &label).await?);
                } else if let Some(etcd) = &etcd {
                    let (target, pid) = (Target::Etcd(etcd.endpoint), etcd.process.pid);
                    rounds.etcd.push(writes::round(&target, pid, clients, args.round(), &label).await?);
                }
            }
        }
        show_writes(clients, &rounds, report);
    }
    causeway.process.stop().await?;
    match etcd {
        Some(etcd) => etcd.process.stop().await,
        None => Ok(()),
    }
}

fn show_writes(clients: usize, rounds: &Rounds, report: &mut Report) {
    let figure = |side: &[Round], of: fn(&Round) -> f64| {
        (!side.is_empty()).then(|| side.iter().map(of).collect::<Samples>().median())
    };
    let mut row = |name: &str, unit, of: fn(&Round) -> f64, ahead| {
        let ours = figure(&rounds.causeway, of).unwrap_or_default();
        report.beside(name, unit, ours, figure(&rounds.etcd, of), ahead);
    };
    let who = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
    row(&format!("durable creates, {who}"), "per s", |r| r.per_second, clients == 32);
    row(&format!("  latency p50, {who}"), "ms", |r| r.latency_ms.median(), false);
    row(&format!("  latency p99, {who}"), "ms", |r| r.latency_ms.quantile(0.99), false);
    row(&format!("  processor per 10,000, {who}"), "s", |r| r.cpu_per_10k, false);
}

async fn lists(args: &Args, program: &Path, dir: &Path, report: &mut Report) -> anyhow::Result<()> {
    note(&format!("list of {} objects", args.objects));
    let data_dir = dir.join("list");
    let causeway = Causeway::up(program, &data_dir).await?;
    let endpoint = Endpoint::from_kubeconfig(&causeway.kubeconfig)?;
    writes::fill(&endpoint, "bench-list", args.objects).await?;
    let path = kubernetes::config_maps("bench-list");
    let mut connection = endpoint.connect().await?;
    let (mut whole, mut paged, mut bytes) = (Samples::default(), Samples::default(), 0);
    for _ in 0..LISTS {
        let start = Instant::now();
        bytes = connection.call(endpoint.get(&path)).await?.expect(200)?.body.len();
        whole.push(millis(start.elapsed()));
        let start = Instant::now();
        let mut next = String::new();
        loop {
            let page = endpoint.get(&format!("{path}?limit={PAGE}&continue={next}"));
            let page = connection.call(page).await?.expect(200)?;
            next = continue_token(&page.body)?;
            if next.is_empty() {
                break;
            }
        }
        paged.push(millis(start.elapsed()));
    }
    let n = args.objects;
    report.figure(format!("list of {n} objects, whole"), "ms", whole.median());
    report.figure(format!("list of {n} objects, pages of {PAGE}"), "ms", paged.median());
    report.figure("  its size", "MiB", bytes as f64 / MIB);
    let (rss, _) = cpu::memory(causeway.process.pid)?;
    report.figure("  memory afterwards (RSS)", "MiB", rss / MIB);
    causeway.process.stop().await?;
    let again = Causeway::up(program, &data_dir).await?;
    report.figure(format!("start to ready with {n} objects"), "ms", millis(again.ready_after));
    again.process.stop().await
}

/// The token for the next page; empty on the last one.
fn continue_token(body: &[u8]) -> anyhow::Result<String> {
    #[derive(serde::Deserialize)]
    struct Page {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        #[serde(default, rename = "continue")]
        token: String,
    }
    Ok(serde_json::from_slice::<Page>(body).context("a page that can't be read")?.metadata.token)
}

async fn watch_latency(args: &Args, program: &Path, dir: &Path, report: &mut Report) -> anyhow::Result<()> {
    let causeway = Causeway::up(program, &dir.join("watch")).await?;
    let endpoint = Endpoint::from_kubeconfig(&causeway.kubeconfig)?;
    let count = (f64::from(args.rate) * WATCH_LENGTH.as_secs_f64()) as usize;
    for watchers in [1, args.watchers] {
        note(&format!("{watchers} watchers, {count} events"));
        let before = cpu::seconds(causeway.process.pid)?;
        let label = format!("event-{watchers}");
        let latency = watches::measure(&endpoint, &label, watchers, args.rate, count).await?;
        let spent = cpu::seconds(causeway.process.pid)? - before;
        let who = if watchers == 1 { "1 watcher".to_owned() } else { format!("{watchers} watchers") };
        report.figure(format!("event latency p50, {who}"), "ms", latency.events.median());
        let (name, p99) = (format!("event latency p99, {who}"), latency.events.quantile(0.99));
        if watchers == 1 {
            report.figure(name, "ms", p99);
        } else {
            report.under(name, "ms", p99, EVENT_LIMIT_MS);
            report.figure(format!("  last of {who} p50"), "ms", latency.last.median());
            let per_million = spent / (watchers * count) as f64 * 1e6;
            report.figure("  processor per million events", "s", per_million);
        }
        report.figure(format!("  the create itself p50, {who}"), "ms", latency.creates.median());
        report.figure(format!("  the create itself p99, {who}"), "ms", latency.creates.quantile(0.99));
    }
    causeway.process.stop().await
}
