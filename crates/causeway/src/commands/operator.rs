//! `causeway operator`: the controllers against a Kubernetes cluster, with leader election, metrics and health.

mod directory;
pub(super) mod hostnames;
mod metrics;
mod pod_template;
mod workstations;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use causeway_api::{Engine, UpdatePolicy, names};
use causeway_controllers::operator::{Config, Operator};
use causeway_controllers::vlan::proxy::Settings;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::parts::container_runtime::ContainerRuntimeArg;
use crate::parts::data_dir;
use crate::parts::grants::GrantsArg;
use crate::parts::own_program;
use crate::parts::termination::Termination;
use hostnames::HostnameArgs;
use metrics::ObserveArgs;
use workstations::WorkstationArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace of the election's Lease; in a pod, its own.
    #[arg(long, env = "POD_NAMESPACE", default_value = names::NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Work in these namespaces alone, each by itself: proxies, DNS and DHCP, and Infras. May be given several times
    /// [default: the whole cluster, and everything].
    #[arg(long, value_delimiter = ',', value_parser = namespace_name, value_name = "NAMESPACE")]
    namespaces: Vec<String>,
    /// This replica's name in the election; in a pod, its own.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    identity: Option<String>,
    /// Run at once, without asking other replicas.
    #[arg(long)]
    no_leader_election: bool,
    #[command(flatten)]
    observe: ObserveArgs,
    #[command(flatten)]
    proxies: ProxyDefaults,
    #[command(flatten)]
    workstations: WorkstationArgs,
    #[command(flatten)]
    hostnames: HostnameArgs,
    #[command(flatten, next_help_heading = "Container tunnels")]
    container_runtime: ContainerRuntimeArg,
    /// Where tunnels keep their keys and ports; operators that take turns on a machine share one [default:
    /// $XDG_DATA_HOME/causeway-operator or ~/.local/share/causeway-operator].
    #[arg(long, env = "CAUSEWAY_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// What a ProxyServer gets where it leaves it open.
#[derive(Debug, clap::Args)]
struct ProxyDefaults {
    /// Program that carries a proxy's traffic where spec.engine is left out.
    #[arg(long, value_enum, default_value = "envoy", value_name = "ENGINE")]
    default_engine: DefaultEngine,
    /// Envoy's image where spec.proxyImage is left out.
    #[arg(long, env = "CAUSEWAY_PROXY_IMAGE", default_value = names::ENVOY_IMAGE, value_name = "IMAGE")]
    proxy_image: String,
    /// This program's image where spec.managerImage is left out [default: the one of this version].
    #[arg(long, env = "CAUSEWAY_MANAGER_IMAGE", value_name = "IMAGE")]
    manager_image: Option<String>,
    /// A further image that a ProxyServer may name, or the beginning of one and `*`; may be given several times. Without,
    /// it may name those above, in any version.
    #[arg(long = "allow-image", env = "CAUSEWAY_ALLOW_IMAGES", value_delimiter = ',', value_name = "IMAGE")]
    allowed_images: Vec<String>,
    /// Let proxies run on OpenShift: bind each one's account to the nonroot-v2 security context constraints.
    #[arg(long)]
    openshift: bool,
    /// What pods are given where spec.podTemplate leaves it open: a file with fields of a podTemplate.
    #[arg(long, env = "CAUSEWAY_POD_TEMPLATE", value_name = "FILE")]
    pod_template: Option<PathBuf>,
    /// Whether pods follow a newer image of this operator by themselves where spec.updatePolicy is left out.
    #[arg(
        long,
        env = "CAUSEWAY_UPDATE_POLICY",
        value_enum,
        default_value = "automatic",
        value_name = "POLICY"
    )]
    update_policy: DefaultPolicy,
    /// ProxyServers whose pods are brought to a newer image at a time.
    #[arg(long, env = "CAUSEWAY_UPDATES_AT_ONCE", default_value_t = 4, value_name = "N")]
    updates_at_once: usize,
    #[command(flatten)]
    grants: GrantsArg,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DefaultPolicy {
    Automatic,
    Manual,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DefaultEngine {
    Native,
    Envoy,
}

impl ProxyDefaults {
    fn settings(self) -> anyhow::Result<Settings> {
        let engine = match self.default_engine {
            DefaultEngine::Native => Engine::Native,
            DefaultEngine::Envoy => Engine::Envoy,
        };
        let manager_image = self.manager_image.unwrap_or_else(own_program::image);
        let pod_template = self.pod_template.as_deref().map(pod_template::read).transpose()?;
        let settings = Settings {
            engine,
            proxy_image: self.proxy_image,
            manager_image,
            allowed_images: self.allowed_images,
            openshift: self.openshift,
            require_grants: self.grants.require_grants,
            pod_template: pod_template.unwrap_or_default(),
            update_policy: match self.update_policy {
                DefaultPolicy::Automatic => UpdatePolicy::Automatic,
                DefaultPolicy::Manual => UpdatePolicy::Manual,
            },
            updates_at_once: self.updates_at_once,
            is_confined: false,
        };
        let problems = settings.pod_template_problems();
        if !problems.is_empty() {
            bail!("--pod-template: {}", problems.join("; "));
        }
        Ok(settings)
    }
}

/// A word that a namespace can be called.
pub(super) fn namespace_name(text: &str) -> Result<String, String> {
    let is_word = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let is_name = (1..=63).contains(&text.len()) && text.chars().all(is_word) && !text.starts_with('-');
    if is_name && !text.ends_with('-') {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no name of a namespace"))
    }
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = kube::Client::try_default().await.context(
        "no cluster is configured: set KUBECONFIG, or run inside a pod; for a control plane on this machine use `causeway up`",
    )?;
    let identity = args.identity.unwrap_or_else(|| {
        format!("{}-{}", rustix::system::uname().nodename().to_string_lossy(), std::process::id())
    });
    let mut config = Config::new(&args.namespace, &identity);
    if args.no_leader_election {
        config.leader = None;
    }
    config.namespaces = args.namespaces;
    config.namespaces.sort();
    config.namespaces.dedup();
    config.proxy = args.proxies.settings()?;
    config.intercepts = args.workstations.settings(&args.namespace);
    config.hostnames = args.hostnames.settings(&args.namespace);
    // Without a runtime nothing is kept, and no directory is needed.
    let mut held = None;
    let runtime = args.container_runtime.choice().filter(|_| config.namespaces.is_empty());
    if let Some(choice) = runtime {
        let dir = data_dir::path(args.data_dir.as_deref(), "causeway-operator")?;
        held = Some(directory::take(&dir, client.clone()).await?);
        config.containers = data_dir::containers(&dir, Some(choice))?;
        args.container_runtime.record(&dir)?;
    }
    let mut registry = Registry::default();
    let operator = Operator::new(client, config, &mut registry);
    let shutdown = CancellationToken::new();
    let observed = args.observe.open(&args.namespace).await?;
    let serving = tokio::spawn(metrics::serve(observed, registry, operator.health(), shutdown.clone()));
    let mut termination = Termination::listen()?;
    let stop = shutdown.clone();
    tokio::spawn(async move {
        termination.asked().await;
        stop.cancel();
    });
    let outcome = operator.run(shutdown.clone()).await;
    shutdown.cancel();
    serving.await?;
    drop(held);
    outcome?;
    Ok(ExitCode::SUCCESS)
}
