//! Two DHCP servers on one network: no address may be leased by both, and only one can be for everybody.

use std::net::IpAddr;

use causeway_ir::Problem;
use causeway_ir::dhcp::DhcpPlan;

use super::Valid;

/// What a server takes of one family of addresses for itself.
struct Share {
    range: Option<(IpAddr, IpAddr)>,
    reserved: Vec<IpAddr>,
    /// The field of the range.
    field: &'static str,
}

impl Share {
    fn has(&self, address: IpAddr) -> bool {
        self.leases(address) || self.reserved.contains(&address)
    }

    fn leases(&self, address: IpAddr) -> bool {
        self.range.is_some_and(|(first, last)| (first..=last).contains(&address))
    }

    /// What of this can't be had beside `other`, which is called `name`.
    fn problem(&self, other: &Self, name: &str) -> Option<Problem> {
        let problem = |field: &str, message: String| Some(Problem { path: field.to_owned(), message });
        if let Some((first, last)) = self.range {
            if let Some((others_first, others_last)) = other.range
                && first <= others_last
                && others_first <= last
            {
                let message = format!(
                    "{first} to {last} overlaps with {others_first} to {others_last} of DHCPServer {name} on the same \
                     network: write a range beside it"
                );
                return problem(self.field, message);
            }
            if let Some(address) = other.reserved.iter().find(|address| self.leases(**address)) {
                let message = format!(
                    "{first} to {last} holds {address}, which is reserved in DHCPServer {name} on the same network: write a \
                     range without it"
                );
                return problem(self.field, message);
            }
        }
        let address = self.reserved.iter().find(|address| other.has(**address))?;
        let message = format!("{address} is DHCPServer {name}'s on the same network: reserve another");
        problem("spec.reservations", message)
    }
}

/// What keeps `server` from being run beside `other`, which is called `name` and was there first.
pub fn conflict(server: &Valid, other: &Valid, name: &str) -> Option<Problem> {
    let (network, others_network) = (server.plan.network, other.plan.network);
    let overlap = network.contains(&others_network) || others_network.contains(&network);
    if overlap && network != others_network {
        // Their clients would not agree on who is a neighbour.
        let message = format!(
            "{network} overlaps with {others_network} of DHCPServer {name} on the same network: write that one, or one beside it"
        );
        return Some(Problem { path: "spec.networkConfig.cidr".to_owned(), message });
    }
    let (own, others) = (shares(&server.plan), shares(&other.plan));
    let taken = own.iter().zip(&others).find_map(|(own, other)| own.problem(other, name));
    let are_both_for_all = !server.is_for_known_clients && !other.is_for_known_clients;
    taken.or_else(|| {
        are_both_for_all.then(|| Problem {
            path: "spec.clients".to_owned(),
            message: format!(
                "All is DHCPServer {name} on the same network already: write Reserved or VirtualMachines here or there, so \
                 that each has its own clients"
            ),
        })
    })
}

/// What of a network the plan takes for itself, in words: what is in conflict with nobody stays so while these are the same.
pub fn share(plan: &DhcpPlan) -> String {
    words(plan, plan.clients.is_some(), plan.replica.map_or(1, |replica| replica.of.into()))
}

impl Valid {
    /// The same of its plan.
    pub fn share(&self) -> String {
        words(&self.plan, self.is_for_known_clients, self.servers.len())
    }
}

fn words(plan: &DhcpPlan, is_for_known_clients: bool, servers: usize) -> String {
    let family = |share: &Share| {
        let range = share.range.map_or_else(String::new, |(first, last)| format!("{first}-{last}"));
        let reserved: Vec<_> = share.reserved.iter().map(ToString::to_string).collect();
        format!("{range} [{}]", reserved.join(" "))
    };
    let [v4, v6] = shares(plan).map(|share| family(&share));
    // A server that is one of several has a part of this.
    let whom = if is_for_known_clients { "known clients" } else { "all" };
    format!("{v4} {v6} of {} for {whom} by {servers}", plan.network)
}

