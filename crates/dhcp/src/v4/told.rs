//! What clients of a network are told, as options ready to be sent.

use std::net::Ipv4Addr;

use causeway_ir::dhcp::{DhcpPlan, OptionValue, StaticRoute};
use ipnet::Ipv4Net;

use super::message::code;

/// An option that clients are told.
pub(crate) struct Told {
    pub code: u8,
    pub value: Vec<u8>,
    /// Also told to clients that do not ask for it.
    pub always: bool,
}

/// The options of a network, the weightiest first: if there is not room for all, the last ones are missing.
pub(crate) fn options(plan: &DhcpPlan, network: Ipv4Net, gateway: Option<Ipv4Addr>) -> Vec<Told> {
    let addresses = |list: &[Ipv4Addr]| list.iter().flat_map(Ipv4Addr::octets).collect::<Vec<u8>>();
    let boot = plan.boot.as_ref();
    let text = |text: &str| text.as_bytes().to_vec();
    let mut told = Vec::new();
    let mut tell = |code, always, value: Vec<u8>| {
        let is_set = plan.options.iter().any(|option| option.code == code);
        if !value.is_empty() && !is_set {
            told.push(Told { code, value, always });
        }
    };
    tell(code::MASK, true, network.netmask().octets().to_vec());
    tell(code::ROUTER, true, addresses(gateway.as_slice()));
    tell(code::DNS, true, addresses(&plan.dns_servers));
    tell(code::ROUTES, false, routes(&plan.routes, gateway));
    tell(code::DOMAIN, true, plan.domain.as_deref().map(text).unwrap_or_default());
    tell(code::MTU, false, plan.mtu.map(|mtu| mtu.to_be_bytes().to_vec()).unwrap_or_default());
    tell(code::SEARCH, false, OptionValue::Domains(plan.search.clone()).bytes());
    tell(code::NTP, false, addresses(&plan.ntp_servers));
    tell(code::BROADCAST, false, network.broadcast().octets().to_vec());
    tell(code::BOOT_FILE, false, boot.map(|boot| text(&boot.file)).unwrap_or_default());
    let boot_server = boot.map(|boot| boot.server.unwrap_or(plan.server).to_string());
    tell(code::BOOT_SERVER, false, boot_server.map(String::into_bytes).unwrap_or_default());
    told.extend(plan.options.iter().map(|option| Told {
        code: option.code,
        value: option.value.bytes(),
        always: true,
    }));
    told
}

/// Routes in the form of RFC 3442, which has no room for the zeros of a network.
fn routes(routes: &[StaticRoute], gateway: Option<Ipv4Addr>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if routes.is_empty() {
        return bytes;
    }
    let out = gateway.map(|via| StaticRoute { to: Ipv4Net::default(), via });
    for StaticRoute { to, via } in routes.iter().chain(&out) {
        bytes.push(to.prefix_len());
        bytes.extend_from_slice(&to.network().octets()[..usize::from(to.prefix_len().div_ceil(8))]);
        bytes.extend_from_slice(&via.octets());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_leave_out_zeros_and_carry_the_gateway() {
        let to = |to: &str| StaticRoute { to: to.parse().unwrap(), via: Ipv4Addr::new(10, 0, 0, 1) };
        assert_eq!(routes(&[], Some(Ipv4Addr::LOCALHOST)), Vec::<u8>::new());
        assert_eq!(
            routes(&[to("10.128.0.0/9"), to("192.0.2.7/32")], Some(Ipv4Addr::new(10, 0, 0, 9))),
            [9, 10, 128, 10, 0, 0, 1, 32, 192, 0, 2, 7, 10, 0, 0, 1, 0, 10, 0, 0, 9]
        );
    }
}
