//! Whether somebody uses an address already, found out without any right: a datagram to it makes the kernel ask for its card
//! (ARP). A machine that is there appears in the kernel's table of neighbours, or refuses the datagram.
//!
//! A neighbour that was in the table before proves nothing, since the kernel does not forget those who left; then only a
//! refusal does. A machine that was heard before and drops datagrams without a word is not found.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use causeway_ir::dhcp::{HardwareAddress, hex};

use super::socket;

/// Probes at one time: each is an entry in the kernel's table, which is not large.
const MOST: usize = 64;
/// Nobody listens there; who is there says so.
const DISCARD: u16 = 9;
/// Between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// One address that is looked at.
struct Probe {
    socket: UdpSocket,
    until: Instant,
    was_known: bool,
    /// The card of the client that is to get the address, who may use it already.
    client: String,
    /// What the client asked, to be answered when the probe is over.
    message: Vec<u8>,
}

/// A probe that is over.
pub(super) struct Probed {
    pub(super) address: Ipv4Addr,
    /// The card of who uses the address, empty if only that somebody does is known; none if nobody does.
    pub(super) user: Option<Vec<u8>>,
    pub(super) message: Vec<u8>,
}

/// All probes of a server.
#[derive(Default)]
pub(super) struct Probes {
    running: HashMap<Ipv4Addr, Probe>,
    /// The table of neighbours is long and clients are many: it is read now and then, not with each message.
    looked: Option<Instant>,
}

impl Probes {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Begins to look; false if that is not possible, or there are too many already.
    pub(super) fn begin(
        &mut self,
        address: Ipv4Addr,
        interface: &str,
        time: Duration,
        hardware: &[u8],
        message: &[u8],
    ) -> bool {
        if let Some(probe) = self.running.get_mut(&address) {
            // The client asks again meanwhile, or another one was chosen for the address.
            probe.message = message.to_vec();
            probe.client = hex(hardware);
            return true;
        }
        if self.running.len() >= MOST {
            return false;
        }
        let was_known = neighbours(interface).contains_key(&address);
        let asked = socket::unbound(interface).and_then(|socket| {
            socket.connect((address, DISCARD))?;
            socket.send(&[])?;
            Ok(socket)
        });
        let Ok(socket) = asked else { return false };
        let (until, client) = (Instant::now() + time, hex(hardware));
        self.running.insert(address, Probe { socket, until, was_known, client, message: message.to_vec() });
        true
    }

    /// The probes that are over.
    pub(super) fn over(&mut self, interface: &str) -> Vec<Probed> {
        let now = Instant::now();
        if self.running.is_empty() || self.looked.is_some_and(|looked| now < looked + LOOK) {
            return Vec::new();
        }
        self.looked = Some(now);
        let neighbours = neighbours(interface);
        let user = |address: &Ipv4Addr, probe: &Probe| {
            let refused =
                probe.socket.recv(&mut [0; 1]).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused);
            let card = neighbours.get(address);
            let is_client = card == Some(&probe.client);
            let is_used = !is_client && (refused || (card.is_some() && !probe.was_known));
            let card = card.and_then(|card| HardwareAddress::parse(card).ok());
            is_used.then(|| card.map(|card| card.0.to_vec()).unwrap_or_default())
        };
        let mut users: HashMap<Ipv4Addr, Vec<u8>> = self
            .running
            .iter()
            .filter_map(|(address, probe)| Some((*address, user(address, probe)?)))
            .collect();
        let over = |address: &Ipv4Addr, probe: &mut Probe| users.contains_key(address) || probe.until <= now;
        let over: Vec<(Ipv4Addr, Probe)> = self.running.extract_if(over).collect();
        let over = over.into_iter();
        over.map(|(address, probe)| Probed { address, user: users.remove(&address), message: probe.message })
            .collect()
    }
}

/// Machines on an interface that the kernel knows the card of.
fn neighbours(interface: &str) -> HashMap<Ipv4Addr, String> {
    // Of this thread's network namespace, which /proc/self need not be.
    let table = std::fs::read_to_string("/proc/thread-self/net/arp").unwrap_or_default();
    parse(&table, interface)
}

fn parse(table: &str, interface: &str) -> HashMap<Ipv4Addr, String> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let address = words.next()?.parse().ok()?;
        let flags = words.nth(1)?.strip_prefix("0x")?;
        let card = words.next()?;
        let device = words.nth(1)?;
        let is_known = u32::from_str_radix(flags, 16).ok()? & 2 != 0;
        (is_known && device == interface).then(|| (address, card.to_owned()))
    };
    table.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_neighbours_of_an_interface() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
             10.0.0.9         0x1         0x2         02:00:00:00:00:09     *        net1\n\
             10.0.0.8         0x1         0x0         00:00:00:00:00:00     *        net1\n\
             10.0.0.7         0x1         0x2         02:00:00:00:00:07     *        eth0\n";
        let found = parse(table, "net1");
        assert_eq!(found, HashMap::from([(Ipv4Addr::new(10, 0, 0, 9), "02:00:00:00:00:09".to_owned())]));
    }
}
