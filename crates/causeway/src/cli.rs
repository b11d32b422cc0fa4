//! The command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    carrier, check, clean, completions, connect, connections, crds, demo, dhcp, disconnect, dns, doctor,
    down, echo, engine, env, files, gateway, hostnames, infra, install, intercept, intercepts, leases, leave,
    logs, operator, proxy, routes, run, status, stowaway, trust, tunnel, uninstall, up, version, xds,
};

/// The subcommand that is the shim of a pod's process. The node starts it, so it is not in the help.
pub(crate) const POD_SHIM: &str = "pod-shim";

/// The subcommand that keeps a connection up. `connect` starts it, so it is not in the help.
pub(crate) const CONNECTION_DAEMON: &str = "connection-daemon";
/// The subcommands that are started by `run`, in a network of their own and in a container.
pub(crate) const RUN_INSIDE: &str = "run-inside";
pub(crate) const RUN_BESIDE: &str = "run-beside";

/// Carries traffic across network boundaries, declared as Kubernetes resources.
#[derive(Debug, Parser)]
#[command(name = "causeway", version, propagate_version = true)]
pub(crate) struct Cli {
    /// What to log, as tracing filters: `info`, `debug`, `causeway_node=trace,warn`.
    #[arg(long, global = true, env = "CAUSEWAY_LOG", value_name = "FILTER")]
    pub(crate) log: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a whole control plane on this machine: Kubernetes API, operator and node.
    Up(up::Args),
    /// Stop the control plane that `up` started.
    Down(down::Args),
    /// Show every Causeway resource, whether it is ready, and why not.
    Status(status::Args),
    /// Run the controllers against a Kubernetes cluster.
    Operator(Box<operator::Args>),
    /// Proxy TCP and TLS by server name as a plan file says, without Kubernetes.
    Engine(engine::Args),
    /// Feed a plan file to Envoys by xDS, without Kubernetes.
    Xds(xds::Args),
    /// Answer DNS by view and forward the rest, as a plan file or a DNSServer says.
    Dns(dns::Args),
    /// Lease addresses on an interface, as a plan file or a DHCPServer says.
    Dhcp(dhcp::Args),
    /// Show the leases of a DHCP server.
    Leases(leases::Args),
    /// Run one end of a tunnel between a container network and the host.
    Tunnel(tunnel::Args),
    /// Run one proxy of a ProxyServer, as its pods do.
    Proxy(proxy::Args),
    /// Run one pod of a Gateway, or serve Gateway API resources from files without Kubernetes.
    Gateway(gateway::Args),
    /// Run one pod of the cluster's end of developers' machines, as the operator asks for it.
    Stowaway(stowaway::Args),
    /// Run one pod in front of an intercepted Service, or in the place of a container, as the operator asks for it.
    Carrier(carrier::Args),
    /// Show where each port and name of a proxy leads, or each host and path of a Gateway, and how it is there.
    Routes(routes::Args),
    /// Show the life of a tunnel proxy.
    Logs(logs::Args),
    /// Find out what is wrong with a proxy, a Gateway, a hostname, a tunnel, a container network or an Infra, step by step, and what to do.
    Doctor(doctor::Args),
    /// Show who holds which hostname, how far it is, its certificate, its gateway and where it leads.
    Hostnames(hostnames::Args),
    /// Print the certificate of this control plane's own authority, for clients to trust.
    Trust(trust::Args),
    /// Print the consent that an Infra needs of other namespaces.
    Infra(infra::Args),
    /// Make this machine a Workstation of a cluster, and keep it connected.
    Connect(connect::Args),
    /// Leave a cluster: intercepts, Workstation, daemon and keys go.
    Disconnect(disconnect::Args),
    /// Show the connections of this machine, by which way each goes and why.
    Connections(connections::Args),
    /// Get traffic of a workload, or the part that matches, on a port of this machine.
    Intercept(Box<intercept::Args>),
    /// End intercepts; their targets are as they were.
    Leave(leave::Args),
    /// Show who gets which traffic of what.
    Intercepts(intercepts::Args),
    /// Run a command, or a container, that sees the cluster's names and addresses.
    Run(Box<run::Args>),
    /// Print the environment of a workload.
    Env(env::Args),
    /// List or copy the files that a workload sees of ConfigMaps, Secrets and its pod.
    Files(files::Args),
    /// Keep a connection up.
    #[command(name = CONNECTION_DAEMON, hide = true)]
    ConnectionDaemon(connect::daemon::Args),
    /// Carry the packets of a container.
    #[command(name = RUN_BESIDE, hide = true)]
    RunBeside(run::beside::Args),
    /// Find out whether a cluster can take Causeway, and whether what is installed is as it should be; each line with its cure.
    Check(check::Args),
    /// Install Causeway into a cluster, or bring what is installed to this version and these values.
    Install(Box<install::Args>),
    /// Print the definitions of Causeway's kinds, or apply them.
    Crds(crds::Args),
    /// Take Causeway out of a cluster: everything is put back first, then the operator goes.
    Uninstall(uninstall::Args),
    /// Show what objects and demos that are gone have left on this machine, and remove it.
    Clean(clean::Args),
    /// Play a crossing on this machine, each step shown and checked.
    Demo(demo::Args),
    /// Answer TCP, TLS, HTTP and UDP, to try a crossing against, or check such a server.
    Echo(echo::Args),
    /// Print a completion script for a shell.
    Completions(completions::Args),
    /// Print the version.
    Version(version::Args),
}

