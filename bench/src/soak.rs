//! A long run of `causeway engine` with everything in motion: plans change, endpoints die, clients of all kinds come and
//! go, every byte is checked. It ends by itself with a verdict: no request that must succeed failed, and neither memory
//! nor descriptors grew over the second half.

mod backend;
mod churn;
mod client;
mod dice;
mod engine;
mod load;
mod plan;
mod tally;
mod trend;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::RwLock;

use crate::cpu;
use backend::{Backend, Manner};
use churn::Known;
use client::Hellos;
use engine::{Engine, Sample};
use plan::{DRAIN, Endpoints, Generation, HANDSHAKE, IDLE};
use tally::Tally;
use trend::Growth;

/// Between two plans, about.
const PAUSE: Duration = Duration::from_secs(3);
const SAMPLE: Duration = Duration::from_secs(10);
/// Growth over the second half that chance may cause: a share of the mean, and a fixed part.
const FLAT_MEMORY: (f64, f64) = (0.03, 512.0 * 1024.0);
const FLAT_DESCRIPTORS: (f64, f64) = (0.05, 10.0);
/// Descriptors that may be left when all clients are gone, beyond those before the first came.
const LEFT: f64 = 16.0;

/// Runs the engine for long with everything in motion and looks whether it grows or fails.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program to try.
    #[arg(long, value_name = "FILE")]
    causeway: PathBuf,
    /// How long the load lasts.
    #[arg(long, default_value_t = 30.0, value_name = "MINUTES")]
    minutes: f64,
}

/// What all clients share.
struct World {
    engine: Engine,
    endpoints: Endpoints,
    hellos: Hellos,
    tally: Tally,
    /// Listeners that stay.
    tls: SocketAddr,
    plain: SocketAddr,
    datagrams: SocketAddr,
    /// Counts up when an endpoint is about to die and when it has; odd in between.
    kills: AtomicU64,
    /// Written while the plan changes.
    known: RwLock<Known>,
    /// How long new plans took until they were live.
    taken: Mutex<Vec<Duration>>,
}

impl World {
    fn taken(&self, time: Duration) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).push(time);
    }
}

pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit })?;
    let dir = tempfile::tempdir()?;
    let mut steady = Vec::new();
    for id in 0..3 {
        steady.push(Backend::start(id, Manner::Echo).await?);
    }
    let mut shaky = Vec::new();
    for id in 3..6 {
        shaky.push(Backend::start(id, Manner::Echo).await?);
    }
    let resetting = Backend::start(6, Manner::Reset).await?;
    let endpoints = Endpoints {
        steady: steady.iter().map(|backend| backend.address).collect(),
        shaky: shaky.iter().map(|backend| backend.address).collect(),
        resetting: resetting.address,
        datagrams: vec![backend::datagrams(7).await?, backend::datagrams(8).await?],
    };
    let generation = Generation::default();
    let engine = Engine::start(&args.causeway, dir.path(), &generation.text(&endpoints)).await?;
    let listeners = engine.listeners().await?;
    let at = |name: &str| listeners.get(name).copied().with_context(|| format!("{name} does not listen"));
    let world = Arc::new(World {
        tls: at("tls")?,
        plain: at("plain")?,
        datagrams: at("datagrams")?,
        engine,
        endpoints,
        hellos: Hellos::new(),
        tally: Tally::new(),
        kills: AtomicU64::new(0),
        known: RwLock::new(Known { generation, listeners, gone: Vec::new() }),
        taken: Mutex::default(),
    });
    let before = world.engine.sample().await?;
    let mut tasks = load::start(&world);
    tasks.push(tokio::spawn(load::kill_endpoints(Arc::clone(&world), shaky)));
    let samples = watch(&world, Duration::from_secs_f64(args.minutes * 60.0)).await;
    for task in &tasks {
        task.abort();
    }
    for task in tasks {
        // It ends with an error because it was aborted.
        let _ = task.await;
    }
    let samples = samples?;
    let after = rest(&world).await?;
    let fine = verdict(&world, &before, &samples, &after);
    let world = Arc::into_inner(world).context("a client still runs")?;
    let said = world.engine.last_words();
    if !said.is_empty() {
        println!("\nthe engine wrote:\n{said}");
    }
    world.engine.stop().await?;
    if fine && !said.contains("panicked") { Ok(()) } else { bail!("the soak failed") }
}

