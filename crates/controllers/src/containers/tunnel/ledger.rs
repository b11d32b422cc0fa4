//! What is remembered of a tunnel proxy over restarts, flaps and re-creation: the ports of its container on the host, and
//! the number and port of every tunnel. Pure; `directory` keeps it on disk.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::{ContainerNetworkTunnelProxyStatus, Tunnel, TunnelProtocol};
use causeway_ir::tunnel::{Port, TunnelId};
use serde::{Deserialize, Serialize};

use super::state::ClientState;
use super::validate::Network;

/// Tunnels that are remembered after they were removed.
const MOST_FORMER: usize = 1024;

/// What is remembered of one tunnel proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Ledger {
    /// The host's ports that lead to the container: control and data.
    pub(crate) host_ports: Option<(u16, u16)>,
    /// Whether a container was made and not seen to be gone again.
    pub(crate) has_container: bool,
    /// The container as it was last, and the network that it is on: an operator that adopts the host end knows it
    /// before the runtime answers.
    pub(crate) client: Option<(ClientState, Network)>,
    /// The last number that was given to a tunnel.
    last_id: TunnelId,
    tunnels: BTreeMap<String, Entry>,
}

/// What is remembered of one tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: TunnelId,
    protocol: String,
    /// The port that the spec asked for; another one makes it another tunnel.
    fixed: Option<u16>,
    /// The port that it had last.
    port: Option<u16>,
}

impl Ledger {
    /// What a status still knows, for when the disk was lost.
    pub(crate) fn from_status(status: &ContainerNetworkTunnelProxyStatus, tunnels: &[Tunnel]) -> Self {
        let port = |port: Option<i32>| port.and_then(|port| u16::try_from(port).ok());
        let host_ports = port(status.client_proxy_control_port).zip(port(status.client_proxy_data_port));
        let has_container = status.client_proxy_container_id.is_some();
        let mut ledger = Self { host_ports, has_container, ..Self::default() };
        for known in status.tunnel_statuses.iter().filter(|known| known.tunnel_id > 0) {
            ledger.last_id = ledger.last_id.max(known.tunnel_id);
            if let Some(tunnel) = tunnels.iter().find(|tunnel| tunnel.name == known.name) {
                let entry =
                    Entry { id: known.tunnel_id, port: port(known.client_proxy_port), ..entry(0, tunnel) };
                ledger.tunnels.insert(known.name.clone(), entry);
            }
        }
        ledger
    }

    /// The tunnel's number: its own for as long as it asks for the same.
    pub(crate) fn id(&mut self, tunnel: &Tunnel) -> TunnelId {
        if let Some(known) = self.known(tunnel) {
            return known.id;
        }
        self.last_id += 1;
        self.tunnels.insert(tunnel.name.clone(), entry(self.last_id, tunnel));
        self.last_id
    }

    /// The port to ask for: the spec's, or the one it had, or `usual`; none when nothing is known of it.
    pub(crate) fn port(&self, tunnel: &Tunnel, usual: Option<u16>) -> Option<Port> {
        if let Some(port) = tunnel.client_port {
            return Some(Port::Fixed(port));
        }
        let had = self.known(tunnel).and_then(|entry| entry.port);
        had.or(usual).map(Port::Preferred)
    }

    /// What is remembered under the tunnel's name, if that was for the same.
    fn known(&self, tunnel: &Tunnel) -> Option<&Entry> {
        let wanted = entry(0, tunnel);
        let is_same = |known: &&Entry| known.protocol == wanted.protocol && known.fixed == wanted.fixed;
        self.tunnels.get(&tunnel.name).filter(is_same)
    }

    /// Remembers the port that a tunnel got; true if that is news.
    pub(crate) fn learn(&mut self, name: &str, port: u16) -> bool {
        let Some(entry) = self.tunnels.get_mut(name) else { return false };
        let is_news = entry.port != Some(port);
        entry.port = Some(port);
        is_news
    }

