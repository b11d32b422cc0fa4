//! What a DNS server and a DHCP server have in common: an address of their own on an isolated network, and problems by the
//! paths of fields.

use std::net::IpAddr;
use std::time::Duration;

use causeway_ir::{Problem, duration};
use ipnet::IpNet;

/// What is wrong with an object.
#[derive(Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    pub(crate) fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { path: path.into(), message: message.into() });
    }

    /// A value that is parsed, or a problem.
    pub(crate) fn take<T>(&mut self, path: &str, parsed: Result<T, String>) -> Option<T> {
        parsed.map_err(|message| self.add(path, message)).ok()
    }

    pub(crate) fn duration(&mut self, path: &str, text: &str) -> Option<Duration> {
        self.take(path, duration::parse(text))
    }

    /// A server's own address, which must be a machine's and in the network.
    pub(crate) fn server(&mut self, path: &str, text: &str, network: Option<IpNet>) -> Option<IpAddr> {
        let Some(address) = crate::proxy::bare_address(text) else {
            self.add(path, format!("`{text}` is not an address: write one like 192.168.100.5"));
            return None;
        };
        let network = network.or_else(|| text.parse().ok());
        if let Some(network) = network.filter(|network| !is_host(network, address)) {
            let message = format!(
                "{address} is not an address for a machine in {}: write one of its own in it",
                network.trunc()
            );
            self.add(path, message);
            return None;
        }
        if address.is_unspecified() || address.is_multicast() {
            self.add(path, format!("{address} can't be a server's own address: write one of its network"));
            return None;
        }
        Some(address)
    }

    /// A namespace alone attaches nothing.
    pub(crate) fn attachment(&mut self, name: Option<&String>, namespace: Option<&String>) {
        if let (None, Some(namespace)) = (name, namespace) {
            let message = format!(
                "`{namespace}` alone attaches nothing: write networkAttachmentName too, or leave it out"
            );
            self.add("spec.networkConfig.networkAttachmentNamespace", message);
        }
    }
}

/// Whether a machine in the network may have this address: not the network's own, nor everybody's.
pub(crate) fn is_host(network: &IpNet, address: IpAddr) -> bool {
    let is_small = network.prefix_len() + 1 >= network.max_prefix_len();
    let is_edge = match network {
        IpNet::V4(_) => address == network.network() || address == network.broadcast(),
        IpNet::V6(_) => address == network.network(),
    };
    network.contains(&address) && (is_small || !is_edge)
}
