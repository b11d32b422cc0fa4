//! Who used the processors while a load was measured: the proxy, the load and its backend, and everybody else.

use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Seconds of processor time while a load was measured.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spent {
    pub(crate) seconds: f64,
    pub(crate) proxy_user: f64,
    pub(crate) proxy_system: f64,
    /// Load and backend.
    pub(crate) load: f64,
    /// Processes that have nothing to do with the run, and time that the host took away.
    pub(crate) others: f64,
}

impl Spent {
    pub(crate) fn proxy(&self) -> f64 {
        self.proxy_user + self.proxy_system
    }

    /// Everything that the work cost.
    pub(crate) fn whole(&self) -> f64 {
        self.proxy() + self.load
    }

    /// Cores that others took.
    pub(crate) fn noise(&self) -> f64 {
        self.others / self.seconds.max(0.001)
    }
}

/// The processes of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accounts {
    pub(crate) proxy: Vec<u32>,
    pub(crate) backend: u32,
}

/// A running measurement.
pub(crate) struct Window {
    start: Instant,
    accounts: Accounts,
    /// User and system seconds of each process of the proxy.
    proxy: Vec<(u32, (f64, f64))>,
    load: f64,
    machine: f64,
}

impl Window {
    pub(crate) fn open(accounts: &Accounts) -> Self {
        Self {
            accounts: accounts.clone(),
            proxy: accounts.proxy.iter().filter_map(|pid| Some((*pid, used(*pid)?))).collect(),
            load: load(accounts),
            machine: machine(),
            start: Instant::now(),
        }
    }

    pub(crate) fn close(self) -> Spent {
        let seconds = self.start.elapsed().as_secs_f64();
        // One that has ended meanwhile had no part in it that could be told.
        let spent = self.proxy.iter().filter_map(|(pid, before)| {
            let now = used(*pid)?;
            Some((now.0 - before.0, now.1 - before.1))
        });
        let (proxy_user, proxy_system) = spent.fold((0.0, 0.0), add);
        let load = load(&self.accounts) - self.load;
        let others = (machine() - self.machine - proxy_user - proxy_system - load).max(0.0);
        Spent { seconds, proxy_user, proxy_system, load, others }
    }
}

fn load(accounts: &Accounts) -> f64 {
    let both = [accounts.backend, std::process::id()].into_iter().filter_map(used);
    let (user, system) = both.fold((0.0, 0.0), add);
    user + system
}

fn add(one: (f64, f64), other: (f64, f64)) -> (f64, f64) {
    (one.0 + other.0, one.1 + other.1)
}

/// User and system seconds of a process, all threads; none if it is gone.
fn used(pid: u32) -> Option<(f64, f64)> {
    Some(times(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
}

fn times(stat: &str) -> (f64, f64) {
    // The name in parentheses may hold anything, also spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    let second = rustix::param::clock_ticks_per_second() as f64;
    (ticks(11) / second, ticks(12) / second)
}

/// Seconds that the processors of the machine were busy or taken away by the host.
pub(crate) fn machine() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    busy(stat.lines().next().unwrap_or_default())
}

fn busy(line: &str) -> f64 {
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy: f64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|n| ticks.get(*n)).sum();
    busy / rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processes_do_not_disturb_the_times() {
        let second = rustix::param::clock_ticks_per_second();
        let stat = format!("7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 {} {} 0 0", 2 * second, 3 * second);
        assert_eq!(times(&stat), (2.0, 3.0));
    }

    #[test]
    fn waiting_is_not_busy() {
        let second = rustix::param::clock_ticks_per_second();
        let line = format!("cpu {second} 0 {second} 900 900 0 {second} {second} 0 0");
        assert!((busy(&line) - 4.0).abs() < 1e-9);
    }
}
