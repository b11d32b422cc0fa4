//! `causeway stowaway`: one pod of the cluster's end of workstations. It needs no privilege, no device and no kernel module.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use causeway_agent::{StowawayConfig, run_stowaway};
use causeway_api::names;
use causeway_base::well_known::RESOLV_CONF;
use causeway_translate::intercept::names::STOWAWAY_HEALTH_PORT;

use crate::parts::{pod_ports, server_pod};

/// What names of a cluster end with where nobody says otherwise.
const CLUSTER_DOMAIN: &str = "cluster.local";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Namespace of this pod.
    #[arg(long, short, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    namespace: String,
    /// Follow the Secret of this name, which says who may come and what may be reached.
    #[arg(long, default_value = names::STOWAWAY, value_name = "NAME")]
    secret_name: String,
    /// Address on the pod network, to listen on.
    #[arg(long, env = "POD_IP", value_name = "ADDRESS")]
    pod_ip: IpAddr,
    /// Name under which this pod reports [default: the machine's name].
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pod_name: Option<String>,
    /// Keep the last good state here, keys included, for a start without the API server.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Port of /healthz, /ready and /metrics on the pod's address.
    #[arg(long, default_value_t = STOWAWAY_HEALTH_PORT, value_name = "PORT")]
    health_port: u16,
    /// What names of the cluster end with [default: as resolv.conf says, or cluster.local].
    #[arg(long, value_name = "DOMAIN")]
    cluster_domain: Option<String>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = server_pod::client().await?;
    let health = pod_ports::bind_pod(args.pod_ip, args.health_port, "--health-port")?;
    let host = || rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let config = StowawayConfig {
        namespace: args.namespace,
        secret: args.secret_name,
        pod: args.pod_name.unwrap_or_else(host),
        pod_ip: args.pod_ip,
        state_dir: args.state_dir,
        cluster_domain: args.cluster_domain.unwrap_or_else(cluster_domain),
    };
    run_stowaway(client, config, health).await.context("the cluster's end of workstations can't run")?;
    Ok(ExitCode::SUCCESS)
}

/// As the pod's resolver has it: it looks for names in `svc.DOMAIN`.
fn cluster_domain() -> String {
    let path = std::env::var_os(RESOLV_CONF).unwrap_or_else(|| "/etc/resolv.conf".into());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    domain_of(&text).unwrap_or_else(|| CLUSTER_DOMAIN.to_owned())
}

fn domain_of(resolv_conf: &str) -> Option<String> {
    let mut words =
        resolv_conf.lines().filter_map(|line| line.strip_prefix("search ")).flat_map(str::split_whitespace);
    let domain = words.find_map(|word| word.strip_prefix("svc."))?;
    Some(domain.trim_end_matches('.').to_ascii_lowercase()).filter(|domain| !domain.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_what_names_are_looked_for_in() {
        let text = "nameserver 10.96.0.10\nsearch causeway-system.svc.corp.test svc.corp.test corp.test\n";
        assert_eq!(domain_of(text).as_deref(), Some("corp.test"));
        assert_eq!(domain_of("search example.test\n"), None);
    }
}
