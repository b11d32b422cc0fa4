//! The plan of a DHCP server: the networks that it serves, the addresses that it may lease, and what it tells clients.

mod hardware;
mod ipv6;
mod option;
mod validate;

use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};

pub use self::hardware::{ClientId, HardwareAddress, hex};
pub use self::ipv6::{Ipv6Plan, Ipv6Pool, Ipv6Reservation};
pub use self::option::{DhcpOption, OptionValue};
pub use self::validate::is_hostname;
use crate::{Name, Period, duration};

/// Everything that a DHCP server does on one interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DhcpPlan {
    /// The interface that clients are on.
    pub interface: Name,
    /// The server's address, by which clients know it.
    pub server: Ipv4Addr,
    /// The interface's network; its mask is told to clients.
    pub network: Ipv4Net,
    /// The addresses to lease.
    pub pool: AddressPool,
    /// How long a lease holds without renewal; default 1h.
    #[serde(default = "lease_time")]
    pub lease_time: Period,
    /// When a client renews its lease (T1); default half of the lease, or less for an early `rebindAfter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_after: Option<Period>,
    /// When a client that could not renew asks any server (T2); default seven eighths of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebind_after: Option<Period>,
    /// The way out of the network; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv4Addr>,
    /// Resolvers, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<Ipv4Addr>,
    /// The clients' own domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<Name>,
    /// Domains in which short names are looked up, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<Name>,
    /// The largest packet on the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// Ways to other networks. Clients that know these take no notice of `gateway`, so it is added to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<StaticRoute>,
    /// Servers of the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ntp_servers: Vec<Ipv4Addr>,
    /// What a machine without a disk starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<Boot>,
    /// Further options, and others in the place of those above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<DhcpOption>,
    /// Addresses that are always the same client's; they may lie outside of the pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<Reservation>,
    /// Who is served; default everybody. An empty list is nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Vec<KnownClient>>,
    /// By what a client is known again; default its identifier, where it sends one.
    #[serde(default, skip_serializing_if = "Identity::is_default")]
    pub identity: Identity,
    /// How long somebody who uses an address already is waited for before it is offered; default 300ms, 0s asks nobody.
    #[serde(default = "probe", with = "duration")]
    pub probe: Duration,
    /// How long an address is left alone after somebody else was found to use it; default 1h.
    #[serde(default = "lease_time")]
    pub quarantine: Period,
    /// Which of several servers with the same plan this one is; default the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<Replica>,
    /// Networks whose clients come through a relay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relayed: Vec<RelayedNetwork>,
    /// What IPv6 clients get; default nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Plan>,
}

/// A range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddressPool {
    /// The first.
    pub first: Ipv4Addr,
    /// The last.
    pub last: Ipv4Addr,
    /// Never leased, though in the range, such as the addresses of other servers; this server, the gateway and the
    /// resolvers never are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<IpNet>,
}

/// A network behind a relay, known by the relay's address in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RelayedNetwork {
    /// The network.
    pub network: Ipv4Net,
    /// The addresses to lease.
    pub pool: AddressPool,
    /// The way out of the network; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv4Addr>,
}

/// A way to another network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticRoute {
    /// Where it leads.
    pub to: Ipv4Net,
    /// The router; 0.0.0.0 for a network that is on the same wire.
    pub via: Ipv4Addr,
}

/// What a machine without a disk starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Boot {
    /// The file's name on that server, at most 127 bytes.
    pub file: Name,
    /// The server that has the file; default this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Ipv4Addr>,
}

/// An address that is always the same client's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reservation {
    /// The client, by its card; this or `clientId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareAddress>,
    /// The client, by the identifier that it sends; this or `hardware`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<ClientId>,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its name, told to it and to DNS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Name>,
}

/// A client that is served where not everybody is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KnownClient {
    /// Its card.
    pub hardware: HardwareAddress,
    /// Its name, told to it and to DNS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Name>,
}

/// By what a client is known again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Identity {
    /// The identifier that it sends (option 61), or its card where it sends none.
    #[default]
    ClientId,
    /// Its card alone: what boots twice on one machine gets one address.
    Hardware,
}

impl Identity {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Servers that share a pool without asking each other: each gives every so manieth address to new clients, and prolongs
/// what a client has of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replica {
    /// This one, from 0.
    pub index: u8,
    /// How many there are.
    pub of: u8,
    /// It is new among them: it prolongs what clients have and hears what others give of its part, and gives nothing to new
    /// clients. Default false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub listens: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl DhcpPlan {
    /// The network of the interface and those behind relays, each with its pool and gateway.
    pub fn networks(&self) -> impl Iterator<Item = (Ipv4Net, &AddressPool, Option<Ipv4Addr>)> {
        let own = std::iter::once((self.network, &self.pool, self.gateway));
        own.chain(self.relayed.iter().map(|relayed| (relayed.network, &relayed.pool, relayed.gateway)))
    }

    /// When a client renews its lease (T1), and when one that could not asks any server (T2), which is always later.
    pub fn renewal(&self) -> (Duration, Duration) {
        let lease = self.lease_time.get();
        let rebind = self.rebind_after.map_or(lease * 7 / 8, Period::get);
        (self.renew_after.map_or((lease / 2).min(rebind * 4 / 7), Period::get), rebind)
    }

    /// What is never leased of a network, each from its first to its last address: what stands for the network itself, the
    /// plan's own servers and gateways, and the exceptions of the pool.
    pub fn never_leased(&self, network: Ipv4Net, pool: &AddressPool) -> Vec<(Ipv4Addr, Ipv4Addr)> {
        let gateways = self.networks().filter_map(|(_, _, gateway)| gateway);
        let own = gateways.chain([self.server]).chain(self.dns_servers.iter().copied());
        let edges = (network.prefix_len() < 31).then(|| [network.network(), network.broadcast()]);
        let single = own.chain(edges.into_iter().flatten()).map(|address| (address, address));
        let except = pool.except.iter().filter_map(|net| match net {
            IpNet::V4(net) => Some((net.network(), net.broadcast())),
            IpNet::V6(_) => None,
        });
        single.chain(except).collect()
    }
}

const fn lease_time() -> Period {
    const { Period::from_secs(3600) }
}

const fn probe() -> Duration {
    Duration::from_millis(300)
}