impl Command {
    /// Whether the process goes on when the one that started it is gone.
    pub(crate) fn outlives_its_parent(&self) -> bool {
        matches!(self, Self::Tunnel(args) if args.is_host()) || matches!(self, Self::ConnectionDaemon(_))
    }

    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Up(args) => up::run(args).await,
            Self::Down(args) => down::run(args).await,
            Self::Status(args) => status::run(args).await,
            Self::Operator(args) => operator::run(*args).await,
            Self::Engine(args) => engine::run(args).await,
            Self::Xds(args) => xds::run(args).await,
            Self::Dns(args) => dns::run(args).await,
            Self::Dhcp(args) => dhcp::run(args).await,
            Self::Leases(args) => leases::run(args).await,
            Self::Tunnel(args) => tunnel::run(args).await,
            Self::Proxy(args) => proxy::run(args).await,
            Self::Gateway(args) => gateway::run(args).await,
            Self::Stowaway(args) => stowaway::run(args).await,
            Self::Carrier(args) => carrier::run(args).await,
            Self::Routes(args) => routes::run(args).await,
            Self::Logs(args) => logs::run(args).await,
            Self::Doctor(args) => Box::pin(doctor::run(args)).await,
            Self::Hostnames(args) => hostnames::run(args).await,
            Self::Trust(args) => trust::run(args).await,
            Self::Infra(args) => infra::run(args).await,
            Self::Connect(args) => connect::run(args).await,
            Self::Disconnect(args) => disconnect::run(args).await,
            Self::Connections(args) => connections::run(args).await,
            Self::Intercept(args) => Box::pin(intercept::run(*args)).await,
            Self::Leave(args) => leave::run(args).await,
            Self::Intercepts(args) => intercepts::run(args).await,
            Self::Run(args) => Box::pin(run::run(*args)).await,
            Self::Env(args) => env::run(args).await,
            Self::Files(args) => files::run(args).await,
            Self::ConnectionDaemon(args) => connect::daemon::run(args).await,
            Self::RunBeside(args) => run::beside::run(args).await,
            Self::Check(args) => check::run(args).await,
            Self::Install(args) => Box::pin(install::run(*args)).await,
            Self::Crds(args) => crds::run(args).await,
            Self::Uninstall(args) => uninstall::run(args).await,
            Self::Clean(args) => clean::run(args).await,
            Self::Demo(args) => demo::run(args).await,
            Self::Echo(args) => echo::run(args).await,
            Self::Completions(args) => completions::run(args),
            Self::Version(args) => version::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
