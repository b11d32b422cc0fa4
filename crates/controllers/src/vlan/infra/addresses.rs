//! Chooses addresses in an isolated network for servers that have none written, and the range that DHCP hands out.
//! Pure and deterministic: the same input gives the same answer, and what was chosen once stays while it is possible.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Addresses at the start of a network that a chosen range leaves to servers, in networks large enough.
const SERVER_BLOCK: u128 = 16;
/// A chosen IPv6 range stops here: more clients than this are not on one link.
const LARGEST_CHOSEN_V6_RANGE: u128 = 1 << 16;

/// A server that needs an address, in the order in which addresses are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Server {
    /// The DHCP server.
    Dhcp,
    /// The DNS server.
    Dns,
    /// The first proxy.
    Proxy,
}

/// One address or none for each server.
pub(crate) type PerServer = [Option<IpAddr>; 3];

/// What is known before choosing.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The network.
    pub(crate) network: IpNet,
    /// Its router.
    pub(crate) gateway: IpAddr,
    /// Addresses that are written in the spec.
    pub(crate) written: PerServer,
    /// Further addresses that are taken, such as those of more proxies.
    pub(crate) taken: Vec<IpAddr>,
    /// Addresses of others, which a range of ours does not give out, wherever they lie.
    pub(crate) claimed: Vec<IpAddr>,
    /// Addresses of clients, which no server is given.
    pub(crate) reserved: Vec<IpAddr>,
    /// The range that is written in the spec.
    pub(crate) written_range: Option<(IpAddr, IpAddr)>,
    /// Ranges that others hand out on the same network.
    pub(crate) others: Vec<(IpAddr, IpAddr)>,
    /// What was chosen the last time.
    pub(crate) previous: Chosen,
    /// Whether a server runs with the range that was chosen the last time.
    pub(crate) is_range_in_use: bool,
}

/// The addresses in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Each server's address; none when the network is full.
    pub(crate) servers: PerServer,
    /// The range that DHCP hands out; none when nothing is left.
    pub(crate) range: Option<(IpAddr, IpAddr)>,
}

impl Chosen {
    /// The address of one server.
    pub(crate) fn server(&self, server: Server) -> Option<IpAddr> {
        self.servers[server as usize]
    }
}

/// Chooses what is not written. Every server gets an address, also one that is not wanted at present, so that turning
/// it on later moves nothing.
pub(crate) fn choose(request: &Request) -> Chosen {
    let (first, last) = hosts(&request.network);
    let mut taken: Vec<u128> = vec![number(request.gateway)];
    taken.extend(request.taken.iter().copied().map(number));
    taken.extend(request.written.iter().flatten().copied().map(number));
    let claimed: Vec<u128> = request.claimed.iter().copied().map(number).collect();
    let is_taken = |taken: &[u128], address: u128| taken.contains(&address) || claimed.contains(&address);
    let written_range = request.written_range.map(|(start, end)| (number(start), number(end)));
    let in_family = |range: &&(IpAddr, IpAddr)| range.0.is_ipv4() == request.network.addr().is_ipv4();
    let others: Vec<(u128, u128)> =
        request.others.iter().filter(in_family).map(|(start, end)| (number(*start), number(*end))).collect();
    let outside_range = |address: u128| written_range.is_none_or(|range| !contains(range, address));

    let mut servers = request.written;
    for (slot, previous) in servers.iter_mut().zip(request.previous.servers) {
        let Some(previous) = previous.filter(|address| slot.is_none() && request.network.contains(address))
        else {
            continue;
        };
        let address = number(previous);
        if (first..=last).contains(&address) && !is_taken(&taken, address) && outside_range(address) {
            taken.push(address);
            *slot = Some(previous);
        }
    }
    // A range that was chosen before is given way to, as long as there is room elsewhere: clients hold its addresses.
    let old_range = request.previous.range.map(|(start, end)| (number(start), number(end)));
    for slot in servers.iter_mut().filter(|slot| slot.is_none()) {
        let beside = |range: Option<(u128, u128)>| {
            let single = request.reserved.iter().copied().map(number).chain(claimed.iter().copied());
            let single = single.map(|address| (address, address));
            let barred: Vec<_> = others.iter().copied().chain(range).chain(single).collect();
            first_free(first, last, &taken, &barred)
        };
        let found = beside(written_range.or(old_range)).or_else(|| match written_range {
            Some(_) => None,
            None => beside(None),
        });
        if let Some(address) = found {
            taken.push(address);
            *slot = Some(address_of(address, &request.network));
        }
    }

    let kept = old_range.filter(|range| {
        let inside = range.0 <= range.1 && range.0 >= first && range.1 <= last;
        let in_family = request.previous.range.is_some_and(|(start, _)| request.network.contains(&start));
        let meets_others = others.iter().any(|other| range.0 <= other.1 && other.0 <= range.1)
            || claimed.iter().any(|address| contains(*range, *address));
        let is_free = request.is_range_in_use || !meets_others;
        inside && in_family && is_free && !taken.iter().any(|address| contains(*range, *address))
    });
    let barriers = taken.iter().chain(&claimed).map(|address| (*address, *address)).chain(others).collect();
    let range = written_range.or(kept).or_else(|| longest_run(&request.network, first, last, barriers));
    let range =
        range.map(|(start, end)| (address_of(start, &request.network), address_of(end, &request.network)));
    Chosen { servers, range }
}

