//! A connection of this machine with a cluster, as one Workstation: a directory with its keys, what it is for, and the daemon
//! that keeps it up. `causeway connect` makes it, the other commands of a developer find it here.
//!
//! `lock` is held with `flock` by the daemon for as long as it lives, so it can't go stale; its text says who holds it.

mod deliveries;
mod keys;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use causeway_base::file;
use causeway_stowaway::Way;
use ipnet::IpNet;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::kube_context::{Cluster, Place};
pub(crate) use deliveries::Deliveries;
pub(crate) use keys::Keys;

const SETTINGS: &str = "settings.json";
const LOCK: &str = "lock";
/// A directory of its own, so that it can be given to a container without the keys.
const DOOR: &str = "door";
const SOCKET: &str = "socket";
const RUNS: &str = "runs";
const LOG: &str = "log";
const ENDED: &str = "ended";
const NETWORKS: &str = "networks.json";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a connection is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) place: Place,
    /// The API server's address.
    pub(crate) server: String,
    /// Namespace and name of the Workstation.
    pub(crate) namespace: String,
    pub(crate) workstation: String,
    pub(crate) uid: String,
    /// The ways that may be used; all if none is named.
    #[serde(default)]
    pub(crate) ways: Vec<Way>,
    /// Where the proxy listens, for every user of the machine. Left out: anywhere, and only who knows its password is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proxy: Option<SocketAddr>,
}

impl Settings {
    /// NAMESPACE/NAME.
    pub(crate) fn label(&self) -> String {
        format!("{}/{}", self.namespace, self.workstation)
    }
}

/// The daemon of a connection.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) pid: i32,
    /// Its release.
    #[serde(default)]
    pub(crate) version: String,
    /// Its proxy, once it listens.
    pub(crate) proxy: Option<ProxyPlace>,
}

/// Where a daemon's proxy is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProxyPlace {
    pub(crate) address: SocketAddr,
    /// Asked of its clients, beside any name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) password: Option<String>,
}

impl Holder {
    /// Whether it is of this very release; one that has not said so yet has just begun.
    pub(crate) fn is_of_this_release(&self) -> bool {
        self.version.is_empty() || self.version == VERSION
    }
}

impl std::fmt::Debug for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the proxy, whose password is nobody's business.
        f.debug_struct("Holder").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl ProxyPlace {
    /// What programs take, for a scheme such as `socks5h`.
    pub(crate) fn url(&self, scheme: &str) -> String {
        let user = self.password.as_ref().map(|password| format!("causeway:{password}@")).unwrap_or_default();
        format!("{scheme}://{user}{}", self.address)
    }
}

/// The directory of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    dir: PathBuf,
    pub(crate) settings: Settings,
}

/// A connection held by this process, which is its daemon.
#[derive(Debug)]
pub(crate) struct Held {
    lock: File,
}

/// The directory of the connections of a data directory.
pub(crate) fn root(data_dir: &Path) -> PathBuf {
    data_dir.join("connections")
}

/// The directory of the connection to a server as a Workstation.
pub(crate) fn directory(data_dir: &Path, server: &str, namespace: &str, workstation: &str) -> PathBuf {
    let host = server.split_once("://").map_or(server, |(_, host)| host);
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    let host: String = host.chars().map(|letter| if plain(letter) { letter } else { '-' }).collect();
    root(data_dir).join(host.trim_start_matches('.')).join(namespace).join(workstation)
}

impl Connection {
    /// Writes down what it is for, in a directory that is made where it is missing.
    pub(crate) fn make(dir: &Path, settings: Settings) -> anyhow::Result<Self> {
        file::create_private_dir(&dir.join(DOOR)).with_context(|| {
            format!("can't make {}; choose another data directory with --data-dir DIR", dir.display())
        })?;
        let text = serde_json::to_vec_pretty(&settings)?;
        let path = dir.join(SETTINGS);
        file::replace(&path, file::PRIVATE, &text)
            .with_context(|| format!("can't write {}", path.display()))?;
        Ok(Self { dir: dir.to_owned(), settings })
    }

