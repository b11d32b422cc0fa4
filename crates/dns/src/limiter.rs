//! Keeps strangers from making this server send to others more than they could themselves: so many datagrams a second to a
//! network of clients. Each worker has a limiter of its own.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

/// Networks that are kept in mind.
const BUCKETS: usize = 4096;
/// Refusals and complaints a second to one network, whatever the plan says.
const REFUSALS: u32 = 20;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Answer,
    Refusal,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    /// Tell the client to ask by TCP, which can't be forged.
    Truncate,
    Drop,
}

pub(crate) struct Limiter {
    keys: RandomState,
    buckets: Box<[Bucket]>,
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    key: u64,
    /// Thousandths of an answer that may still be sent.
    tokens: u64,
    millis: u64,
    over: bool,
}

impl Limiter {
    pub(crate) fn new() -> Self {
        Self { keys: RandomState::new(), buckets: vec![Bucket::default(); BUCKETS].into() }
    }

    /// `limit` is what the plan allows a second.
    pub(crate) fn check(&mut self, client: IpAddr, sort: Sort, limit: Option<u32>, millis: u64) -> Verdict {
        let rate = match (sort, limit) {
            (Sort::Answer, None) => return Verdict::Send,
            (Sort::Answer, Some(limit)) => limit,
            (Sort::Refusal, limit) => limit.map_or(REFUSALS, |limit| limit.min(REFUSALS)),
        };
        let network = match client {
            IpAddr::V4(address) => u64::from(address.to_bits() >> 8),
            IpAddr::V6(address) => (address.to_bits() >> 72) as u64 | 1 << 63,
        };
        let key = self.keys.hash_one((network, sort == Sort::Refusal));
        let bucket = &mut self.buckets[key as usize % BUCKETS];
        let full = u64::from(rate) * 1000;
        if bucket.key != key {
            *bucket = Bucket { key, tokens: full, millis, over: false };
        }
        let since = millis.saturating_sub(bucket.millis);
        bucket.tokens = full.min(bucket.tokens.saturating_add(since.saturating_mul(u64::from(rate))));
        bucket.millis = millis;
        if bucket.tokens >= 1000 {
            bucket.tokens -= 1000;
            return Verdict::Send;
        }
        bucket.over = !bucket.over;
        if bucket.over && sort == Sort::Answer { Verdict::Truncate } else { Verdict::Drop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_gets_its_rate_and_every_second_one_beyond_is_cut() {
        let mut limiter = Limiter::new();
        let [a, neighbour, other] = ["10.0.0.1", "10.0.0.2", "10.0.1.1"].map(|text| text.parse().unwrap());
        let mut check = |client, millis| limiter.check(client, Sort::Answer, Some(2), millis);
        assert_eq!([check(a, 5000), check(neighbour, 5000)], [Verdict::Send; 2]);
        assert_eq!([check(a, 5000), check(a, 5000)], [Verdict::Truncate, Verdict::Drop]);
        assert_eq!(check(other, 5000), Verdict::Send);
        assert_eq!(check(a, 5500), Verdict::Send, "half a second later there is one more");
        assert_eq!(check(a, 5500), Verdict::Truncate);
    }

    #[test]
    fn refusals_are_limited_without_a_plan() {
        let mut limiter = Limiter::new();
        let stranger = "2001:db8::1".parse().unwrap();
        let sent =
            (0..100).filter(|_| limiter.check(stranger, Sort::Refusal, None, 1) == Verdict::Send).count();
        assert_eq!(sent, REFUSALS as usize);
        assert_eq!(limiter.check(stranger, Sort::Answer, None, 1), Verdict::Send);
    }
}
