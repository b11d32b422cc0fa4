//! How often clients ask, by address. There are so many addresses in the table and no more: once it is full of those that
//! are asking, all others are counted as one.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;

use causeway_base::lock;
use causeway_ir::http::RateLimit;

const SHARDS: usize = 16;
/// Addresses in a shard.
const MOST: usize = 4096;
/// Microseconds between two looks for addresses that have stopped asking.
const PURGE: u64 = 100_000;
/// All who find no room.
const REST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// How often is often enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Microseconds between two requests if they came evenly.
    interval: u64,
    /// How far ahead of that they may be.
    ahead: u64,
}

impl Rate {
    pub(crate) fn compile(planned: &RateLimit) -> Self {
        let per = planned.per.get().as_micros() as u64;
        let interval = (per / u64::from(planned.requests.get())).max(1);
        let burst = u64::from(planned.burst.unwrap_or(planned.requests).get());
        Self { interval, ahead: interval.saturating_mul(burst - 1) }
    }
}

/// The clients of a route.
#[derive(Default)]
pub(crate) struct Rates {
    hasher: RandomState,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    /// When the next request is due, in microseconds.
    due: HashMap<IpAddr, u64>,
    purged: u64,
}

impl Rates {
    /// Counts a request at this millisecond.
    ///
    /// # Errors
    /// If it is one too many: the seconds until there is room for another.
    pub(crate) fn admit(&self, client: IpAddr, now: u64, rate: Rate) -> Result<(), u64> {
        let client = network(client);
        let place = self.hasher.hash_one(client) as usize % SHARDS;
        lock::lock(&self.shards[place]).admit(client, now * 1000, rate)
    }
}

impl Shard {
    fn admit(&mut self, client: IpAddr, now: u64, rate: Rate) -> Result<(), u64> {
        let mut client = client;
        if self.due.len() >= MOST && !self.due.contains_key(&client) {
            if now.saturating_sub(self.purged) >= PURGE {
                self.purged = now;
                self.due.retain(|_, due| *due > now);
            }
            if self.due.len() >= MOST {
                client = REST;
            }
        }
        let due = self.due.entry(client).or_insert(0);
        let from = now.max(*due);
        let early = from.saturating_sub(now.saturating_add(rate.ahead));
        if early > 0 {
            return Err(early.div_ceil(1_000_000));
        }
        *due = from + rate.interval;
        Ok(())
    }
}

/// Whom an address stands for: in IPv6 everybody has a network.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        Rate::compile(&serde_saphyr::from_str(text).unwrap())
    }

    #[test]
    fn a_client_has_its_burst_and_then_its_rate() {
        let rates = Rates::default();
        let rate = rate("{requests: 2, per: 1s, burst: 3}");
        let [one, other, mapped]: [IpAddr; 3] =
            ["10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1"].map(|text| text.parse().unwrap());
        let admitted =
            |client: IpAddr, now: u64| (0..10).filter(|_| rates.admit(client, now, rate).is_ok()).count();
        assert_eq!(admitted(one, 1000), 3);
        assert_eq!(rates.admit(mapped, 1000, rate), Err(1));
        assert_eq!(admitted(other, 1000), 3);
        assert_eq!(admitted(one, 1499), 0);
        assert_eq!(admitted(one, 1500), 1);
        assert_eq!(admitted(one, 60_000), 3);
    }

    #[test]
    fn one_ipv6_network_is_one_client() {
        let rates = Rates::default();
        let rate = rate("{requests: 1, per: 10s}");
        let client = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(rates.admit(client("2001:db8::1"), 1, rate).is_ok());
        assert_eq!(rates.admit(client("2001:db8::ffff:2"), 1, rate), Err(10));
        assert!(rates.admit(client("2001:db8:0:1::1"), 1, rate).is_ok());
    }

    #[test]
    fn the_table_has_its_bound_and_forgets_who_stopped_asking() {
        let rate = rate("{requests: 1, per: 1s}");
        let mut shard = Shard::default();
        let all = 4 * MOST as u32;
        let admitted =
            (0..all).filter(|i| shard.admit(Ipv4Addr::from(*i + 1).into(), 1_000_000, rate).is_ok());
        // All that find no room share one place.
        assert_eq!(admitted.count(), MOST + 1);
        assert!(shard.due.len() <= MOST + 1);
        assert!(shard.admit(Ipv4Addr::from(all + 1).into(), 9_000_000, rate).is_ok());
        assert_eq!(shard.due.len(), 1);
    }
}
