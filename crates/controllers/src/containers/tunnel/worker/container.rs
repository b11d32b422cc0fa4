//! The client's container: what it must be, and the way there from whatever is there. The key travels in a file that is
//! copied in before the start, never in arguments, the environment or a log.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use causeway_api::conditions::Reason;
use causeway_containers::{
    Attachment, Container, ContainerSpec, ErrorKind, File, PortSpec, Protocol, Runtime, State, labels,
};

use crate::containers::tunnel::host::HostProgram;
use crate::containers::tunnel::ledger::Ledger;
use crate::containers::tunnel::problem::Problem;
use crate::containers::tunnel::state::ClientState;
use crate::containers::tunnel::validate::Network;
use crate::framework::apply::digest;
use causeway_base::well_known::{TUNNEL_CONTROL_PORT as CONTROL, TUNNEL_DATA_PORT as DATA};

/// The kind that labels name.
pub(crate) const KIND: &str = "ContainerNetworkTunnelProxy";
/// The only place in the container that can be written to, and where the client finds there who it is. The file's
/// directory is the client's own, so that it can put a renewed one in its place.
const VOLUME: &str = "/etc/causeway";
const IDENTITY: &str = "/etc/causeway/pair/identity.pem";
/// Nobody's user, as the images of Kubernetes have it.
const USER: u32 = 65532;
/// Enough for as many streams as an end takes, and no more than a machine can spare for one container that is under attack.
const MEMORY: i64 = 1 << 30;
/// A thread for each processor and some to spare.
const PIDS: i64 = 512;
/// Lets it listen on ports below 1024 without being root.
const LOW_PORTS: (&str, &str) = ("net.ipv4.ip_unprivileged_port_start", "0");
/// Digest of where the container is, for others and for the host; another place makes another container.
const PLACE: &str = "dev.causeway/place";
/// Digest of all that it was made from, its image above all; another one makes another container too, but can wait.
const MADE_FROM: &str = "dev.causeway/made-from";
/// How often other ports are tried when those that were chosen are taken.
const PORT_TRIES: u32 = 8;

/// Whose container it is.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// The object's uid.
    pub(crate) uid: String,
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// The data directory that this process works on.
    pub(crate) instance: String,
}

impl Owner {
    /// The container's name: always the same for the same object, and no other object's.
    pub(crate) fn container_name(&self) -> String {
        // Runtimes make host names of it, which end at 63 characters.
        let name: String = self.name.chars().take(40).collect();
        let uid: String = self.uid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        format!("causeway-{name}-{uid}")
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let name = format!("{}/{}", self.namespace, self.name);
        labels::Owner { uid: &self.uid, kind: KIND, name: &name, instance: &self.instance }.labels()
    }
}

/// What the container has to be.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) owner: &'a Owner,
    pub(crate) image: &'a str,
    pub(crate) network: &'a Network,
    pub(crate) aliases: &'a [String],
    /// Makes the client's keys, with those of this directory.
    pub(crate) program: &'a HostProgram,
    pub(crate) directory: &'a Path,
    /// Whether a container that is where it has to be is kept though it was made in another way: streams may pass.
    pub(crate) keeps_older: bool,
}

/// The container that is there.
#[derive(Clone, Debug)]
pub(crate) struct Ensured {
    pub(crate) client: ClientState,
    /// It was made in another way than today, and has to be replaced when no stream is open.
    pub(crate) is_outdated: bool,
    /// Why nothing passes through it although it is there, and what to do.
    pub(crate) halted: Option<String>,
}

