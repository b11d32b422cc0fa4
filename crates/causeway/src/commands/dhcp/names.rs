//! The names of clients that DNS may be told. A name that the plan gives is its client's alone; one that a client gives itself
//! is that of the card that had it first.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use causeway_agent::Leased;
use causeway_dhcp::{Lease, Seconds};
use causeway_ir::dhcp::DhcpPlan;

/// Names that machines look for to be told what to do: nobody takes them by saying so (CERT VU#598349).
const NEVER: [&str; 3] = ["isatap", "localhost", "wpad"];

/// Who has a name by the plan.
#[derive(PartialEq)]
enum Owner {
    Address(IpAddr),
    Card([u8; 6]),
}

/// Names and addresses of clients that have a lease now; `before` is what was told last.
pub(super) fn names(leases: &[Lease], plan: &DhcpPlan, before: &[Leased]) -> Vec<Leased> {
    let now = unix_now();
    let given = given(plan);
    let (mut names, mut own_names) = (Vec::new(), Vec::new());
    for lease in leases.iter().filter(|lease| lease.is_active(now)) {
        let Some(name) = lease.hostname.as_deref().and_then(label) else { continue };
        match given.get(&name) {
            Some(owners) if owners.iter().any(|owner| is_of(lease, owner)) => {
                names.push((name, lease.address));
            }
            Some(_) => {}
            None if NEVER.contains(&&*name) => {}
            None => own_names.push((name, lease)),
        }
    }
    // Who was told of before goes first.
    let before: HashSet<(&str, IpAddr)> = before.iter().map(|(name, at)| (name.as_str(), *at)).collect();
    let was_told = |(name, lease): &(String, &Lease)| before.contains(&(name.as_str(), lease.address));
    own_names.sort_by_cached_key(|own| (!was_told(own), own.1.address));
    let mut cards: HashMap<String, &[u8]> = HashMap::new();
    for (name, lease) in own_names {
        let card = *cards.entry(name.clone()).or_insert(&lease.hardware);
        if *card == *lease.hardware {
            names.push((name, lease.address));
        }
    }
    names.sort();
    names
}

/// Seconds since 1970.
pub(super) fn unix_now() -> Seconds {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// All names that the plan gives.
fn given(plan: &DhcpPlan) -> HashMap<String, Vec<Owner>> {
    let v4 = plan.reservations.iter().map(|own| (&own.hostname, Some(IpAddr::V4(own.address)), own.hardware));
    let v6 = plan.ipv6.iter().flat_map(|ipv6| &ipv6.reservations);
    let v6 = v6.map(|own| (&own.hostname, Some(IpAddr::V6(own.address)), own.hardware));
    let clients = plan.clients.iter().flatten().map(|client| (&client.hostname, None, Some(client.hardware)));
    let mut given: HashMap<String, Vec<Owner>> = HashMap::new();
    for (name, address, card) in v4.chain(v6).chain(clients) {
        let Some(name) = name.as_deref().and_then(label) else { continue };
        let owners = given.entry(name).or_default();
        owners.extend(address.map(Owner::Address));
        owners.extend(card.map(|card| Owner::Card(card.0)));
    }
    given
}

fn is_of(lease: &Lease, owner: &Owner) -> bool {
    match owner {
        Owner::Address(address) => lease.address == *address,
        Owner::Card(card) => *lease.hardware == *card,
    }
}

/// The first label of a client's name, if it is one.
fn label(hostname: &str) -> Option<String> {
    let label = hostname.split('.').next()?.to_ascii_lowercase();
    let is_word = label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let fits = (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-');
    (is_word && fits).then_some(label)
}

#[cfg(test)]
mod tests {
    use causeway_dhcp::State;

    use super::*;

    #[test]
    fn a_name_is_one_label() {
        for (hostname, expected) in [
            ("VM-1", Some("vm-1")),
            ("vm-1.lab.example.com", Some("vm-1")),
            ("", None),
            ("-x", None),
            ("a b", None),
            ("*", None),
        ] {
            assert_eq!(label(hostname).as_deref(), expected, "{hostname}");
        }
    }

    fn lease(address: &str, card: u8, name: &str) -> Lease {
        Lease {
            address: address.parse().unwrap(),
            state: State::Leased,
            until: u64::MAX,
            client: Box::from([card]),
            hardware: Box::from([2, 0, 0, 0, 0, card]),
            hostname: Some(name.into()),
        }
    }

    fn told(leases: &[Lease], before: &[Leased]) -> Vec<String> {
        let plan: DhcpPlan = serde_json::from_value(serde_json::json!({
            "interface": "net1", "server": "10.0.0.2", "network": "10.0.0.0/24",
            "pool": { "first": "10.0.0.10", "last": "10.0.0.99" },
            "reservations": [{ "hardware": "02:00:00:00:00:01", "address": "10.0.0.50", "hostname": "db" }],
        }))
        .unwrap();
        names(leases, &plan, before).into_iter().map(|(name, address)| format!("{name} {address}")).collect()
    }

    #[test]
    fn a_name_of_the_plan_is_its_clients_alone() {
        let (db, also, thief) =
            (lease("10.0.0.50", 1, "db"), lease("fd00::1", 1, "DB"), lease("10.0.0.10", 2, "db"));
        assert_eq!(told(&[thief.clone(), db, also], &[]), ["db 10.0.0.50", "db fd00::1"]);
        assert_eq!(
            told(&[thief, lease("10.0.0.11", 3, "wpad")], &[]),
            [""; 0],
            "also while its client is away"
        );
    }

    #[test]
    fn a_name_that_clients_give_themselves_stays_with_the_first() {
        let (first, again, second) =
            (lease("10.0.0.12", 1, "vm"), lease("fd00::12", 1, "vm"), lease("10.0.0.10", 2, "vm"));
        let before = [("vm".to_owned(), first.address)];
        let expected = ["vm 10.0.0.12", "vm fd00::12"];
        assert_eq!(told(&[second.clone(), first.clone(), again.clone()], &before), expected);
        assert_eq!(told(&[first, again], &before), expected);
        assert_eq!(told(&[second], &before), ["vm 10.0.0.10"], "once the first is gone");
    }
}
