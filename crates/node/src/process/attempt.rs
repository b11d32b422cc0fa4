//! One attempt to run a container: its directory, and the files that the node and the shim share in it.
//!
//! | file | written by | says |
//! |---|---|---|
//! | `launch.json` | node | what to run |
//! | `record.json` | node, before the shim may start the process | who the shim is |
//! | `child.json` | shim | who the process is |
//! | `start-error` | shim, second stage | why the program could not be executed |
//! | `address.json` | shim | where the container is, if it has an address of its own |
//! | `exit.json` | shim | how the process ended |
//! | `log`, `log.1` | shim | what it printed |

use std::{
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use causeway_containers::ContainerSpec;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Identity, durable};

/// What to run, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    pub working_dir: PathBuf,
    pub pod_uid: String,
    pub container: String,
    pub image: String,
    /// Changes when the container's spec changes in a way that needs a restart.
    pub spec_hash: String,
    pub restart_count: i32,
    /// The network namespace to run in, if it is not the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<PathBuf>,
    /// A container of a runtime in place of a process of this machine.
    // The alias is what earlier versions wrote, whose shims may still run.
    #[serde(default, alias = "guest", skip_serializing_if = "Option::is_none")]
    pub runtime_container: Option<RuntimeContainer>,
}

/// A container of a runtime, which the shim looks after as it does after a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuntimeContainer {
    /// The runtime's socket.
    pub socket: PathBuf,
    pub spec: ContainerSpec,
}

/// Who the shim of an attempt is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub shim: Identity,
    pub started_at: Timestamp,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub code: i32,
    pub signal: Option<i32>,
    pub reason: String,
    pub message: Option<String>,
    pub finished_at: Timestamp,
}

impl Exit {
    /// The end of a process that nobody saw, such as by a reboot.
    pub(crate) fn unseen(now: Timestamp) -> Self {
        Self {
            code: 137,
            signal: None,
            reason: "ContainerStatusUnknown".into(),
            message: Some(
                "the process ended while nobody watched, for example by a reboot of the machine".into(),
            ),
            finished_at: now,
        }
    }
}

/// The directory of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt(PathBuf);

impl Attempt {
    pub(crate) fn at(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// The newest attempt below a container's directory, with its number.
    pub(crate) fn newest(container_dir: &Path) -> io::Result<Option<(i32, Self)>> {
        Ok(Self::numbers(container_dir)?
            .into_iter()
            .max()
            .map(|number| (number, Self::at(container_dir.join(number.to_string())))))
    }

    /// The numbers of all attempts below a container's directory.
    pub(crate) fn numbers(container_dir: &Path) -> io::Result<Vec<i32>> {
        let entries = match fs::read_dir(container_dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            if let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
                numbers.push(number);
            }
        }
        Ok(numbers)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.0
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    pub(crate) fn rotated_log(&self) -> PathBuf {
        self.0.join("log.1")
    }

    pub(crate) fn start_error(&self) -> PathBuf {
        self.0.join("start-error")
    }

    pub(crate) fn launch(&self) -> io::Result<Option<Launch>> {
        durable::read_json(&self.0.join("launch.json"))
    }

    pub(crate) fn record(&self) -> io::Result<Option<Record>> {
        durable::read_json(&self.0.join("record.json"))
    }

    pub(crate) fn child(&self) -> io::Result<Option<Identity>> {
        durable::read_json(&self.0.join("child.json"))
    }

    pub(crate) fn address(&self) -> io::Result<Option<IpAddr>> {
        durable::read_json(&self.0.join("address.json"))
    }

    pub(crate) fn exit(&self) -> io::Result<Option<Exit>> {
        durable::read_json(&self.0.join("exit.json"))
    }

    pub(crate) fn write_launch(&self, launch: &Launch) -> io::Result<()> {
        durable::write_json(&self.0.join("launch.json"), launch)
    }

    pub(crate) fn write_record(&self, record: &Record) -> io::Result<()> {
        durable::write_json(&self.0.join("record.json"), record)
    }

    pub(crate) fn write_child(&self, child: &Identity) -> io::Result<()> {
        durable::write_json(&self.0.join("child.json"), child)
    }

    pub(crate) fn write_address(&self, address: IpAddr) -> io::Result<()> {
        durable::write_json(&self.0.join("address.json"), &address)
    }

    pub(crate) fn write_exit(&self, exit: &Exit) -> io::Result<()> {
        durable::write_json(&self.0.join("exit.json"), exit)
    }
}
