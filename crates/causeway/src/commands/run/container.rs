//! `causeway run --container IMAGE`: a container of Docker or Podman that sees the cluster. Its network is that of a second one,
//! with this program in it, which alone may make a device there; the image's own gets no more rights than any container has.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_base::file;
use causeway_containers::{
    Attachment, Choice, ContainerSpec, Kind, Mount, PortSpec, Protocol, Runtime, client_image,
};
use ipnet::IpNet;
use tokio::io::AsyncReadExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;
use tokio::time::timeout;

use super::beside::{self, DOOR, SCRATCH, STARTER};
use super::gateway::MACHINE;
use super::names::ResolvConf;
use super::{Launch, attend};
use crate::cli::RUN_BESIDE;
use crate::parts::container_runtime::ContainerRuntimeArg;
use crate::parts::output;
use crate::parts::progress::Progress;
use crate::parts::termination::Termination;

/// How long the second container may take to be there.
const BESIDE: Duration = Duration::from_mins(1);

/// What is run, and with what.
pub(super) struct How {
    pub(super) image: String,
    pub(super) args: Vec<OsString>,
    /// The runtime's network that it is on besides.
    pub(super) network: Option<String>,
    pub(super) runtime: ContainerRuntimeArg,
}

impl Launch<'_> {
    /// Runs the command in a container; what it ends with.
    ///
    /// # Errors
    /// When no runtime answers, or the containers can't be started.
    pub(super) async fn run_container(
        self,
        how: &How,
        termination: &mut Termination,
    ) -> anyhow::Result<ExitCode> {
        let progress = Progress::new(self.is_told);
        let Some(choice) = how.runtime.choice() else {
            bail!("--container needs Docker or Podman; leave `--container-runtime none` out");
        };
        let networks = self.networks()?;
        let starting = async { Beside::start(&self, how, &choice, &networks, &progress).await };
        let beside = tokio::select! {
            started = starting => started?,
            () = termination.asked() => bail!("interrupted"),
        };
        let ended = attend(self.container(how, &beside), termination).await;
        if let Err(error) = beside.remove().await {
            output::note(format_args!("causeway: the container beside it is left: {error:#}"));
        }
        ended
    }

    /// The container, in the network of the other.
    fn container(&self, how: &How, beside: &Beside) -> Command {
        let socket = beside.runtime.socket().display();
        let mut command = match beside.runtime.kind() {
            Kind::Docker => {
                let mut command = Command::new("docker");
                command.arg("--host").arg(format!("unix://{socket}"));
                command
            }
            Kind::Podman => {
                let mut command = Command::new("podman");
                command.arg("--url").arg(format!("unix://{socket}"));
                command
            }
        };
        command.args(["run", "--rm", "--interactive"]);
        if std::io::stdin().is_terminal() {
            command.arg("--tty");
        }
        command.arg(format!("--network=container:{}", beside.id));
        let resolv_conf = beside.scratch.dir.join("resolv.conf");
        command.arg(format!("--volume={}:/etc/resolv.conf:ro", resolv_conf.display()));
        for (name, value) in &self.variables {
            // By name alone: the value is not for those who list processes.
            command.arg("--env").arg(name).env(name, value);
        }
        command.args(&how.args).arg(&how.image).args(&self.command);
        command
    }
}

/// The container whose network is shared.
struct Beside {
    runtime: Runtime,
    id: String,
    scratch: Scratch,
    /// When this ends, so does it.
    _alive: UnixStream,
}

