//! The EndpointSlices of the client Services: where containers find each tunnel that carries traffic. Pure.

use std::net::IpAddr;

use causeway_api::{ContainerNetworkTunnelProxy, TunnelProtocol, names};
use causeway_base::well_known::SERVICE_NAME_LABEL;
use causeway_ir::tunnel::TunnelState;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::{Desired, DesiredTunnel};
use crate::containers::tunnel::observe::client_of;
use crate::containers::tunnel::state::State;
use crate::framework::apply::digest;

/// Standard label: who writes an EndpointSlice.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Longer names are cut and told apart by a digest; the API's limit is 253.
const LONGEST: usize = 200;

/// The slices that there should be: one for each tunnel that carries traffic and each family of addresses.
pub(crate) fn slices(
    proxy: &ContainerNetworkTunnelProxy,
    desired: &Desired,
    state: &State,
) -> Vec<EndpointSlice> {
    let Some(client) = state.client.as_ref().filter(|_| state.is_linked()) else { return Vec::new() };
    let mut slices = Vec::new();
    for wanted in desired.tunnels.iter().filter(|wanted| wanted.problem.is_none()) {
        let Some(carried) = state.tunnels.get(&wanted.spec.name) else { continue };
        let TunnelState::Listening { port } = carried.state else { continue };
        for (family, is_of) in [("IPv4", IpAddr::is_ipv4 as fn(&IpAddr) -> bool), ("IPv6", IpAddr::is_ipv6)] {
            let addresses: Vec<_> = client.addresses.iter().filter(|address| is_of(address)).collect();
            if !addresses.is_empty() {
                slices.push(slice(proxy, wanted, (carried.id, port), family, &addresses));
            }
        }
    }
    slices
}

fn slice(
    proxy: &ContainerNetworkTunnelProxy,
    wanted: &DesiredTunnel,
    (id, port): (u32, u16),
    family: &str,
    addresses: &[&IpAddr],
) -> EndpointSlice {
    let own_namespace = proxy.namespace().unwrap_or_default();
    let (namespace, service) = client_of(&own_namespace, &wanted.spec);
    let proxy_name = proxy.name_any();
    let elsewhere = (namespace != own_namespace).then_some(own_namespace.as_str());
    let name = slice_name(elsewhere, &proxy_name, &wanted.spec.name, family);
    let mut labels = vec![
        (SERVICE_NAME_LABEL.to_owned(), service.to_owned()),
        (MANAGED_BY.to_owned(), names::GROUP.to_owned()),
    ];
    // A label's value is shorter than a name may be.
    if proxy_name.len() <= 63 {
        labels.push((names::LABEL_TUNNEL_PROXY.to_owned(), proxy_name));
    }
    let protocol = match wanted.spec.protocol {
        TunnelProtocol::Tcp => "TCP",
        TunnelProtocol::Udp => "UDP",
    };
    EndpointSlice {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels.into_iter().collect()),
            annotations: Some([(names::ANNOTATION_TUNNEL_ID.to_owned(), id.to_string())].into()),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: vec![Endpoint {
            addresses: addresses.iter().map(ToString::to_string).collect(),
            conditions: Some(EndpointConditions {
                ready: Some(true),
                serving: Some(true),
                terminating: Some(false),
            }),
            ..Endpoint::default()
        }],
        ports: Some(vec![EndpointPort {
            name: Some(wanted.client_port_name.clone().unwrap_or_default()),
            port: Some(port.into()),
            protocol: Some(protocol.to_owned()),
            ..EndpointPort::default()
        }]),
    }
}

