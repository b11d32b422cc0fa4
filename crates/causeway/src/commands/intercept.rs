//! `causeway intercept KIND/NAME`: traffic of a workload, or the part that matches, comes to a port of this machine. With a
//! command, that runs with the target's environment and sees the cluster, and the intercept ends with it; without one it stays
//! until `causeway leave`.

pub(crate) mod activation;
mod request;
pub(crate) mod rules;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use causeway_api::{HealthCheckTarget, InterceptMode, InterceptRequest};
use causeway_base::file;
use kube::Api;
use serde::Serialize;

use super::run::{Launch, SightArgs};
use crate::parts::answer::{Answer, FormatArg};
use crate::parts::connection::Connection;
use crate::parts::door;
use crate::parts::env_format::EnvFormat;
use crate::parts::kube_context::{Cluster, ContextArgs};
use crate::parts::output::{self, Output};
use crate::parts::paint::Paint;
use crate::parts::progress::Progress;
use crate::parts::seen::Seen;
use crate::parts::target::{Target, TargetKind, TargetName, TargetPort};
use crate::parts::termination::Termination;
use request::{Made, PortPair, Wanted};
use rules::RuleArgs;

/// The usual exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The workload: deploy/NAME, sts/NAME, rs/NAME or pod/NAME.
    #[arg(value_name = "KIND/NAME")]
    target: TargetName,
    /// A port of this machine, and the port of the target whose traffic it gets, by number or name: 8080:http. One port is
    /// both.
    #[arg(long, short, value_name = "LOCAL:TARGET")]
    port: PortPair,
    #[command(flatten)]
    rules: RuleArgs,
    /// Get a copy of the requests; the original answers. HTTP only.
    #[arg(long)]
    mirror: bool,
    /// Where traffic is taken over: in front of the pods, which go on as they are, or in the container's place.
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// The container [default: the one that has the port].
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
    /// Let health checks come here, too, if they match.
    #[arg(long)]
    health_checks: bool,
    /// Fail requests while this machine does not answer, in place of sending them to the original.
    #[arg(long)]
    no_fallback: bool,
    /// End by itself after this time, for example 8h.
    #[arg(long, value_name = "DURATION")]
    ttl: Option<String>,
    /// Send the traffic to this address behind this machine, for example of a container, in place of its own loopback.
    #[arg(long, value_name = "ADDRESS")]
    to: Option<IpAddr>,
    /// Name of the InterceptRequest [default: TARGET-PORT-WORKSTATION].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The Workstation to connect as, if there are several.
    #[arg(long, value_name = "NAME")]
    workstation: Option<String>,
    /// Write the target's environment to this file, which only its owner can read.
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// Take the environment of this workload in place of the target's: KIND/NAME or KIND/NAME/CONTAINER.
    #[arg(long, value_name = "KIND/NAME", value_parser = env_source)]
    env_from: Option<(TargetName, Option<String>)>,
    /// Set a variable of the command; may be given several times.
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = super::run::variable)]
    variables: Vec<(String, String)>,
    #[command(flatten)]
    sight: SightArgs,
    /// How long to wait until traffic comes.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
    #[command(flatten)]
    context: ContextArgs,
    #[command(flatten)]
    format: FormatArg,
    /// Run this command, and leave when it ends.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    #[default]
    Service,
    Container,
}

