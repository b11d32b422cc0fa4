//! A network of its own for one command: a user and network namespace with a TUN device, made by a process that is inside of it
//! and stays as the command's parent. Its packets become streams and datagrams here ([`super::gateway`]). Nothing needs root.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail};
use causeway_base::file;
use causeway_base::lock::lock;
use ipnet::IpNet;
use rustix::process::Signal;

use super::gateway::{MACHINE, OWN, OWN_V6};
use super::names::ResolvConf;
use super::protocol::{self, Ask, Inside, Wanted};
use crate::cli::RUN_INSIDE;

/// What the cluster looks like to the process.
pub(super) struct View<'a> {
    pub(super) namespace: &'a str,
    pub(super) domain: &'a str,
    pub(super) networks: &'a [IpNet],
    /// Where this machine asks for names.
    pub(super) resolv_conf: &'a ResolvConf,
    /// A directory for files of this run.
    pub(super) scratch: &'a Path,
}

/// A network for a command that is not started yet.
pub(super) struct Namespace {
    child: Child,
    program: OsString,
    socket: Arc<OwnedFd>,
    pub(super) tun: OwnedFd,
    /// Removed at the end.
    files: Files,
}

/// Why there is no network.
pub(super) enum Failure {
    /// This machine does not allow it.
    Impossible(String),
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

impl Namespace {
    /// Makes one for a command. Blocks for as long as the kernel takes.
    pub(super) fn make(
        command: &[OsString],
        variables: &[(String, String)],
        view: &View<'_>,
    ) -> Result<Self, Failure> {
        let files = Files::write(view)?;
        let (ours, theirs) = protocol::pair()?;
        let child = Command::new("/proc/self/exe")
            .arg0("causeway")
            .arg(RUN_INSIDE)
            .args(command)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(theirs)
            .spawn()
            .context("can't start a process")?;
        let wanted = Wanted {
            addresses: vec![IpNet::new_assert(OWN.into(), 30), IpNet::new_assert(OWN_V6.into(), 126)],
            loopback: view.networks.iter().filter(|network| network.addr().is_loopback()).copied().collect(),
            files: files.mounts.clone(),
        };
        let mut unready = Unready(Some(child));
        // The command's own input; one that was closed stays so.
        let stdin = io::stdin().as_fd().try_clone_to_owned().ok();
        protocol::send(&ours, &wanted, stdin.as_ref())?;
        let tun = match protocol::receive::<Inside>(&ours)? {
            Some((Inside::Ready, Some(tun))) => tun,
            Some((Inside::Impossible(why), _)) => return Err(Failure::Impossible(why)),
            _ => return Err(Failure::Impossible("the process that was to make it ended".to_owned())),
        };
        let child = unready.0.take().context("the process is there")?;
        let program = command.first().cloned().unwrap_or_default();
        Ok(Self { child, program, socket: Arc::new(ours), tun, files })
    }

    /// Starts the command.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start(self) -> anyhow::Result<Running> {
        protocol::send(&self.socket, &Ask::Start, None)?;
        let sockets =
            Arc::new(Sockets { socket: Mutex::new(Arc::clone(&self.socket)), not_started: Mutex::new(None) });
        Ok(Running { child: self.child, program: self.program, sockets, _files: self.files })
    }
}

/// A child that is ended unless it is taken out.
struct Unready(Option<Child>);

