//! `causeway connect`: makes this machine a Workstation of a cluster. Keys are made here and stay here; a daemon of this user
//! keeps the connection up until `causeway disconnect`, whatever the network does. Nothing needs root.

pub(crate) mod daemon;
mod naming;
mod workstation;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use causeway_api::Workstation;
use causeway_base::file;
use causeway_stowaway::Way;
use causeway_stowaway::laptop::{Connected, State};
use kube::Api;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::cli::CONNECTION_DAEMON;
use crate::parts::answer::{Answer, FormatArg};
use crate::parts::connection::{self, Connection, Keys, Settings};
use crate::parts::door;
use crate::parts::kube_context::{Cluster, ContextArgs};
use crate::parts::paint::Paint;
use crate::parts::progress::{Detail, Progress};
use crate::parts::termination::Termination;

/// How often it is looked how far the daemon is.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    context: ContextArgs,
    /// Name of the Workstation [default: USER-HOST].
    #[arg(long, value_name = "NAME", value_parser = naming::checked)]
    name: Option<String>,
    /// Let the cluster forget this machine when it has not connected for this long, for example 24h.
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
    /// Make a Workstation of this name that another machine made this machine's.
    #[arg(long)]
    take_over: bool,
    /// Use these ways only; may be given several times [default: all, the best that works].
    #[arg(long = "way", value_enum, value_name = "WAY")]
    ways: Vec<WayName>,
    /// Let intercepts reach only these ports of this machine, besides those that `causeway intercept` names here; may be given
    /// several times [default: all ports of its loopback].
    #[arg(long = "expose", value_name = "PORT")]
    exposed: Vec<u16>,
    /// Where SOCKS5 and HTTP proxy listens, for every user of this machine [default: any port, with a password that
    /// `causeway run` knows].
    #[arg(long, value_name = "ADDR:PORT")]
    proxy: Option<SocketAddr>,
    /// How long to wait for the connection.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
    #[command(flatten)]
    format: FormatArg,
}

/// A way, as it is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WayName {
    /// To a port of the cluster.
    Link,
    /// Through the API server.
    PortForward,
    /// WireGuard over UDP.
    #[value(name = "wireguard")]
    WireGuard,
}

