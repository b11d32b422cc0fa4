//! A ContainerNetworkTunnelProxy, from the runtime over network, container and link to what listens on the host, tunnel by
//! tunnel.

mod services;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use causeway_api::conditions::{ConditionType, find};
use causeway_api::{
    ContainerNetwork, ContainerNetworkTunnelProxy, ContainerNetworkTunnelProxyStatus, TunnelState,
};
use causeway_containers::{Container, Runtime, State, labels};
use kube::{Api, ResourceExt};
use tokio::net::TcpStream;

use super::Examination;
use super::conditions::conditions;
use super::finding::Finding;
use super::network::in_runtime;
use super::runtime::runtime;

/// How long a listener on this machine may take to accept.
const CONNECT: Duration = Duration::from_secs(2);

pub(super) async fn examine(examination: &Examination<'_>, name: &str) -> anyhow::Result<Vec<Finding>> {
    let found = examination.object.find::<ContainerNetworkTunnelProxy>(&examination.client, name).await?;
    let Some(proxy) = found else {
        return Ok(vec![examination.missing::<ContainerNetworkTunnelProxy>(name)]);
    };
    let status = proxy.status.clone().unwrap_or_default();
    let (runtime, said) = runtime(examination.container_runtime, &status.conditions).await;
    let mut found = vec![said];
    found.extend(network(examination, &proxy, runtime.as_ref()).await);
    // Without a network or a runtime there is no container, and no link without a container.
    if !found.iter().any(Finding::is_bad) {
        if let Some(runtime) = &runtime {
            found.extend(container(runtime, &proxy).await);
        }
        if !found.iter().any(Finding::is_bad) {
            found.extend(link(&status, examination.probes).await);
        }
    }
    for tunnel in &proxy.spec.tunnels {
        let own = &examination.object.namespace;
        found.extend(services::services(&examination.client, own, tunnel, &status, examination.probes).await);
    }
    found.extend(tunnels(&status, &found));
    let generation = proxy.metadata.generation;
    found.extend(conditions(&status.conditions, status.observed_generation, generation, &found));
    Ok(found)
}

/// The ContainerNetwork that it names, and that network in the runtime.
async fn network(
    examination: &Examination<'_>,
    proxy: &ContainerNetworkTunnelProxy,
    runtime: Option<&Runtime>,
) -> Vec<Finding> {
    let path = &proxy.spec.container_network_name;
    let own = examination.object.namespace.as_str();
    let (namespace, name) = path.split_once('/').unwrap_or((own, path));
    let api: Api<ContainerNetwork> = Api::namespaced(examination.client.clone(), namespace);
    let network = match api.get_opt(name).await {
        Ok(Some(network)) => network,
        Ok(None) => {
            return vec![Finding::bad(
                format!("there is no ContainerNetwork {namespace}/{name}"),
                "create it; spec.containerNetworkName can't be changed",
            )];
        }
        Err(error) => {
            return vec![Finding::skipped(format!("ContainerNetwork {namespace}/{name}: {error}"))];
        }
    };
    let status = network.status.clone().unwrap_or_default();
    if let Some(ready) = find(&status.conditions, ConditionType::Ready).filter(|c| c.status != "True") {
        return vec![Finding::bad(
            format!("ContainerNetwork {namespace}/{name} is not ready"),
            ready.message.clone(),
        )];
    }
    let mut found = vec![Finding::good(format!("ContainerNetwork {namespace}/{name} is ready"))];
    if let Some(runtime) = runtime {
        found.extend(in_runtime(runtime, &network, &status).await);
    }
    found
}

/// The client's container.
async fn container(runtime: &Runtime, proxy: &ContainerNetworkTunnelProxy) -> Vec<Finding> {
    let uid = proxy.uid().unwrap_or_default();
    let containers = match runtime.containers(&[(labels::OWNER, &uid)]).await {
        Ok(containers) => containers,
        Err(error) => {
            return vec![Finding::skipped(format!("its container can't be looked at: {}", error.report()))];
        }
    };
    let program = runtime.kind().to_string().to_lowercase();
    if containers.is_empty() {
        return vec![Finding::bad(
            "its container is not there",
            format!(
                "the control plane makes it again: see whether it runs, and `causeway logs cntp/{}`",
                proxy.name_any()
            ),
        )];
    }
    let finding = |container: &Container| {
        let name = &container.name;
        let cure = match container.state {
            State::Running => return Finding::good(format!("container {name} runs")),
            State::Paused => format!("{program} unpause {name}"),
            _ => format!("the control plane starts it again: `{program} logs {name}` says why it ended"),
        };
        Finding::bad(format!("container {name} is {:?}", container.state), cure)
    };
    containers.iter().map(finding).collect()
}

/// The two ports on loopback that the pair talks by, and whether both ends talk.
async fn link(status: &ContainerNetworkTunnelProxyStatus, probes: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    let ports = [status.client_proxy_control_port, status.client_proxy_data_port];
    let ports = ports.into_iter().flatten().filter_map(|port| u16::try_from(port).ok());
    for address in ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).filter(|_| probes) {
        if let Err(why) = accepts(address).await {
            found.push(Finding::bad(
                format!("the client's container is not reached on {address}: {why}"),
                "the runtime publishes this port for it: see whether a firewall is in the way, and on this machine",
            ));
        }
    }
    match find(&status.conditions, ConditionType::LinkUp) {
        Some(condition) if condition.status == "True" => {
            found.push(Finding::good(format!("the link is up: {}", condition.message)));
        }
        Some(condition) => {
            found.push(Finding::bad(
                format!("the link is not up ({})", condition.reason),
                condition.message.clone(),
            ));
        }
        None => {}
    }
    found
}

/// What the controller says of each tunnel that nothing above explains.
fn tunnels(status: &ContainerNetworkTunnelProxyStatus, before: &[Finding]) -> Vec<Finding> {
    let explained = before.iter().any(Finding::is_bad);
    let finding = |tunnel: &causeway_api::TunnelStatus| {
        let (name, message) = (&tunnel.name, tunnel.error_message.clone().unwrap_or_default());
        let ports = tunnel.client_proxy_port.map_or_else(String::new, |port| format!(" on port {port}"));
        match tunnel.state {
            Some(TunnelState::Ready) => Finding::good(format!(
                "tunnel {name} carries traffic from {}{ports}",
                tunnel.client_proxy_addresses.join(", ")
            )),
            _ if explained => Finding::skipped(format!("tunnel {name} does not carry traffic: see above")),
            _ => Finding::bad(format!("tunnel {name} does not carry traffic"), message),
        }
    };
    status.tunnel_statuses.iter().map(finding).collect()
}

/// Whether something accepts connections there; if not, why.
async fn accepts(address: SocketAddr) -> Result<(), String> {
    match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Err("connection refused".to_owned())
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {} s", CONNECT.as_secs())),
    }
}
