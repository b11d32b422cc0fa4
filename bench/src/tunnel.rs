//! `causeway-bench tunnel`: a tunnel of ours beside rathole (plain, TLS, noise) on loopback, in a network namespace of
//! its own, under the loads of the `l4` bench and some of its own. Every candidate takes its turn in every load of
//! every round; ratios within a round are what counts.

mod candidate;
mod configuration;
mod dead;
mod fire;
mod pair;
mod report;
mod results;
mod streams;
mod workload;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::l4::accounts::{Accounts, Spent};
use crate::l4::results::Measurement;
use crate::l4::{ATTEMPTS, Backend, QUIET, namespace, note, summary, wait_for_quiet};
use candidate::{Candidate, Programs};
use dead::Dead;
use pair::Pair;
use results::Results;
use workload::{Settings, Workload};

/// Measures a tunnel beside rathole. Needs root for a network namespace.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program to measure [default: built in release mode with cargo, or found beside this one].
    #[arg(long, value_name = "FILE")]
    causeway: Option<PathBuf>,
    /// Where rathole is [default: `bench-peers` beside the directory of this program, then PATH].
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Rounds; in each, every candidate takes its turn in every load.
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// Multiplies the length of every load.
    #[arg(long, default_value_t = 1.0, value_name = "X")]
    scale: f64,
    /// Only these loads; several may be named.
    #[arg(long, value_enum, value_name = "LOAD", value_delimiter = ',')]
    only: Vec<Workload>,
    /// Only these candidates; several may be named.
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    candidates: Vec<Candidate>,
    /// Idle streams to hold.
    #[arg(long, default_value_t = 5000, value_name = "N")]
    idle: usize,
    /// How long to wait for the machine to be quiet before each measurement.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    quiet_wait: f64,
    /// Begin no measurement after this time.
    #[arg(long, default_value_t = 7200.0, value_name = "SECONDS")]
    stop_after: f64,
    /// Write every measurement to a file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure nothing; report on the measurements of a file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Runs the bench or reports on an earlier run.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let results = if let Some(path) = &args.report {
        let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        Results::read(&text).with_context(|| format!("{} holds no measurements", path.display()))?
    } else {
        measure(args)?
    };
    print!("{}", report::markdown(&results));
    Ok(())
}

fn measure(args: &Args) -> anyhow::Result<Results> {
    // Before the namespace is entered: cargo may want the network.
    let causeway = crate::run::program(args.causeway.as_deref())?;
    let peers = match &args.peers {
        Some(dir) => dir.clone(),
        None => crate::run::own_directory()?.join("../bench-peers"),
    };
    namespace::enter(args.causeway.is_none().then_some(causeway.as_path()))?;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;

    let dir = tempfile::Builder::new().prefix("causeway-tunnel-").tempdir()?;
    let mut bench = Bench {
        args,
        programs: Programs { causeway, peers },
        candidates: Vec::new(),
        backend: Backend::start()?,
        _dead: Dead::new()?,
        dir: dir.path().to_owned(),
        started: Instant::now(),
    };
    bench.choose_candidates();
    bench.all()
}

struct Bench<'a> {
    args: &'a Args,
    programs: Programs,
    candidates: Vec<Candidate>,
    backend: Backend,
    _dead: Dead,
    dir: PathBuf,
    started: Instant,
}

impl Bench<'_> {
    /// Those that were asked for and are installed.
    fn choose_candidates(&mut self) {
        let chosen = &self.args.candidates;
        for candidate in Candidate::ALL {
            if !chosen.is_empty() && !chosen.contains(&candidate) {
                continue;
            }
            match candidate.program(&self.programs) {
                Ok(_) => self.candidates.push(candidate),
                Err(error) => note(&format!("without {}: {error:#}", candidate.name())),
            }
        }
    }

    fn all(&mut self) -> anyhow::Result<Results> {
        let mut lines = match &self.args.json {
            Some(path) => {
                Some(std::fs::File::create(path).with_context(|| format!("can't write {}", path.display()))?)
            }
            None => None,
        };
        let mut results = Results::default();
        for round in 0..self.args.rounds {
            for workload in Workload::ALL {
                if !self.args.only.is_empty() && !self.args.only.contains(&workload) {
                    continue;
                }
                let mut candidates = self.candidates.clone();
                // Who begins alternates.
                if round % 2 == 1 {
                    candidates.reverse();
                }
                for candidate in candidates {
                    if (round > 0 && workload.is_steady()) || !workload.takes(candidate) {
                        continue;
                    }
                    if self.started.elapsed().as_secs_f64() > self.args.stop_after {
                        note("the time is over");
                        return Ok(results);
                    }
                    let measurement = self.turn(candidate, workload, round)?;
                    note(&summary(&measurement));
                    if let Some(lines) = &mut lines {
                        writeln!(lines, "{}", serde_json::to_string(&measurement)?)?;
                    }
                    results.push(measurement);
                }
            }
        }
        Ok(results)
    }

    /// One measurement, repeated while others disturb it; the quietest counts.
    fn turn(
        &mut self,
        candidate: Candidate,
        workload: Workload,
        round: usize,
    ) -> anyhow::Result<Measurement> {
        let mut best: Option<Measurement> = None;
        for attempt in 1..=ATTEMPTS {
            if workload.is_timed() {
                wait_for_quiet(Duration::from_secs_f64(self.args.quiet_wait));
            }
            let mut measurement = self.attempt(candidate, workload);
            measurement.round = round;
            let better = best.as_ref().is_none_or(|best| {
                measurement.error.is_none()
                    && (best.error.is_some() || measurement.spent.noise() < best.spent.noise())
            });
            if better {
                best = Some(measurement);
            }
            let best = best.as_mut().expect("the first attempt is better than none");
            best.attempts = attempt;
            let quiet = best.error.is_none() && best.spent.noise() < QUIET;
            if quiet || !workload.is_timed() || self.args.quiet_wait <= 0.0 {
                break;
            }
        }
        best.context("no attempt was made")
    }

    fn attempt(&self, candidate: Candidate, workload: Workload) -> Measurement {
        let mut measurement = Measurement {
            workload: workload.name().into(),
            candidate: candidate.name().into(),
            round: 0,
            attempts: 1,
            ready_millis: 0.0,
            spent: Spent::default(),
            figures: BTreeMap::default(),
            error: None,
        };
        let dead = if workload == Workload::StreamsUnderFire { &Dead::ADDRESSES[..] } else { &[] };
        let started = Pair::start(candidate, &self.programs, dead, &self.dir);
        let outcome = started.and_then(|pair| {
            measurement.ready_millis = pair.ready_after.as_secs_f64() * 1e3;
            let accounts = Accounts { proxy: pair.pids(), backend: self.backend.id() };
            let settings =
                Settings { accounts: &accounts, scale: self.args.scale, idle_streams: self.args.idle };
            workload.run(&pair, &settings)
        });
        match outcome {
            Ok((spent, figures)) => {
                measurement.spent = spent;
                measurement.figures = figures.into_iter().map(|(name, value)| (name.into(), value)).collect();
            }
            Err(error) => measurement.error = Some(format!("{error:#}")),
        }
        measurement
    }
}
