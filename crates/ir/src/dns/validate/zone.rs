//! What is wrong within a zone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::dns::Zone;
use crate::{Pattern, duration};

/// The longest time to live that has a meaning (RFC 2181 §8).
const LONGEST_TTL: u64 = i32::MAX as u64;

/// `domains` are those of the view, `domain` is the zone's own as it counts.
pub(super) fn check(
    add: &mut impl FnMut(String, String),
    path: &str,
    zone: &Zone,
    domains: &[String],
    domain: &str,
) {
    if let Err(message) = exact(&zone.domain) {
        add(format!("{path}.domain"), message);
        return;
    }
    if let Some(Err(message)) = zone.name_server.as_ref().map(|name| exact(name)) {
        add(format!("{path}.nameServer"), message);
    } else if zone.open && zone.name_server.is_some() {
        let message = "an open zone is somebody else's, who names its servers: leave nameServer out";
        add(format!("{path}.nameServer"), message.to_owned());
    }
    for (field, ttl) in [("ttl", zone.ttl), ("negativeTtl", zone.negative_ttl)] {
        if let Err(message) = check_ttl(ttl) {
            add(format!("{path}.{field}"), message);
        }
    }
    let mut seen = HashMap::new();
    for (i, record) in zone.records.iter().enumerate() {
        let path = format!("{path}.records[{i}]");
        if let Some(Err(message)) = record.ttl.map(|ttl| check_ttl(ttl.get())) {
            add(format!("{path}.ttl"), message);
        }
        let (Pattern::Exact(name) | Pattern::Below(name)) = &record.name;
        if !is_in(name, domain) {
            add(
                format!("{path}.name"),
                format!("`{}` is not in the zone: write a name that ends with .{domain}", record.name),
            );
        }
        let deeper = |other: &&String| *other != domain && is_in(other, domain) && is_in(name, other);
        if let Some(deeper) = domains.iter().find(deeper) {
            add(
                format!("{path}.name"),
                format!("`{}` is in the zone {deeper}: write the record there", record.name),
            );
        }
        if let Some(first) = seen.insert(&record.name, i) {
            add(
                format!("{path}.name"),
                format!("`{}` is already records[{first}]: write all its addresses there", record.name),
            );
        }
        if record.addresses.is_empty() {
            add(
                format!("{path}.addresses"),
                "a name without an address: write one, or leave the record out".into(),
            );
        }
        let unusable = |address: &IpAddr| address.is_unspecified() || address.is_multicast();
        if let Some(j) = record.addresses.iter().position(unusable) {
            let address = record.addresses[j];
            let message = format!("{address} is not an address of a host: write where the name leads to");
            add(format!("{path}.addresses[{j}]"), message);
        }
    }
}

fn check_ttl(ttl: Duration) -> Result<(), String> {
    let shown = duration::format(ttl);
    if ttl.as_secs() > LONGEST_TTL {
        return Err(format!("{shown} is longer than any resolver keeps an answer: write at most 24h"));
    }
    if ttl.subsec_millis() != 0 {
        return Err(format!("{shown} can't be told to clients: write whole seconds, like 30s"));
    }
    Ok(())
}

/// A name, and no pattern.
fn exact(name: &str) -> Result<(), String> {
    match Pattern::parse(name)? {
        Pattern::Exact(_) => Ok(()),
        Pattern::Below(_) => Err(format!("`{name}` has a wildcard: write a name, like lab.example.test")),
    }
}

/// Whether a name is the domain or below it.
pub(super) fn is_in(name: &str, domain: &str) -> bool {
    name == domain || name.strip_suffix(domain).is_some_and(|front| front.ends_with('.'))
}
