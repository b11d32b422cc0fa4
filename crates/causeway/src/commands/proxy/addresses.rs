//! Which addresses this proxy listens on: the pod's always, that of the isolated network once this machine has it.

use std::net::{IpAddr, UdpSocket};

use causeway_api::ProxyServerSpec;
use causeway_controllers::vlan::proxy::translate::{Bind, Place};
use causeway_controllers::vlan::proxy::validate::bare_address;

/// The addresses to listen on, and what is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    pub bind: Vec<Bind>,
    /// Whether the isolated network is there; `None` if none is asked for.
    pub attached: Option<bool>,
}

/// Finds out by trying: an address that a socket can be bound to is one of this machine.
pub fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// What to listen on. An address that was given replaces those of the spec, since the spec's are of all replicas.
pub fn choose(
    spec: &ProxyServerSpec,
    given: Option<IpAddr>,
    pod: IpAddr,
    is_here: impl Fn(IpAddr) -> bool,
) -> Addresses {
    let network = &spec.network_config;
    let wanted: Vec<IpAddr> = match given {
        Some(address) => vec![address],
        None => std::iter::once(&network.server_ip)
            .chain(&network.additional_server_ips)
            .filter_map(|text| bare_address(text))
            .collect(),
    };
    let mut bind: Vec<Bind> = wanted
        .into_iter()
        .filter(|address| is_here(*address))
        .map(|address| Bind { address, place: Place::Server })
        .collect();
    let attached = network.network_attachment_name.as_ref().map(|_| !bind.is_empty());
    if bind.iter().all(|at| at.address != pod) {
        bind.push(Bind { address: pod, place: Place::Pod });
    }
    Addresses { bind, attached }
}

#[cfg(test)]
mod tests {
    use causeway_api::ProxyNetwork;

    use super::*;

    fn spec(attachment: Option<&str>) -> ProxyServerSpec {
        let network_config = ProxyNetwork {
            server_ip: "192.168.100.5/24".into(),
            additional_server_ips: vec!["192.168.100.6".into()],
            network_attachment_name: attachment.map(Into::into),
            ..ProxyNetwork::default()
        };
        ProxyServerSpec { network_config, ..ProxyServerSpec::default() }
    }

    #[test]
    fn listens_on_what_this_machine_has_and_always_on_the_pods_address() {
        let pod: IpAddr = "10.0.0.9".parse().unwrap();
        let second: IpAddr = "192.168.100.6".parse().unwrap();
        let found = choose(&spec(Some("vlan")), None, pod, |a| a == second);
        assert_eq!(found.attached, Some(true));
        assert_eq!(
            found.bind,
            [Bind { address: second, place: Place::Server }, Bind { address: pod, place: Place::Pod }]
        );
        let found = choose(&spec(Some("vlan")), None, pod, |_| false);
        assert_eq!((found.attached, found.bind.len()), (Some(false), 1));
        let found = choose(&spec(None), Some(second), second, |_| true);
        assert_eq!(
            (found.attached, found.bind),
            (None, vec![Bind { address: second, place: Place::Server }])
        );
    }

    #[test]
    fn knows_loopback_from_an_address_elsewhere() {
        assert!(is_here("127.9.8.7".parse().unwrap()));
        assert!(!is_here("192.0.2.1".parse().unwrap()));
    }
}
