//! `causeway run -- COMMAND`: a process that sees the cluster as a pod does: its names, its Services and pods, TCP and UDP. It has
//! a network of its own, whose packets go through the daemon of the connection; what is not the cluster's goes out as ever.
//! Where no such network can be had, the process gets a proxy in its environment.

pub(crate) mod beside;
mod container;
mod gateway;
pub(crate) mod inside;
mod names;
mod namespace;
mod ports;
mod protocol;
mod proxy;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use causeway_netstack::{Config as StackConfig, Stack, tun};
use ipnet::IpNet;
use rustix::process::{Pid, Signal, kill_process};

use crate::parts::connection::Connection;
use crate::parts::container_runtime::ContainerRuntimeArg;
use crate::parts::door;
use crate::parts::kube_context::ContextArgs;
use crate::parts::output;
use crate::parts::progress::Progress;
use crate::parts::seen::Seen;
use crate::parts::target::{Target, TargetName};
use crate::parts::termination::Termination;
use gateway::{ByDoor, Gateway, MACHINE, ToMachine};
use names::{Names, ResolvConf};
use namespace::{Failure, Namespace, View};
pub(crate) use ports::Published;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run the command in a container of this image, with Docker or Podman; without a command, the image's own.
    #[arg(long, value_name = "IMAGE")]
    container: Option<String>,
    /// A further argument for `docker run` or `podman run`, such as --volume=DIR:/src; may be given several times.
    #[arg(long = "container-arg", requires = "container", allow_hyphen_values = true, value_name = "ARG")]
    container_extra: Vec<OsString>,
    /// The runtime's network that the container is on besides [default: the runtime's default one].
    #[arg(long, requires = "container", value_name = "NETWORK")]
    container_network: Option<String>,
    #[command(flatten)]
    container_runtime: ContainerRuntimeArg,
    /// Give it the environment of this workload: KIND/NAME.
    #[arg(long, value_name = "KIND/NAME")]
    env_from: Option<TargetName>,
    /// Set a variable; may be given several times.
    #[arg(long = "env", short = 'e', value_name = "NAME=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,
    /// Publish a port on this machine's loopback as another, or one for datagrams: 9000:80, 5353/udp. TCP ports that the command
    /// listens on are published by themselves; those of containers are not.
    #[arg(long, short, value_name = "HERE:THERE")]
    publish: Vec<Published>,
    #[command(flatten)]
    sight: SightArgs,
    /// The Workstation to connect as, if there are several.
    #[arg(long, value_name = "NAME")]
    workstation: Option<String>,
    #[command(flatten)]
    context: ContextArgs,
    /// Say nothing but what the command says.
    #[arg(long, short)]
    quiet: bool,
    /// The command.
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "container")]
    command: Vec<OsString>,
}

/// How a process sees the cluster; flatten it into a command's arguments.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SightArgs {
    /// How the command sees the cluster [default: a network of its own where that can be had, else a proxy].
    #[arg(long, value_enum, value_name = "HOW")]
    network: Option<Sight>,
    /// The cluster's domain.
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    cluster_domain: String,
    /// A network that is the cluster's besides those that it tells; may be given several times.
    #[arg(long, value_name = "NETWORK")]
    reach: Vec<IpNet>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sight {
    /// In a network of its own.
    Own,
    /// By variables that name a SOCKS5 and HTTP proxy.
    Proxy,
    /// Not at all: as any process of this machine.
    None,
}

/// `NAME=VALUE`.
pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is no variable: write NAME=VALUE")),
    }
}

