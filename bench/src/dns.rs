//! `causeway-bench dns`: the DNS server beside Knot, BIND, Unbound, dnsmasq and CoreDNS. Each has one core, the load the other.

mod aims;
mod candidate;
mod configuration;
mod datagrams;
mod dnsperf;
mod paced;
mod questions;
mod responder;
mod streams;
mod workload;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::compare::aims::Aim;
use crate::compare::load::{Load, Measured, Settings};
use crate::compare::programs::Programs;
use crate::compare::running::Running;
use crate::compare::{self, Bench};
use candidate::Candidate;
use questions::Questions;
use workload::Workload;

pub(crate) use responder::echo;

/// The cores of the candidate and of the load.
const SERVER_CORE: usize = 0;
const LOAD_CORE: usize = 1;

/// Measures the DNS server beside others. Needs root for a network namespace, and two cores.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    compare: compare::Args<Candidate, Workload>,
}

/// Runs the bench or reports on an earlier run.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    compare::run(&args.compare, Servers::new).map(drop)
}

struct Servers;

impl Servers {
    /// Starts the resolver that is forwarded to, and leaves the first core to the candidates.
    fn new() -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        ensure!(cores > LOAD_CORE, "this bench needs a core for the server and one for the load");
        let mut own = CpuSet::new();
        own.set(LOAD_CORE);
        sched_setaffinity(None, &own).context("can't choose a core")?;
        responder::start()?;
        Ok(Self)
    }
}

impl Bench for Servers {
    type Candidate = Candidate;
    type Workload = Workload;

    const OURS: Candidate = Candidate::Causeway;
    const DIRECT: Candidate = Candidate::Echo;

    fn aims() -> Vec<Aim<Workload, Candidate>> {
        aims::all()
    }

    fn load(workload: Workload) -> Load {
        workload.load()
    }

    fn takes_part(candidate: Candidate, workload: Workload, _: usize) -> bool {
        match candidate {
            Candidate::Echo => workload == Workload::Names,
            Candidate::Knot => workload != Workload::Forwarded,
            _ => true,
        }
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
        workload: Workload,
        program: &Path,
        dir: &Path,
    ) -> anyhow::Result<Running> {
        candidate.configure(dir)?;
        let questions = workload.questions();
        let echoes = candidate == Candidate::Echo;
        Running::start_until(vec![candidate.command(program, dir)], dir, || questions.probe(echoes))
    }

    fn run(
        &self,
        workload: Workload,
        running: &Running,
        settings: &Settings<'_>,
    ) -> anyhow::Result<Measured> {
        let questions = workload.questions();
        match workload {
            Workload::Names => {
                let memory = running.memory();
                let (spent, mut figures) = datagrams::run(&questions, settings)?;
                figures.insert("memory", memory);
                Ok((spent, figures))
            }
            Workload::Mix => datagrams::run(&questions, settings),
            Workload::Forwarded => {
                datagrams::ask_each(&questions)?;
                datagrams::run(&questions, settings)
            }
            Workload::Latency => paced::run(&questions, settings),
            Workload::Streams => streams::run(&questions, settings),
            Workload::Dnsperf => dnsperf::run(&questions, "udp", settings),
            Workload::DnsperfStreams => dnsperf::run(&questions, "tcp", settings),
        }
    }
}
