//! DHCPServers: what is wrong with one, and the plan that it means.

mod conflict;
mod options;
#[cfg(test)]
mod tests;
mod validate;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use causeway_ir::Name;
use causeway_ir::dhcp::{DhcpPlan, HardwareAddress, KnownClient, Replica, is_hostname};
use ipnet::{IpNet, Ipv4Net};

pub use conflict::{conflict, share};
pub use validate::validate;

/// A `DHCPServer` that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Valid {
    /// The addresses of its replicas on the isolated network.
    pub servers: Vec<Ipv4Addr>,
    /// Whether only known clients are served.
    pub is_for_known_clients: bool,
    /// The plan of a lone server with the first address, on an interface that is yet to be known.
    plan: DhcpPlan,
}

impl Valid {
    /// The isolated network.
    pub fn network(&self) -> Ipv4Net {
        self.plan.network
    }

    /// Whether an address is always the same client's.
    pub fn reserves(&self, address: IpAddr) -> bool {
        let v6 = self.plan.ipv6.iter().flat_map(|v6| &v6.reservations).map(|one| IpAddr::V6(one.address));
        let v4 = self.plan.reservations.iter().map(|one| IpAddr::V4(one.address));
        v4.chain(v6).any(|reserved| reserved == address)
    }

    /// How long a client has an address.
    pub fn lease_time(&self) -> Duration {
        self.plan.lease_time.get()
    }

    /// The first and the last address that are leased.
    pub fn range(&self) -> (Ipv4Addr, Ipv4Addr) {
        (self.plan.pool.first, self.plan.pool.last)
    }
}

/// What is known of the others on a server's network.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Clients that are served where not everybody is.
    pub clients: Vec<KnownClient>,
    /// Addresses of other servers.
    pub taken: Vec<Ipv4Addr>,
    /// How many servers shared the range before, as long as that matters.
    pub shared_before: Option<u8>,
}

/// The plan of the replica at this address, on this interface.
pub fn translate(
    server: &Valid,
    address: Ipv4Addr,
    interface: Name,
    Surroundings { clients, taken, shared_before }: &Surroundings,
) -> DhcpPlan {
    let count = u8::try_from(server.servers.len()).unwrap_or(u8::MAX);
    let index = server.servers.iter().position(|own| *own == address).unwrap_or_default();
    let index = u8::try_from(index).unwrap_or_default();
    // Of what another had, new clients get nothing as long as it may be leased.
    let of = shared_before.map_or(count, |before| before.max(count));
    let listens = shared_before.is_some_and(|before| index >= before);
    let others = server.servers.iter().chain(taken).filter(|other| **other != address);
    let mut plan = DhcpPlan {
        interface,
        server: address,
        replica: (of > 1).then_some(Replica { index, of, listens }),
        clients: server.is_for_known_clients.then(|| clients.clone()),
        ..server.plan.clone()
    };
    plan.pool.except.extend(others.map(|other| IpNet::from(IpAddr::V4(*other))));
    plan
}

/// Clients in lines of a card and a name, as the operator hands them to servers; a line that is none is left out.
pub fn read_clients(lines: &str) -> Vec<KnownClient> {
    let client = |line: &str| {
        let mut words = line.split_whitespace();
        let hardware = HardwareAddress::parse(words.next()?).ok()?;
        // An object's name may be longer than a client's, which harms nobody else.
        let name = words.next().filter(|name| is_hostname(name));
        Some(KnownClient { hardware, hostname: name.and_then(|name| Name::parse(name).ok()) })
    };
    lines.lines().filter_map(client).collect()
}

/// The same, to be handed over.
pub fn write_clients<'a>(clients: impl IntoIterator<Item = (&'a HardwareAddress, &'a String)>) -> String {
    clients.into_iter().fold(String::new(), |lines, (card, name)| lines + &format!("{card} {name}\n"))
}