/// Makes the container be there and run; one that does already is left alone. The ports on the host are those of the
/// ledger, unless others have taken them meanwhile.
pub(crate) async fn ensure(
    runtime: &Runtime,
    wanted: &Wanted<'_>,
    ledger: &mut Ledger,
    say: &mut impl FnMut(&str),
) -> Result<Ensured, Problem> {
    let name = wanted.owner.container_name();
    let mut tries = 0;
    loop {
        let ports = match ledger.host_ports {
            Some(ports) => ports,
            None => *ledger.host_ports.insert(free_ports()?),
        };
        let spec = wanted.spec(&name, ports);
        match step(runtime, wanted, &spec, say).await {
            Ok(container) => {
                let client = client_state(&container, wanted.network, ports)?;
                let is_outdated = !has_label(&container, &spec, MADE_FROM);
                let halted = (container.state == State::Paused).then(|| {
                    let command = runtime.kind().to_string().to_lowercase();
                    format!("container {name} is paused: resume it with `{command} unpause {name}`")
                });
                return Ok(Ensured { client, is_outdated, halted });
            }
            Err(StartError::PortTaken(why)) if tries < PORT_TRIES => {
                tries += 1;
                say(&format!(
                    "the ports {} and {} of the host are taken, trying others: {why}",
                    ports.0, ports.1
                ));
                ledger.host_ports = None;
            }
            Err(StartError::PortTaken(why)) => return Err(Problem::not_ready(why)),
            Err(StartError::Problem(problem)) => return Err(problem),
        }
    }
}

/// Removes the container; it is gone for certain when this returns, and one that is gone already is fine.
pub(crate) async fn remove(runtime: &Runtime, owner: &Owner) -> causeway_containers::Result<()> {
    let name = owner.container_name();
    match find(runtime, &name, &mut |_: &str| {}).await? {
        Some(container) if is_ours(&container, owner) => runtime.remove(&container.id).await,
        Some(_) | None => Ok(()),
    }
}

/// The container of this name. One that the runtime has only on record is removed: nobody could use it, and its name, which
/// no other object's container has, would be taken for ever.
async fn find(
    runtime: &Runtime,
    name: &str,
    say: &mut impl FnMut(&str),
) -> causeway_containers::Result<Option<Container>> {
    match runtime.container(name).await {
        Ok(container) => Ok(Some(container)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::Broken => {
            say(&format!("the runtime has lost container {name}, and it is removed: {}", error.report()));
            runtime.remove(name).await.map(|()| None)
        }
        Err(error) => Err(error),
    }
}

enum StartError {
    PortTaken(String),
    Problem(Problem),
}

impl From<causeway_containers::Error> for StartError {
    fn from(error: causeway_containers::Error) -> Self {
        match error.kind() {
            ErrorKind::PortTaken => Self::PortTaken(error.report()),
            _ => Self::Problem(Problem {
                reason: Reason::NotReady,
                message: error.report(),
                is_permanent: error.kind() == ErrorKind::Refused,
            }),
        }
    }
}

/// From whatever is there to a container that runs.
async fn step(
    runtime: &Runtime,
    wanted: &Wanted<'_>,
    spec: &ContainerSpec,
    say: &mut impl FnMut(&str),
) -> Result<Container, StartError> {
    let mut id = None;
    if let Some(container) = find(runtime, &spec.name, say).await? {
        if !is_ours(&container, wanted.owner) {
            return Err(StartError::Problem(Problem {
                reason: Reason::Conflict,
                message: format!(
                    "a container named {} exists that was not made for this object: remove or rename it",
                    spec.name
                ),
                is_permanent: true,
            }));
        }
        let is_as_wanted = has_label(&container, spec, PLACE)
            && (wanted.keeps_older || has_label(&container, spec, MADE_FROM))
            && address_on(&container, wanted.network).is_some();
        // Whoever paused it had a reason.
        if is_as_wanted && matches!(container.state, State::Running | State::Paused) {
            return Ok(container);
        }
        if is_as_wanted {
            say(&format!("container {} does not run any more: starting it again", spec.name));
            id = Some(container.id);
        } else {
            say(&format!("container {} is not as it has to be: making another", spec.name));
            runtime.remove(&container.id).await?;
        }
    }
    let id = match id {
        Some(id) => id,
        None => create(runtime, spec, say).await?,
    };
    let content = wanted.program.identity(wanted.directory).await.map_err(|error| {
        StartError::Problem(Problem::not_ready(format!("can't make the client's key: {error}")))
    })?;
    let file = File { path: IDENTITY.into(), content, mode: 0o400, uid: USER, gid: USER };
    let started = async {
        runtime.copy_into(&id, &[file]).await?;
        runtime.start(&id).await
    };
    if let Err(error) = started.await {
        // A container with ports that can't be had would keep them for ever, and one that is lost can't be started.
        if matches!(error.kind(), ErrorKind::PortTaken | ErrorKind::Broken) {
            runtime.remove(&id).await?;
        }
        return Err(error.into());
    }
    let container = runtime.container(&id).await?;
    if !container.is_running() {
        let why = container.error.clone().unwrap_or_else(|| last_words(&container));
        return Err(StartError::Problem(Problem::not_ready(format!(
            "container {} ended at once: {why}",
            spec.name
        ))));
    }
    say(&format!("container {} runs as {}", spec.name, short(&id)));
    Ok(container)
}

async fn create(
    runtime: &Runtime,
    spec: &ContainerSpec,
    say: &mut impl FnMut(&str),
) -> Result<String, causeway_containers::Error> {
    say(&format!("creating container {} of image {}", spec.name, spec.image));
    runtime.create(spec).await
}

fn last_words(container: &Container) -> String {
    match container.exit_code {
        Some(_) if container.out_of_memory => "it used too much memory".to_owned(),
        Some(code) => format!("exit code {code}; its log says more"),
        None => "no reason given".to_owned(),
    }
}

/// The beginning of an id, as people see it.
fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Whether the container has the label that it would get now.
fn has_label(container: &Container, spec: &ContainerSpec, label: &str) -> bool {
    container.labels.get(label) == spec.labels.get(label)
}

fn is_ours(container: &Container, owner: &Owner) -> bool {
    container.labels.get(labels::OWNER).is_some_and(|uid| *uid == owner.uid)
}

/// Where the container is on this network; runtimes name networks in two ways.
fn address_on<'a>(container: &'a Container, network: &Network) -> Option<&'a causeway_containers::Address> {
    container.networks.iter().find_map(|(name, address)| {
        let is_this =
            *name == network.name || address.network == network.id || address.network == network.name;
        is_this.then_some(address)
    })
}