/// `deploy/web`, or `deploy/web/app` for one of its containers.
fn env_source(text: &str) -> Result<(TargetName, Option<String>), String> {
    match text.match_indices('/').nth(1) {
        Some((at, _)) => {
            Ok((text[..at].parse()?, Some(text[at + 1..].to_owned()).filter(|name| !name.is_empty())))
        }
        None => Ok((text.parse()?, None)),
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let progress = Progress::new(!args.format.is_json());
    if args.target.kind == TargetKind::DaemonSet {
        bail!("an intercept takes deployments, statefulsets, replicasets and pods, not {}", args.target);
    }
    let matches = args.rules.matches()?;
    let cluster = args.context.cluster().await?;
    let data_dir = args.context.data_dir.path()?;
    let connection = Connection::choose(&data_dir, &cluster, args.workstation.as_deref())?;
    door::connected(&connection).await?;
    let target = Target::find(&cluster.client, &cluster.namespace, &args.target).await?;
    let port = target.port(&args.port.target, args.container.as_deref())?;
    let local = match args.port.local {
        Some(local) => local,
        None => u16::try_from(port.number).context("the target's port is none")?,
    };
    let variables = environment(&args, &cluster, &target, &port).await?;
    let wanted = Wanted {
        target: &args.target,
        port: &port,
        local,
        address: args.to,
        namespace: &cluster.namespace,
        connection: &connection.settings,
        matches,
        mirror: args.mirror,
        mode: match args.mode {
            Mode::Service => InterceptMode::Service,
            Mode::Container => InterceptMode::Container,
        },
        health_checks: if args.health_checks {
            HealthCheckTarget::Workstation
        } else {
            HealthCheckTarget::Original
        },
        fallback: !args.no_fallback,
        ttl: args.ttl.clone(),
        name: args.name.clone(),
    };
    let mut termination = Termination::listen()?;
    let api: Api<InterceptRequest> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let name = wanted.name();
    let label = format!("{}/{name}", cluster.namespace);
    connection.deliver(&label, local, args.to)?;
    let made = request::apply(&api, &name, &wanted.spec()).await;
    let (_, made) = made.inspect_err(|_| drop(connection.deliver_no_more(&label)))?;
    let limit = Duration::from_secs(args.timeout);
    let waited = progress.wait("taking over", async |detail| {
        let active = activation::active(&api, &name, limit, &detail).await?;
        let said =
            format!("traffic of {} port {} comes to {}", args.target, port.number, place(args.to, local));
        Ok::<_, anyhow::Error>((active, said))
    });
    let waited = tokio::select! {
        waited = waited => Some(waited),
        () = termination.asked() => None,
    };
    let active = match waited {
        Some(Ok(active)) => active,
        other => {
            // What was there before is left as it is found.
            if made == Made::New {
                leave(&api, &connection, &name, &progress).await?;
            }
            return other.map_or(Ok(ExitCode::from(INTERRUPTED)), |failed| failed.map(|_| ExitCode::SUCCESS));
        }
    };
    let answer = Intercept::new(&cluster, &name, &active, &wanted);
    if args.command.is_empty() {
        if !answers(args.to, local).await {
            progress.mind(format_args!(
                "nothing listens on {} yet: until something does, requests {}",
                place(args.to, local),
                if args.no_fallback { "fail" } else { "go to the original" }
            ));
        }
        args.format.print(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.format.is_json() {
        args.format.print_to(Output::Stderr, &answer)?;
    }
    let launch = Launch {
        command: args.command,
        variables: variables.into_iter().chain(args.variables).collect(),
        connection: &connection,
        namespace: cluster.namespace.clone(),
        sight: args.sight,
        publish: super::run::Published::of(local, &port.protocol),
        is_told: !args.format.is_json(),
    };
    let ended = launch.run(&mut termination).await;
    leave(&api, &connection, &name, &progress).await?;
    ended
}

/// The variables for the command and the file, without those that are this machine's own.
async fn environment(
    args: &Args,
    cluster: &Cluster,
    target: &Target,
    port: &TargetPort,
) -> anyhow::Result<Vec<(String, String)>> {
    if args.command.is_empty() && args.env_file.is_none() {
        return Ok(Vec::new());
    }
    let other;
    let (from, container) = match &args.env_from {
        None => (target, Some(port.container.as_str())),
        Some((name, container)) => {
            other = Target::find(&cluster.client, &cluster.namespace, name).await?;
            (&other, container.as_deref())
        }
    };
    let seen = Seen::read(&cluster.client, from, container, true).await?;
    let variables = seen.variables();
    for lack in &variables.lacks {
        output::note(format_args!("causeway: not in the environment: {lack}"));
    }
    let found = super::run::of_target(variables.found);
    if let Some(path) = &args.env_file {
        let written = EnvFormat::Dotenv.write(&found)?;
        for name in &written.left_out {
            output::note(format_args!(
                "causeway: not in {}: {name:?}: no name of a variable",
                path.display()
            ));
        }
        file::replace(path, file::PRIVATE, written.text.as_bytes())
            .with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(found)
}

async fn leave(
    api: &Api<InterceptRequest>,
    connection: &Connection,
    name: &str,
    progress: &Progress,
) -> anyhow::Result<()> {
    progress
        .wait("leaving", async |detail| {
            activation::end(api, name, &detail).await?;
            Ok::<_, anyhow::Error>(((), format!("left {name}; its target is as it was")))
        })
        .await?;
    connection.deliver_no_more(&format!("{}/{name}", api.namespace().unwrap_or_default()))
}

fn place(to: Option<IpAddr>, port: u16) -> String {
    to.map_or_else(|| format!("localhost:{port}"), |address| SocketAddr::new(address, port).to_string())
}

async fn answers(to: Option<IpAddr>, port: u16) -> bool {
    let addresses = to
        .map_or_else(|| vec!["127.0.0.1", "::1"].into_iter().flat_map(str::parse).collect(), |one| vec![one]);
    for address in addresses {
        let connect = tokio::net::TcpStream::connect(SocketAddr::new(address, port));
        if matches!(tokio::time::timeout(Duration::from_secs(1), connect).await, Ok(Ok(_))) {
            return true;
        }
    }
    false
}

/// The answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Intercept {
    name: String,
    namespace: String,
    target: String,
    container: String,
    port: i32,
    workstation: String,
    destination: String,
    /// What is taken, in words.
    takes: String,
    mirror: bool,
    mode: InterceptMode,
    services: Vec<String>,
    active: bool,
    /// What leaves it.
    leave: String,
}

impl Intercept {
    fn new(cluster: &Cluster, name: &str, request: &InterceptRequest, wanted: &Wanted<'_>) -> Self {
        let status = request.status.clone().unwrap_or_default();
        Self {
            name: name.to_owned(),
            namespace: cluster.namespace.clone(),
            target: wanted.target.to_string(),
            container: wanted.port.container.clone(),
            port: wanted.port.number,
            workstation: wanted.connection.label(),
            destination: place(wanted.address, wanted.local),
            takes: rules::words(&request.spec.matches),
            mirror: request.spec.mirror,
            mode: request.spec.mode,
            services: status.services,
            active: status.active,
            leave: format!("causeway leave {name} -n {}", cluster.namespace),
        }
    }
}

impl Answer for Intercept {
    fn text(&self, _: Paint) -> String {
        let services = if self.services.is_empty() {
            String::new()
        } else {
            format!("\nservices     {}", self.services.join(", "))
        };
        let what = if self.mirror { "copies of " } else { "" };
        format!(
            "intercept    {}/{}\ntakes        {what}{}{services}\ndestination  {}\nleave with   {}",
            self.namespace, self.name, self.takes, self.destination, self.leave
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_can_be_that_of_another_container() {
        let (target, container) = env_source("deploy/web").unwrap();
        assert_eq!((target.to_string().as_str(), container), ("deployment/web", None));
        let (target, container) = env_source("sts/db/main").unwrap();
        assert_eq!((target.to_string().as_str(), container.as_deref()), ("statefulset/db", Some("main")));
        assert!(env_source("web").is_err());
    }
}
