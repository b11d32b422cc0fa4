//! `causeway-bench l4`: the engine beside Envoy, HAProxy, NGINX and Traefik.

mod aims;
mod candidate;
mod configuration;
mod plot;
mod workload;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;

use crate::compare::aims::Aim;
use crate::compare::load::Load;
use crate::compare::names::Names;
use crate::compare::programs::Programs;
use crate::compare::running::Running;
use crate::compare::target::Target;
use crate::compare::{self, Bench};
use candidate::Candidate;
use workload::Workload;

/// Measures the engine beside other proxies. Needs root for a network namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    compare: compare::Args<Candidate, Workload>,
    /// Write the plot to a file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Runs the bench or reports on an earlier run.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let results = compare::run(&args.compare, || Ok(Proxies { names: HashMap::new() }))?;
    if let Some(path) = &args.svg {
        std::fs::write(path, plot::svg(&results))
            .with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

struct Proxies {
    /// By how many there are beside one for each backend.
    names: HashMap<usize, Rc<Names>>,
}

impl Bench for Proxies {
    type Candidate = Candidate;
    type Workload = Workload;

    const OURS: Candidate = Candidate::Causeway;
    const DIRECT: Candidate = Candidate::Direct;

    fn aims() -> Vec<Aim<Workload, Candidate>> {
        aims::all()
    }

    fn load(workload: Workload) -> Load {
        workload.load()
    }

    /// What comes out the same every time is measured once, and 100,000 names of the slow ones once too.
    fn takes_part(candidate: Candidate, workload: Workload, round: usize) -> bool {
        let (ours, direct) = (candidate == Self::OURS, candidate == Self::DIRECT);
        match workload.load() {
            Load::Names => !direct && (round == 0 || ours || workload != Workload::Names100000),
            Load::Memory(_) => !direct && round == 0,
            load => round == 0 || load.is_timed(),
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
        let names = match self.names.get(&workload.names()) {
            Some(names) => Rc::clone(names),
            None => Rc::new(Names::new(workload.names())?),
        };
        self.names.insert(workload.names(), Rc::clone(&names));
        candidate.configure(&names, dir)?;
        let by_name = workload.is_by_name();
        let at = if by_name { configuration::SNI } else { configuration::PLAIN };
        let target = Target {
            proxy: (candidate != Candidate::Direct).then_some(at),
            names: by_name.then_some(names),
            socks: None,
        };
        Running::start(candidate.commands(program, dir), target, dir)
    }
}