    /// Forgets the oldest of the tunnels that are no longer asked for, when there are too many of them.
    pub(crate) fn trim<'a>(&mut self, wanted: impl Iterator<Item = &'a str>) {
        let wanted: BTreeSet<_> = wanted.collect();
        let is_wanted = |name: &str| wanted.contains(name);
        let mut former: Vec<TunnelId> =
            self.tunnels.iter().filter(|(name, _)| !is_wanted(name)).map(|(_, entry)| entry.id).collect();
        former.sort_unstable_by(|a, b| b.cmp(a));
        let Some(oldest) = former.get(MOST_FORMER).copied() else { return };
        self.tunnels.retain(|name, entry| entry.id > oldest || is_wanted(name));
    }
}

fn entry(id: TunnelId, tunnel: &Tunnel) -> Entry {
    let protocol = match tunnel.protocol {
        TunnelProtocol::Tcp => "TCP",
        TunnelProtocol::Udp => "UDP",
    };
    Entry { id, protocol: protocol.to_owned(), fixed: tunnel.client_port, port: None }
}

#[cfg(test)]
mod tests {
    use causeway_api::TunnelStatus;

    use super::*;

    fn tunnel(name: &str) -> Tunnel {
        Tunnel { name: name.to_owned(), ..Tunnel::default() }
    }

    #[test]
    fn a_tunnel_keeps_its_number_and_port_and_another_gets_its_own() {
        let mut ledger = Ledger::default();
        let web = ledger.id(&tunnel("web"));
        assert_ne!(ledger.id(&tunnel("db")), web);
        assert_eq!(ledger.port(&tunnel("web"), None), None, "nothing is known of it yet");
        assert_eq!(ledger.port(&tunnel("web"), Some(80)), Some(Port::Preferred(80)));
        assert!(ledger.learn("web", 8080));
        assert!(!ledger.learn("web", 8080));
        assert_eq!(ledger.id(&tunnel("web")), web);
        assert_eq!(ledger.port(&tunnel("web"), Some(80)), Some(Port::Preferred(8080)), "the one it had");
    }

    #[test]
    fn the_spec_has_the_first_word_on_the_port() {
        let mut ledger = Ledger::default();
        let fixed = Tunnel { client_port: Some(5000), ..tunnel("web") };
        ledger.id(&fixed);
        ledger.learn("web", 8080);
        assert_eq!(ledger.port(&fixed, Some(80)), Some(Port::Fixed(5000)));
    }

    #[test]
    fn what_is_added_under_an_old_name_for_something_else_is_another_tunnel() {
        let mut ledger = Ledger::default();
        let first = ledger.id(&tunnel("web"));
        ledger.learn("web", 8080);
        let other = Tunnel { protocol: TunnelProtocol::Udp, ..tunnel("web") };
        assert_ne!(ledger.id(&other), first);
        assert_eq!(ledger.port(&other, Some(53)), Some(Port::Preferred(53)));
    }

    #[test]
    fn former_tunnels_are_not_remembered_without_end() {
        let mut ledger = Ledger::default();
        let kept = tunnel("kept");
        ledger.id(&kept);
        for n in 0..MOST_FORMER * 2 {
            ledger.id(&tunnel(&format!("t{n}")));
        }
        ledger.trim(["kept"].into_iter());
        assert_eq!(ledger.tunnels.len(), MOST_FORMER + 1);
        assert_eq!(ledger.id(&kept), 1);
        assert_eq!(
            ledger.id(&tunnel(&format!("t{}", MOST_FORMER * 2 - 1))),
            ledger.last_id,
            "the newest stay"
        );
    }

    #[test]
    fn a_status_is_a_second_memory() {
        let status = ContainerNetworkTunnelProxyStatus {
            client_proxy_container_id: Some("c1".into()),
            client_proxy_control_port: Some(40001),
            client_proxy_data_port: Some(40002),
            tunnel_statuses: vec![TunnelStatus {
                name: "web".into(),
                tunnel_id: 7,
                client_proxy_port: Some(8080),
                ..TunnelStatus::default()
            }],
            ..ContainerNetworkTunnelProxyStatus::default()
        };
        let mut ledger = Ledger::from_status(&status, &[tunnel("web"), tunnel("db")]);
        assert_eq!((ledger.host_ports, ledger.has_container), (Some((40001, 40002)), true));
        assert_eq!(ledger.id(&tunnel("web")), 7);
        assert_eq!(ledger.port(&tunnel("web"), None), Some(Port::Preferred(8080)));
        assert_eq!(ledger.id(&tunnel("db")), 8, "numbers are never used again");
    }
}