fn shares(plan: &DhcpPlan) -> [Share; 2] {
    let v6 = plan.ipv6.as_ref();
    let pool = v6.and_then(|v6| v6.pool.as_ref());
    [
        Share {
            range: Some((plan.pool.first.into(), plan.pool.last.into())),
            reserved: plan.reservations.iter().map(|one| one.address.into()).collect(),
            field: "spec.leaseConfig.rangeStart",
        },
        Share {
            range: pool.map(|pool| (pool.first.into(), pool.last.into())),
            reserved: v6.iter().flat_map(|v6| &v6.reservations).map(|one| one.address.into()).collect(),
            field: "spec.ipv6.rangeStart",
        },
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::dhcp::{Surroundings, tests::server, validate};

    fn valid(first: &str, last: &str, clients: &str, more: &Value) -> Valid {
        let mut fields =
            json!({ "leaseConfig": { "rangeStart": first, "rangeEnd": last }, "clients": clients });
        fields.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        validate(&server(&fields)).unwrap()
    }

    #[test]
    fn what_two_servers_can_not_both_have() {
        let reserve = |ip: &str| json!([{ "mac": "02:00:00:00:00:07", "ip": ip }]);
        let v6 = |first: &str, last: &str| json!({ "cidr": "fd00:100::/64", "rangeStart": first, "rangeEnd": last });
        let theirs =
            json!({ "reservations": reserve("192.168.100.20"), "ipv6": v6("fd00:100::10", "fd00:100::1f") });
        let other = valid("192.168.100.50", "192.168.100.99", "All", &theirs);
        let beside = ("192.168.100.100", "192.168.100.120");
        for ((first, last), clients, more, path) in [
            (("192.168.100.40", "192.168.100.50"), "Reserved", json!({}), "spec.leaseConfig.rangeStart"),
            (("192.168.100.60", "192.168.100.70"), "Reserved", json!({}), "spec.leaseConfig.rangeStart"),
            (("192.168.100.15", "192.168.100.25"), "Reserved", json!({}), "spec.leaseConfig.rangeStart"),
            (beside, "Reserved", json!({ "reservations": reserve("192.168.100.60") }), "spec.reservations"),
            (beside, "Reserved", json!({ "reservations": reserve("192.168.100.20") }), "spec.reservations"),
            (beside, "Reserved", json!({ "reservations": reserve("192.168.100.21") }), ""),
            (
                beside,
                "Reserved",
                json!({ "ipv6": v6("fd00:100::1f", "fd00:100::2f") }),
                "spec.ipv6.rangeStart",
            ),
            (beside, "Reserved", json!({ "ipv6": v6("fd00:100::20", "fd00:100::2f") }), ""),
            (
                beside,
                "Reserved",
                json!({ "networkConfig": { "cidr": "192.168.100.0/24" } }),
                "spec.networkConfig.cidr",
            ),
            (beside, "All", json!({}), "spec.clients"),
            (beside, "Reserved", json!({}), ""),
        ] {
            let this = valid(first, last, clients, &more);
            let found = conflict(&this, &other, "edge/lab");
            let found_path = found.as_ref().map_or("", |problem| problem.path.as_str());
            assert_eq!(found_path, path, "{first} {last} {clients} {more}");
            assert!(found.is_none_or(|problem| problem.message.contains("edge/lab")));
            assert_ne!(this.share(), other.share());
        }
    }

    #[test]
    fn a_share_is_the_same_in_a_spec_and_in_its_plan() {
        let (first, last) = ("192.168.100.50", "192.168.100.99");
        for clients in ["All", "Reserved"] {
            let valid = valid(first, last, clients, &json!({}));
            let name = causeway_ir::Name::parse("net1").unwrap();
            let taken = vec!["192.168.100.60".parse().unwrap()];
            let surroundings = Surroundings { taken, ..Surroundings::default() };
            let plan = crate::dhcp::translate(&valid, valid.servers[0], name, &surroundings);
            assert_eq!(share(&plan), valid.share());
        }
        let (all, known) =
            (valid(first, last, "All", &json!({})), valid(first, last, "Reserved", &json!({})));
        assert_ne!(all.share(), known.share());
        let longer = valid(first, last, "All", &json!({ "networkConfig": { "mtu": 9000 } }));
        assert_eq!(all.share(), longer.share(), "of the network it takes the same");
    }
}
