//! The frame of benches that compare: candidates take turns in every load of every round, on loopback, in a network
//! namespace of their own; ratios within a round are what counts. A bench brings its candidates, its loads and what it
//! aims at; everything else is here.

pub(crate) mod accounts;
pub(crate) mod aims;
pub(crate) mod backend;
pub(crate) mod load;
pub(crate) mod names;
pub(crate) mod namespace;
pub(crate) mod net;
pub(crate) mod programs;
pub(crate) mod question;
mod report;
pub(crate) mod results;
mod rounds;
pub(crate) mod running;
pub(crate) mod target;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use aims::Aim;
use load::{Load, Measured, Settings};
use programs::Programs;
use results::Results;
use running::Running;

/// Candidates and loads have the names and descriptions that the command line shows.
pub(crate) trait Name: ValueEnum + Copy + Eq + Send + Sync + 'static {
    fn all() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied()
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn description(self) -> String {
        let help = self.to_possible_value().and_then(|value| value.get_help().cloned());
        help.map(|help| help.to_string()).unwrap_or_default()
    }
}

impl<T: ValueEnum + Copy + Eq + Send + Sync + 'static> Name for T {}

/// What a bench brings to the frame.
pub(crate) trait Bench {
    type Candidate: Name;
    type Workload: Name;

    const OURS: Self::Candidate;
    /// The way without anything in between: what the load itself costs.
    const DIRECT: Self::Candidate;

    /// What is aimed at.
    fn aims() -> Vec<Aim<Self::Workload, Self::Candidate>>;

    /// The load that a workload is.
    fn load(workload: Self::Workload) -> Load;

    /// Whether a workload says anything new of a candidate in a round.
    fn takes_part(candidate: Self::Candidate, workload: Self::Workload, round: usize) -> bool;

    /// The program of a candidate, or what to do to have it, and the arguments that make it tell its version.
    fn program(
        candidate: Self::Candidate,
        programs: &Programs,
    ) -> anyhow::Result<(PathBuf, &'static [&'static str])>;

    /// Configures and starts a candidate for a workload.
    fn start(
        &mut self,
        candidate: Self::Candidate,
        workload: Self::Workload,
        program: &Path,
        dir: &Path,
    ) -> anyhow::Result<Running>;

    /// Puts a candidate through a workload.
    fn run(
        &self,
        workload: Self::Workload,
        running: &Running,
        settings: &Settings<'_>,
    ) -> anyhow::Result<Measured> {
        Self::load(workload).run(running, settings)
    }
}

/// What every bench of this kind is asked.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args<C: Name, W: Name> {
    /// The program to measure [default: built in release mode with cargo, or found beside this one].
    #[arg(long, value_name = "FILE")]
    causeway: Option<PathBuf>,
    /// Where peers are [default: `bench-peers` beside the directory of this program, then PATH].
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Rounds; in each, every candidate takes its turn in every load.
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Multiplies the length of every load.
    #[arg(long, default_value_t = 1.0, value_name = "X")]
    scale: f64,
    /// Only these loads; several may be named.
    #[arg(long, alias = "rows", value_enum, value_name = "LOAD", value_delimiter = ',')]
    only: Vec<W>,
    /// Only these candidates; several may be named.
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    candidates: Vec<C>,
    /// One short round, without waiting for a quiet machine and without what takes long: for work in between.
    #[arg(long, visible_alias = "short", conflicts_with_all = ["rounds", "scale", "quiet_wait"])]
    quick: bool,
    /// Idle connections to hold [default: 5000, or what the descriptors allow].
    #[arg(long, value_name = "N")]
    idle: Option<usize>,
    /// How long to wait for the machine to be quiet before each measurement.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    quiet_wait: f64,
    /// Begin no measurement after this time.
    #[arg(long, default_value_t = 7200.0, value_name = "SECONDS")]
    stop_after: f64,
    /// Write every measurement to a file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure nothing; report on the measurements of files.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    report: Vec<PathBuf>,
}

/// Runs a bench, which is made within the namespace, or reads an earlier run; prints the report.
pub(crate) fn run<B: Bench>(
    args: &Args<B::Candidate, B::Workload>,
    make: impl FnOnce() -> anyhow::Result<B>,
) -> anyhow::Result<Results> {
    let results = if args.report.is_empty() { measure(args, make)? } else { Results::load(&args.report)? };
    print!("{}", report::markdown::<B>(&results));
    Ok(results)
}

fn measure<B: Bench>(
    args: &Args<B::Candidate, B::Workload>,
    make: impl FnOnce() -> anyhow::Result<B>,
) -> anyhow::Result<Results> {
    // Before the namespace is entered: cargo may want the network.
    let causeway = crate::run::program(args.causeway.as_deref())?;
    let peers = match &args.peers {
        Some(dir) => dir.clone(),
        None => crate::run::own_directory()?.join("../bench-peers"),
    };
    namespace::enter(args.causeway.is_none().then_some(causeway.as_path()))?;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    let json = match &args.json {
        Some(path) => {
            Some(std::fs::File::create(path).with_context(|| format!("can't write {}", path.display()))?)
        }
        None => None,
    };
    rounds::Rounds::new(make()?, args, Programs { causeway, peers })?.all(json)
}

fn note(text: &str) {
    eprintln!("bench: {text}");
}
