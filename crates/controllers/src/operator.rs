//! The operator: all controllers behind one leader election. The binary makes one, serves its metrics and health, and
//! runs it until told to stop; a replica that loses the lease stops its controllers and stands by again.

use std::path::PathBuf;

use causeway_containers::Choice;
use kube::Client;
use prometheus_client::registry::Registry;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    containers::{network, runtime::ContainerRuntime, tunnel},
    framework::{
        health::{Health, Phase},
        leader,
        metrics::Metrics,
        runner::{self, Runner},
    },
    gateway, hostnames, intercepts,
    vlan::{dhcp, dns, infra, proxy, supply},
};

/// What an operator needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The election to take part in; none runs the controllers right away, for a process that is alone.
    pub leader: Option<leader::Config>,
    /// This replica, as Events name it.
    pub identity: String,
    /// Where it works, each by itself; empty for the whole cluster.
    pub namespaces: Vec<String>,
    /// How controllers are run.
    pub runner: runner::Config,
    /// What ProxyServers get where they leave it open.
    pub proxy: proxy::Settings,
    /// What Gateways get where they leave it open.
    pub gateway: gateway::Settings,
    /// What workstations and intercepts get.
    pub intercepts: intercepts::Settings,
    /// What hostnames get where requests and zones leave it open.
    pub hostnames: hostnames::Settings,
    /// The container runtime for networks and tunnels.
    pub containers: Containers,
}

/// Where containers are run, and by whom.
#[derive(Clone, Debug, Default)]
pub struct Containers {
    /// Which runtime; none for no networks and tunnels at all.
    pub choice: Option<Choice>,
    /// Where tunnels keep what they remember.
    pub directory: PathBuf,
    /// The id of the data directory, which labels what is made.
    pub instance: String,
    /// The program of the tunnels' host ends.
    pub program: tunnel::host::HostProgram,
    /// What happens to tunnels when the operator stops.
    pub on_stop: tunnel::OnStop,
}

impl Config {
    /// The usual settings of a replica that takes part in the election in `namespace`.
    pub fn new(namespace: &str, identity: &str) -> Self {
        Self {
            leader: Some(leader::Config::new(namespace, causeway_api::names::LEADER_LEASE, identity)),
            identity: identity.to_owned(),
            namespaces: Vec::new(),
            runner: runner::Config::default(),
            proxy: proxy::Settings::default(),
            gateway: gateway::Settings::default(),
            intercepts: intercepts::Settings {
                namespace: namespace.to_owned(),
                ..intercepts::Settings::default()
            },
            hostnames: hostnames::Settings {
                namespace: namespace.to_owned(),
                ..hostnames::Settings::default()
            },
            containers: Containers::default(),
        }
    }
}

/// Why an operator ended without being told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A controller ended by itself.
    #[error("a controller ended although nobody asked it to; the log above says why")]
    ControllerEnded,
}

/// What an operator for some namespaces does not do, and why.
pub const OFF_IN_NAMESPACES: [&str; 5] = [
    "Gateways, TrafficPolicies and their routes: a GatewayClass is the whole cluster's",
    "hostnames: zones, claims and the admission policy are the whole cluster's",
    "intercepts and developers' machines: they ask for nodes, and for rights in all namespaces",
    "container networks and tunnels: they are a machine's",
    "Services, routes and networks of other namespaces: each namespace is served by itself",
];

/// All controllers of Causeway.
pub struct Operator {
    client: Client,
    config: Config,
    runner: Runner,
    metrics: Metrics,
    health: Health,
}

