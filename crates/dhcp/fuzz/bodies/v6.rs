//! Messages one after the other: nothing panics, no address has two clients at a time, and a reply is for who asked.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use causeway_dhcp::packets::Packets;
use causeway_dhcp::{Seconds, State};
use causeway_ir::dhcp::DhcpPlan;

static PLAN: LazyLock<DhcpPlan> = LazyLock::new(|| {
    let plan = "{interface: net1, server: 10.0.0.2, network: 10.0.0.0/24, pool: {first: 10.0.0.5, last: 10.0.0.9}, \
         search: [lab.test], leaseTime: 20s, ipv6: {network: 'fd00::/64', pool: {first: 'fd00::10', last: 'fd00::13'}, \
         dnsServers: ['fd00::53'], reservations: [{hardware: '02:00:00:00:00:63', address: 'fd00::99'}]}}";
    serde_saphyr::from_str(plan).expect("the plan is good")
});

pub(crate) fn run(bytes: &[u8]) {
    let mut packets = Packets::new(&PLAN);
    let from = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    let mut held: HashMap<IpAddr, (Box<[u8]>, Seconds)> = HashMap::new();
    let mut now = 1000;
    for message in messages(bytes) {
        now += 3;
        let (reply, changes) = packets.v6(message, from, now);
        for lease in changes {
            if lease.state != State::Leased {
                held.remove(&lease.address);
            } else if let Some((client, until)) =
                held.insert(lease.address, (lease.client.clone(), lease.until))
            {
                assert!(client == lease.client || until <= now, "{} has two clients", lease.address);
            }
        }
        if let Some(reply) = reply {
            // A reply through relays is as they wrapped the question.
            let head = if message[0] == 12 { 1..34 } else { 1..4 };
            assert_eq!((reply[0] == 13, &reply[head.clone()]), (message[0] == 12, &message[head]));
        }
    }
}

/// Messages one after the other, each behind two bytes of its length; the last one may be cut.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (message, rest) = rest.split_at(rest.len().min(usize::from(u16::from_be_bytes(*length))));
        bytes = rest;
        Some(message)
    })
}
