//! What makes a plan impossible to run: addresses outside of their network, two owners of one address, times that do not
//! follow each other.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::Ipv4Net;

use super::{AddressPool, DhcpPlan, Ipv6Plan, OptionValue};
use crate::{Problem, duration};

/// Longer leases outlive every change that an operator makes.
const LONGEST_LEASE: Duration = Duration::from_hours(24 * 180);
/// Clients that are asked to come more often than this do nothing else.
const SHORTEST_LEASE: Duration = Duration::from_secs(10);
/// How often routers may be advertised (RFC 4861, §6.2.1).
const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(4)..=Duration::from_mins(30);

#[derive(Default)]
struct Findings(Vec<Problem>);

impl Findings {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { path: path.into(), message: message.into() });
    }

    /// Reports a second use.
    fn once<K: Hash + Eq + Display>(
        &mut self,
        seen: &mut HashMap<K, usize>,
        key: K,
        index: usize,
        path: &str,
        field: &str,
    ) {
        if let Some(first) = seen.get(&key) {
            let message = format!("{key} is already that of {path}[{first}]: write it once");
            self.add(format!("{path}[{index}].{field}"), message);
        } else {
            seen.insert(key, index);
        }
    }
}

impl DhcpPlan {
    /// Everything that makes this plan impossible to run; empty when it is fine.
    pub fn validate(&self) -> Vec<Problem> {
        let mut found = Findings::default();
        if !self.network.contains(&self.server) || is_edge(self.network, self.server) {
            let message = format!(
                "{} is not an address for a machine in {}: write one of that network, but neither its first nor its last",
                self.server, self.network
            );
            found.add("server", message);
        }
        for (i, (network, pool, gateway)) in self.networks().enumerate() {
            let at = i.checked_sub(1).map_or_else(String::new, |i| format!("relayed[{i}]."));
            check_pool(&mut found, &at, network, pool, gateway);
            if pool.first <= pool.last && self.left(network, pool) == 0 {
                let message = format!(
                    "of the addresses from {} to {} none is left for clients without a reservation: make it larger",
                    pool.first, pool.last
                );
                found.add(format!("{at}pool"), message);
            }
            let mut before = self.networks().take(i);
            let overlaps = |other: &Ipv4Net| other.contains(&network) || network.contains(other);
            if let Some((other, ..)) = before.find(|(other, ..)| overlaps(other)) {
                let message = format!("{network} overlaps with {other}: one network has one pool");
                found.add(format!("{at}network"), message);
            }
        }
        self.check_times(&mut found);
        self.check_reservations(&mut found);
        for (i, option) in self.options.iter().enumerate() {
            if matches!(option.code, 0 | 255) {
                let message = format!("{} is a mark, not an option: write 1 to 254", option.code);
                found.add(format!("options[{i}].code"), message);
            }
            if matches!(option.code, 50..=55 | 57..=59 | 61 | 82) {
                let message = format!("{} is the protocol's own: leave it out", option.code);
                found.add(format!("options[{i}].code"), message);
            }
            if let OptionValue::Domains(names) = &option.value {
                check_domains(&mut found, &format!("options[{i}].value.domains"), names.iter().map(|n| &**n));
            }
            let length = option.value.bytes().len();
            if length > 1024 {
                let message = format!("{length} bytes are more than a packet has room for: at most 1024");
                found.add(format!("options[{i}].value"), message);
            }
        }
        check_domains(&mut found, "search", self.search.iter().map(|name| &**name));
        if let Some(mtu) = self.mtu.filter(|mtu| *mtu < 576) {
            found.add("mtu", format!("{mtu} is too small for IPv4: write 576 or more"));
        }
        if let Some(boot) = self.boot.as_ref().filter(|boot| boot.file.len() > 127) {
            let message =
                format!("{} bytes are too long for a boot file's name: at most 127", boot.file.len());
            found.add("boot.file", message);
        }
        if let Some(replica) = self.replica.filter(|replica| replica.index >= replica.of) {
            let message = format!("{} is none of {} replicas: they count from 0", replica.index, replica.of);
            found.add("replica.index", message);
        }
        if self.replica.is_some() && self.probe.is_zero() {
            let message = "0s can't be where servers share a pool, since who comes back does not know what another has \
                           prolonged: write 300ms";
            found.add("probe", message);
        }
        let mut seen = HashMap::new();
        for (i, client) in self.clients.iter().flatten().enumerate() {
            found.once(&mut seen, client.hardware, i, "clients", "hardware");
            check_hostname(&mut found, &format!("clients[{i}].hostname"), client.hostname.as_deref());
        }
        if let Some(ipv6) = &self.ipv6 {
            check_ipv6(&mut found, ipv6);
        }
        found.0
    }

    /// How many addresses of a pool clients without a reservation can get.
    fn left(&self, network: Ipv4Net, pool: &AddressPool) -> u64 {
        let number = |address: Ipv4Addr| u64::from(u32::from(address));
        let reserved = self.reservations.iter().map(|reservation| (reservation.address, reservation.address));
        let mut taken: Vec<_> = self.never_leased(network, pool).into_iter().chain(reserved).collect();
        taken.sort_unstable();
        let (mut next, end) = (number(pool.first), number(pool.last) + 1);
        let mut left = 0;
        for (first, last) in taken {
            left += number(first).min(end).saturating_sub(next);
            next = next.max(number(last) + 1);
        }
        left + end.saturating_sub(next)
    }

