//! `causeway-bench tunnel`: a tunnel of ours beside rathole (plain, TLS, noise) and beside bare pairs of relays.

mod aims;
mod candidate;
mod configuration;
mod dead;
mod delay;
mod fire;
mod relay;
mod workload;

use std::path::{Path, PathBuf};

use crate::compare::aims::Aim;
use crate::compare::load::{Load, Measured, Settings};
use crate::compare::programs::Programs;
use crate::compare::running::Running;
use crate::compare::target::Target;
use crate::compare::{self, Bench};
use candidate::Candidate;
use configuration::{DELAYED, Setting, USERS, dead_users};
use dead::Dead;
use fire::Fire;
use workload::Workload;

pub(crate) use relay::{Args as RelayArgs, run as relay};

/// Measures a tunnel beside rathole and bare relays. Needs root for a network namespace.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    compare: compare::Args<Candidate, Workload>,
}

/// Runs the bench or reports on an earlier run.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    compare::run(&args.compare, Tunnels::new).map(drop)
}

struct Tunnels {
    _dead: Dead,
}

impl Tunnels {
    fn new() -> anyhow::Result<Self> {
        for (at, to) in DELAYED {
            let listener = std::net::TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            tokio::spawn(delay::serve(tokio::net::TcpListener::from_std(listener)?, to));
        }
        Ok(Self { _dead: Dead::new()? })
    }
}

impl Bench for Tunnels {
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

    /// What comes out the same every time is measured once; relays lead to one backend only.
    fn takes_part(candidate: Candidate, workload: Workload, round: usize) -> bool {
        let direct = candidate == Candidate::Direct;
        let says = match workload {
            Workload::StreamsUnderFire => !direct && !candidate.is_relay(),
            Workload::DelayedDown | Workload::DelayedUp | Workload::Idle => !direct,
            _ => true,
        };
        says && (round == 0 || workload.load().is_timed())
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
        let dead = if workload == Workload::StreamsUnderFire { &Dead::ADDRESSES[..] } else { &[] };
        let setting = Setting { dead, delayed: workload.is_delayed() };
        let commands = candidate.commands(program, &setting, dir)?;
        let target =
            Target { proxy: (candidate != Candidate::Direct).then_some(USERS), names: None, socks: None };
        Running::start(commands, target, dir)
    }

    fn run(
        &self,
        workload: Workload,
        running: &Running,
        settings: &Settings<'_>,
    ) -> anyhow::Result<Measured> {
        let fire =
            (workload == Workload::StreamsUnderFire).then(|| Fire::open(vec![dead_users(0), dead_users(1)]));
        let measured = workload.load().run(running, settings);
        let fared = fire.map(Fire::cease).transpose()?;
        let (spent, mut figures) = measured?;
        figures.extend(fared.unwrap_or_default());
        Ok((spent, figures))
    }
}
