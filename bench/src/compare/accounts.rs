//! Who used the processors while a load was measured: the proxy, the load and its backend, and everybody else.

use std::collections::HashMap;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::running::tree;

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
    /// What each process of the proxy had used.
    proxy: HashMap<u32, Used>,
    load: f64,
    machine: f64,
}

impl Window {
    pub(crate) fn open(accounts: &Accounts) -> Self {
        Self {
            accounts: accounts.clone(),
            proxy: proxy(accounts),
            load: load(accounts),
            machine: machine(),
            start: Instant::now(),
        }
    }

    pub(crate) fn close(self) -> Spent {
        let seconds = self.start.elapsed().as_secs_f64();
        let (proxy_user, proxy_system) = spent(&self.proxy, &proxy(&self.accounts));
        let load = load(&self.accounts) - self.load;
        let others = (machine() - self.machine - proxy_user - proxy_system - load).max(0.0);
        Spent { seconds, proxy_user, proxy_system, load, others }
    }
}

fn load(accounts: &Accounts) -> f64 {
    let both = [accounts.backend, std::process::id()].into_iter().filter_map(used);
    let (user, system) = both.map(|used| used.own).fold((0.0, 0.0), add);
    user + system
}

/// The processes of the proxy as they are now: some make others while they work.
fn proxy(accounts: &Accounts) -> HashMap<u32, Used> {
    let all = accounts.proxy.iter().flat_map(|pid| tree(*pid));
    all.filter_map(|pid| Some((pid, used(pid)?))).collect()
}

/// User and system seconds between two looks. Who began in between counts from its beginning, and the time of one that ended is
/// with its parent; if that is none of them, it had no part that could be told.
fn spent(before: &HashMap<u32, Used>, now: &HashMap<u32, Used>) -> (f64, f64) {
    let sum = now.values().map(Used::all).fold((0.0, 0.0), add);
    let had = |(pid, used): (&u32, &Used)| {
        let counts = now.contains_key(pid) || now.contains_key(&used.parent);
        counts.then(|| used.all())
    };
    let had = before.iter().filter_map(had).fold((0.0, 0.0), add);
    (sum.0 - had.0, sum.1 - had.1)
}

fn add(one: (f64, f64), other: (f64, f64)) -> (f64, f64) {
    (one.0 + other.0, one.1 + other.1)
}

/// User and system seconds of a process, all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Used {
    parent: u32,
    own: (f64, f64),
    /// Of its children that have ended.
    ended: (f64, f64),
}

impl Used {
    fn all(&self) -> (f64, f64) {
        add(self.own, self.ended)
    }
}

/// None if it is gone.
fn used(pid: u32) -> Option<Used> {
    Some(times(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
}

fn times(stat: &str) -> Used {
    // The name in parentheses may hold anything, also spaces.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let number = |n: usize| fields.get(n).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    let seconds = |n: usize| number(n) / rustix::param::clock_ticks_per_second() as f64;
    Used {
        parent: fields.get(1).and_then(|f| f.parse().ok()).unwrap_or(0),
        own: (seconds(11), seconds(12)),
        ended: (seconds(13), seconds(14)),
    }
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
        let stat = format!("7 (a ) b) S 5 7 7 0 -1 0 0 0 0 0 {} {} {} 0", 2 * second, 3 * second, 4 * second);
        assert_eq!(times(&stat), Used { parent: 5, own: (2.0, 3.0), ended: (4.0, 0.0) });
    }

    #[test]
    fn processes_that_begin_and_end_meanwhile_count() {
        let used = |parent, own, ended| Used { parent, own: (own, 0.0), ended: (ended, 0.0) };
        // A master with a worker that ends, one that begins and one that does both; and a process of nobody that ends.
        let before = [(1, used(0, 1.0, 0.0)), (2, used(1, 5.0, 0.0)), (9, used(0, 70.0, 0.0))];
        let now = [(1, used(0, 1.5, 6.0 + 0.25)), (3, used(1, 2.0, 0.0))];
        let (user, system) = spent(&before.into(), &now.into());
        assert!((user - (0.5 + 1.0 + 0.25 + 2.0)).abs() < 1e-9, "{user}");
        assert!(system.abs() < 1e-9);
    }

    #[test]
    fn the_time_of_a_child_that_has_ended_is_with_its_parent() {
        let accounts = Accounts { proxy: vec![std::process::id()], backend: 0 };
        let window = Window::open(&accounts);
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", work]).status().unwrap().success());
        let spent = window.close();
        assert!(spent.proxy() > 0.02, "{spent:?}");
    }

    #[test]
    fn waiting_is_not_busy() {
        let second = rustix::param::clock_ticks_per_second();
        let line = format!("cpu {second} 0 {second} 900 900 0 {second} {second} 0 0");
        assert!((busy(&line) - 4.0).abs() < 1e-9);
    }
}
