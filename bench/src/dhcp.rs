//! `causeway-bench dhcp`: the DHCP server beside Kea on one core, the load on another, in two network namespaces with a
//! wire between them.
//!
//! Our server syncs every lease to disk before it tells the client; Kea writes and does not sync.

mod candidate;
mod load;
mod network;
mod perfdhcp;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};

use self::candidate::{Candidate, Running};
use self::load::{Load, Measured, Who};
use self::network::Network;
use self::report::Report;
use crate::compare::programs::version;
use crate::{cpu, machine::Machine};

/// Measures the DHCP server beside Kea. Needs root for network namespaces.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program to measure.
    #[arg(long, value_name = "FILE")]
    causeway: PathBuf,
    /// The Kea to measure beside it (package kea-dhcp4-server).
    #[arg(long, default_value = "/usr/sbin/kea-dhcp4", value_name = "FILE")]
    kea: PathBuf,
    /// Kea's own load (package kea-admin).
    #[arg(long, default_value = "/usr/sbin/perfdhcp", value_name = "FILE")]
    perfdhcp: PathBuf,
    /// A directory on the disk to measure [default: the directory of this program].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Rounds of each measurement; the median counts.
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// How long one measurement lasts.
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS")]
    seconds: f64,
    /// Leases in the larger measurement.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    leases: u32,
    /// Clients that ask at one time.
    #[arg(long, default_value_t = 64, value_name = "N")]
    at_once: usize,
    /// Leave out perfdhcp, which takes two minutes.
    #[arg(long)]
    quick: bool,
}

/// Runs the bench and prints what it found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root may make the network namespaces that this bench runs in: run it with sudo"
    );
    let own = std::env::current_exe().context("can't find this program's own file")?;
    let dir = args.dir.as_deref().or(own.parent()).context("this program is in no directory")?;
    let dir = tempfile::tempdir_in(dir).context("can't make a directory for leases")?;
    let machine = Machine::look(dir.path())?;
    let network = Network::new()?;
    let candidates = [
        Candidate::Causeway(args.causeway.canonicalize().context("can't find the program to measure")?),
        Candidate::Kea(args.kea.clone()),
    ];
    let mut report = Report::default();
    for round in 0..args.rounds {
        // Who begins alternates.
        for turn in 0..2 {
            let candidate = &candidates[(round + turn) % 2];
            measure(args, &network, candidate, dir.path(), &mut report)
                .with_context(|| format!("measuring {}", candidate.name()))?;
        }
    }
    for candidate in candidates.iter().filter(|_| !args.quick) {
        let path = dir.path().join("perfdhcp");
        for known in [None, Some(args.leases)] {
            let best = perfdhcp::highest_rate(&args.perfdhcp, &network, known, || {
                Running::start(candidate, &network, &path)
            })?;
            let case = if known.is_some() { "known clients" } else { "new clients" };
            report.add(candidate, format!("perfdhcp, {case}: exchanges per second under 1 % loss"), best);
        }
    }
    println!(
        "machine   {} cores ({}), Linux {}, load {}\ndisk      {}, 4 KiB + fdatasync: p50 {:.2} ms, p99 {:.2} ms\n\
         causeway  {}\nkea       {}\n{} clients at once, {} rounds of {} s\n",
        machine.cores,
        machine.cpu,
        machine.kernel,
        machine.load,
        machine.filesystem,
        machine.sync.median(),
        machine.sync.quantile(0.99),
        version(&args.causeway, &["--version"]),
        version(&args.kea, &["-v"]),
        args.at_once,
        args.rounds,
        args.seconds
    );
    print!("{report}");
    Ok(())
}

fn measure(
    args: &Args,
    network: &Network,
    candidate: &Candidate,
    dir: &Path,
    report: &mut Report,
) -> anyhow::Result<()> {
    let time = Duration::from_secs_f64(args.seconds);
    let path = dir.join("leases");
    let running = Running::start(candidate, network, &path)?;
    let (found, spent) = timed(&running, network, args.at_once, Who::New, time)?;
    note(report, candidate, "new clients", &found, spent, time);
    drop(running);

    let running = Running::start(candidate, network, &path)?;
    let load = Load::open(network)?;
    load.fill(args.at_once, args.leases)?;
    let (memory, _) = cpu::memory(running.pid())?;
    report.add(candidate, format!("memory with {} leases, MiB", args.leases), memory / 1024.0 / 1024.0);
    drop(load);
    let (found, spent) = timed(&running, network, args.at_once, Who::Known(args.leases), time)?;
    note(report, candidate, "known clients", &found, spent, time);
    Ok(())
}

fn timed(
    running: &Running,
    network: &Network,
    at_once: usize,
    who: Who,
    time: Duration,
) -> anyhow::Result<(Measured, f64)> {
    let load = Load::open(network)?;
    let before = cpu::seconds(running.pid())?;
    let found = load.run(at_once, who, time)?;
    Ok((found, cpu::seconds(running.pid())? - before))
}

fn note(
    report: &mut Report,
    candidate: &Candidate,
    case: &str,
    found: &Measured,
    spent: f64,
    time: Duration,
) {
    let exchanges = found.acks.len() as f64;
    report.add(candidate, format!("{case}: exchanges per second"), exchanges / time.as_secs_f64());
    report.add(candidate, format!("{case}: request to ACK p50, ms"), found.acks.median());
    report.add(candidate, format!("{case}: request to ACK p99, ms"), found.acks.quantile(0.99));
    report.add(candidate, format!("{case}: processor seconds per 10,000"), spent / exchanges * 1e4);
    report.add(candidate, format!("{case}: unanswered per 10,000"), found.lost as f64 / exchanges * 1e4);
}