/// Whether a variable says something of the machine that a process runs on, and is not taken from a target.
fn is_of_this_machine(name: &str) -> bool {
    const OWN: [&str; 10] =
        ["PATH", "HOME", "HOSTNAME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "TMPDIR", "KUBECONFIG"];
    OWN.contains(&name)
}

/// Whether a variable makes linkers, shells, interpreters or tools load or run something, or send elsewhere what they would not:
/// whoever writes a workload does not run code on the machines of those who intercept it.
fn runs_something(name: &str, value: &str) -> bool {
    const FAMILIES: [&str; 11] = [
        "LD_",
        "DYLD_",
        "BASH_FUNC_",
        "CORECLR_",
        "DOCKER_",
        "GIT_",
        "NPM_CONFIG_",
        "PERL5",
        "PYTHON",
        "RUSTC_",
        "SSH_",
    ];
    const ONES: [&str; 26] = [
        "BASHOPTS",
        "BASH_ENV",
        "BROWSER",
        "CDPATH",
        "CLASSPATH",
        "DOTNET_STARTUP_HOOKS",
        "EDITOR",
        "GCONV_PATH",
        "GOFLAGS",
        "IFS",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "LUA_INIT",
        "MAVEN_OPTS",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PAGER",
        "PHPRC",
        "PHP_INI_SCAN_DIR",
        "PROMPT_COMMAND",
        "PS4",
        "RUBYLIB",
        "RUBYOPT",
        "SHELLOPTS",
        "VISUAL",
        "_JAVA_OPTIONS",
    ];
    // npm takes its own in any case.
    let name = name.to_ascii_uppercase();
    // A shell takes a file of this name; most programs that have the variable mean a word such as production.
    let is_startup_file = name == "ENV" && value.contains(['/', '$', '`']);
    is_startup_file || ONES.contains(&name.as_str()) || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// What a process here gets of a target's environment; what is left out for the machine's sake is told.
pub(crate) fn of_target(found: Vec<(String, String)>) -> Vec<(String, String)> {
    let (refused, taken): (Vec<_>, Vec<_>) = found
        .into_iter()
        .filter(|(name, _)| !is_of_this_machine(name))
        .partition(|(name, value)| runs_something(name, value));
    for (name, _) in refused {
        output::note(format_args!(
            "causeway: not in the environment: {name}: it could run something on this machine; --env {name}=VALUE sets it"
        ));
    }
    taken
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let cluster = args.context.cluster().await?;
    let data_dir = args.context.data_dir.path()?;
    let connection = Connection::choose(&data_dir, &cluster, args.workstation.as_deref())?;
    door::connected(&connection).await?;
    let mut variables = Vec::new();
    if let Some(name) = &args.env_from {
        let target = Target::find(&cluster.client, &cluster.namespace, name).await?;
        let seen = Seen::read(&cluster.client, &target, None, true).await?.variables();
        for lack in &seen.lacks {
            output::note(format_args!("causeway: not in the environment: {lack}"));
        }
        variables.extend(of_target(seen.found));
    }
    variables.extend(args.variables);
    let mut termination = Termination::listen()?;
    let launch = Launch {
        command: args.command,
        variables,
        connection: &connection,
        namespace: cluster.namespace.clone(),
        sight: args.sight,
        publish: args.publish,
        is_told: !args.quiet,
    };
    match args.container {
        None => launch.run(&mut termination).await,
        Some(image) => {
            let how = container::How {
                image,
                args: args.container_extra,
                network: args.container_network,
                runtime: args.container_runtime,
            };
            launch.run_container(&how, &mut termination).await
        }
    }
}

/// A command that is to see the cluster.
pub(crate) struct Launch<'a> {
    pub(crate) command: Vec<OsString>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) connection: &'a Connection,
    /// The namespace that names without one are of.
    pub(crate) namespace: String,
    pub(crate) sight: SightArgs,
    pub(crate) publish: Vec<Published>,
    pub(crate) is_told: bool,
}

