//! A pod that follows a `GatewayPlan` and runs it in the engine of this process: one of a Gateway, or a carrier.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use causeway_agent::{Agent, Gateway, Leave};
use causeway_api::names;
use causeway_engine::Options;
use causeway_engine::spans::Spans;
use causeway_translate::gateway_pod::keys::Keys;

use super::access_log::AccessLogArg;
use super::keys::KeyStore;
use super::native::Native;
use super::{pod_ports, server_pod, session_key};

/// Which plan it follows, and where it is.
pub(crate) struct PlanPod {
    pub(crate) plan: String,
    pub(crate) namespace: String,
    pub(crate) pod_ip: IpAddr,
    /// Addresses of other families, to listen on, too.
    pub(crate) further: Vec<IpAddr>,
    /// The machine's name if left out.
    pub(crate) pod_name: Option<String>,
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) health_port: u16,
    pub(crate) admin_port: u16,
    pub(crate) access_log: AccessLogArg,
    /// Who takes spans of requests.
    pub(crate) spans: Option<Spans>,
    /// What sessions of clients are signed with, if all pods of the plan have the same.
    pub(crate) session_key: Option<PathBuf>,
    pub(crate) workers: usize,
    /// How it leaves.
    pub(crate) leave: Leave,
}

/// Told of the certificates that plans name.
type FollowKeys = Box<dyn Fn(&Keys) + Send + Sync>;

impl PlanPod {
    /// Runs until it is told to end, and has drained.
    pub(crate) async fn run(
        self,
        followed: fn(String, IpAddr, FollowKeys) -> Gateway,
    ) -> anyhow::Result<ExitCode> {
        let host = || rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        let pod = self.pod_name.unwrap_or_else(host);
        let client =
            server_pod::client().await.context("without Kubernetes use `causeway gateway --files`")?;
        let health = pod_ports::bind_pod(self.pod_ip, self.health_port, "--health-port")?;
        let (keys, certificates_rx) = KeyStore::new();
        let config = causeway_agent::Config {
            namespace: self.namespace,
            name: self.plan,
            pod_ip: self.pod_ip,
            field_manager: names::gateway_report_manager(&pod),
            state_dir: self.state_dir,
            accepted: None,
            require_grants: true,
            leave: self.leave,
        };
        let followed = followed(pod, self.pod_ip, Box::new(move |now: &Keys| keys.replace(now)));
        let followed = followed.also_on(self.further);
        let (agent, plan_rx) = Agent::new(client, followed, config);
        let options = Options {
            workers: self.workers,
            access_log: self.access_log.log(),
            spans: self.spans,
            certificates: Some(certificates_rx),
            session_key: self.session_key.as_deref().map(session_key::read).transpose()?,
            ..Options::default()
        };
        let native = Native::start(plan_rx, &options, Vec::new())?;
        let admin =
            pod_ports::bind(pod_ports::loopback(self.pod_ip), self.admin_port, "--admin-port").await?;
        tokio::spawn(pod_ports::admin(admin, native.handle()));
        agent.run(Arc::new(native), health).await.context("can't listen for signals")?;
        Ok(ExitCode::SUCCESS)
    }
}
