//! Who has how many of what there is only so much of: nobody may have all.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use causeway_base::lock::lock;

/// So many for each client.
pub(crate) struct Seats {
    most: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One of a client's, until it is dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    client: IpAddr,
}

impl Seats {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// None if the client has all that it may have.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Option<Seat> {
        let client = counted_as(client);
        let mut all = lock(&self.taken);
        let taken = all.entry(client).or_default();
        if *taken == self.most {
            return None;
        }
        *taken += 1;
        Some(Seat { seats: Arc::clone(self), client })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = lock(&self.seats.taken);
        if let Some(taken) = all.get_mut(&self.client) {
            *taken -= 1;
            if *taken == 0 {
                all.remove(&self.client);
            }
        }
    }
}

/// Whoever has one address of IPv6 has its whole /64.
fn counted_as(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => client,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_no_more_than_its_share_and_gets_it_back() {
        let seats = Seats::new(2);
        let take = |client: &str| seats.take(client.parse().unwrap());
        let held = [take("fd00::1"), take("fd00::2"), take("10.0.0.1"), take("10.0.0.2")];
        assert!(held.iter().all(Option::is_some));
        assert!(take("fd00::3").is_none(), "one network of IPv6 is one client");
        assert!(take("fd00:0:0:1::1").is_some() && take("10.0.0.1").is_some());
        drop(held);
        assert!(take("fd00::3").is_some());
        assert!(lock(&seats.taken).is_empty(), "nobody is remembered");
    }
}