impl Operator {
    /// An operator whose metrics are in `registry`; it does nothing until it is run.
    pub fn new(client: Client, config: Config, registry: &mut Registry) -> Self {
        let metrics = Metrics::register(registry.sub_registry_with_prefix("causeway_operator"));
        let health = Health::default();
        let mut runner_config = config.runner.clone();
        if let Some(leader) = &config.leader {
            // A lost lease can't wait for longer: another replica may lead by then.
            runner_config.stop_within = runner_config.stop_within.min(leader.grace());
        }
        let mut runner = Runner::new(client.clone(), runner_config, metrics.clone(), health.clone());
        if !config.namespaces.is_empty() {
            confined(&mut runner, &client, &config);
            health.switch_off(OFF_IN_NAMESPACES.map(str::to_owned).to_vec());
            for what in OFF_IN_NAMESPACES {
                tracing::info!(
                    namespaces = config.namespaces.join(","),
                    "off in some namespaces alone: {what}"
                );
            }
            return Self { client, config, runner, metrics, health };
        }
        runner.register(infra::Controller::new(client.clone(), &config.identity));
        runner.register(proxy::Controller::new(client.clone(), config.proxy.clone(), &config.identity));
        runner.register(dns::Controller::new(client.clone(), config.proxy.clone(), &config.identity));
        runner.register(dhcp::Controller::new(client.clone(), config.proxy.clone(), &config.identity));
        runner.register(supply::Controller::new(client.clone(), config.proxy.require_grants, false));
        runner.oversee(gateway::Controller::new(
            client.clone(),
            config.gateway.clone(),
            config.proxy.clone(),
        ));
        runner.oversee(intercepts::Controller::new(
            client.clone(),
            config.intercepts.clone(),
            config.proxy.clone(),
            &config.identity,
        ));
        runner.oversee(hostnames::Controller::new(
            client.clone(),
            config.hostnames.clone(),
            &config.proxy.manager_image,
            &config.identity,
            registry,
        ));
        let containers = &config.containers;
        let runtime = ContainerRuntime::new(containers.choice.clone(), containers.instance.clone());
        runner.register(network::Controller::new(client.clone(), runtime.clone(), &config.identity));
        if containers.choice.is_some() {
            let settings = tunnel::Settings {
                directory: containers.directory.clone(),
                program: containers.program.clone(),
                on_stop: containers.on_stop,
                require_grants: config.proxy.require_grants,
            };
            let figures = tunnel::Figures::default();
            registry
                .sub_registry_with_prefix("causeway_tunnel")
                .register_collector(Box::new(figures.clone()));
            runner.register(tunnel::Controller::new(
                client.clone(),
                runtime,
                settings,
                figures,
                &config.identity,
            ));
        } else {
            runner.register(tunnel::switched_off::Controller::new(client.clone(), &config.identity));
        }
        Self { client, config, runner, metrics, health }
    }

    /// What to serve on `/healthz` and `/readyz`.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Runs until `shutdown` is cancelled, then stops the controllers and releases the lease.
    ///
    /// # Errors
    /// When a controller can't start or the lease is lost.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let result = match self.config.leader.clone() {
            None => self.lead_alone(&shutdown).await,
            Some(config) => self.take_turns(config, &shutdown).await,
        };
        self.metrics.leads(false);
        self.health.enter(Phase::Stopped);
        result
    }

    async fn lead_alone(&self, shutdown: &CancellationToken) -> Result<(), Error> {
        self.begin_term();
        self.runner.run(&shutdown.child_token()).await;
        ended(shutdown)
    }

    async fn take_turns(&self, config: leader::Config, shutdown: &CancellationToken) -> Result<(), Error> {
        let grace = config.grace();
        let mut elector = leader::Elector::new(self.client.clone(), config);
        loop {
            let health = self.health.clone();
            if !elector.acquire(shutdown, |_| health.enter(Phase::StandingBy)).await {
                return Ok(());
            }
            self.begin_term();
            // Not a child of `shutdown`: the lease is held until the controllers have stopped.
            let term = CancellationToken::new();
            let mut controllers = std::pin::pin!(self.runner.run(&term));
            let end = tokio::select! {
                end = elector.hold(shutdown) => Some(end),
                () = &mut controllers => None,
            };
            if end.is_some() {
                term.cancel();
                // Only then may the lease be given up: whoever leads next finds nobody writing.
                controllers.await;
            }
            self.metrics.leads(false);
            match end {
                Some(leader::End::Lost) => self.health.enter(Phase::Starting),
                Some(leader::End::Shutdown) | None => {
                    match timeout(grace, elector.release()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => {
                            let error: &dyn std::error::Error = &error;
                            tracing::warn!(error, "failed to release the lease; it runs out by itself");
                        }
                        Err(_) => tracing::warn!("releasing the lease timed out; it runs out by itself"),
                    }
                    return ended(shutdown);
                }
            }
        }
    }

    fn begin_term(&self) {
        self.metrics.leads(true);
        self.health.enter(Phase::Leading);
    }
}

/// What needs nothing but a namespace, for each of them.
fn confined(runner: &mut Runner, client: &Client, config: &Config) {
    // Nobody can have agreed to anything: other namespaces are not looked at.
    let settings = proxy::Settings { require_grants: true, is_confined: true, ..config.proxy.clone() };
    for namespace in &config.namespaces {
        runner.confine(namespace);
        runner.register(infra::Controller::new(client.clone(), &config.identity));
        runner.register(proxy::Controller::new(client.clone(), settings.clone(), &config.identity));
        runner.register(dns::Controller::new(client.clone(), settings.clone(), &config.identity));
        runner.register(dhcp::Controller::new(client.clone(), settings.clone(), &config.identity));
        runner.register(supply::Controller::new(client.clone(), true, true));
    }
}

fn ended(shutdown: &CancellationToken) -> Result<(), Error> {
    if shutdown.is_cancelled() { Ok(()) } else { Err(Error::ControllerEnded) }
}
