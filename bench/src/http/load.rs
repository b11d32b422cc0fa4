//! The load: a process of its own, one thread around one epoll. It is told of a row and of the processes to account
//! for, and says what it found in one line.

mod answer;
mod count;
mod idle;
mod probe;
mod requests;
mod streams;
mod trust;
mod wire;
mod world;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use super::workload::Workload;
use crate::compare::Name;
use crate::compare::accounts::{Accounts, Spent};
use crate::compare::load::{Figures, Measured, Settings};

pub(crate) use probe::Probe;
use requests::Manner;
use world::World;

/// What a load may take beside its length: opening connections, warming up, memory that settles.
const LIMIT: Duration = Duration::from_mins(1);
const LENGTH: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
const GIB: f64 = (1 << 30) as f64;

/// Every figure that a load may tell.
const FIGURES: [&str; 16] = [
    "requests",
    "perSecond",
    "gib",
    "gbitPerSecond",
    "failed",
    "resumed",
    "p50Us",
    "p99Us",
    "loadBusy",
    "proxyBusy",
    "connections",
    "memoryBefore",
    "memoryHeld",
    "perConnection",
    "swapsSeen",
    "lastSwapSeen",
];

/// What the process is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    row: Workload,
    /// The directory of the row's certificates.
    #[arg(long)]
    certificates: PathBuf,
    /// The gateway's processes; without any the load goes straight to the backend.
    #[arg(long, value_delimiter = ',')]
    gateway: Vec<u32>,
    /// The backend's process.
    #[arg(long)]
    backend: u32,
    #[arg(long)]
    scale: f64,
    /// Connections to hold.
    #[arg(long)]
    idle: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct Told {
    spent: Spent,
    figures: BTreeMap<String, f64>,
}

/// Puts what listens through a row, in this process.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let world = World::new(args.row, args.gateway.is_empty(), &args.certificates)?;
    let accounts = Accounts { proxy: args.gateway.clone(), backend: args.backend };
    let settings = Settings { accounts: &accounts, scale: args.scale, idle: args.idle };
    let (spent, mut figures) = match args.row {
        Workload::Http2 | Workload::Grpc => streams::run(&world, &settings, LENGTH)?,
        Workload::Idle => idle::run(&world, &settings)?,
        Workload::Paced => requests::run(&world, &settings, LENGTH, Manner::Paced)?,
        Workload::Handshakes | Workload::Resumed | Workload::Certificates | Workload::Swaps => {
            requests::run(&world, &settings, LENGTH, Manner::Fresh)?
        }
        Workload::Http | Workload::Https | Workload::Bodies | Workload::Routes => {
            requests::run(&world, &settings, LENGTH, Manner::Kept)?
        }
    };
    if args.row == Workload::Bodies {
        let bytes = figures.get("requests").copied().unwrap_or(0.0) * world.length() as f64;
        figures.insert("gib", bytes / GIB);
        figures.insert("gbitPerSecond", bytes * 8.0 / 1e9 / spent.seconds);
    }
    if args.row == Workload::Swaps {
        figures.insert("swapsSeen", f64::from(world.shown().saturating_sub(1)));
        figures.insert("lastSwapSeen", f64::from(world.last_shown()));
    }
    if spent.seconds > 0.0 {
        figures.insert("loadBusy", spent.load / spent.seconds);
        if !args.gateway.is_empty() {
            figures.insert("proxyBusy", spent.proxy() / spent.seconds);
        }
    }
    let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    println!("{}", serde_json::to_string(&Told { spent, figures })?);
    Ok(())
}

/// The same in a process of its own, on the cores of this one.
pub(crate) fn start(
    row: Workload,
    certificates: &Path,
    gateway: &[u32],
    backend: u32,
    settings: &Settings<'_>,
) -> anyhow::Result<Measured> {
    let own = std::env::current_exe().context("can't find this program's own file")?;
    let mut command = Command::new(own);
    command.args(["http-load", &row.name(), "--certificates"]).arg(certificates);
    command.args(["--backend", &backend.to_string(), "--scale", &settings.scale.to_string()]);
    if !gateway.is_empty() {
        let pids: Vec<String> = gateway.iter().map(u32::to_string).collect();
        command.args(["--gateway", &pids.join(",")]);
    }
    if let Some(idle) = settings.idle {
        command.args(["--idle", &idle.to_string()]);
    }
    let limit = LIMIT + LENGTH.mul_f64(settings.scale);
    let told: Told = serde_json::from_str(&output(command, limit)?).context("the load said something odd")?;
    let known = FIGURES.iter().filter_map(|name| Some((*name, *told.figures.get(*name)?)));
    Ok((told.spent, known.collect::<Figures>()))
}

/// What a process says that ends in time.
fn output(mut command: Command, limit: Duration) -> anyhow::Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("can't start the load")?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > limit {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
            bail!("the load did not end within {} s", limit.as_secs());
        }
        std::thread::sleep(LOOK);
    };
    let (mut said, mut wrong) = (String::new(), String::new());
    if let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) {
        out.read_to_string(&mut said)?;
        err.read_to_string(&mut wrong)?;
    }
    ensure!(status.success(), "{}", wrong.split_whitespace().collect::<Vec<_>>().join(" "));
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_fails_or_lasts_too_long_is_told() {
        let shell = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            command
        };
        let minute = Duration::from_mins(1);
        assert_eq!(output(shell("echo good"), minute).unwrap(), "good\n");
        assert_eq!(output(shell("echo bad >&2; exit 1"), minute).unwrap_err().to_string(), "bad");
        let late = output(shell("exec sleep 60"), Duration::ZERO).unwrap_err();
        assert_eq!(late.to_string(), "the load did not end within 0 s");
    }
}
