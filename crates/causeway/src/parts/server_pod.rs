//! What the pods of DNS and DHCP servers are told: which object to follow, and where they are on which network.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use causeway_agent::{Leave, ServerPod};
use causeway_api::names;
use causeway_translate::proxy::HEALTH_PORT;
use kube::{Client, Config};
use tokio::net::TcpListener;

/// A connection to the API server that says nothing for longer than a watch lasts is dead.
const SILENCE: Duration = Duration::from_secs(75);

#[derive(Debug, clap::Args)]
pub(crate) struct ServerPodArgs {
    /// Namespace of the object that is followed.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Follow the object of this name in Kubernetes, as its pods do, in place of a plan file.
    #[arg(long, value_name = "NAME", requires_all = ["server_ip", "pod_ip", "namespace"])]
    server_name: Option<String>,
    /// This pod's address on the isolated network.
    #[arg(long, value_name = "ADDRESS")]
    server_ip: Option<IpAddr>,
    /// This pod's address on the network of all pods.
    #[arg(long, env = "POD_IP", value_name = "ADDRESS")]
    pod_ip: Option<IpAddr>,
    /// Name under which this pod reports in the status [default: the machine's name].
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,
    /// Keep the last good state here, for a start without the API server or with a spec that can't be run.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Start from the spec in this file, the last that any pod of this server accepted, while the newest can't be run.
    #[arg(long, value_name = "FILE")]
    accepted: Option<PathBuf>,
    /// Port of /healthz, /ready and /metrics on the pod's address.
    #[arg(long, default_value_t = HEALTH_PORT, value_name = "PORT")]
    health_port: u16,
}

/// The arguments, checked.
pub(crate) struct Followed {
    pub(crate) client: Client,
    pub(crate) pod: ServerPod,
    pub(crate) config: causeway_agent::Config,
    pub(crate) health: TcpListener,
}

impl ServerPodArgs {
    /// Connects; `role` is `dns` or `dhcp`.
    pub(crate) async fn follow(self, role: &str) -> anyhow::Result<Followed> {
        let missing = || "write --config FILE, or --server-name with --server-ip, --pod-ip and --namespace";
        let name = self.server_name.with_context(missing)?;
        let (namespace, server_ip) =
            (self.namespace.with_context(missing)?, self.server_ip.with_context(missing)?);
        let pod_ip = self.pod_ip.with_context(missing)?;
        let host = || rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        let pod = self.pod_name.unwrap_or_else(host);
        let health = listen(pod_ip, self.health_port)?;
        let config = causeway_agent::Config {
            namespace,
            name: name.clone(),
            pod_ip,
            field_manager: names::server_report_manager(role, &pod),
            state_dir: self.state_dir,
            accepted: self.accepted,
            require_grants: true,
            leave: Leave::Unready,
        };
        Ok(Followed {
            client: client().await?,
            pod: ServerPod { name, pod, pod_ip, server_ip },
            config,
            health,
        })
    }
}

fn listen(address: IpAddr, port: u16) -> anyhow::Result<TcpListener> {
    causeway_agent::listen_on_pod_network((address, port).into())
        .with_context(|| format!("can't listen on {address} port {port}; choose another with --health-port"))
}

/// A client that notices when the API server is gone.
pub(crate) async fn client() -> anyhow::Result<Client> {
    let mut config = Config::infer().await.context(
        "no cluster is configured: set KUBECONFIG, or run inside a pod; without Kubernetes use a plan file",
    )?;
    config.read_timeout = Some(SILENCE);
    Client::try_from(config).context("can't make a client")
}
