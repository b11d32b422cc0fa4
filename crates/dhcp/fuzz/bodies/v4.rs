//! Messages one after the other: nothing panics, no address has two clients at a time, and a reply is for who asked and
//! fits a packet.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::LazyLock;

use causeway_dhcp::packets::Packets;
use causeway_dhcp::{Seconds, State};
use causeway_ir::dhcp::DhcpPlan;

static PLAN: LazyLock<DhcpPlan> = LazyLock::new(|| {
    let plan = "{interface: net1, server: 10.0.0.2, network: 10.0.0.0/24, pool: {first: 10.0.0.5, last: 10.0.0.9}, \
         gateway: 10.0.0.1, dnsServers: [10.0.0.3], search: [lab.test], routes: [{to: 10.9.0.0/16, via: 10.0.0.1}], \
         relayed: [{network: 10.7.0.0/16, pool: {first: 10.7.0.10, last: 10.7.0.12}}], \
         reservations: [{hardware: '02:00:00:00:00:63', address: 10.0.0.99, hostname: fixed}], leaseTime: 20s}";
    serde_saphyr::from_str(plan).expect("the plan is good")
});

pub(crate) fn run(bytes: &[u8]) {
    let mut packets = Packets::new(&PLAN);
    let mut held: HashMap<IpAddr, (Box<[u8]>, Seconds)> = HashMap::new();
    let mut now = 1000;
    for message in messages(bytes) {
        now += 3;
        let (reply, changes) = packets.v4(message, now);
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
            assert!(reply[0] == 2 && (300..=1500).contains(&reply.len()), "{} bytes", reply.len());
            assert_eq!((&reply[4..8], &reply[28..44]), (&message[4..8], &message[28..44]));
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
