//! The plan of the host end. Pure but for the ledger, which gives numbers and remembers ports.

use std::path::PathBuf;

use causeway_api::TunnelProtocol;
use causeway_ir::Name;
use causeway_ir::tunnel::{self, Dial, Tunnel, TunnelPlan};

use super::{Desired, DesiredTunnel};
use crate::containers::tunnel::ledger::Ledger;

/// What the host end is to do.
pub(crate) fn plan(desired: &Desired, dial: Dial, authority: PathBuf, ledger: &mut Ledger) -> TunnelPlan {
    let tunnels = desired.tunnels.iter().filter_map(|desired| tunnel(desired, ledger)).collect();
    TunnelPlan { dial: Some(dial), authority, tunnels }
}

/// One tunnel; none while nothing is known that its port could be. One that can't carry anything keeps its port and
/// refuses, so that the port is still there when it can.
fn tunnel(desired: &DesiredTunnel, ledger: &mut Ledger) -> Option<Tunnel> {
    let port = ledger.port(&desired.spec, desired.usual_port)?;
    let name = Name::parse(&desired.spec.name).ok()?;
    let protocol = match desired.spec.protocol {
        TunnelProtocol::Tcp => tunnel::TunnelProtocol::Tcp,
        TunnelProtocol::Udp => tunnel::TunnelProtocol::Udp,
    };
    Some(Tunnel {
        port,
        protocol,
        allowed_sources: desired.allowed_sources.clone(),
        endpoints: desired.endpoints.clone(),
        ..Tunnel::new(ledger.id(&desired.spec), name)
    })
}

#[cfg(test)]
mod tests {
    use causeway_ir::Endpoint;
    use causeway_ir::tunnel::Port;

    use super::*;

    fn wanted(usual_port: Option<u16>) -> DesiredTunnel {
        DesiredTunnel {
            spec: causeway_api::Tunnel { name: "web".into(), ..causeway_api::Tunnel::default() },
            allowed_sources: vec!["10.0.0.0/8".parse().unwrap()],
            usual_port,
            endpoints: vec![Endpoint::new(std::net::SocketAddr::from(([127, 0, 0, 1], 80)))],
            client_port_name: None,
            problem: None,
        }
    }

    #[test]
    fn two_tunnels_to_one_service_are_two() {
        let mut ledger = Ledger::default();
        let first = tunnel(&wanted(Some(80)), &mut ledger).unwrap();
        let mut other = wanted(Some(80));
        other.spec.name = "again".into();
        let second = tunnel(&other, &mut ledger).unwrap();
        assert_ne!(first.id, second.id);
        assert_eq!((first.port, first.endpoints.len()), (Port::Preferred(80), 1));
        assert_eq!(first.allowed_sources, wanted(None).allowed_sources);
    }

    #[test]
    fn a_tunnel_of_unknown_port_waits_and_one_that_had_a_port_keeps_it() {
        let mut ledger = Ledger::default();
        assert_eq!(tunnel(&wanted(None), &mut ledger), None);
        tunnel(&wanted(Some(80)), &mut ledger);
        ledger.learn("web", 81);
        assert_eq!(tunnel(&wanted(None), &mut ledger).unwrap().port, Port::Preferred(81));
    }
}
