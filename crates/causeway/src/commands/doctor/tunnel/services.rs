//! The two Services of a tunnel: what its server leads to on the host, and the one that containers' addresses are written
//! for.

use std::net::{IpAddr, SocketAddr};

use causeway_api::{ContainerNetworkTunnelProxyStatus, Tunnel, TunnelProtocol};
use causeway_base::well_known::SERVICE_NAME_LABEL;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};

use super::accepts;
use crate::commands::doctor::finding::{Finding, listed};

pub(super) async fn services(
    client: &Client,
    own: &str,
    tunnel: &Tunnel,
    status: &ContainerNetworkTunnelProxyStatus,
    probes: bool,
) -> Vec<Finding> {
    let namespace = tunnel.server_service_namespace.as_deref().unwrap_or(own);
    let mut found = server(client, namespace, tunnel, probes).await;
    let namespace = tunnel.client_service_namespace.as_deref().unwrap_or(own);
    found.push(client_side(client, namespace, tunnel, status).await);
    found
}

/// Whether the server's Service leads to something that listens.
async fn server(client: &Client, namespace: &str, tunnel: &Tunnel, probes: bool) -> Vec<Finding> {
    let (tunnel_name, name) = (&tunnel.name, &tunnel.server_service_name);
    let missing = Finding::bad(
        format!("tunnel {tunnel_name}: there is no Service {namespace}/{name} to lead to"),
        "create it; if the program runs on the host, with an EndpointSlice that names its address and port",
    );
    let service = match read(client, namespace, name).await {
        Ok(Some(service)) => service,
        Ok(None) => return vec![missing],
        Err(said) => return vec![said],
    };
    let slices = match slices(client, namespace, name).await {
        Ok(slices) => slices,
        Err(said) => return vec![said],
    };
    let addresses = endpoints(&slices);
    if addresses.is_empty() {
        let has_selector = service.spec.as_ref().is_some_and(|spec| spec.selector.is_some());
        return vec![Finding::bad(
            format!("tunnel {tunnel_name}: Service {namespace}/{name} has no ready endpoint"),
            if has_selector {
                "see whether the pods that it selects run and are ready".to_owned()
            } else {
                format!(
                    "it has no selector, so write an EndpointSlice with the label {SERVICE_NAME_LABEL}: {name} that names \
                     the program's address and port"
                )
            },
        )];
    }
    let shown: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    if tunnel.protocol == TunnelProtocol::Udp || !probes {
        return vec![Finding::skipped(format!(
            "tunnel {tunnel_name}: whether something listens on {} was not tried",
            listed(&shown)
        ))];
    }
    let mut found = Vec::new();
    for address in addresses {
        found.push(match accepts(address).await {
            Ok(()) => Finding::good(format!("tunnel {tunnel_name}: something listens on {address}")),
            Err(why) => Finding::bad(
                format!("tunnel {tunnel_name}: nothing listens on {address}, where Service {namespace}/{name} leads ({why})"),
                "start the program there, or correct the Service's EndpointSlice",
            ),
        });
    }
    found
}

/// Whether the Service that containers use leads to the tunnel.
async fn client_side(
    client: &Client,
    namespace: &str,
    tunnel: &Tunnel,
    status: &ContainerNetworkTunnelProxyStatus,
) -> Finding {
    let (tunnel_name, name) = (&tunnel.name, &tunnel.client_service_name);
    let service = match read(client, namespace, name).await {
        Ok(Some(service)) => service,
        Ok(None) => {
            return Finding::bad(
                format!("tunnel {tunnel_name}: there is no Service {namespace}/{name} for containers"),
                "create it, without a selector",
            );
        }
        Err(said) => return said,
    };
    if service.spec.as_ref().is_some_and(|spec| spec.selector.is_some()) {
        return Finding::bad(
            format!("tunnel {tunnel_name}: Service {namespace}/{name} has a selector"),
            "remove it: the addresses on the container network are written by Causeway",
        );
    }
    let slices = match slices(client, namespace, name).await {
        Ok(slices) => slices,
        Err(said) => return said,
    };
    let has =
        |address: &String| slices.iter().flat_map(|s| &s.endpoints).any(|e| e.addresses.contains(address));
    let said = status.tunnel_statuses.iter().find(|status| status.name == *tunnel_name);
    match said.map(|status| status.client_proxy_addresses.as_slice()) {
        None | Some([]) => {
            Finding::skipped(format!("tunnel {tunnel_name}: it has no address on the network yet"))
        }
        Some(addresses) if addresses.iter().all(has) => Finding::good(format!(
            "tunnel {tunnel_name}: Service {namespace}/{name} leads to {}",
            addresses.join(", ")
        )),
        Some(addresses) => Finding::bad(
            format!(
                "tunnel {tunnel_name}: Service {namespace}/{name} does not lead to {}",
                addresses.join(", ")
            ),
            "the control plane writes its EndpointSlice while the tunnel carries traffic: see what keeps it from that",
        ),
    }
}

async fn read(client: &Client, namespace: &str, name: &str) -> Result<Option<Service>, Finding> {
    let api: Api<Service> = Api::namespaced(client.clone(), namespace);
    api.get_opt(name)
        .await
        .map_err(|error| Finding::skipped(format!("Service {namespace}/{name} can't be read: {error}")))
}

async fn slices(client: &Client, namespace: &str, service: &str) -> Result<Vec<EndpointSlice>, Finding> {
    let api: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let of = ListParams::default().labels(&format!("{SERVICE_NAME_LABEL}={service}"));
    let list = api.list(&of).await.map_err(|error| {
        Finding::skipped(format!(
            "the EndpointSlices of Service {namespace}/{service} can't be read: {error}"
        ))
    })?;
    Ok(list.items)
}

/// Every address and port that takes connections.
fn endpoints(slices: &[EndpointSlice]) -> Vec<SocketAddr> {
    let mut all = Vec::new();
    for slice in slices {
        let ports = slice.ports.iter().flatten().filter_map(|port| u16::try_from(port.port?).ok());
        let ready = |endpoint: &&k8s_openapi::api::discovery::v1::Endpoint| {
            endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false))
        };
        let addresses = slice.endpoints.iter().filter(ready).flat_map(|endpoint| &endpoint.addresses);
        let addresses: Vec<IpAddr> = addresses.filter_map(|text| text.parse().ok()).collect();
        all.extend(
            ports.flat_map(|port| addresses.iter().map(move |address| SocketAddr::new(*address, port))),
        );
    }
    all.sort();
    all.dedup();
    all
}