    /// The one of this directory; none if it is no such directory.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Option<Self>> {
        let settings = read_json(&dir.join(SETTINGS))?;
        Ok(settings.map(|settings| Self { dir: dir.to_owned(), settings }))
    }

    /// All of a data directory; what can't be read is left out.
    pub(crate) fn all(data_dir: &Path) -> Vec<Self> {
        let below = |paths: Vec<PathBuf>| -> Vec<PathBuf> {
            let mut all: Vec<PathBuf> = paths
                .iter()
                .flat_map(|path| fs::read_dir(path).into_iter().flatten().flatten())
                .map(|entry| entry.path())
                .collect();
            all.sort();
            all
        };
        let workstations = below(below(below(vec![root(data_dir)])));
        workstations.iter().filter_map(|dir| Self::open(dir).ok().flatten()).collect()
    }

    /// The only connection to a cluster, or the one of this Workstation.
    ///
    /// # Errors
    /// When there is none, or it is not clear which is meant; the text says what to do.
    pub(crate) fn choose(data_dir: &Path, cluster: &Cluster, wanted: Option<&str>) -> anyhow::Result<Self> {
        let of_cluster = Self::all(data_dir).into_iter().filter(|one| one.settings.server == cluster.server);
        choose(of_cluster.collect(), &cluster.place.context, wanted)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join(LOG)
    }

    /// The socket that other processes of this user reach the daemon by.
    pub(crate) fn door(&self) -> io::Result<Door> {
        Door::of(&self.dir)
    }

    /// The directory of that socket, and what it is called there.
    pub(crate) fn door_dir(&self) -> PathBuf {
        self.dir.join(DOOR)
    }

    pub(crate) fn door_file() -> &'static str {
        SOCKET
    }

    /// Where files of single runs are.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.dir.join(RUNS)
    }

    /// Its daemon; none if none runs.
    pub(crate) fn holder(&self) -> anyhow::Result<Option<Holder>> {
        holder(&self.dir.join(LOCK))
    }

    /// Its daemon, which must run.
    ///
    /// # Errors
    /// When none runs; the text says why, as far as it is known, and what to do.
    pub(crate) fn running(&self) -> anyhow::Result<Holder> {
        if let Some(holder) = self.holder()? {
            return Ok(holder);
        }
        let why =
            self.ended().map_or_else(|| "its process was ended".to_owned(), |why| why.trim().to_owned());
        Err(anyhow!(
            "not connected as {}: {why}; connect again with `causeway connect{}`",
            self.settings.label(),
            self.flags()
        ))
    }

    /// The flags that choose it.
    pub(crate) fn flags(&self) -> String {
        let Settings { place, namespace, workstation, .. } = &self.settings;
        format!(" --context {} -n {namespace} --name {workstation}", place.context)
    }

    /// Holds it as its daemon.
    ///
    /// # Errors
    /// When another one does.
    pub(crate) fn hold(&self) -> anyhow::Result<Held> {
        let path = self.dir.join(LOCK);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(file::PRIVATE)
            .open(&path)
            .with_context(|| format!("can't write {}", path.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another process keeps the connection as {}", self.settings.label());
        }
        let _ = fs::remove_file(self.dir.join(ENDED));
        let held = Held { lock };
        held.describe(None)?;
        Ok(held)
    }

    /// Why its daemon ended by itself.
    pub(crate) fn ended(&self) -> Option<String> {
        fs::read_to_string(self.dir.join(ENDED)).ok()
    }

    /// Writes down why its daemon ends by itself.
    pub(crate) fn write_ended(&self, why: &str) -> io::Result<()> {
        file::replace(&self.dir.join(ENDED), file::PRIVATE, why.as_bytes())
    }

    /// The networks of the cluster, as it told them last.
    pub(crate) fn networks(&self) -> anyhow::Result<Vec<IpNet>> {
        Ok(read_json(&self.dir.join(NETWORKS))?.unwrap_or_default())
    }

    /// Writes down the networks of the cluster, for those who can't ask it.
    pub(crate) fn write_networks(&self, networks: &[IpNet]) -> anyhow::Result<()> {
        let path = self.dir.join(NETWORKS);
        file::replace(&path, file::PRIVATE, &serde_json::to_vec(networks)?)
            .with_context(|| format!("can't write {}", path.display()))
    }

    /// Lets traffic of an intercept (NAMESPACE/NAME) go to a port of this machine, or of an address behind it.
    pub(crate) fn deliver(&self, intercept: &str, port: u16, address: Option<IpAddr>) -> anyhow::Result<()> {
        Deliveries::change(&self.dir, |all| all.add(intercept, port, address))?;
        self.hang_up()
    }

    /// Says which ports of the loopback may be reached besides those of intercepts; all if there is none.
    pub(crate) fn expose(&self, ports: Option<BTreeSet<u16>>) -> anyhow::Result<()> {
        Deliveries::change(&self.dir, |all| all.exposed = ports)?;
        self.hang_up()
    }

    /// The intercept is gone.
    pub(crate) fn deliver_no_more(&self, intercept: &str) -> anyhow::Result<()> {
        Deliveries::change(&self.dir, |all| all.remove(intercept))?;
        self.hang_up()
    }

    /// Has the daemon read its files again.
    fn hang_up(&self) -> anyhow::Result<()> {
        if let Some(pid) = self.holder()?.and_then(|holder| Pid::from_raw(holder.pid)) {
            // It may have ended just now; then it reads them when it starts.
            let _ = kill_process(pid, Signal::HUP);
        }
        Ok(())
    }

    /// Removes it with its keys; no daemon may run.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.dir).with_context(|| format!("can't remove {}", self.dir.display()))?;
        // Those above it, once they are empty.
        for above in self.dir.ancestors().skip(1).take(3) {
            if fs::remove_dir(above).is_err() {
                break;
            }
        }
        Ok(())
    }
}

