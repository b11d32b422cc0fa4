//! Leases as they are shown and handed on: by `causeway leases`, and by the pods of a `DHCPServer` in a ConfigMap, so that
//! they can be seen without a way to the pods.

use std::net::IpAddr;

use causeway_dhcp::{Lease, Seconds, State};
use causeway_ir::dhcp::hex;
use serde::{Deserialize, Serialize};

/// Leases that a pod tells of at most; with all that is in them they are far from what a ConfigMap takes.
const MOST: usize = 2000;

/// One lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedLease {
    pub(crate) address: IpAddr,
    pub(crate) state: State,
    pub(crate) until: Seconds,
    pub(crate) client: String,
    pub(crate) hardware: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hostname: Option<String>,
}

impl From<Lease> for ListedLease {
    fn from(lease: Lease) -> Self {
        Self {
            address: lease.address,
            state: lease.state,
            until: lease.until,
            client: hex(&lease.client),
            hardware: hex(&lease.hardware),
            hostname: lease.hostname.map(String::from),
        }
    }
}

impl ListedLease {
    /// Whether a client has the address at this time.
    pub(crate) fn is_active(&self, now: Seconds) -> bool {
        self.state == State::Leased && self.until > now
    }
}

/// What one server tells of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseList {
    pub(crate) leases: Vec<ListedLease>,
    /// Those that there was no room for.
    #[serde(default)]
    pub(crate) left_out: usize,
}

impl LeaseList {
    /// What of these matters at this time: addresses that somebody has, or uses without a lease.
    pub(crate) fn of(leases: Vec<Lease>, now: Seconds) -> Self {
        let mut leases: Vec<Lease> =
            leases.into_iter().filter(|lease| lease.state != State::Released && lease.until > now).collect();
        leases.sort_by_key(|lease| lease.address);
        let left_out = leases.len().saturating_sub(MOST);
        leases.truncate(MOST);
        Self { leases: leases.into_iter().map(ListedLease::from).collect(), left_out }
    }

    /// Whether both have the same clients with the same addresses, for however long.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        let bare = |lease: &ListedLease| ListedLease { until: 0, ..lease.clone() };
        self.left_out == other.left_out && self.leases.iter().map(bare).eq(other.leases.iter().map(bare))
    }

    /// The same for a ConfigMap.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What several servers tell of, in the texts of theirs: of an address that more than one knows, the longest lease.
    pub(crate) fn read<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Self::default();
        for list in texts.filter_map(|text| serde_json::from_str::<Self>(text).ok()) {
            all.left_out += list.left_out;
            all.leases.extend(list.leases);
        }
        all.leases.sort_by_key(|lease| (lease.address, std::cmp::Reverse(lease.until)));
        all.leases.dedup_by_key(|lease| lease.address);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(last: u8, state: State, until: Seconds) -> Lease {
        Lease {
            address: [10, 0, 0, last].into(),
            state,
            until,
            client: Box::from([1, last]),
            hardware: Box::from([2, 0, 0, 0, 0, last]),
            hostname: Some("vm".into()),
        }
    }

    #[test]
    fn what_servers_tell_of_is_read_as_one_list() {
        use State::{Declined, Leased, Released};
        let first = LeaseList::of(
            vec![lease(7, Leased, 500), lease(5, Leased, 900), lease(6, Leased, 50), lease(8, Released, 900)],
            100,
        );
        assert_eq!(first.leases.iter().map(|lease| lease.until).collect::<Vec<_>>(), [900, 500]);
        let longer = LeaseList::of(vec![lease(5, Leased, 950), lease(7, Leased, 500)], 100);
        assert!(longer.is_alike(&first) && longer != first, "prolonged, and nothing else");
        let second = LeaseList::of(vec![lease(7, Leased, 800), lease(9, Declined, 800)], 100);
        assert!(!second.is_alike(&first));
        let all =
            LeaseList::read([first.text(), "rubbish".to_owned(), second.text()].iter().map(String::as_str));
        let found: Vec<_> = all.leases.iter().map(|lease| (lease.address.to_string(), lease.until)).collect();
        assert_eq!(found, [("10.0.0.5".into(), 900), ("10.0.0.7".into(), 800), ("10.0.0.9".into(), 800)]);
        let many = (0..u16::MAX)
            .map(|n| Lease { address: [10, 1, (n >> 8) as u8, n as u8].into(), ..lease(1, Leased, 9) });
        let many = LeaseList::of(many.collect(), 0);
        assert_eq!((many.leases.len(), many.left_out), (MOST, usize::from(u16::MAX) - MOST));
        assert!(many.text().len() < 450_000, "two of them fit into a ConfigMap");
    }
}
