//! `causeway-bench http`: our gateway beside NGINX, HAProxy, Envoy and Traefik. Each has one core and one worker; load and
//! backend share the other core.

mod aims;
mod backend;
mod candidate;
mod certificates;
mod configuration;
pub(crate) mod frames;
mod load;
pub(crate) mod setting;
mod swaps;
mod workload;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::compare::aims::Aim;
use crate::compare::load::{Load, Measured, SETTLE, Settings};
use crate::compare::programs::Programs;
use crate::compare::running::Running;
use crate::compare::{self, Bench};
use candidate::Candidate;
use certificates::Certificates;
use load::Probe;
use setting::Setting;
use swaps::Place;
use workload::Workload;

pub(crate) use backend::{Args as ServeArgs, Backend, serve};
pub(crate) use load::{Args as LoadArgs, run as load};

/// The core of load and backend.
const LOAD_CORE: usize = 1;
/// From one certificate to the next, where it is replaced.
const SWAP: Duration = Duration::from_secs(1);

/// Measures our gateway beside others. Needs root for a network namespace, and two cores.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    compare: compare::Args<Candidate, Workload>,
}

/// Runs the bench or reports on an earlier run.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    compare::run(&args.compare, Gateways::new).map(drop)
}

struct Gateways {
    backend: Backend,
    certificates: Certificates,
    /// What each gateway takes without the many things of a row.
    bases: HashMap<(Candidate, Workload), f64>,
    /// The one at work, and where its configuration is.
    current: Option<(Candidate, PathBuf)>,
}

impl Gateways {
    /// Starts the backend, and leaves the first core to the gateways.
    fn new() -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        ensure!(cores > LOAD_CORE, "this bench needs a core for the gateway and one for the load");
        let mut own = CpuSet::new();
        own.set(LOAD_CORE);
        sched_setaffinity(None, &own).context("can't choose a core")?;
        Ok(Self {
            backend: Backend::start(&ServeArgs::default())?,
            certificates: Certificates::new()?,
            bases: HashMap::new(),
            current: None,
        })
    }

    /// The directory of a row's certificates.
    fn certificates(&self, setting: &Setting) -> anyhow::Result<PathBuf> {
        match setting.certificates.as_slice() {
            [name] if setting.changing => self.certificates.changing(name),
            names => self.certificates.of(names),
        }
    }

    fn start_for(
        &self,
        candidate: Candidate,
        row: Workload,
        program: &Path,
        dir: &Path,
    ) -> anyhow::Result<Running> {
        let setting = Setting::of(row);
        let certificates = self.certificates(&setting)?;
        if setting.changing {
            // Each begins with the first.
            certificates::replace(&certificates, &setting.certificates[0], 0)?;
        }
        candidate.configure(&setting, dir, &certificates)?;
        let probe = Probe::new(row, candidate == Candidate::Direct, &certificates)?;
        let commands = candidate.commands(program, &setting, dir, &certificates);
        Running::start_until(commands, dir, || probe.ask())
    }
}

impl Bench for Gateways {
    type Candidate = Candidate;
    type Workload = Workload;

    const OURS: Candidate = Candidate::Causeway;
    const DIRECT: Candidate = Candidate::Direct;

    fn aims() -> Vec<Aim<Workload, Candidate>> {
        aims::all()
    }

    fn load(row: Workload) -> Load {
        row.load()
    }

    /// Memory comes out the same every time and is measured once.
    fn takes_part(candidate: Candidate, row: Workload, round: usize) -> bool {
        (candidate != Self::DIRECT || row.has_direct()) && (row != Workload::Idle || round == 0)
    }

    fn program(
        candidate: Candidate,
        programs: &Programs,
    ) -> anyhow::Result<(PathBuf, &'static [&'static str])> {
        candidate.program(programs)
    }

    fn start(
        &mut self,
        candidate: Candidate,
        row: Workload,
        program: &Path,
        dir: &Path,
    ) -> anyhow::Result<Running> {
        self.current = Some((candidate, dir.to_owned()));
        if let Some(less) = row.without_many()
            && !self.bases.contains_key(&(candidate, row))
        {
            let running = self.start_for(candidate, less, program, dir)?;
            std::thread::sleep(SETTLE);
            self.bases.insert((candidate, row), running.memory());
        }
        self.start_for(candidate, row, program, dir)
    }

    fn run(&self, row: Workload, running: &Running, settings: &Settings<'_>) -> anyhow::Result<Measured> {
        let setting = Setting::of(row);
        let certificates = self.certificates(&setting)?;
        let base = self.current.as_ref().and_then(|(candidate, _)| self.bases.get(&(*candidate, row)));
        let memory = base.map(|base| {
            std::thread::sleep(SETTLE);
            (*base, running.memory())
        });
        let pids = running.pids();
        let load = || load::start(row, &certificates, &pids, self.backend.id(), settings);
        let (spent, mut figures) = match &self.current {
            Some((gateway, dir)) if setting.changing => {
                let place = Place {
                    gateway: *gateway,
                    pids: &pids,
                    dir,
                    certificates: &certificates,
                    name: &setting.certificates[0],
                    every: SWAP,
                };
                let ((spent, mut figures), replaced) = swaps::during(&place, load)?;
                figures.insert("swaps", replaced as f64);
                (spent, figures)
            }
            _ => load()?,
        };
        if let Some((base, memory)) = memory {
            figures.extend([("memoryBase", base), ("memory", memory)]);
        }
        Ok((spent, figures))
    }
}
