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
mod workload;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

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
use workload::Workload;

pub(crate) use backend::{Args as ServeArgs, Backend, serve};
pub(crate) use load::{Args as LoadArgs, run as load};

/// The core of load and backend.
const LOAD_CORE: usize = 1;

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
    /// The one at work.
    current: Option<Candidate>,
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

    fn start_for(
        &self,
        candidate: Candidate,
        row: Workload,
        program: &Path,
        dir: &Path,
    ) -> anyhow::Result<Running> {
        let setting = Setting::of(row);
        let certificates = self.certificates.of(&setting.certificates)?;
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
        self.current = Some(candidate);
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
        let certificates = self.certificates.of(&Setting::of(row).certificates)?;
        let base = self.current.and_then(|candidate| self.bases.get(&(candidate, row)));
        let memory = base.map(|base| {
            std::thread::sleep(SETTLE);
            (*base, running.memory())
        });
        let (spent, mut figures) =
            load::start(row, &certificates, &running.pids(), self.backend.id(), settings)?;
        if let Some((base, memory)) = memory {
            figures.extend([("memoryBase", base), ("memory", memory)]);
        }
        Ok((spent, figures))
    }
}
