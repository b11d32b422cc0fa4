//! What belongs to one cluster on this machine: its directory, network namespaces and cgroups; and how all of it goes.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// The most nodes that a cluster has.
pub(super) const MOST_NODES: u8 = 2;

/// Names and paths of one cluster.
#[derive(Clone, Debug)]
pub(super) struct Site {
    name: String,
    dir: PathBuf,
}

impl Site {
    /// # Errors
    /// When the name can't be one of a network namespace.
    pub(super) fn new(name: &str) -> anyhow::Result<Self> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 20 || !name.chars().all(fits) {
            bail!("{name:?} can't name a cluster: write 1 to 20 small letters, digits and hyphens");
        }
        let dir = std::env::temp_dir().join(format!("causeway-cluster-{name}"));
        Ok(Self { name: name.to_owned(), dir })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The network namespace of the control plane, which is the switch between the nodes too.
    pub(super) fn hub(&self) -> String {
        format!("causeway-{}", self.name)
    }

    /// The network namespace of a node.
    pub(super) fn node(&self, number: u8) -> String {
        format!("{}.{number}", self.hub())
    }

    /// The network namespace of a machine that is no part of the cluster.
    pub(super) fn machine(&self, name: &str) -> String {
        format!("{}.{name}", self.hub())
    }

    /// Below the root of every cgroup hierarchy.
    pub(super) fn cgroup(&self, number: u8) -> String {
        self.node(number)
    }

    /// Those that are there. A dot is in no cluster's name, so none of another cluster is among them.
    fn namespaces(&self) -> Vec<String> {
        let (hub, below) = (self.hub(), format!("{}.", self.hub()));
        all_namespaces().filter(|name| *name == hub || name.starts_with(&below)).collect()
    }

    /// Ends every process of the cluster and removes what it made. Works from the names alone, so it does after a crash too.
    ///
    /// # Errors
    /// When something is still there after a while.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let processes = self.processes();
            if processes.is_empty() {
                break;
            }
            for pid in &processes {
                let _ = Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status();
            }
            if Instant::now() > deadline {
                bail!("processes of cluster {} do not end: {}", self.name, processes.join(" "));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        for namespace in self.namespaces() {
            run(Command::new("ip").args(["netns", "delete", &namespace]))?;
        }
        for number in 1..=MOST_NODES {
            for group in groups(&self.cgroup(number)) {
                remove_groups(&group).with_context(|| format!("removing {}", group.display()))?;
            }
        }
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", self.dir.display()))
            }
            _ => Ok(()),
        }
    }

    /// Daemons and shims are in the cluster's network namespaces, the containers of pods in its cgroups.
    fn processes(&self) -> Vec<String> {
        let inodes: Vec<u64> = self
            .namespaces()
            .iter()
            .filter_map(|name| Some(fs::metadata(network_namespace(name)).ok()?.ino()))
            .collect();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let inode = fs::metadata(entry.path().join("ns/net")).map(|metadata| metadata.ino());
            if name.parse::<u32>().is_ok() && inode.is_ok_and(|inode| inodes.contains(&inode)) {
                found.push(name);
            }
        }
        for number in 1..=MOST_NODES {
            for group in groups(&self.cgroup(number)) {
                processes_in(&group, &mut found);
            }
        }
        found
    }
}

/// Where `ip netns` keeps one.
pub(super) fn network_namespace(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}

/// Clusters of tests whose process is gone, by name: a guardian that was killed too left them.
pub(super) fn abandoned() -> Vec<String> {
    let tests = all_namespaces().filter_map(|name| name.strip_prefix("causeway-test-")?.parse::<u32>().ok());
    tests
        .filter(|pid| !Path::new(&format!("/proc/{pid}")).exists())
        .map(|pid| format!("test-{pid}"))
        .collect()
}

fn all_namespaces() -> impl Iterator<Item = String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Makes a cgroup that the kubelet of a node takes as its root, in every hierarchy.
pub(super) fn make_cgroup(name: &str) -> anyhow::Result<()> {
    for group in hierarchies().into_iter().map(|root| root.join(name)) {
        fs::create_dir_all(&group).with_context(|| format!("making {}", group.display()))?;
        let root = group.parent().unwrap_or(&group);
        // A new group of this hierarchy may use nothing until it is told what.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if root.join("cgroup.controllers").exists() {
                break;
            }
            if let Ok(all) = fs::read(root.join(file)) {
                let _ = fs::write(group.join(file), all);
            }
        }
        if let Ok(controllers) = fs::read_to_string(group.join("cgroup.controllers")) {
            for controller in controllers.split_whitespace() {
                let _ = fs::write(group.join("cgroup.subtree_control"), format!("+{controller}"));
            }
        }
    }
    Ok(())
}

fn hierarchies() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    directories_in(root)
}

fn groups(name: &str) -> Vec<PathBuf> {
    hierarchies().into_iter().map(|root| root.join(name)).filter(|path| path.exists()).collect()
}

fn directories_in(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

fn processes_in(group: &Path, found: &mut Vec<String>) {
    let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    found.extend(listed.lines().map(str::to_owned));
    for child in directories_in(group) {
        processes_in(&child, found);
    }
}

fn remove_groups(group: &Path) -> std::io::Result<()> {
    for child in directories_in(group) {
        remove_groups(&child)?;
    }
    // A group whose last process was killed a moment ago is busy until the kernel has reaped it.
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            outcome => return outcome,
        }
    }
}

/// Runs a command to its end.
///
/// # Errors
/// With what it said, when it fails.
pub(super) fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("running {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
