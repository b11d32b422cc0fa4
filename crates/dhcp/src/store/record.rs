//! What a record of the journal says: a group of leases. Sans-IO.
//!
//! ```text
//! lease:  family and state u8 | address 4 or 16 bytes | until u64 | client | hardware | hostname     (little endian)
//! client, hardware, hostname: length u8 | bytes
//! ```

use std::collections::HashMap;
use std::net::IpAddr;

use crate::lease::{Lease, State};

const V6: u8 = 0x10;

/// Writes a group behind what `record` holds.
pub(super) fn encode(record: &mut Vec<u8>, leases: &[Lease]) {
    for lease in leases {
        let state = match lease.state {
            State::Leased => 1,
            State::Released => 2,
            State::Declined => 3,
        };
        match lease.address {
            IpAddr::V4(address) => {
                record.push(state);
                record.extend_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                record.push(V6 | state);
                record.extend_from_slice(&address.octets());
            }
        }
        record.extend_from_slice(&lease.until.to_le_bytes());
        let hostname = lease.hostname.as_deref().unwrap_or_default();
        for part in [&lease.client, &lease.hardware, hostname.as_bytes()] {
            let part = &part[..part.len().min(255)];
            record.push(part.len() as u8);
            record.extend_from_slice(part);
        }
    }
}

/// The last lease of each address; none if a record does not add up.
pub(super) fn leases<'a>(groups: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Lease>> {
    let mut last: HashMap<IpAddr, Lease> = HashMap::new();
    for mut rest in groups {
        while !rest.is_empty() {
            let lease = decode(&mut rest)?;
            last.insert(lease.address, lease);
        }
    }
    Some(last.into_values().collect())
}

fn decode(rest: &mut &[u8]) -> Option<Lease> {
    let head = *take(rest, 1)?.first()?;
    let state = match head & !V6 {
        1 => State::Leased,
        2 => State::Released,
        3 => State::Declined,
        _ => return None,
    };
    let address = if head & V6 == 0 {
        IpAddr::from(<[u8; 4]>::try_from(take(rest, 4)?).ok()?)
    } else {
        IpAddr::from(<[u8; 16]>::try_from(take(rest, 16)?).ok()?)
    };
    let until = u64::from_le_bytes(take(rest, 8)?.try_into().ok()?);
    let mut part = || {
        let length = *take(rest, 1)?.first()?;
        take(rest, usize::from(length))
    };
    let (client, hardware, hostname) = (part()?, part()?, part()?);
    let hostname = std::str::from_utf8(hostname).ok()?;
    let hostname = (!hostname.is_empty()).then(|| hostname.into());
    Some(Lease { address, state, until, client: client.into(), hardware: hardware.into(), hostname })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}