/// What is told of a container that runs.
fn client_state(container: &Container, network: &Network, ports: (u16, u16)) -> Result<ClientState, Problem> {
    let address = address_on(container, network);
    let addresses: Vec<_> =
        address.into_iter().flat_map(|address| [address.ipv4, address.ipv6]).flatten().collect();
    if addresses.is_empty() {
        let why = format!("container {} has no address on network {} yet", container.name, network.name);
        return Err(Problem::not_ready(why));
    }
    let port = |port, asked| container.published(port, Protocol::Tcp).map_or(asked, |host| host.port());
    Ok(ClientState {
        id: container.id.clone(),
        control_port: port(CONTROL, ports.0),
        data_port: port(DATA, ports.1),
        addresses,
    })
}

impl Wanted<'_> {
    fn spec(&self, name: &str, (control, data): (u16, u16)) -> ContainerSpec {
        let mut spec = ContainerSpec {
            name: name.to_owned(),
            image: self.image.to_owned(),
            command: Some(
                [
                    "tunnel",
                    "client",
                    "--identity",
                    IDENTITY,
                    "--control",
                    &format!("0.0.0.0:{CONTROL}"),
                    "--data",
                    &format!("0.0.0.0:{DATA}"),
                ]
                .map(str::to_owned)
                .to_vec(),
            ),
            user: Some(format!("{USER}:{USER}")),
            drop_capabilities: vec!["ALL".to_owned()],
            no_new_privileges: true,
            read_only_root: true,
            volumes: vec![VOLUME.to_owned()],
            sysctls: BTreeMap::from([(LOW_PORTS.0.to_owned(), LOW_PORTS.1.to_owned())]),
            memory: Some(MEMORY),
            pids: Some(PIDS),
            networks: vec![Attachment { network: self.network.name.clone(), aliases: self.aliases.to_vec() }],
            ports: vec![PortSpec::loopback(CONTROL, control), PortSpec::loopback(DATA, data)],
            ..ContainerSpec::default()
        };
        let of = |part: serde_json::Result<serde_json::Value>| {
            let part = part.unwrap_or_default();
            // A network that was made again under the same name is another one.
            let network = self.network.id.clone().into();
            digest(&serde_json::Map::from_iter([("of".to_owned(), part), ("network".to_owned(), network)]))
        };
        let place = of(serde_json::to_value((&spec.networks, &spec.ports)));
        let made_from = of(serde_json::to_value(&spec));
        spec.labels = self.owner.labels();
        spec.labels.extend([(PLACE.to_owned(), place), (MADE_FROM.to_owned(), made_from)]);
        spec
    }
}