/// Samples until the time is over, and prints a line for each minute.
async fn watch(world: &World, time: Duration) -> anyhow::Result<Vec<(f64, Sample)>> {
    println!(
        "{:>8} {:>9} {:>12} {:>12} {:>7} {:>9} {:>7}",
        "seconds", "RSS MiB", "descriptors", "connections", "cpu s", "done", "failed"
    );
    let began = Instant::now();
    let mut ticks = tokio::time::interval(SAMPLE);
    let mut samples = Vec::new();
    while began.elapsed() < time {
        ticks.tick().await;
        let sample = world.engine.sample().await.context("the engine does not answer")?;
        if samples.len() % 6 == 0 {
            line(began.elapsed().as_secs_f64(), &sample, world);
        }
        samples.push((began.elapsed().as_secs_f64(), sample));
    }
    Ok(samples)
}

/// Waits until the engine has let go of all that the clients left.
async fn rest(world: &World) -> anyhow::Result<Sample> {
    let deadline = Instant::now() + Duration::from_secs(30);
    tokio::time::sleep(IDLE + DRAIN + HANDSHAKE).await;
    loop {
        let sample = world.engine.sample().await?;
        if sample.connections == 0.0 || Instant::now() > deadline {
            return Ok(sample);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn line(seconds: f64, sample: &Sample, world: &World) {
    let (done, failed) = world.tally.total();
    println!(
        "{seconds:>8.0} {:>9.1} {:>12} {:>12} {:>7.1} {done:>9} {failed:>7}",
        sample.resident / 1024.0 / 1024.0,
        sample.descriptors,
        sample.connections,
        sample.cpu
    );
}

/// Prints all that was found; whether it is good.
fn verdict(world: &World, before: &Sample, samples: &[(f64, Sample)], after: &Sample) -> bool {
    const MIB: f64 = 1024.0 * 1024.0;
    println!("\n{}", world.tally.table());
    let mut taken = world.taken.lock().unwrap_or_else(PoisonError::into_inner).clone();
    taken.sort();
    if let (Some(most), Some(median)) = (taken.last(), taken.get(taken.len() / 2)) {
        println!("a new plan was live after {median:.1?} (median), {most:.1?} (longest)");
    }
    let of = |value: fn(&Sample) -> f64| {
        let values: Vec<_> = samples.iter().map(|(at, sample)| (*at, value(sample))).collect();
        Growth::of_second_half(&values)
    };
    let (memory, descriptors) = (of(|s| s.resident), of(|s| s.descriptors));
    println!(
        "processor time: engine {:.1} s, load {:.1} s",
        after.cpu,
        cpu::seconds(std::process::id()).unwrap_or(0.0)
    );
    println!(
        "RSS: {:.1} MiB before, {:.1} on average in the second half, {:+.2} MiB/h ({:+.2} MiB gained), {:.1} after",
        before.resident / MIB,
        memory.mean / MIB,
        memory.per_hour / MIB,
        memory.gained / MIB,
        after.resident / MIB
    );
    println!(
        "descriptors: {} before, {:.1} on average in the second half, {:+.1}/h ({:+.1} gained), {} after",
        before.descriptors, descriptors.mean, descriptors.per_hour, descriptors.gained, after.descriptors
    );
    let (done, failed) = world.tally.total();
    let findings = [
        ("no request that must succeed failed", failed == 0 && done > 0),
        ("memory is flat", memory.is_flat(FLAT_MEMORY.0, FLAT_MEMORY.1)),
        ("descriptors are flat", descriptors.is_flat(FLAT_DESCRIPTORS.0, FLAT_DESCRIPTORS.1)),
        ("no connection is left", after.connections == 0.0),
        ("descriptors are given back", after.descriptors <= before.descriptors + LEFT),
    ];
    for (what, holds) in findings {
        println!("{:4} {what}", if holds { "yes" } else { "NO" });
    }
    findings.iter().all(|(_, holds)| *holds)
}