impl Drop for Unready {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It ends when its socket does; this is for one that hangs.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A command that runs in a network of its own.
pub(super) struct Running {
    child: Child,
    program: OsString,
    pub(super) sockets: Arc<Sockets>,
    _files: Files,
}

impl Running {
    /// Waits for its end. Blocks.
    ///
    /// # Errors
    /// When it could not be started.
    pub(super) fn wait(mut self) -> anyhow::Result<ExitStatus> {
        let status = self.child.wait()?;
        // Nobody writes there any more, so this does not wait. Who asked for a socket may have heard it instead.
        let heard = match protocol::receive(&**lock(&self.sockets.socket)) {
            Ok(Some((Inside::NotStarted(why), _))) => Some(why),
            _ => lock(&self.sockets.not_started).take(),
        };
        match heard {
            Some(why) => bail!("can't run {}: {why}", self.program.display()),
            None => Ok(status),
        }
    }
}

/// Sockets of the command's network, made by its parent.
pub(super) struct Sockets {
    /// One question at a time.
    socket: Mutex<Arc<OwnedFd>>,
    /// Why the command could not be started, if that came in the place of a socket.
    not_started: Mutex<Option<String>>,
}

impl Sockets {
    /// One for streams, not connected.
    pub(super) async fn stream(self: &Arc<Self>, to: IpAddr) -> io::Result<TcpStream> {
        let socket = TcpStream::from(self.ask(Ask::stream(to)).await?);
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// One for datagrams, not connected.
    pub(super) async fn datagrams(self: &Arc<Self>, to: IpAddr) -> io::Result<UdpSocket> {
        let socket = UdpSocket::from(self.ask(Ask::datagrams(to)).await?);
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// One to ask the kernel with which ports are listened on.
    pub(super) async fn inquirer(self: &Arc<Self>) -> io::Result<OwnedFd> {
        self.ask(Ask::Inquirer).await
    }

    /// Hands a signal on to the command.
    pub(super) fn signal(&self, signal: Signal) {
        // One that has ended needs none.
        let _ = protocol::send(&**lock(&self.socket), &Ask::Signal { number: signal.as_raw() }, None);
    }

    async fn ask(self: &Arc<Self>, ask: Ask) -> io::Result<OwnedFd> {
        let this = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            let socket = lock(&this.socket);
            protocol::send(&**socket, &ask, None)?;
            let heard = protocol::receive::<Inside>(&**socket)?;
            if let Some((Inside::NotStarted(why), _)) = &heard {
                *lock(&this.not_started) = Some(why.clone());
            }
            io::Result::Ok(heard)
        });
        match asked.await.map_err(io::Error::other)?? {
            Some((Inside::Socket, Some(socket))) => Ok(socket),
            Some((Inside::NoSocket(why), _)) => Err(io::Error::other(why)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// Files that the command sees in the place of this machine's own.
struct Files {
    dir: PathBuf,
    /// What there is, and what it is in the command's eyes.
    mounts: Vec<(String, String)>,
}

impl Files {
    fn write(view: &View<'_>) -> anyhow::Result<Self> {
        let mut files = Self { dir: scratch(view.scratch)?, mounts: Vec::new() };
        let text = view.resolv_conf.for_process(MACHINE.into(), view.namespace, view.domain);
        files.add("resolv.conf", "/etc/resolv.conf", &text)?;
        if let Ok(text) = fs::read_to_string("/etc/nsswitch.conf") {
            files.add("nsswitch.conf", "/etc/nsswitch.conf", &without_daemons(&text))?;
        }
        // A cache that would answer before the resolver is asked.
        if Path::new("/run/nscd").is_dir() {
            let empty = files.dir.join("nscd");
            file::create_private_dir(&empty)?;
            files.mounts.push((empty.display().to_string(), "/run/nscd".to_owned()));
        }
        Ok(files)
    }

    fn add(&mut self, name: &str, place: &str, text: &str) -> anyhow::Result<()> {
        let path = self.dir.join(name);
        // The command may run as another user of the namespace.
        file::replace(&path, 0o644, text.as_bytes())
            .with_context(|| format!("can't write {}", path.display()))?;
        self.mounts.push((path.display().to_string(), place.to_owned()));
        Ok(())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A directory for this process. Those of processes that are gone, which were killed, are removed.
pub(super) fn scratch(all: &Path) -> anyhow::Result<PathBuf> {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(entry.file_name()).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let dir = all.join(std::process::id().to_string());
    file::create_private_dir(&dir).with_context(|| format!("can't make {}", dir.display()))?;
    Ok(dir)
}

/// The order in which names are looked up, without daemons of this machine that would be asked before the resolver.
fn without_daemons(nsswitch: &str) -> String {
    let line = |line: &str| {
        if line.trim_start().starts_with("hosts:") { "hosts: files dns".to_owned() } else { line.to_owned() }
    };
    nsswitch.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_removed() {
        let all = tempfile::tempdir().unwrap();
        fs::create_dir(all.path().join("4194305")).unwrap();
        let own = scratch(all.path()).unwrap();
        assert_eq!(fs::read_dir(all.path()).unwrap().count(), 1);
        assert!(own.ends_with(std::process::id().to_string()));
    }

    #[test]
    fn names_are_looked_up_in_files_and_by_dns() {
        let text = "passwd: files systemd\nhosts:      files mymachines resolve [!UNAVAIL=return] dns\n";
        assert_eq!(without_daemons(text), "passwd: files systemd\nhosts: files dns\n");
    }
}