/// Two ports of loopback that nobody has at the moment. They are asked for by number, because a port that the runtime
/// chooses changes whenever the container is started again.
fn free_ports() -> Result<(u16, u16), Problem> {
    let bind = || TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let find = || {
        let (first, second) = (bind()?, bind()?);
        Ok::<_, io::Error>((first.local_addr()?.port(), second.local_addr()?.port()))
    };
    find().map_err(|error| Problem::not_ready(format!("can't find free ports on 127.0.0.1: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner {
            uid: "0f8b6c1e-8c5e-4a51".into(),
            namespace: "lab".into(),
            name: name.into(),
            instance: "here".into(),
        }
    }

    #[test]
    fn the_name_says_whose_it_is_and_fits_a_host_name() {
        assert_eq!(owner("web").container_name(), "causeway-web-0f8b6c1e");
        assert!(owner(&"x".repeat(253)).container_name().len() <= 63);
    }

    #[test]
    fn no_key_is_in_what_the_runtime_shows() {
        let owner = owner("web");
        let network = Network { id: "n1".into(), name: "blue".into() };
        let aliases = ["web".to_owned()];
        let wanted = Wanted {
            owner: &owner,
            image: "i:1",
            network: &network,
            aliases: &aliases,
            program: &HostProgram::default(),
            directory: Path::new("/d"),
            keeps_older: false,
        };
        let spec = wanted.spec("c", (1, 2));
        let shown = serde_json::to_string(&spec).unwrap();
        assert!(!shown.contains("PRIVATE") && !shown.contains("BEGIN"), "{shown}");
        assert!(spec.ports.iter().all(|port| port.host.ip().is_loopback()));
        assert_eq!((spec.drop_capabilities, spec.add_capabilities), (vec!["ALL".to_owned()], vec![]));
        assert!(
            spec.read_only_root && spec.no_new_privileges && spec.memory.is_some() && spec.pids.is_some()
        );
        assert_eq!(spec.user.as_deref(), Some("65532:65532"));
    }

    #[test]
    fn what_differs_makes_another_container() {
        let owner = owner("web");
        let network = Network { id: "n1".into(), name: "blue".into() };
        let digest_of = |image: &str, ports| {
            let wanted = Wanted {
                owner: &owner,
                image,
                network: &network,
                aliases: &[],
                program: &HostProgram::default(),
                directory: Path::new("/d"),
                keeps_older: false,
            };
            [PLACE, MADE_FROM].map(|label| wanted.spec("c", ports).labels[label].clone())
        };
        let first = digest_of("i:1", (1, 2));
        assert_eq!(first, digest_of("i:1", (1, 2)));
        let other_image = digest_of("i:2", (1, 2));
        assert_eq!(first[0], other_image[0], "another image alone can wait");
        assert_ne!(first[1], other_image[1]);
        assert_ne!(first[0], digest_of("i:1", (1, 3))[0]);
    }
}
