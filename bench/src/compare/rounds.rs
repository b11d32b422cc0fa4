//! The run itself: rounds, turns and attempts. Who begins alternates, and what others disturbed is measured again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::accounts::{self, Accounts, Spent};
use super::backend::Backend;
use super::load::{Load, Settings};
use super::programs::{Programs, version};
use super::results::{Measurement, Results};
use super::{Args, Bench, Name, note};

/// Cores that others may use while we measure; more, and it is measured again.
const QUIET: f64 = 0.15;
const ATTEMPTS: usize = 3;
/// How long the loads of `--quick` are.
const QUICK: f64 = 0.3;

pub(crate) struct Rounds<'a, B: Bench> {
    bench: B,
    args: &'a Args<B::Candidate, B::Workload>,
    candidates: Vec<(B::Candidate, PathBuf)>,
    backend: Backend,
    dir: tempfile::TempDir,
    started: Instant,
}

impl<'a, B: Bench> Rounds<'a, B> {
    /// With the candidates that were asked for and are installed.
    pub(crate) fn new(
        bench: B,
        args: &'a Args<B::Candidate, B::Workload>,
        programs: Programs,
    ) -> anyhow::Result<Self> {
        let mut candidates = Vec::new();
        for candidate in chosen(&args.candidates) {
            match B::program(candidate, &programs) {
                Ok((program, _)) if candidate == B::DIRECT => candidates.push((candidate, program)),
                Ok((program, arguments)) => {
                    note(&format!("{}: {}", candidate.name(), version(&program, arguments)));
                    candidates.push((candidate, program));
                }
                Err(error) => note(&format!("without {}: {error:#}", candidate.name())),
            }
        }
        let dir = tempfile::Builder::new().prefix("causeway-bench-").tempdir()?;
        Ok(Self { bench, args, candidates, backend: Backend::start()?, dir, started: Instant::now() })
    }

    /// Measures everything, and writes each measurement down as soon as it is there.
    pub(crate) fn all(mut self, mut lines: Option<File>) -> anyhow::Result<Results> {
        let mut results = Results::default();
        let rounds = if self.args.quick { 1 } else { self.args.rounds };
        for (round, workload, candidate, program) in self.turns(rounds) {
            if self.started.elapsed().as_secs_f64() > self.args.stop_after {
                note("the time is over");
                break;
            }
            let measurement = self.turn(candidate, &program, workload, round)?;
            note(&measurement.to_string());
            if let Some(lines) = &mut lines {
                writeln!(lines, "{}", serde_json::to_string(&measurement)?)?;
            }
            results.push(measurement);
        }
        Ok(results)
    }

    fn turns(&self, rounds: usize) -> Vec<(usize, B::Workload, B::Candidate, PathBuf)> {
        let mut turns = Vec::new();
        for round in 0..rounds {
            for workload in chosen(&self.args.only) {
                if self.args.quick && self.args.only.is_empty() && !B::load(workload).is_quick() {
                    continue;
                }
                let mut candidates = self.candidates.clone();
                if round % 2 == 1 {
                    candidates.reverse();
                }
                candidates.retain(|(candidate, _)| B::takes_part(*candidate, workload, round));
                turns.extend(candidates.into_iter().map(|(c, program)| (round, workload, c, program)));
            }
        }
        turns
    }

    /// One measurement, repeated while others disturb it; the quietest counts.
    fn turn(
        &mut self,
        candidate: B::Candidate,
        program: &Path,
        workload: B::Workload,
        round: usize,
    ) -> anyhow::Result<Measurement> {
        let patience = if self.args.quick { 0.0 } else { self.args.quiet_wait };
        let timed = B::load(workload).is_timed();
        let mut best: Option<Measurement> = None;
        for attempt in 1..=ATTEMPTS {
            if timed {
                wait_for_quiet(Duration::from_secs_f64(patience));
            }
            let measurement = self.attempt(candidate, program, workload, round);
            if best.as_ref().is_none_or(|best| measurement.is_better_than(best)) {
                best = Some(measurement);
            }
            let best = best.as_mut().expect("the first attempt is better than none");
            best.attempts = attempt;
            let quiet = best.error.is_none() && best.spent.noise() < QUIET;
            let again = best.is_served() && !matches!(B::load(workload), Load::Integrity) && patience > 0.0;
            if quiet || !again {
                break;
            }
        }
        best.context("no attempt was made")
    }

    fn attempt(
        &mut self,
        candidate: B::Candidate,
        program: &Path,
        workload: B::Workload,
        round: usize,
    ) -> Measurement {
        let mut measurement = Measurement {
            workload: workload.name(),
            candidate: candidate.name(),
            round,
            attempts: 1,
            ready_millis: 0.0,
            spent: Spent::default(),
            figures: BTreeMap::default(),
            error: None,
        };
        let dir = self.dir.path().join(candidate.name());
        let started = std::fs::create_dir_all(&dir)
            .map_err(anyhow::Error::from)
            .and_then(|()| self.bench.start(candidate, workload, program, &dir));
        let outcome = started.and_then(|running| {
            measurement.ready_millis = running.ready_after.as_secs_f64() * 1e3;
            let accounts = Accounts { proxy: running.pids(), backend: self.backend.id() };
            let scale = if self.args.quick { QUICK } else { self.args.scale };
            let settings = Settings { accounts: &accounts, scale, idle: self.args.idle };
            self.bench.run(workload, &running, &settings)
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

/// Those that were asked for, or all.
fn chosen<T: Name>(asked: &[T]) -> impl Iterator<Item = T> {
    T::all().filter(move |one| asked.is_empty() || asked.contains(one))
}

/// Waits until the rest of the machine leaves the processors alone, or the patience is over.
fn wait_for_quiet(patience: Duration) {
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