impl Beside {
    async fn start(
        launch: &Launch<'_>,
        how: &How,
        choice: &Choice,
        networks: &[IpNet],
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let runtime = Runtime::connect(choice).await?;
        let options = client_image::Options::default();
        let image = progress
            .wait("making an image of this program", async |detail| {
                let image = client_image::ensure(&runtime, &options, |line| detail.say(line)).await?;
                Ok::<_, anyhow::Error>((image, String::new()))
            })
            .await?;
        let scratch = Scratch::make(launch)?;
        let listener =
            UnixListener::bind(scratch.dir.join(STARTER)).context("can't listen for the container")?;
        let mut spec = spec(launch, &image, networks, &scratch.dir);
        let on = |network: &String| Attachment { network: network.clone(), aliases: Vec::new() };
        spec.networks = how.network.iter().map(on).collect();
        let id = runtime.create(&spec).await?;
        let mut beside = Unready { runtime: runtime.clone(), id: Some(id.clone()) };
        let ready = async {
            runtime.start(&id).await?;
            let (mut alive, _) = listener.accept().await?;
            let mut said = String::new();
            if alive.read_u8().await.context("it ended")? != 0 {
                alive.read_to_string(&mut said).await?;
                bail!("{said}");
            }
            Ok(alive)
        };
        let alive =
            timeout(BESIDE, ready).await.unwrap_or_else(|_| Err(anyhow::anyhow!("it does not answer")));
        match alive {
            Ok(alive) => {
                beside.id = None;
                Ok(Self { runtime, id, scratch, _alive: alive })
            }
            Err(error) => {
                beside.remove().await;
                Err(error.context("the container beside it can't carry its network"))
            }
        }
    }

    async fn remove(self) -> anyhow::Result<()> {
        Ok(self.runtime.remove(&self.id).await?)
    }
}

/// A container that is removed unless all goes well.
struct Unready {
    runtime: Runtime,
    id: Option<String>,
}

impl Unready {
    async fn remove(&mut self) {
        if let Some(id) = self.id.take() {
            // It may have removed itself.
            let _ = self.runtime.remove(&id).await;
        }
    }
}

impl Drop for Unready {
    fn drop(&mut self) {
        if let (Some(id), Ok(here)) = (self.id.take(), tokio::runtime::Handle::try_current()) {
            let runtime = self.runtime.clone();
            here.spawn(async move { runtime.remove(&id).await });
        }
    }
}

fn spec(launch: &Launch<'_>, image: &str, networks: &[IpNet], scratch: &Path) -> ContainerSpec {
    let mut command = vec![
        RUN_BESIDE.to_owned(),
        "--door".to_owned(),
        format!("{DOOR}/{}", crate::parts::connection::Connection::door_file()),
    ];
    command.extend(["--domain".to_owned(), launch.sight.cluster_domain.clone()]);
    for network in networks {
        command.extend(["--reach".to_owned(), network.to_string()]);
    }
    let ports = launch.publish.iter().map(|port| PortSpec {
        port: port.there,
        protocol: if port.datagrams { Protocol::Udp } else { Protocol::Tcp },
        host: SocketAddr::from((Ipv4Addr::LOCALHOST, port.here)),
    });
    let mut spec = ContainerSpec {
        name: format!("causeway-run-{}", std::process::id()),
        image: image.to_owned(),
        command: Some(command),
        ports: ports.collect(),
        mounts: vec![
            Mount { source: launch.connection.door_dir(), target: DOOR.to_owned(), read_only: false },
            Mount { source: scratch.to_owned(), target: SCRATCH.to_owned(), read_only: false },
        ],
        read_only_root: true,
        no_new_privileges: true,
        drop_capabilities: vec!["ALL".to_owned()],
        // It makes a device in its own network, and goes through the door of another user where there are several.
        add_capabilities: vec!["NET_ADMIN".to_owned(), "DAC_OVERRIDE".to_owned()],
        devices: vec!["/dev/net/tun".to_owned()],
        auto_remove: true,
        ..ContainerSpec::default()
    };
    if networks.iter().any(|network| network.addr().is_loopback()) {
        // On one machine Services have addresses of the loopback. The program may not set it itself.
        spec.sysctls.insert("net.ipv4.conf.default.route_localnet".to_owned(), "1".to_owned());
    }
    spec
}

/// Files for the two containers.
struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    fn make(launch: &Launch<'_>) -> anyhow::Result<Self> {
        let dir = super::namespace::scratch(&launch.connection.scratch())?;
        beside::open_up(&dir)?;
        let outside = ResolvConf::read(Path::new("/etc/resolv.conf"));
        let text = outside.for_process(MACHINE.into(), &launch.namespace, &launch.sight.cluster_domain);
        let path = dir.join("resolv.conf");
        file::replace(&path, 0o644, text.as_bytes())
            .with_context(|| format!("can't write {}", path.display()))?;
        Ok(Self { dir })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