impl Held {
    /// Writes down who holds it.
    pub(crate) fn describe(&self, proxy: Option<ProxyPlace>) -> anyhow::Result<()> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let text = serde_json::to_vec(&Holder { pid, version: VERSION.to_owned(), proxy })?;
        let mut file = &self.lock;
        file.rewind()?;
        file.set_len(0)?;
        file.write_all(&text).context("can't write down who keeps the connection")
    }
}

/// The path of a daemon's socket. Sockets can't have long paths, so a long one is told by its directory.
pub(crate) struct Door {
    path: PathBuf,
    _dir: Option<OwnedFd>,
}

impl Door {
    /// Bytes that the path of a socket may have.
    const LONGEST: usize = 107;

    fn of(dir: &Path) -> io::Result<Self> {
        let dir = dir.join(DOOR);
        let path = dir.join(SOCKET);
        if path.as_os_str().len() <= Self::LONGEST {
            return Ok(Self { path, _dir: None });
        }
        let dir = rustix::fs::open(&dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(SOCKET);
        Ok(Self { path, _dir: Some(dir) })
    }

    /// Good in this process, as long as the value lives.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn choose(mut found: Vec<Connection>, context: &str, wanted: Option<&str>) -> anyhow::Result<Connection> {
    let label = |one: &Connection| one.settings.label();
    if let Some(wanted) = wanted {
        found.retain(|one| wanted == one.settings.workstation || wanted == label(one));
        if found.is_empty() {
            bail!(
                "not connected to {context} as {wanted}: run `causeway connect --context {context} --name {wanted}`; `causeway connections` lists those that there are"
            );
        }
    }
    // What is up comes before what was left.
    if found.len() > 1 {
        let up: Vec<Connection> =
            found.iter().filter(|one| matches!(one.holder(), Ok(Some(_)))).cloned().collect();
        if up.len() == 1 {
            found = up;
        }
    }
    match <[Connection; 1]>::try_from(found) {
        Ok([one]) => Ok(one),
        Err(none) if none.is_empty() => {
            bail!("not connected to {context}: run `causeway connect --context {context}` first")
        }
        Err(several) => bail!(
            "this machine is connected to {context} as {}: say which with --workstation",
            several.iter().map(label).collect::<Vec<_>>().join(" and ")
        ),
    }
}

fn holder(lock: &Path) -> anyhow::Result<Option<Holder>> {
    let mut file = match File::open(lock) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("can't read {}", lock.display())),
    };
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(None);
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // Between the lock and the first words.
    Ok(Some(serde_json::from_str(&text).unwrap_or_default()))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => {
            let read = serde_json::from_slice(&text);
            Ok(Some(read.with_context(|| format!("{} can't be understood", path.display()))?))
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(namespace: &str, workstation: &str) -> Settings {
        Settings {
            place: Place { kubeconfig: vec!["/k".into()], context: "lab".to_owned() },
            server: "https://10.0.0.1:6443".to_owned(),
            namespace: namespace.to_owned(),
            workstation: workstation.to_owned(),
            uid: "u".to_owned(),
            ways: Vec::new(),
            proxy: None,
        }
    }

    fn make(data: &Path, namespace: &str, name: &str) -> Connection {
        let settings = settings(namespace, name);
        Connection::make(&directory(data, &settings.server, namespace, name), settings).unwrap()
    }

    #[test]
    fn connections_are_found_by_their_directory_and_leave_nothing() {
        let data = tempfile::tempdir().unwrap();
        assert!(Connection::all(data.path()).is_empty());
        let (one, other) = (make(data.path(), "shop", "alice"), make(data.path(), "lab", "alice"));
        assert!(one.dir().ends_with("connections/10.0.0.1-6443/shop/alice"), "{}", one.dir().display());
        let all: Vec<String> = Connection::all(data.path()).iter().map(|one| one.settings.label()).collect();
        assert_eq!(all, ["lab/alice", "shop/alice"]);
        assert_eq!(Connection::open(one.dir()).unwrap().unwrap().settings, one.settings);
        one.remove().unwrap();
        other.remove().unwrap();
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_one_that_is_meant_is_chosen_or_it_is_said_what_to_write() {
        let data = tempfile::tempdir().unwrap();
        let (one, other) = (make(data.path(), "shop", "alice"), make(data.path(), "lab", "bob"));
        let both = || vec![one.clone(), other.clone()];
        let error = |found, wanted| choose(found, "lab", wanted).unwrap_err().to_string();
        assert!(error(Vec::new(), None).contains("run `causeway connect --context lab` first"));
        assert!(error(both(), None).contains("as shop/alice and lab/bob: say which with --workstation"));
        assert!(error(both(), Some("carol")).contains("not connected to lab as carol"));
        for (wanted, label) in [("alice", "shop/alice"), ("lab/bob", "lab/bob")] {
            assert_eq!(choose(both(), "lab", Some(wanted)).unwrap().settings.label(), label);
        }
        let _held = other.hold().unwrap();
        assert_eq!(choose(both(), "lab", None).unwrap().settings.label(), "lab/bob", "the one that is up");
    }

    #[test]
    fn a_daemon_is_known_while_it_lives_and_why_it_ended_afterwards() {
        let data = tempfile::tempdir().unwrap();
        let one = make(data.path(), "shop", "alice");
        let said = one.running().unwrap_err().to_string();
        assert!(
            said.contains("its process was ended") && said.contains("causeway connect --context lab"),
            "{said}"
        );
        let held = one.hold().unwrap();
        let proxy = ProxyPlace { address: ([127, 0, 0, 1], 1080).into(), password: Some("p".to_owned()) };
        held.describe(Some(proxy)).unwrap();
        assert!(one.hold().unwrap_err().to_string().contains("another process"));
        let holder = one.running().unwrap();
        assert_eq!(holder.pid, std::process::id().cast_signed());
        assert_eq!(holder.proxy.unwrap().url("socks5h"), "socks5h://causeway:p@127.0.0.1:1080");
        one.write_ended("the Workstation was deleted").unwrap();
        drop(held);
        assert!(one.running().unwrap_err().to_string().contains("the Workstation was deleted"));
        drop(one.hold().unwrap());
        assert_eq!(one.ended(), None, "it began anew");
    }

    #[test]
    fn a_long_path_is_no_obstacle_for_its_socket() {
        let data = tempfile::tempdir().unwrap();
        let one = make(&data.path().join("x".repeat(120)), "shop", "alice");
        let door = one.door().unwrap();
        assert!(door.path().as_os_str().len() <= Door::LONGEST);
        let listener = std::os::unix::net::UnixListener::bind(door.path()).unwrap();
        std::os::unix::net::UnixStream::connect(one.door().unwrap().path()).unwrap();
        drop(listener);
        assert!(one.door_dir().join(SOCKET).exists());
    }
}
