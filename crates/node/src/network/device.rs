//! Networks of the loopback that lead to a device, in the network of this thread: on one machine Services and pods have such
//! addresses, and a process in a network of its own reaches them through its device.

use std::{io, net::Ipv4Addr};

use ipnet::Ipv4Net;

use super::{
    netlink::{Netlink, Route, Table},
    sysctl::{self, Family},
};

/// Leads these networks to the device of that name, with `source` as the address that is sent from. 127.0.0.1 stays what it is.
///
/// # Errors
/// What the kernel says.
pub fn lead_loopback(device: &str, source: Ipv4Addr, networks: &[Ipv4Net]) -> io::Result<()> {
    if networks.is_empty() {
        return Ok(());
    }
    let kernel = Netlink::open()?;
    let index = kernel.index(device)?;
    // In a container whoever made it has said so, and nothing can be written.
    if sysctl::read_interface(Family::V4, device, "route_localnet").as_deref() != Some("1") {
        sysctl::interface(Family::V4, device, "route_localnet", "1")?;
    }
    for network in networks {
        // The whole loopback as two halves: they are narrower than the machine's own route to it, so they count before it.
        let parts = match network.prefix_len() {
            ..=8 => Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8).subnets(9),
            length => network.subnets(length),
        };
        for to in parts.map_err(io::Error::other)? {
            let route =
                Route { to: to.into(), gateway: None, source: Some(source.into()), table: Table::Local };
            kernel.add_route(index, route)?;
        }
    }
    Ok(())
}
