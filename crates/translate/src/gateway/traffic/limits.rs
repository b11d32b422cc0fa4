//! What holds where several limits do.

use causeway_ir::http::RateLimit;
use ipnet::IpNet;

/// The networks that are in every one of these lists; none if there is no such network.
pub(super) fn networks<'a>(mut lists: impl Iterator<Item = &'a [IpNet]>) -> Option<Vec<IpNet>> {
    let mut left = lists.next()?.to_vec();
    for list in lists {
        let pairs = left.iter().flat_map(|a| list.iter().map(move |b| (a, b)));
        let common =
            pairs.filter_map(|(a, b)| if a.contains(b) { Some(*b) } else { b.contains(a).then_some(*a) });
        let common: Vec<IpNet> = common.collect();
        left = common;
        left.sort();
        left.dedup();
    }
    (!left.is_empty()).then_some(left)
}

/// The slowest rate, with the smallest burst.
pub(super) fn rate<'a>(limits: impl Iterator<Item = &'a RateLimit> + Clone) -> Option<RateLimit> {
    let burst = |limit: &RateLimit| limit.burst.unwrap_or(limit.requests);
    let smallest = limits.clone().map(burst).min_by_key(|burst| burst.get())?;
    let slowest = limits.min_by(|a, b| {
        let each =
            |one: &RateLimit, other: &RateLimit| u128::from(one.requests.get()) * other.per.get().as_nanos();
        each(a, b).cmp(&each(b, a))
    })?;
    let burst = (burst(slowest) != smallest).then_some(smallest).or(slowest.burst);
    Some(RateLimit { burst, ..slowest.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(texts: &[&[&str]]) -> Vec<Vec<IpNet>> {
        texts.iter().map(|list| list.iter().map(|text| text.parse().unwrap()).collect()).collect()
    }

    #[test]
    fn who_is_allowed_is_in_every_list() {
        let common = |texts: &[&[&str]]| {
            let lists = lists(texts);
            let common = networks(lists.iter().map(Vec::as_slice))?;
            Some(common.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(common(&[&["10.0.0.0/8", "192.0.2.0/24"]]).unwrap(), "10.0.0.0/8 192.0.2.0/24");
        let nested = common(&[&["10.0.0.0/8", "::/0"], &["0.0.0.0/0", "2001:db8::/32"]]);
        assert_eq!(nested.unwrap(), "10.0.0.0/8 2001:db8::/32");
        assert_eq!(
            common(&[&["10.0.0.0/8"], &["10.1.0.0/16", "10.1.2.0/24"], &["10.1.2.0/23"]]).unwrap(),
            "10.1.2.0/23 10.1.2.0/24"
        );
        assert_eq!(common(&[&["10.0.0.0/8"], &["192.0.2.0/24"]]), None);
        assert_eq!(common(&[]), None);
    }

    #[test]
    fn the_slowest_rate_counts_with_the_smallest_burst() {
        let limit = |text: &str| -> RateLimit { serde_saphyr::from_str(text).unwrap() };
        let least = |texts: &[&str]| {
            let limits: Vec<RateLimit> = texts.iter().map(|text| limit(text)).collect();
            rate(limits.iter())
        };
        let slow = "{requests: 60, per: 1m, burst: 9}";
        assert_eq!(least(&[slow]).unwrap(), limit(slow));
        assert_eq!(least(&["{requests: 2}", slow]).unwrap(), limit("{requests: 60, per: 1m, burst: 2}"));
        assert_eq!(least(&["{requests: 100}", "{requests: 5}"]).unwrap(), limit("{requests: 5}"));
        assert_eq!(least(&[]), None);
    }
}
