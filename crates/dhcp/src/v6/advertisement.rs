//! Router advertisements: that there is a network, how its machines get addresses, and by which router they leave it.

use std::net::Ipv6Addr;
use std::time::Duration;

use causeway_ir::dhcp::{DhcpPlan, OptionValue};

const ADVERTISEMENT: u8 = 134;
pub(crate) const SOLICITATION: u8 = 133;
/// Addresses, and everything else, come by DHCPv6.
const MANAGED: u8 = 0x80;
const OTHER: u8 = 0x40;
const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;
const HOPS: u8 = 64;
/// The longest that a router may say it is there.
const LONGEST: Duration = Duration::from_mins(150);

/// The advertisement of a plan, as ICMPv6 without its sum; none for a plan that advertises nothing. `card` is that of the
/// sender, told only where the sender is the router.
pub(crate) fn message(plan: &DhcpPlan, card: [u8; 6]) -> Option<Vec<u8>> {
    let ipv6 = plan.ipv6.as_ref().filter(|ipv6| ipv6.advertise)?;
    let long = (ipv6.interval.get() * 3).min(LONGEST);
    let router = if ipv6.gateway.is_some() { long.as_secs() as u16 } else { 0 };
    let managed = if ipv6.pool.is_some() || !ipv6.reservations.is_empty() { MANAGED } else { 0 };
    let mut bytes = vec![ADVERTISEMENT, 0, 0, 0, HOPS, managed | OTHER];
    bytes.extend_from_slice(&router.to_be_bytes());
    bytes.extend_from_slice(&[0; 8]);
    if ipv6.gateway.is_none() {
        bytes.extend_from_slice(&[1, 1]);
        bytes.extend_from_slice(&card);
    }
    if let Some(mtu) = plan.mtu.filter(|mtu| *mtu >= 1280) {
        bytes.extend_from_slice(&[5, 1, 0, 0]);
        bytes.extend_from_slice(&u32::from(mtu).to_be_bytes());
    }
    // Without a pool, machines make their addresses themselves, for which the prefix must be of 64 bits.
    let own = if ipv6.pool.is_none() && ipv6.network.prefix_len() == 64 { AUTONOMOUS } else { 0 };
    // The network is there for as long as it is advertised, however short its leases are.
    let valid = (plan.lease_time.get().max(long).as_secs() as u32).to_be_bytes();
    bytes.extend_from_slice(&[3, 4, ipv6.network.prefix_len(), ON_LINK | own]);
    for part in [valid, valid, [0; 4]] {
        bytes.extend_from_slice(&part);
    }
    bytes.extend_from_slice(&ipv6.network.network().octets());
    let life = (long.as_secs() as u32).to_be_bytes();
    if !ipv6.dns_servers.is_empty() {
        let servers: Vec<u8> = ipv6.dns_servers.iter().flat_map(Ipv6Addr::octets).collect();
        option(&mut bytes, 25, life, &servers);
    }
    if !plan.search.is_empty() {
        option(&mut bytes, 31, life, &OptionValue::Domains(plan.search.clone()).bytes());
    }
    Some(bytes)
}

/// The last advertisement of a router that another plan does not have any more, with the router; none if it has it, or leaves
/// it to others to advertise.
pub(crate) fn farewell(plan: &DhcpPlan, next: &DhcpPlan) -> Option<(Ipv6Addr, Vec<u8>)> {
    let router = plan.ipv6.as_ref()?.gateway?;
    let is_left = next.ipv6.as_ref().is_none_or(|ipv6| ipv6.advertise && ipv6.gateway != Some(router));
    let mut bytes = message(plan, [0; 6]).filter(|_| is_left)?;
    bytes.truncate(16);
    bytes[6..8].fill(0);
    Some((router, bytes))
}

/// An option with a lifetime, filled up to a multiple of eight bytes.
fn option(bytes: &mut Vec<u8>, code: u8, life: [u8; 4], value: &[u8]) {
    let length = (8 + value.len()).div_ceil(8);
    let Ok(units) = u8::try_from(length) else { return };
    bytes.extend_from_slice(&[code, units, 0, 0]);
    bytes.extend_from_slice(&life);
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len() + 8 * length - 8 - value.len(), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_addresses_are_got_and_who_the_router_is() {
        let plan = |ipv6: &str| -> DhcpPlan {
            let text = format!(
                "{{interface: net1, server: 10.0.0.2, network: 10.0.0.0/24, pool: {{first: 10.0.0.5, last: 10.0.0.9}}, \
                 search: [lab.test], mtu: 1400, ipv6: {{network: 'fd00::/64', {ipv6}}}}}"
            );
            serde_saphyr::from_str(&text).unwrap()
        };
        let routed =
            plan("pool: {first: 'fd00::5', last: 'fd00::9'}, gateway: 'fe80::1', dnsServers: ['fd00::53']");
        let bytes = message(&routed, [2; 6]).unwrap();
        assert_eq!(bytes[..8], [134, 0, 0, 0, 64, 0xc0, 600_u16.to_be_bytes()[0], 600_u16.to_be_bytes()[1]]);
        assert_eq!(bytes.len() % 8, 0);
        assert_eq!(bytes[16..24], [5, 1, 0, 0, 0, 0, 5, 120]);
        assert_eq!(bytes[24..28], [3, 4, 64, 0x80]);
        let own = message(&plan(""), [2; 6]).unwrap();
        assert_eq!((own[5], &own[6..8], &own[16..24]), (0x40, &[0, 0][..], &[1, 1, 2, 2, 2, 2, 2, 2][..]));
        assert_eq!(message(&plan("advertise: false"), [2; 6]), None);
        let reserved = plan("reservations: [{hardware: '02:00:00:00:00:01', address: 'fd00::9'}]");
        assert_eq!(message(&reserved, [2; 6]).unwrap()[5], 0xc0, "an address can be asked for");
        let mut short = routed.clone();
        short.lease_time = causeway_ir::Period::from_secs(60);
        assert_eq!(
            message(&short, [2; 6]).unwrap()[28..32],
            600_u32.to_be_bytes(),
            "longer than an interval"
        );
    }

    #[test]
    fn a_router_that_is_gone_is_said_to_be() {
        let plan = |ipv6: &str| -> DhcpPlan {
            let text = format!(
                "{{interface: net1, server: 10.0.0.2, network: 10.0.0.0/24, pool: {{first: 10.0.0.5, last: 10.0.0.9}}{ipv6}}}"
            );
            serde_saphyr::from_str(&text).unwrap()
        };
        let routed = |gateway: &str| plan(&format!(", ipv6: {{network: 'fd00::/64', gateway: '{gateway}'}}"));
        let (router, bytes) = farewell(&routed("fe80::1"), &routed("fe80::2")).unwrap();
        assert_eq!((router, bytes.len(), &bytes[6..8]), ("fe80::1".parse().unwrap(), 16, &[0, 0][..]));
        assert!(farewell(&routed("fe80::1"), &plan("")).is_some());
        assert_eq!(farewell(&routed("fe80::1"), &routed("fe80::1")), None);
        let other = plan(", ipv6: {network: 'fd00::/64', advertise: false}");
        assert_eq!(farewell(&routed("fe80::1"), &other), None, "another router speaks for itself");
    }
}
