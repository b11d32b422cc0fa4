//! The addresses that a Gateway asks for, what became of them, and what its status says.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::kinds::GatewayAddress;
use super::picture::RequestedAddress;
use super::world::{Address, AddressKind, Observed};
use crate::references::Verdict;

/// As many as a status takes.
const MOST: usize = 16;

/// The addresses that a Gateway asks for.
#[derive(Default)]
pub(super) struct Requested {
    /// Those that can be asked for.
    pub(super) good: Vec<RequestedAddress>,
    /// Why one is of a kind that nobody can have here.
    pub(super) unsupported: Option<String>,
    /// Why one is no address at all.
    malformed: Option<String>,
}

impl Requested {
    pub(super) fn of(written: &[GatewayAddress]) -> Self {
        let mut requested = Self::default();
        for address in written {
            let value = address.value.as_deref().filter(|value| !value.is_empty());
            match (AddressKind::parse(address.kind.as_deref()), value) {
                (Some(AddressKind::Ip), None) => {
                    requested.good.push(RequestedAddress::Any(AddressKind::Ip));
                }
                (Some(AddressKind::Ip), Some(value)) if value.parse::<IpAddr>().is_ok() => {
                    let address = Address { kind: AddressKind::Ip, value: value.to_owned() };
                    requested.good.push(RequestedAddress::This(address));
                }
                (Some(AddressKind::Ip), Some(value)) => {
                    requested.malformed.get_or_insert(format!("`{value}` is no IP address"));
                }
                (Some(AddressKind::Hostname) | None, _) => {
                    let kind = address.kind.as_deref().unwrap_or_default();
                    requested.unsupported.get_or_insert(format!(
                        "addresses of type {kind} can't be asked for here: write IPAddress, or leave spec.addresses out"
                    ));
                }
            }
        }
        requested
    }

    fn wanted(&self) -> impl Iterator<Item = &Address> {
        self.good.iter().filter_map(|address| match address {
            RequestedAddress::This(address) => Some(address),
            RequestedAddress::Any(_) => None,
        })
    }

    /// Whether the data plane has an address that clients may use, and all that were asked for.
    pub(super) fn verdict(&self, observed: &Observed) -> Verdict {
        let not_usable = |message: String| Verdict::no("AddressNotUsable", message);
        if let Some(why) = &self.malformed {
            return not_usable(why.clone());
        }
        for address in self.wanted() {
            if let Some(why) = observed.unusable.get(&address.value) {
                return not_usable(format!("{} can't be had: {why}", address.value));
            }
        }
        let missing = self.wanted().find(|address| !observed.addresses.contains(address));
        if let Some(address) = missing {
            let message = format!("{} is not assigned yet", address.value);
            return Verdict::no("AddressNotAssigned", message);
        }
        if observed.addresses.is_empty() {
            let trouble = observed.trouble.as_deref().unwrap_or("its Service or pods have none yet");
            return Verdict::no("AddressNotAssigned", format!("no address is assigned: {trouble}"));
        }
        if observed.node_ports.is_empty() {
            return Verdict::yes("Programmed", "clients are served at the addresses");
        }
        let ports = observed.node_ports.iter().map(|(port, on_node)| format!("{on_node} for {port}"));
        let ports = ports.collect::<Vec<_>>().join(", ");
        Verdict::yes("Programmed", format!("clients are served at the addresses, on ports of nodes: {ports}"))
    }

    /// The addresses as a status has them: where some are asked for, those alone.
    pub(super) fn status(&self, observed: &Observed) -> Vec<Value> {
        let asked = self.wanted().next().is_some();
        let shown = observed
            .addresses
            .iter()
            .filter(|address| !asked || self.wanted().any(|wanted| wanted == *address));
        shown
            .take(MOST)
            .map(|address| json!({ "type": address.kind.as_str(), "value": address.value }))
            .collect()
    }
}