/// A name that no other proxy gives. In another namespace than its own (`elsewhere`) it may meet namesakes.
fn slice_name(elsewhere: Option<&str>, proxy: &str, tunnel: &str, family: &str) -> String {
    let name = format!("{proxy}.{tunnel}.{}", family.to_ascii_lowercase());
    if elsewhere.is_none() && name.len() <= LONGEST {
        return name;
    }
    let whole = format!("{}/{name}", elsewhere.unwrap_or_default());
    let apart = digest(&serde_json::Map::from_iter([(whole, true.into())]));
    let cut: String = name.chars().take(LONGEST - apart.len() - 1).collect();
    format!("{}-{apart}", cut.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use causeway_api::{ContainerNetworkTunnelProxySpec, Tunnel};

    use super::*;
    use crate::containers::tunnel::state::{CarriedTunnel, ClientState};
    use crate::containers::tunnel::validate::Network;
    use causeway_ir::tunnel::LinkState;

    fn proxy() -> ContainerNetworkTunnelProxy {
        let mut proxy = ContainerNetworkTunnelProxy::new("lab", ContainerNetworkTunnelProxySpec::default());
        proxy.metadata.namespace = Some("dev".into());
        proxy
    }

    fn desired() -> Desired {
        let spec = Tunnel { name: "web".into(), client_service_name: "web-in".into(), ..Tunnel::default() };
        let tunnel = DesiredTunnel {
            spec,
            allowed_sources: Vec::new(),
            usual_port: Some(80),
            endpoints: vec![causeway_ir::Endpoint::new(std::net::SocketAddr::from(([127, 0, 0, 1], 80)))],
            client_port_name: Some("http".into()),
            problem: None,
        };
        let network = Ok(Network { id: "n".into(), name: "blue".into() });
        Desired { network, aliases: Vec::new(), base_image: None, tunnels: vec![tunnel] }
    }

    fn state(tunnel: TunnelState) -> State {
        let client = ClientState {
            id: "c".into(),
            control_port: 1,
            data_port: 2,
            addresses: vec!["172.18.0.2".parse().unwrap(), "fd00::2".parse().unwrap()],
        };
        let tunnel = CarriedTunnel { id: 3, state: tunnel };
        let tunnels = BTreeMap::from([("web".to_owned(), tunnel)]);
        State { client: Some(client), link: LinkState::Up, tunnels, ..State::default() }
    }

    #[test]
    fn one_slice_for_each_family_and_only_while_the_tunnel_carries() {
        let slices = slices(&proxy(), &desired(), &state(TunnelState::Listening { port: 8080 }));
        let seen: Vec<_> = slices
            .iter()
            .map(|slice| (slice.address_type.as_str(), slice.endpoints[0].addresses[0].as_str()))
            .collect();
        assert_eq!(seen, [("IPv4", "172.18.0.2"), ("IPv6", "fd00::2")]);
        let port = &slices[0].ports.as_ref().unwrap()[0];
        assert_eq!((port.port, port.name.as_deref()), (Some(8080), Some("http")));
        assert_eq!(slices[0].labels()[SERVICE_NAME_LABEL], "web-in");
        assert_eq!(slices[0].namespace().as_deref(), Some("dev"));
        let refusing = state(TunnelState::NoEndpoints { port: 8080 });
        let carrying = state(TunnelState::Listening { port: 8080 });
        let halted = State { halted: Some("it is paused".into()), ..carrying.clone() };
        let down = State { link: LinkState::default(), ..carrying };
        for state in [refusing, halted, down] {
            assert!(super::slices(&proxy(), &desired(), &state).is_empty(), "{state:?}");
        }
    }

    #[test]
    fn long_names_are_cut_and_still_differ() {
        let proxy = "p".repeat(250);
        let (web, db) = (slice_name(None, &proxy, "web", "IPv4"), slice_name(None, &proxy, "db", "IPv4"));
        assert!(web.len() <= LONGEST);
        assert_ne!(web, db);
        assert_eq!(slice_name(None, "lab", "web", "IPv4"), "lab.web.ipv4");
    }

    #[test]
    fn namesakes_of_two_namespaces_do_not_meet_in_a_third() {
        let [one, other] = ["dev", "ops"].map(|from| slice_name(Some(from), "lab", "web", "IPv4"));
        assert_ne!(one, other);
        assert!(one.starts_with("lab.web.ipv4-"), "{one}");
    }
}
