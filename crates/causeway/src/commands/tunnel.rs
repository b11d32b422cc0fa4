//! `causeway tunnel`: the two ends of a link by hand, without Kubernetes, and the keys for them. The controller runs
//! the same client in its containers and the same server in its own process.

use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use causeway_link::client::{self, Client};
use causeway_link::host::{self, Host, LinkState, TunnelState};
use causeway_link::{Authority, End, Identity, Tunnel};
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::parts::plan_file::Follower;

/// How long streams may go on after the server was told to end.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make the keys of a pair: DIR/authority.pem for the server, DIR/container.pem for the client.
    Keys {
        /// Where to put them.
        dir: PathBuf,
    },
    /// The end in the container: waits for the server and listens where the server says.
    Client(ClientArgs),
    /// The end on the host: connects to the client and carries its streams to services of the host.
    Server(ServerArgs),
}

#[derive(Debug, clap::Args)]
struct ClientArgs {
    /// Who this end is: the file that `tunnel keys`, or the controller, made.
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// Take the server's control connection here.
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:15049")]
    control: SocketAddr,
    /// Take its data connections here.
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:15050")]
    data: SocketAddr,
}

#[derive(Debug, clap::Args)]
struct ServerArgs {
    /// The client and the tunnels, as YAML; read again when it changes and on SIGHUP.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// What the server's file says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ServerFile {
    /// The file with the pair's authority.
    authority: PathBuf,
    control: SocketAddr,
    data: SocketAddr,
    /// Data connections; 2 if not given.
    data_links: Option<usize>,
    #[serde(default)]
    tunnels: Vec<Tunnel>,
}

impl ServerFile {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
        let file: Self = serde_saphyr::from_str(&text)
            .with_context(|| format!("{} does not say what a tunnel server needs", path.display()))?;
        let mut ids: Vec<_> = file.tunnels.iter().map(|tunnel| tunnel.id).collect();
        ids.sort_unstable();
        ids.dedup();
        anyhow::ensure!(
            ids.len() == file.tunnels.len() && ids.first() != Some(&0),
            "{}: every tunnel needs an id of its own, from 1",
            path.display()
        );
        Ok(file)
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Keys { dir } => keys(&dir)?,
        Command::Client(args) => serve_client(args).await?,
        Command::Server(args) => serve_host(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn keys(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("can't make {}", dir.display()))?;
    let authority = Authority::new()?;
    for (name, pem) in
        [("authority.pem", authority.to_pem()), ("container.pem", authority.issue(End::Container)?.to_pem())]
    {
        let path = dir.join(name);
        write_secret(&path, &pem).with_context(|| format!("can't write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Keys that are in use are never overwritten.
fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

async fn serve_client(args: ClientArgs) -> anyhow::Result<()> {
    let pem = std::fs::read_to_string(&args.identity).with_context(|| {
        format!("can't read the identity {}: make one with `causeway tunnel keys`", args.identity.display())
    })?;
    let identity = Identity::from_pem(&pem)
        .with_context(|| format!("{} is not an identity", args.identity.display()))?;
    crate::parts::open_files::raise_limit();
    let options =
        client::Options { control: args.control, data: args.data, identity, save_to: Some(args.identity) };
    let client = Client::bind(options).await?;
    let (control, data) = client.addresses()?;
    println!("waiting for the host: control {control}, data {data}");
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let asked = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        asked.cancel();
    });
    client.run(stop).await;
    Ok(())
}

async fn serve_host(args: ServerArgs) -> anyhow::Result<()> {
    let file = ServerFile::read(&args.config)?;
    let pem = std::fs::read_to_string(&file.authority)
        .with_context(|| format!("can't read the authority {}", file.authority.display()))?;
    let authority = Authority::from_pem(&pem)
        .with_context(|| format!("{} is not an authority", file.authority.display()))?;
    crate::parts::open_files::raise_limit();
    let mut options = host::Options::new(file.control, file.data, authority);
    if let Some(links) = file.data_links {
        options.data_links = links;
    }
    let host = Host::start(options);
    host.carry(file.tunnels.clone());
    let mut names = names(&file.tunnels);
    let mut status = host.status();
    let mut follower = Follower::new(&args.config)?;
    loop {
        tokio::select! {
            _ = status.changed() => announce(&status.borrow_and_update(), &names),
            again = follower.changed() => {
                if !again {
                    break;
                }
                match ServerFile::read(&args.config) {
                    Ok(file) => {
                        names = self::names(&file.tunnels);
                        host.redial(file.control, file.data);
                        host.carry(file.tunnels);
                    }
                    Err(error) => eprintln!("causeway: the file is refused; what was there before runs on: {error:#}"),
                }
            }
        }
    }
    println!("draining, at most {DRAIN:?}");
    host.drain(DRAIN).await;
    Ok(())
}

fn names(tunnels: &[Tunnel]) -> std::collections::BTreeMap<u32, String> {
    tunnels.iter().map(|tunnel| (tunnel.id, tunnel.name.clone())).collect()
}

fn announce(status: &host::Status, names: &std::collections::BTreeMap<u32, String>) {
    match &status.link {
        LinkState::Up => println!("link up"),
        LinkState::Connecting { attempt, error } => {
            println!("link down, attempt {attempt}: {}", error.as_deref().unwrap_or("connecting"));
        }
    }
    for (id, state) in &status.tunnels {
        let name = names.get(id).map_or("?", String::as_str);
        match state {
            TunnelState::Pending => println!("{name}: pending"),
            TunnelState::Listening { port } => println!("{name}: listening on port {port}"),
            TunnelState::NoTargets { port } => println!("{name}: port {port} refuses: there is no target"),
            TunnelState::Unreachable { port, error } => println!("{name}: port {port} refuses: {error}"),
            TunnelState::Failed { error } => println!("{name}: failed: {error}"),
        }
    }
}
