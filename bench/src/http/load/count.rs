//! What a load counts: how long requests took, how many failed, and the order in which requests are chosen.

use std::time::Instant;

use anyhow::bail;

use crate::compare::accounts::Spent;
use crate::compare::load::{Figures, nanos, quantiles};

const FAILURES: u64 = 10_000;

pub(super) struct Count {
    times: Vec<u32>,
    resumed: u64,
    failed: u64,
    last_failure: String,
}

impl Count {
    pub(super) fn new() -> Self {
        Self { times: Vec::with_capacity(1 << 20), resumed: 0, failed: 0, last_failure: String::new() }
    }

    /// Forgets what was before.
    pub(super) fn begin(&mut self) {
        self.times.clear();
        (self.resumed, self.failed) = (0, 0);
    }

    pub(super) fn done(&mut self, since: Instant) {
        self.times.push(nanos(since));
    }

    pub(super) fn resumed(&mut self) {
        self.resumed += 1;
    }

    /// The part of the requests whose connections went on with a session of before.
    pub(super) fn part_resumed(&self) -> f64 {
        self.resumed as f64 / self.times.len().max(1) as f64
    }

    pub(super) fn fail(&mut self, error: &anyhow::Error) -> anyhow::Result<()> {
        self.failed += 1;
        self.last_failure = format!("{error:#}");
        if self.failed > FAILURES {
            bail!("too many requests failed, the last one: {error:#}");
        }
        Ok(())
    }

    pub(super) fn figures(mut self, spent: &Spent) -> anyhow::Result<Figures> {
        let requests = self.times.len() as f64;
        if self.times.is_empty() || spent.seconds <= 0.0 {
            bail!("no request succeeded: {}", self.last_failure);
        }
        let mut figures = Figures::from([
            ("requests", requests),
            ("perSecond", requests / spent.seconds),
            ("failed", self.failed as f64),
        ]);
        quantiles(&mut self.times, &mut figures);
        Ok(figures)
    }
}

/// Places in no order, so that no cache of a gateway helps; the same order for every gateway.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new() -> Self {
        Self(0x2545_F491_4F6C_DD1D)
    }

    /// A place before an end that is not zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % end
    }
}
