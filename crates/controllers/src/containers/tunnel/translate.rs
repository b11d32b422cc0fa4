//! What the link is asked to carry for a tunnel. Pure but for the ledger, which gives numbers and remembers ports.

use causeway_api::TunnelProtocol;
use causeway_link::{Protocol, Tunnel};

use super::ledger::Ledger;
use super::wish::WantedTunnel;

/// The link's tunnel; none while nothing is known that its port could be. One that can't carry anything keeps its port and
/// refuses, so that the port is still there when it can.
pub fn link_tunnel(wanted: &WantedTunnel, ledger: &mut Ledger) -> Option<Tunnel> {
    let port = ledger.port(&wanted.spec, wanted.usual_port)?;
    let protocol = match wanted.spec.protocol {
        TunnelProtocol::Tcp => Protocol::Tcp,
        TunnelProtocol::Udp => Protocol::Udp,
    };
    Some(Tunnel {
        port,
        protocol,
        allowed_sources: wanted.allowed_sources.clone(),
        targets: wanted.targets.clone(),
        ..Tunnel::new(ledger.id(&wanted.spec), &wanted.spec.name)
    })
}

#[cfg(test)]
mod tests {
    use causeway_link::Port;

    use super::*;

    fn wanted(usual_port: Option<u16>) -> WantedTunnel {
        WantedTunnel {
            spec: causeway_api::Tunnel { name: "web".into(), ..causeway_api::Tunnel::default() },
            allowed_sources: vec!["10.0.0.0/8".parse().unwrap()],
            usual_port,
            targets: vec!["127.0.0.1:80".parse().unwrap()],
            client_port_name: None,
            lack: None,
        }
    }

    #[test]
    fn two_tunnels_to_one_service_are_two() {
        let mut ledger = Ledger::default();
        let first = link_tunnel(&wanted(Some(80)), &mut ledger).unwrap();
        let mut other = wanted(Some(80));
        other.spec.name = "again".into();
        let second = link_tunnel(&other, &mut ledger).unwrap();
        assert_ne!(first.id, second.id);
        assert_eq!((first.port, first.targets.len()), (Port::Preferred(80), 1));
        assert_eq!(first.allowed_sources, wanted(None).allowed_sources);
    }

    #[test]
    fn a_tunnel_of_unknown_port_waits_and_one_that_had_a_port_keeps_it() {
        let mut ledger = Ledger::default();
        assert_eq!(link_tunnel(&wanted(None), &mut ledger), None);
        link_tunnel(&wanted(Some(80)), &mut ledger);
        ledger.learn("web", 81);
        assert_eq!(link_tunnel(&wanted(None), &mut ledger).unwrap().port, Port::Preferred(81));
    }
}
