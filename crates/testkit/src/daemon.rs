//! A Docker or Podman of the test's own: its state in a temporary directory, ended by pid when dropped.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::blocking::eventually;
use crate::peer;

/// The runtimes that tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    Docker,
    Podman,
}

/// A running daemon with a world of its own.
pub struct Testbed {
    daemon: Daemon,
    directory: tempfile::TempDir,
    child: Option<Child>,
}

impl Testbed {
    /// Starts a daemon. Where it can't be had there is none, and the test is skipped by name.
    ///
    /// # Panics
    /// When it does not start, and where it can't be had although `CI=true`.
    pub fn start(daemon: Daemon) -> Option<Self> {
        let program = match daemon {
            Daemon::Docker => "dockerd",
            Daemon::Podman => "podman",
        };
        let missing = if !is_root() {
            Some("needs root")
        } else if !is_installed(program) {
            Some("is not installed (Debian: docker.io, podman, runc)")
        } else {
            None
        };
        if let Some(why) = missing {
            peer::skip(&format!("{program} {why}"));
            return None;
        }
        let directory = tempfile::Builder::new().prefix("causeway-bed-").tempdir().unwrap();
        let mut testbed = Self { daemon, directory, child: None };
        testbed.up();
        Some(testbed)
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.path("runtime.sock")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Ends the daemon with all it runs, and starts it again on the same state.
    pub fn restart(&mut self) {
        self.down();
        self.up();
    }

    /// Starts the daemon and waits until it answers.
    pub fn up(&mut self) {
        let turn = turn();
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = match self.daemon {
            Daemon::Docker => self.dockerd(),
            Daemon::Podman => self.podman(),
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        self.child = Some(child);
        eventually(&format!("{:?} answers", self.daemon), PATIENCE, || {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().unwrap());
            let said = || fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(ended.is_none(), "{:?} ended at once ({ended:?}):\n{}", self.daemon, said());
            if answers(&self.socket()) { Ok(()) } else { Err(said()) }
        });
        drop(turn);
    }

    /// Ends the daemon; its containers end too.
    pub fn down(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = Command::new("kill").arg(child.id().to_string()).status();
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline && child.try_wait().ok().flatten().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    fn dockerd(&self) -> Command {
        // A bridge of a daemon's own would clash with another daemon's, and so would address ranges.
        let range = std::process::id() % 200;
        let mut command = Command::new("dockerd");
        command
            .arg("--data-root")
            .arg(self.path("data"))
            .arg("--exec-root")
            .arg(self.path("exec"))
            .arg("--pidfile")
            .arg(self.path("pid"))
            .arg("-H")
            .arg(format!("unix://{}", self.socket().display()))
            .arg("--bridge=none")
            .arg("--default-address-pool")
            .arg(format!("base=10.{range}.0.0/16,size=24"));
        command
    }

    fn podman(&self) -> Command {
        let processes = most_processes();
        let conf = format!(
            "[engine]\nruntime=\"runc\"\ncgroup_manager=\"cgroupfs\"\nevents_logger=\"file\"\n\
             [containers]\ndefault_ulimits=[\"nofile=20000:20000\",\"nproc={processes}:{processes}\"]\n\
             [network]\nnetwork_backend=\"netavark\"\nnetwork_config_dir=\"{}\"\n",
            self.path("networks").display()
        );
        fs::write(self.path("containers.conf"), conf).unwrap();
        let mut command = Command::new("podman");
        command.env("CONTAINERS_CONF", self.path("containers.conf"));
        self.podman_places(&mut command);
        command.args(["system", "service", "-t", "0"]).arg(format!("unix://{}", self.socket().display()));
        command
    }

    fn podman_places(&self, command: &mut Command) {
        command
            .arg("--root")
            .arg(self.path("root"))
            .arg("--runroot")
            .arg(self.path("run"))
            .arg("--tmpdir")
            .arg(self.path("tmp"));
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if self.daemon == Daemon::Podman {
            // Podman's containers do not end with its service.
            let mut command = Command::new("podman");
            command.env("CONTAINERS_CONF", self.path("containers.conf"));
            self.podman_places(&mut command);
            let _ = command.args(["rm", "--all", "--force", "--time", "0"]).output();
            let mut command = Command::new("podman");
            command.env("CONTAINERS_CONF", self.path("containers.conf"));
            self.podman_places(&mut command);
            let _ = command.args(["network", "prune", "--force"]).output();
        }
        self.down();
        // What is still mounted would keep the directory.
        for mount in mounts_below(self.directory.path()) {
            let _ = Command::new("umount").args(["-l", &mount]).output();
        }
    }
}

/// One daemon starts at a time, of all test programs: two that make the firewall's chains at once get in each other's way,
/// and one of them gives up. The turn is over when this is dropped.
fn turn() -> fs::File {
    let path = std::env::temp_dir().join("causeway-bed.lock");
    let file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.lock().unwrap();
    file
}

fn mounts_below(directory: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let below = |line: &str| line.split(' ').nth(1).map(str::to_owned);
    mounts.lines().filter_map(below).filter(|place| Path::new(place).starts_with(directory)).collect()
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The most processes that may be asked for on this machine; Podman lowers its own limit to the number of pids.
fn most_processes() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max processes")).unwrap();
    let hard = line.split_whitespace().nth(3).unwrap().parse().unwrap_or(u64::MAX);
    let pids = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap().trim().parse().unwrap();
    hard.min(pids)
}

/// Asks for a ping, by hand.
fn answers(socket: &Path) -> bool {
    use std::io::Read as _;
    let Ok(mut stream) = std::os::unix::net::UnixStream::connect(socket) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
    let asked = stream.write_all(b"GET /_ping HTTP/1.1\r\nHost: runtime\r\nConnection: close\r\n\r\n");
    let mut answer = [0; 15];
    asked.is_ok() && stream.read_exact(&mut answer).is_ok() && &answer == b"HTTP/1.1 200 OK"
}
