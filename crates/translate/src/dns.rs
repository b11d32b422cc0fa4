//! DNSServers: what is wrong with one, and the plan that it means.

#[cfg(test)]
mod tests;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use causeway_ir::dns::{DnsPlan, Forward, Record, Upstream, View, Zone};
use causeway_ir::{Name, Pattern};
use ipnet::IpNet;

use crate::services::ServiceRef;

pub use validate::validate;

/// A `DNSServer` that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Valid {
    /// Its address on the isolated network.
    pub server: IpAddr,
    /// Its port.
    pub port: u16,
    /// The isolated network.
    pub network: IpNet,
    /// The domain that it knows.
    pub domain: Name,
    /// How long answers may be kept.
    pub ttl: Duration,
    /// The proxy's address.
    pub proxy: Option<IpAddr>,
    /// Where clients on the pod network are sent.
    pub internal: Option<Internal>,
    /// Names and their addresses.
    pub entries: BTreeMap<Pattern, BTreeSet<IpAddr>>,
    /// Resolvers for everything else.
    pub upstreams: Vec<Upstream>,
    /// The DHCPServer whose clients have names here.
    pub lease_names_of: Option<String>,
}

/// Where clients on the pod network are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Internal {
    /// An address.
    Address(IpAddr),
    /// The addresses of a Service.
    Service(ServiceRef),
}

impl Internal {
    /// The Service, if it is one.
    pub fn service(self) -> Option<ServiceRef> {
        match self {
            Self::Service(service) => Some(service),
            Self::Address(_) => None,
        }
    }
}

/// What a plan depends on besides the object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The addresses of the Service that the pod network is sent to.
    pub internal: Vec<IpAddr>,
    /// Clients of the DHCP server: a name without its domain, and an address.
    pub leases: Vec<(String, IpAddr)>,
}

/// The plan, for these addresses of the pod.
pub fn translate(server: &Valid, binds: &[IpAddr], facts: &Facts) -> DnsPlan {
    let internal = match &server.internal {
        Some(Internal::Address(address)) => vec![*address],
        Some(Internal::Service(_)) => facts.internal.clone(),
        None => Vec::new(),
    };
    let mut isolated = server.entries.clone();
    for (name, address) in lease_names(server, facts) {
        isolated.entry(name).or_default().insert(address);
    }
    let leads_to_proxy = |address: &IpAddr| server.proxy.is_none_or(|proxy| proxy == *address);
    let seen_by_pods = server.entries.iter().filter_map(|(name, addresses)| {
        server.internal.as_ref()?;
        let through_proxy = addresses.iter().any(leads_to_proxy);
        let own = addresses.iter().filter(|address| !leads_to_proxy(address)).copied();
        let addresses: BTreeSet<IpAddr> =
            own.chain(internal.iter().copied().filter(|_| through_proxy)).collect();
        (!addresses.is_empty()).then(|| (name.clone(), addresses))
    });
    let port = server.port;
    let mut sockets: Vec<SocketAddr> = binds.iter().map(|address| SocketAddr::new(*address, port)).collect();
    sockets.sort_unstable();
    sockets.dedup();
    DnsPlan {
        binds: sockets,
        views: vec![
            View {
                name: word("isolated"),
                sources: vec![server.network],
                recursion: None,
                reverse: vec![server.network],
                zones: zones(server, isolated),
            },
            View {
                name: word("pods"),
                sources: Vec::new(),
                recursion: None,
                // Not even who is there leaves for an upstream.
                reverse: vec![server.network],
                zones: zones(server, seen_by_pods.collect()),
            },
        ],
        forward: Forward { upstreams: server.upstreams.clone(), ..Forward::default() },
        ..DnsPlan::default()
    }
}

/// The names of clients: one label below the domain each, and never one that the object says something of, also by a `*`.
fn lease_names<'a>(server: &'a Valid, facts: &'a Facts) -> impl Iterator<Item = (Pattern, IpAddr)> + 'a {
    facts.leases.iter().filter_map(|(name, address)| {
        let name = Pattern::parse(&format!("{name}.{}", server.domain)).ok()?;
        let Pattern::Exact(text) = &name else { return None };
        let is_label = text.split('.').count() == server.domain.split('.').count() + 1;
        // The server's own, too: whoever has it would speak for the domain.
        let is_own = *text == format!("ns.{}", server.domain);
        let is_taken = is_own || server.entries.keys().any(|entry| entry.covers(&name));
        (is_label && !is_taken).then_some((name, *address))
    })
}

/// The domain's own zone, and one for each name outside of it, which takes no other name from its owner.
fn zones(server: &Valid, entries: BTreeMap<Pattern, BTreeSet<IpAddr>>) -> Vec<Zone> {
    let domain = &server.domain;
    let is_inside = |name: &str| {
        name == domain.as_str()
            || name.strip_suffix(domain.as_str()).is_some_and(|front| front.ends_with('.'))
    };
    let mut zones: BTreeMap<String, Vec<Record>> = BTreeMap::from([(domain.to_string(), Vec::new())]);
    for (name, addresses) in entries {
        let (Pattern::Exact(text) | Pattern::Below(text)) = &name;
        let zone = if is_inside(text) { domain.to_string() } else { text.clone() };
        let record = Record { name, addresses: addresses.into_iter().collect(), reverse: true, ttl: None };
        zones.entry(zone).or_default().push(record);
    }
    let zone = |(domain, records): (String, Vec<Record>)| {
        Some(Zone {
            domain: Name::parse(&domain).ok()?,
            ttl: server.ttl,
            negative_ttl: server.ttl,
            name_server: None,
            open: domain != server.domain.as_str(),
            records,
        })
    };
    zones.into_iter().filter_map(zone).collect()
}

fn word(text: &str) -> Name {
    Name::parse(text).expect("a word is a name")
}