    fn check_times(&self, found: &mut Findings) {
        let lease = self.lease_time.get();
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
            let message =
                format!("{} is too short or too long: write 10s to 4320h (180 days)", self.lease_time);
            found.add("leaseTime", message);
        }
        let (_, rebind) = self.renewal();
        if let Some(after) = self.rebind_after.filter(|after| after.get() >= lease) {
            found.add("rebindAfter", format!("{after} must be shorter than leaseTime, {}", self.lease_time));
        }
        if let Some(after) = self.renew_after.filter(|after| after.get() >= rebind) {
            let message = format!(
                "{after} must be shorter than rebindAfter, {}, which is 7/8 of leaseTime if it is left out",
                duration::format(rebind)
            );
            found.add("renewAfter", message);
        }
        if self.probe > Duration::from_secs(5) {
            let message =
                format!("{} is longer than any client waits: write 0s to 5s", duration::format(self.probe));
            found.add("probe", message);
        }
    }

    fn check_reservations(&self, found: &mut Findings) {
        let (mut addresses, mut cards, mut ids) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (i, reservation) in self.reservations.iter().enumerate() {
            let address = reservation.address;
            let at = format!("reservations[{i}].address");
            match self.networks().find(|(network, ..)| network.contains(&address)) {
                None => found.add(at, format!("{address} is not in the network {}", self.network)),
                Some((network, ..)) if is_edge(network, address) => {
                    found.add(at, format!("{address} is the network's own, not a machine's: choose another"));
                }
                Some(_) if address == self.server => {
                    found.add(at, format!("{address} is the server's own: choose another"));
                }
                Some((_, _, Some(gateway))) if address == gateway => {
                    found.add(at, format!("{address} is the gateway's: choose another"));
                }
                Some(_) => {}
            }
            check_hostname(found, &format!("reservations[{i}].hostname"), reservation.hostname.as_deref());
            found.once(&mut addresses, address, i, "reservations", "address");
            match (&reservation.hardware, &reservation.client_id) {
                (Some(card), None) => found.once(&mut cards, *card, i, "reservations", "hardware"),
                (None, Some(id)) => found.once(&mut ids, id, i, "reservations", "clientId"),
                _ => found.add(format!("reservations[{i}]"), "write either hardware or clientId"),
            }
        }
    }
}

fn check_pool(
    found: &mut Findings,
    at: &str,
    network: Ipv4Net,
    pool: &AddressPool,
    gateway: Option<Ipv4Addr>,
) {
    if pool.first > pool.last {
        found.add(format!("{at}pool.last"), format!("{} comes before {}: swap them", pool.last, pool.first));
    }
    let ends = [("pool.first", Some(pool.first)), ("pool.last", Some(pool.last)), ("gateway", gateway)];
    for (path, address) in ends.into_iter().filter_map(|(path, address)| Some((path, address?))) {
        if !network.contains(&address) {
            found.add(format!("{at}{path}"), format!("{address} is not in the network {network}"));
        }
    }
}

/// Whether an address stands for a whole network or for all of its machines.
fn is_edge(network: Ipv4Net, address: Ipv4Addr) -> bool {
    network.prefix_len() < 31 && (address == network.network() || address == network.broadcast())
}

fn check_domains<'a>(found: &mut Findings, path: &str, names: impl Iterator<Item = &'a str>) {
    for (i, name) in names.enumerate() {
        let name = name.trim_end_matches('.');
        if name.split('.').any(|label| label.is_empty() || label.len() > 63) {
            let message =
                format!("`{name}` is not a domain: write labels of 1 to 63 bytes with dots between them");
            found.add(format!("{path}[{i}]"), message);
        }
    }
}