/// The lowest address that is neither taken nor barred.
fn first_free(first: u128, last: u128, taken: &[u128], barred: &[(u128, u128)]) -> Option<u128> {
    let mut address = first;
    loop {
        if address > last {
            return None;
        }
        if let Some(range) = barred.iter().find(|range| contains(**range, address)) {
            address = range.1.checked_add(1)?;
        } else if taken.contains(&address) {
            address = address.checked_add(1)?;
        } else {
            return Some(address);
        }
    }
}

/// The longest run of free addresses behind the servers' block; the lowest one of equals.
fn longest_run(
    network: &IpNet,
    first: u128,
    last: u128,
    mut barriers: Vec<(u128, u128)>,
) -> Option<(u128, u128)> {
    let size = (last - first).saturating_add(1);
    let start = first + SERVER_BLOCK.min(size / 4);
    barriers.retain(|barrier| barrier.0 <= last && barrier.1 >= start);
    barriers.sort_unstable();
    let mut best: Option<(u128, u128)> = None;
    let mut from = start;
    let mut consider = |from: u128, to: u128| {
        if best.is_none_or(|(start, end)| to - from > end - start) {
            best = Some((from, to));
        }
    };
    for barrier in barriers {
        if barrier.0 > from {
            consider(from, barrier.0 - 1);
        }
        from = from.max(barrier.1.checked_add(1)?);
    }
    if from <= last {
        consider(from, last);
    }
    let (from, to) = best?;
    let longest = if network.addr().is_ipv6() { LARGEST_CHOSEN_V6_RANGE } else { u128::from(u32::MAX) };
    Some((from, to.min(from.saturating_add(longest - 1))))
}

/// First and last address that a host may have.
fn hosts(network: &IpNet) -> (u128, u128) {
    let (lowest, highest) = (number(network.network()), number(network.broadcast()));
    match network {
        IpNet::V4(net) if net.prefix_len() <= 30 => (lowest + 1, highest - 1),
        // The lowest IPv6 address is every router's.
        IpNet::V6(net) if net.prefix_len() <= 126 => (lowest + 1, highest),
        IpNet::V4(_) | IpNet::V6(_) => (lowest, highest),
    }
}

/// True when a host in `network` may have this address.
pub(crate) fn is_host(network: &IpNet, address: IpAddr) -> bool {
    let (first, last) = hosts(network);
    network.contains(&address) && (first..=last).contains(&number(address))
}

/// True when `address` lies between the two ends of `range`, both included, and is of their family.
pub(crate) fn in_range(range: (IpAddr, IpAddr), address: IpAddr) -> bool {
    range.0.is_ipv4() == address.is_ipv4() && contains((number(range.0), number(range.1)), number(address))
}

fn contains(range: (u128, u128), address: u128) -> bool {
    range.0 <= address && address <= range.1
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

fn address_of(number: u128, network: &IpNet) -> IpAddr {
    match network {
        IpNet::V4(_) => IpAddr::V4(Ipv4Addr::from(number as u32)),
        IpNet::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

#[cfg(test)]
mod tests;
