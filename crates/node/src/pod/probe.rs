//! Probes: a loop per probe that checks, counts against the thresholds and reports.

pub(super) mod check;
mod exec;
mod grpc;
mod http;

use std::time::Duration;

use causeway_base::backoff::spread;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use self::check::Check;

/// What a probe decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    /// The word in Kubernetes' events.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    /// The container's probe of this kind.
    pub(super) fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

/// One result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub kind: Kind,
    /// Why the check failed.
    pub failure: Option<String>,
    /// The decision, once a threshold is reached.
    pub verdict: Option<bool>,
}

/// Counts results in a row.
#[derive(Clone, Debug)]
pub(super) struct Threshold {
    successes_needed: i32,
    failures_needed: i32,
    last: Option<bool>,
    in_a_row: i32,
}

impl Threshold {
    pub(super) fn of(probe: &Probe) -> Self {
        Self {
            successes_needed: probe.success_threshold.unwrap_or(1).max(1),
            failures_needed: probe.failure_threshold.unwrap_or(3).max(1),
            last: None,
            in_a_row: 0,
        }
    }

    /// Counts a result; `Some` when there are enough of them in a row.
    pub(super) fn count(&mut self, success: bool) -> Option<bool> {
        self.in_a_row = if self.last == Some(success) { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = Some(success);
        let needed = if success { self.successes_needed } else { self.failures_needed };
        (self.in_a_row >= needed).then_some(success)
    }
}

/// How long a process that has just begun is asked again and again.
const EAGER: Duration = Duration::from_secs(1);
/// The pause before it is asked again for the first time; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// Runs one probe until its container ends (then the task is aborted) or the receiver goes.
pub(super) async fn run<T: Send + 'static>(
    kind: Kind,
    probe: Probe,
    check: Result<Check, String>,
    started_at: Timestamp,
    report_tx: mpsc::Sender<T>,
    wrap: impl Fn(Report) -> T + Send,
) {
    let period = Duration::from_secs(probe.period_seconds.unwrap_or(10).max(1) as u64);
    let limit = Duration::from_secs(probe.timeout_seconds.unwrap_or(1).max(1) as u64);
    let mut threshold = Threshold::of(&probe);
    sleep(first_delay(&probe, started_at, Timestamp::now())).await;
    let once = async || match &check {
        Ok(check) => timeout(limit, check.run()).await.unwrap_or_else(|_| Err(check.timeout_message(limit))),
        Err(message) => Err(message.clone()),
    };
    // A process begins in a fraction of a period: the first answer is what it says within one.
    if kind != Kind::Liveness && check.is_ok() {
        let until = Instant::now() + period.min(EAGER);
        let mut pause = FIRST_PAUSE;
        while Instant::now() + pause < until && once().await.is_err() {
            sleep(pause).await;
            pause *= 2;
        }
    }
    loop {
        let result = once().await;
        let verdict = threshold.count(result.is_ok());
        let report = Report { kind, failure: result.err(), verdict };
        if report_tx.send(wrap(report)).await.is_err() {
            return;
        }
        if kind == Kind::Startup && verdict == Some(true) {
            return;
        }
        sleep(spread(period)).await;
    }
}

/// What is left of the initial delay; a container that was found running has waited already.
fn first_delay(probe: &Probe, started_at: Timestamp, now: Timestamp) -> Duration {
    let initial = i64::from(probe.initial_delay_seconds.unwrap_or(0).max(0)) * 1000;
    let passed = now.as_millisecond() - started_at.as_millisecond();
    Duration::from_millis((initial - passed).max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decides_when_a_threshold_is_reached() {
        let probe = Probe { success_threshold: Some(2), failure_threshold: Some(3), ..Probe::default() };
        let mut threshold = Threshold::of(&probe);
        let results = [true, true, false, false, true, false, false, false, false, true, true];
        let verdicts: Vec<_> = results.into_iter().map(|success| threshold.count(success)).collect();
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(verdicts, [None, yes, None, None, None, None, None, no, no, None, yes]);
    }

    #[test]
    fn the_initial_delay_counts_from_the_start_of_the_container() {
        let probe = Probe { initial_delay_seconds: Some(10), ..Probe::default() };
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(first_delay(&probe, at(100), at(104)), Duration::from_secs(6));
        assert_eq!(first_delay(&probe, at(100), at(200)), Duration::ZERO);
    }
}
