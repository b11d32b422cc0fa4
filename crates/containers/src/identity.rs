//! Who a process is: a pid alone is reused, a pid with its start time on one boot of the machine is not.

use std::fmt;
use std::str::FromStr;
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// A process that can be told from every other, written as `pid:start-time:boot-id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
    pub start_time: u64,
    pub boot_id: String,
}

impl Identity {
    /// Reads the identity of a running process.
    ///
    /// # Errors
    /// When there is no such process, or `/proc` can't be read.
    pub fn of(pid: i32) -> io::Result<Self> {
        let stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has an unknown form"))
        })?;
        Ok(Self { pid, start_time: stat.start_time, boot_id: boot_id()? })
    }

    /// The identity of this process.
    ///
    /// # Errors
    /// When `/proc` can't be read.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id() as i32)
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
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.pid, self.start_time, self.boot_id)
    }
}

/// A text that names no process.
#[derive(Debug, thiserror::Error)]
#[error("not of the form pid:start-time:boot-id")]
pub struct ParseError;

impl FromStr for Identity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.trim().splitn(3, ':');
        let mut next = || parts.next().ok_or(ParseError);
        Ok(Self {
            pid: next()?.parse().map_err(|_| ParseError)?,
            start_time: next()?.parse().map_err(|_| ParseError)?,
            boot_id: next()?.to_owned(),
        })
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
    fn is_found_again_from_its_text() {
        let me = Identity::own().unwrap();
        assert_eq!(me.to_string().parse::<Identity>().unwrap(), me);
        assert!("1234".parse::<Identity>().is_err());
    }

    #[test]
    fn matches_only_the_same_process() {
        let me = Identity::own().unwrap();
        assert!(me.is_alive());
        assert!(
            !Identity { start_time: me.start_time + 1, ..me.clone() }.is_alive(),
            "a reused pid is another"
        );
        assert!(!Identity { boot_id: "other".into(), ..me }.is_alive(), "another boot is another process");
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