impl Launch<'_> {
    /// Runs the command; what it ends with.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) async fn run(self, termination: &mut Termination) -> anyhow::Result<ExitCode> {
        let progress = Progress::new(self.is_told);
        match self.sight.network {
            Some(Sight::None) => self.run_plain(&[], termination).await,
            Some(Sight::Proxy) => self.run_by_proxy(termination).await,
            Some(Sight::Own) => match self.run_apart(termination, &progress).await {
                Ok(code) => Ok(code),
                Err(Failure::Impossible(why)) => bail!("the command can't have a network of its own: {why}"),
                Err(Failure::Other(error)) => Err(error),
            },
            None => match self.run_apart(termination, &progress).await {
                Ok(code) => Ok(code),
                Err(Failure::Impossible(why)) => {
                    progress.mind(format_args!("{why}: the command has a proxy in its environment"));
                    self.run_by_proxy(termination).await
                }
                Err(Failure::Other(error)) => Err(error),
            },
        }
    }

    async fn run_by_proxy(&self, termination: &mut Termination) -> anyhow::Result<ExitCode> {
        let proxy = self.connection.running()?.proxy.context("the daemon's proxy does not listen yet")?;
        self.run_plain(&proxy::variables(&proxy), termination).await
    }

    /// As any process of this machine, with these variables besides.
    async fn run_plain(
        &self,
        variables: &[(String, String)],
        termination: &mut Termination,
    ) -> anyhow::Result<ExitCode> {
        let (program, args) = self.command.split_first().context("no command is given")?;
        let mut command = tokio::process::Command::new(program);
        let all = variables.iter().chain(&self.variables).map(|(name, value)| (name, value));
        command.args(args).envs(all);
        attend(command, termination).await
    }

    /// The networks of the cluster.
    fn networks(&self) -> anyhow::Result<Vec<IpNet>> {
        let told = self.connection.networks()?;
        Ok(told.into_iter().chain(self.sight.reach.iter().copied()).collect())
    }

    /// In a network of its own.
    async fn run_apart(
        &self,
        termination: &mut Termination,
        progress: &Progress,
    ) -> Result<ExitCode, Failure> {
        let networks = self.networks()?;
        let resolv_conf = ResolvConf::read(Path::new("/etc/resolv.conf"));
        let view = View {
            namespace: &self.namespace,
            domain: &self.sight.cluster_domain,
            networks: &networks,
            resolv_conf: &resolv_conf,
            scratch: &self.connection.scratch(),
        };
        let made = tokio::task::block_in_place(|| Namespace::make(&self.command, &self.variables, &view))?;
        let door = door::Open::of(self.connection)?;
        let visitor = door.visitor().clone();
        let names = Names::new(
            ByDoor(visitor.clone()),
            &self.sight.cluster_domain,
            resolv_conf.resolvers.clone(),
            Some(MACHINE.into()),
        );
        let device = tun::Tun::new(made.tun.try_clone()?, tun::MTU)?;
        // When it is dropped, what the command has open is reset.
        let (_stack, arrivals) = Stack::start(device, &StackConfig::default());
        let carrying =
            tokio::spawn(Gateway::new(visitor, names, networks, ToMachine::Allowed).serve(arrivals));
        let running = made.start()?;
        let sockets = Arc::clone(&running.sockets);
        let publishing = ports::publish(self.publish.clone(), Arc::clone(&sockets), progress);
        let mut publishing = std::pin::pin!(publishing);
        let mut ended = tokio::task::spawn_blocking(move || running.wait());
        let status = loop {
            tokio::select! {
                ended = &mut ended => break ended.context("nobody waited for the command")?,
                () = &mut publishing => {}
                signal = termination.which() => {
                    if is_to_be_told(signal) {
                        sockets.signal(signal);
                    }
                }
            }
        };
        carrying.abort();
        Ok(ExitCode::from(inside::code_of(status?)))
    }
}

/// Runs a command to its end, and hands signals on to it.
async fn attend(
    mut command: tokio::process::Command,
    termination: &mut Termination,
) -> anyhow::Result<ExitCode> {
    let program = command.as_std().get_program().to_owned();
    let mut child = command.spawn().with_context(|| format!("can't run {}", program.display()))?;
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    loop {
        tokio::select! {
            ended = child.wait() => return Ok(ExitCode::from(inside::code_of(ended?))),
            signal = termination.which() => {
                if let Some(pid) = pid.filter(|_| is_to_be_told(signal)) {
                    // One that has ended needs none.
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

/// Whether the command has to be told of a signal. Ctrl-C of a terminal goes to all of its processes, the command among them.
fn is_to_be_told(signal: Signal) -> bool {
    signal != Signal::INT || !std::io::stdin().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_what_is_not_a_targets_to_say() {
        assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(variable("A").is_err() && variable("=b").is_err());
        let given = [
            ("PATH", "/evil"),
            ("DATABASE_URL", "postgres://db"),
            ("ENV", "production"),
            ("ENV", "$(id)"),
            ("BASH_ENV", "$(id)"),
            ("NODE_OPTIONS", "--import=data:text/javascript,x"),
            ("LD_AUDIT", "/x.so"),
            ("LD_PRELOAD", "/x.so"),
            ("npm_config_script_shell", "/x"),
            ("PYTHONPATH", "/x"),
            ("GIT_SSH_COMMAND", "x"),
            ("BASH_FUNC_ls%%", "() { id; }"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let taken: Vec<String> =
            of_target(given).iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(taken, ["DATABASE_URL=postgres://db", "ENV=production"]);
    }
}