impl From<WayName> for Way {
    fn from(name: WayName) -> Self {
        match name {
            WayName::Link => Self::Link,
            WayName::PortForward => Self::PortForward,
            WayName::WireGuard => Self::WireGuard,
        }
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let progress = Progress::new(!args.format.is_json());
    if let Some(proxy) = args.proxy.filter(|proxy| !proxy.ip().is_loopback()) {
        bail!("the proxy leads into the cluster: use a loopback address like 127.0.0.1:{}", proxy.port());
    }
    let cluster = args.context.cluster().await?;
    let name = args.name.clone().unwrap_or_else(naming::usual);
    let data_dir = args.context.data_dir.path()?;
    let dir = connection::directory(&data_dir, &cluster.server, &cluster.namespace, &name);
    let mut termination = Termination::listen()?;
    let connecting = async {
        let connection = prepare(&args, &cluster, &name, &dir, &progress).await?;
        let mut holder = connection.holder()?;
        if holder.as_ref().is_some_and(|holder| !holder.is_of_this_release()) {
            daemon::end(&connection).await?;
            progress.mind("the daemon was of another release and begins anew");
            holder = None;
        }
        let was_up = holder.is_some();
        if !was_up {
            start_daemon(&connection)?;
        }
        let limit = Duration::from_secs(args.timeout);
        let connected = progress
            .wait("connecting", async |detail| {
                let connected = wait(&connection, &cluster, limit, &detail).await?;
                Ok::<_, anyhow::Error>((connected, String::new()))
            })
            .await?;
        args.format.print(&Answered::new(&connection, &cluster, connected, was_up))?;
        Ok(ExitCode::SUCCESS)
    };
    tokio::select! {
        connected = connecting => connected,
        () = termination.asked() => {
            let flags = format!(" --context {} -n {} --name {name}", cluster.place.context, cluster.namespace);
            bail!("interrupted; what was made so far goes with `causeway disconnect{flags}`")
        }
    }
}

/// Keys, the Workstation, and the directory that says so.
async fn prepare(
    args: &Args,
    cluster: &Cluster,
    name: &str,
    dir: &std::path::Path,
    progress: &Progress,
) -> anyhow::Result<Connection> {
    file::create_private_dir(dir).with_context(|| {
        format!("can't make {}; choose another data directory with --data-dir DIR", dir.display())
    })?;
    let is_new = !Keys::are_in(dir);
    let keys = Keys::ensure(dir)?;
    let api: Api<Workstation> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let wanted = workstation::Wanted {
        name,
        public_key: keys.wireguard_public(),
        certificate_request: keys.link.request().context("can't use the key")?,
        ttl: args.ttl.clone(),
        take_over: args.take_over,
    };
    let made = workstation::apply(&api, &wanted).await;
    if made.is_err() && is_new {
        // Keys that nobody knows are of no use.
        let _ = std::fs::remove_dir_all(dir);
        let _ = dir.ancestors().skip(1).take(3).try_for_each(std::fs::remove_dir);
    }
    let (workstation, made) = made?;
    progress.done(format_args!("Workstation {}/{name} {made}", cluster.namespace));
    let settings = Settings {
        place: cluster.place.clone(),
        server: cluster.server.clone(),
        namespace: cluster.namespace.clone(),
        workstation: name.to_owned(),
        uid: workstation.metadata.uid.unwrap_or_default(),
        ways: args.ways.iter().copied().map(Way::from).collect(),
        proxy: args.proxy,
    };
    let before = Connection::open(dir).ok().flatten();
    let is_changed = before.as_ref().is_some_and(|before| before.settings != settings);
    let connection = Connection::make(dir, settings)?;
    let exposed: BTreeSet<u16> = args.exposed.iter().copied().collect();
    connection.expose((!exposed.is_empty()).then_some(exposed))?;
    // A daemon that runs for something else begins anew.
    if is_changed && connection.holder()?.is_some() {
        daemon::end(&connection).await?;
    }
    Ok(connection)
}

/// Starts the daemon, which goes on when this process ends.
fn start_daemon(connection: &Connection) -> anyhow::Result<()> {
    let path = connection.log();
    let log = OpenOptions::new().create(true).append(true).mode(file::PRIVATE).open(&path);
    let log = log.with_context(|| format!("can't write {}", path.display()))?;
    // This very program, also after another took its place on disk.
    Command::new("/proc/self/exe")
        .arg0("causeway")
        .args([CONNECTION_DAEMON, "--dir"])
        .arg(connection.dir())
        .current_dir("/")
        // Only what it was told at its start may decide where it goes.
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("can't start the daemon")?;
    Ok(())
}

/// Waits until the daemon is connected, and tells how far it is.
async fn wait(
    connection: &Connection,
    cluster: &Cluster,
    limit: Duration,
    detail: &Detail,
) -> anyhow::Result<Connected> {
    let deadline = Instant::now() + limit;
    let api: Api<Workstation> = Api::namespaced(cluster.client.clone(), &connection.settings.namespace);
    let door = door::Open::of(connection)?;
    let (mut said, mut looks, mut was_up) = (String::new(), 0_u32, false);
    loop {
        let is_up = connection.holder()?.is_some();
        was_up |= is_up;
        match door.visitor().state().await {
            Ok(State { connection: Some(connected), .. }) => return Ok(connected),
            Ok(state) if state.ways.iter().any(|way| way.error.is_some()) => {
                said = with_clock(state.complaint());
            }
            // It has no door before the cluster has signed its key: the Workstation says how that is.
            Ok(_) | Err(_) if looks.is_multiple_of(10) => {
                if let Ok(found) = api.get(&connection.settings.workstation).await {
                    match workstation::Standing::of(&found) {
                        workstation::Standing::Refused(why) => bail!("the Workstation is refused: {why}"),
                        workstation::Standing::Waiting(what) => said = what,
                        workstation::Standing::Signed => {}
                    }
                }
            }
            Ok(_) | Err(_) => {}
        }
        detail.say(&said);
        if (was_up || looks > 60) && !is_up {
            connection.running().with_context(|| format!("see {}", connection.log().display()))?;
        }
        if Instant::now() > deadline {
            let said = if said.is_empty() { "nobody answers".to_owned() } else { said };
            bail!(
                "not connected after {} s: {said}. The daemon goes on trying; `causeway connections` shows how it is, and \
                 `causeway disconnect` ends it",
                limit.as_secs()
            );
        }
        looks += 1;
        sleep(LOOK).await;
    }
}

/// A certificate that is not good at this time mostly is, at another.
fn with_clock(complaint: String) -> String {
    // Sentences of this end, and the names of alerts by which the other one says it.
    let said = complaint.to_lowercase();
    let is_of_time = ["not valid yet", "notvalidyet", "expired"].iter().any(|word| said.contains(word));
    if is_of_time { format!("{complaint}; is the clock of this machine right?") } else { complaint }
}

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    namespace: String,
    workstation: String,
    context: String,
    server: String,
    /// Whether the daemon ran before.
    already: bool,
    way: Way,
    via: String,
    replica: String,
    why: String,
    proxy: Option<SocketAddr>,
    pid: Option<i32>,
    /// Seconds that it is up.
    seconds: u64,
}

impl Answered {
    fn new(connection: &Connection, cluster: &Cluster, connected: Connected, already: bool) -> Self {
        let holder = connection.holder().ok().flatten();
        Self {
            namespace: connection.settings.namespace.clone(),
            workstation: connection.settings.workstation.clone(),
            context: cluster.place.context.clone(),
            server: cluster.server.clone(),
            already,
            way: connected.way,
            via: connected.via,
            replica: connected.replica,
            why: connected.why,
            proxy: holder.as_ref().and_then(|holder| Some(holder.proxy.as_ref()?.address)),
            pid: holder.map(|holder| holder.pid),
            seconds: SystemTime::now().duration_since(connected.since).unwrap_or_default().as_secs(),
        }
    }
}

impl Answer for Answered {
    fn text(&self, _: Paint) -> String {
        let already = if self.already { ", as before" } else { "" };
        let proxy =
            self.proxy.map(|proxy| format!("\nproxy        {proxy} (SOCKS5 and HTTP)")).unwrap_or_default();
        format!(
            "connected    {}/{} to {} ({}){already}\nway          {} by {}: {}{proxy}\ntry          causeway run -n {0} -- curl http://SERVICE/",
            self.namespace, self.workstation, self.context, self.server, self.way, self.via, self.why
        )
    }
}

#[cfg(test)]
mod tests {
    use rustls::{CertificateError, Error};

    use super::*;

    #[test]
    fn a_certificate_of_another_time_makes_people_look_at_the_clock() {
        let said = |error| with_clock(Error::InvalidCertificate(error).to_string());
        for error in [CertificateError::NotValidYet, CertificateError::Expired] {
            let said = said(error);
            assert!(said.ends_with("is the clock of this machine right?"), "{said}");
        }
        assert!(!said(CertificateError::UnknownIssuer).contains("clock"));
    }
}
