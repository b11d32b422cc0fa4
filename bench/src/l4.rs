//! `causeway-bench l4`: the engine beside Envoy, HAProxy, NGINX and Traefik on loopback, in a network namespace of its
//! own. Every candidate takes its turn in every load of every round; ratios within a round are what counts.

pub mod accounts;
mod aims;
mod backend;
mod candidate;
mod configuration;
pub mod load;
pub mod names;
pub mod namespace;
pub mod net;
mod plot;
mod proxy;
mod report;
pub mod results;
pub mod target;
mod workload;

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use accounts::{Accounts, Spent};
use candidate::{Candidate, Programs};
use names::Names;
use proxy::Proxy;
use results::{Measurement, Results};
use workload::{Settings, Workload};

pub use backend::serve as serve_backend;

/// Cores that others may use while we measure; more, and it is measured again.
pub const QUIET: f64 = 0.15;
pub const ATTEMPTS: usize = 3;
const READY_LIMIT: Duration = Duration::from_secs(90);
/// Descriptors that a proxy keeps for itself beside two for each connection.
const OWN_DESCRIPTORS: u64 = 600;

/// Measures the engine beside other proxies. Needs root for a network namespace.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program to measure [default: built in release mode with cargo, or found beside this one].
    #[arg(long, value_name = "FILE")]
    causeway: Option<PathBuf>,
    /// Where Envoy and Traefik are [default: `bench-peers` beside the directory of this program, then PATH].
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
    /// Idle connections to hold [default: as many as the descriptors allow].
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
    /// Write the plot to a file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
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
    if let Some(path) = &args.svg {
        std::fs::write(path, plot::svg(&results))
            .with_context(|| format!("can't write {}", path.display()))?;
    }
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

    let dir = tempfile::Builder::new().prefix("causeway-l4-").tempdir()?;
    let mut bench = Bench {
        args,
        programs: Programs { causeway, peers },
        candidates: Vec::new(),
        backend: Backend::start()?,
        dir: dir.path().to_owned(),
        names: HashMap::new(),
        idle_connections: args.idle.unwrap_or_else(|| idle_connections(limit.maximum)),
        started: Instant::now(),
    };
    bench.choose_candidates();
    bench.all()
}

/// Each connection takes two descriptors of a proxy.
fn idle_connections(descriptors: Option<u64>) -> usize {
    let possible = descriptors.unwrap_or(1 << 20).saturating_sub(OWN_DESCRIPTORS) / 2;
    possible.clamp(100, 50_000) as usize
}

pub fn note(text: &str) {
    eprintln!("bench: {text}");
}

/// The process with the servers behind the proxies.
pub struct Backend(std::process::Child);

impl Backend {
    pub fn start() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("can't find this program's own file")?;
        let child =
            std::process::Command::new(own).arg("l4-backend").spawn().context("can't start the backend")?;
        Ok(Self(child))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // It holds nothing worth an orderly end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Bench<'a> {
    args: &'a Args,
    programs: Programs,
    candidates: Vec<Candidate>,
    backend: Backend,
    dir: PathBuf,
    names: HashMap<usize, Rc<Names>>,
    idle_connections: usize,
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
                Ok(program) => {
                    if candidate.is_proxy() {
                        note(&format!("{}: {}", candidate.name(), candidate.version(&program)));
                    }
                    self.candidates.push(candidate);
                }
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
                    if !takes_part(candidate, workload, round) {
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
        let names = if let Some(names) = self.names.get(&workload.names()) {
            Rc::clone(names)
        } else {
            let names = Rc::new(Names::new(workload.names())?);
            self.names.insert(workload.names(), Rc::clone(&names));
            names
        };
        let mut best: Option<Measurement> = None;
        for attempt in 1..=ATTEMPTS {
            if workload.is_timed() {
                wait_for_quiet(Duration::from_secs_f64(self.args.quiet_wait));
            }
            let mut measurement = self.attempt(candidate, workload, &names);
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
            let integrity = matches!(workload, Workload::IntegritySni | Workload::IntegrityPlain);
            if integrity
                || (best.error.is_none() && best.spent.noise() < QUIET)
                || self.args.quiet_wait <= 0.0
            {
                break;
            }
        }
        best.context("no attempt was made")
    }

    fn attempt(&self, candidate: Candidate, workload: Workload, names: &Rc<Names>) -> Measurement {
        let mut measurement = Measurement {
            workload: workload.name().into(),
            candidate: candidate.name().into(),
            round: 0,
            attempts: 1,
            ready_millis: 0.0,
            spent: Spent::default(),
            figures: std::collections::BTreeMap::default(),
            error: None,
        };
        let started = Proxy::start(candidate, &self.programs, Rc::clone(names), &self.dir, READY_LIMIT);
        let outcome = started.and_then(|proxy| {
            measurement.ready_millis = proxy.ready_after.as_secs_f64() * 1e3;
            let accounts = Accounts { proxy: proxy.pids(), backend: self.backend.id() };
            let settings = Settings {
                accounts: &accounts,
                scale: self.args.scale,
                idle_connections: self.idle_connections,
            };
            workload.run(&proxy, &settings)
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

/// Who is measured when: what comes out the same every time once, and 100,000 names of the slow ones once too.
fn takes_part(candidate: Candidate, workload: Workload, round: usize) -> bool {
    match workload {
        Workload::Idle | Workload::IdleUsed | Workload::Names1000 | Workload::Names5000 => {
            candidate.is_proxy() && (round == 0 || !workload.is_steady())
        }
        Workload::Names100000 => candidate == Candidate::Causeway || (candidate.is_peer() && round == 0),
        _ => round == 0 || !workload.is_steady(),
    }
}

/// Waits until the rest of the machine leaves the processors alone, or the patience is over.
pub fn wait_for_quiet(patience: Duration) {
    const LOOK: Duration = Duration::from_millis(400);
    let began = Instant::now();
    while began.elapsed() < patience {
        let before = accounts::machine();
        std::thread::sleep(LOOK);
        if (accounts::machine() - before) / LOOK.as_secs_f64() < QUIET {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

pub fn summary(m: &Measurement) -> String {
    let mut text = format!("round {}, {}, {}:", m.round + 1, m.workload, m.candidate);
    if let Some(error) = &m.error {
        text = format!("{text} failed: {error}");
    }
    for (name, value) in &m.figures {
        text = format!("{text} {name} {value:.2}");
    }
    format!("{text}; proxy {:.2} s, noise {:.2}", m.spent.proxy(), m.spent.noise())
}
