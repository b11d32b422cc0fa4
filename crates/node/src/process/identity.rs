//! Who a process is: a pid alone is reused, a pid with its start time on one boot of the machine is not.

use std::{fs, io};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

/// A process that can be found again after a restart of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
    pub start_time: u64,
    pub boot_id: String,
}

impl Identity {
    /// Reads the identity of a running process.
    pub fn of(pid: i32) -> io::Result<Self> {
        let stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has an unknown form"))
        })?;
        Ok(Self { pid, start_time: stat.start_time, boot_id: boot_id()? })
    }

    /// True while this very process runs; false for a reused pid, another boot and a zombie.
    pub fn is_alive(&self) -> bool {
        if boot_id().ok().as_deref() != Some(self.boot_id.as_str()) {
            return false;
        }
        fs::read_to_string(format!("/proc/{}/stat", self.pid))
            .ok()
            .and_then(|text| parse_stat(&text))
            .is_some_and(|stat| stat.start_time == self.start_time && !matches!(stat.state, 'Z' | 'X'))
    }

    /// The pid for system calls.
    pub fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    start_time: u64,
}

/// Reads state (field 3) and start time (field 22); the name in field 2 may hold spaces and brackets.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let start_time = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start_time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stat_with_a_hostile_name() {
        let text = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1000 2 3";
        assert_eq!(parse_stat(text), Some(Stat { state: 'S', start_time: 98765 }));
        assert_eq!(parse_stat("garbage"), None);
    }

    #[test]
    fn matches_only_the_same_process() {
        let me = Identity::of(std::process::id() as i32).unwrap();
        assert!(me.is_alive());
        assert!(
            !Identity { start_time: me.start_time + 1, ..me.clone() }.is_alive(),
            "a reused pid is another process"
        );
        assert!(
            !Identity { boot_id: "other".into(), ..me.clone() }.is_alive(),
            "another boot is another process"
        );
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let identity = Identity::of(child.id() as i32).unwrap();
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while identity.is_alive() {
            assert!(std::time::Instant::now() < deadline, "the killed process still counts as alive");
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