/// Whether a client can have this name.
pub fn is_hostname(name: &str) -> bool {
    let is_label = |label: &str| {
        let good = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        good && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.split('.').all(is_label)
}

fn check_hostname(found: &mut Findings, path: &str, name: Option<&str>) {
    if let Some(name) = name.filter(|name| !is_hostname(name)) {
        let message = format!("`{name}` is not a host's name: write letters, digits and dashes, like vm-1");
        found.add(path, message);
    }
}

fn check_ipv6(found: &mut Findings, plan: &Ipv6Plan) {
    let network = plan.network;
    if !INTERVALS.contains(&plan.interval.get()) {
        found.add("ipv6.interval", format!("{} is too short or too long: write 4s to 30m", plan.interval));
    }
    if let Some(pool) = &plan.pool {
        if pool.first > pool.last {
            found.add("ipv6.pool.last", format!("{} comes before {}: swap them", pool.last, pool.first));
        }
        for (path, address) in [("ipv6.pool.first", pool.first), ("ipv6.pool.last", pool.last)] {
            if !network.contains(&address) {
                found.add(path, format!("{address} is not in the network {network}"));
            }
        }
    }
    if let Some(gateway) = plan.gateway.filter(|gateway| !gateway.is_unicast_link_local()) {
        let message =
            format!("{gateway} is not link-local: write the router's address that begins with fe80");
        found.add("ipv6.gateway", message);
    }
    let (mut addresses, mut cards, mut ids) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (i, reservation) in plan.reservations.iter().enumerate() {
        if !network.contains(&reservation.address) {
            let message = format!("{} is not in the network {network}", reservation.address);
            found.add(format!("ipv6.reservations[{i}].address"), message);
        }
        found.once(&mut addresses, reservation.address, i, "ipv6.reservations", "address");
        check_hostname(found, &format!("ipv6.reservations[{i}].hostname"), reservation.hostname.as_deref());
        match (&reservation.hardware, &reservation.duid) {
            (Some(card), None) => found.once(&mut cards, *card, i, "ipv6.reservations", "hardware"),
            (None, Some(id)) => found.once(&mut ids, id, i, "ipv6.reservations", "duid"),
            _ => found.add(format!("ipv6.reservations[{i}]"), "write either hardware or duid"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "interface: net1\nserver: 10.0.0.2\nnetwork: 10.0.0.0/24\n\
         pool: {first: 10.0.0.100, last: 10.0.0.200}\nleaseTime: 1h\n\
         relayed: [{network: 10.1.0.0/16, pool: {first: 10.1.0.9, last: 10.1.9.9}}]\n\
         ipv6: {network: 'fd00::/64', pool: {first: 'fd00::1', last: 'fd00::ffff'}, gateway: 'fe80::1'}\n\
         reservations: [{hardware: '02:00:00:00:00:01', address: 10.0.0.9}]\noptions: []\nclients: []";

    #[test]
    fn clients_renew_before_they_rebind() {
        for (more, times) in
            [("", (1800, 3150)), ("\nrebindAfter: 14m", (480, 840)), ("\nrenewAfter: 9m", (540, 3150))]
        {
            let plan: DhcpPlan = serde_saphyr::from_str(&GOOD.replace("1h", &format!("1h{more}"))).unwrap();
            assert_eq!(plan.validate(), []);
            let (renew, rebind) = plan.renewal();
            assert_eq!((renew.as_secs(), rebind.as_secs()), times, "{more}");
        }
    }

    #[test]
    fn names_what_can_not_be_run() {
        for (from, to, paths) in [
            ("", "", &[][..]),
            ("first: 10.0.0.100", "first: 10.0.0.201", &["pool.last"]),
            ("server: 10.0.0.2", "server: 10.0.1.2", &["server"]),
            ("server: 10.0.0.2", "server: 10.0.0.255", &["server"]),
            ("10.0.0.9", "10.0.9.9", &["reservations[0].address"]),
            ("10.0.0.9", "10.0.0.2", &["reservations[0].address"]),
            ("10.0.0.9}", "10.0.0.9, hostname: -a}", &["reservations[0].hostname"]),
            ("options: []", "gateway: 10.0.0.9", &["reservations[0].address"]),
            ("last: 10.0.0.200}", "last: 10.0.0.103, except: [10.0.0.102/31, 10.0.0.101/32]}", &[]),
            ("last: 10.0.0.200}", "last: 10.0.0.103, except: [10.0.0.100/30]}", &["pool"]),
            ("address: 10.0.0.9}", "address: 10.0.0.200}", &[]),
            ("gateway: 'fe80::1'", "interval: 1h", &["ipv6.interval"]),
            ("{hardware: '02:00:00:00:00:01', ", "{", &["reservations[0]"]),
            (
                "}]\noptions",
                "}, {clientId: 'ff:00', address: 10.0.0.9}]\noptions",
                &["reservations[1].address"],
            ),
            ("10.1.0.0/16", "10.0.0.0/8", &["relayed[0].network"]),
            ("last: 10.1.9.9", "last: 10.2.9.9", &["relayed[0].pool.last"]),
            ("1h", "1s", &["leaseTime"]),
            ("1h", "9000h", &["leaseTime"]),
            ("1h", "1h\nrebindAfter: 2h", &["rebindAfter"]),
            ("1h", "1h\nrenewAfter: 59m", &["renewAfter"]),
            ("options: []", "options: [{code: 54, value: {uint8: 1}}]", &["options[0].code"]),
            ("options: []", "search: [a..b]", &["search[0]"]),
            ("options: []", "replica: {index: 2, of: 2}", &["replica.index"]),
            ("options: []", "replica: {index: 1, of: 2}\nprobe: 0s", &["probe"]),
            ("fe80::1", "fd00::1", &["ipv6.gateway"]),
            (
                "clients: []",
                "clients: [{hardware: '02:00:00:00:00:01'}, {hardware: '02:00:00:00:00:01'}]",
                &["clients[1].hardware"],
            ),
        ] {
            let plan: DhcpPlan = serde_saphyr::from_str(&GOOD.replacen(from, to, 1)).unwrap();
            let found: Vec<String> = plan.validate().into_iter().map(|problem| problem.path).collect();
            assert_eq!(found, paths, "{to}");
        }
    }
}
