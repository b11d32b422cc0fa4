//! What IPv6 clients get: addresses by DHCPv6, and router advertisements.

use std::net::Ipv6Addr;

use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

use super::{ClientId, HardwareAddress};
use crate::{Name, Period};

/// What IPv6 clients get. Times, domain and search list are those of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ipv6Plan {
    /// The network.
    pub network: Ipv6Net,
    /// The addresses to lease; default none, then clients are only told options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Ipv6Pool>,
    /// Resolvers, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<Ipv6Addr>,
    /// Addresses that are always the same client's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<Ipv6Reservation>,
    /// Whether routers are advertised, which needs the right to raw sockets; default true. Without it another router
    /// must tell clients to ask for addresses.
    #[serde(default = "yes")]
    pub advertise: bool,
    /// The router on the network, by its link-local address; default none: clients talk to their own network only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv6Addr>,
    /// How often routers are advertised unasked; default 200s.
    #[serde(default = "interval")]
    pub interval: Period,
}

/// A range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ipv6Pool {
    /// The first.
    pub first: Ipv6Addr,
    /// The last.
    pub last: Ipv6Addr,
}

/// An address that is always the same client's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ipv6Reservation {
    /// The client, by its card; this or `duid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareAddress>,
    /// The client, by its DUID; this or `hardware`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duid: Option<ClientId>,
    /// Its address.
    pub address: Ipv6Addr,
    /// Its name, told to DNS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Name>,
}

const fn yes() -> bool {
    true
}

const fn interval() -> Period {
    const { Period::from_secs(200) }
}
