//! How a server is, for those who look from outside.

use std::collections::HashMap;

use causeway_ir::dhcp::hex;
use serde::Serialize;

use crate::lease::{Lease, Seconds, State};
use crate::table::Table;

/// Clients that are not served and remembered for somebody to look.
const MOST_UNKNOWN: usize = 64;

/// How a server is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Addresses that clients have.
    pub active: u64,
    /// Addresses of the pools that nobody has.
    pub free: u64,
    /// Addresses that somebody else uses.
    pub declined: u64,
    /// Why clients are not served, if they are not: then the server is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Another number whenever leases have changed.
    pub revision: u64,
    /// Whether clients without an address are answered by unicast where they take it.
    pub unicast: bool,
    /// Whether routers are advertised, which a plan can ask for and only CAP_NET_RAW allows.
    pub advertises: bool,
    /// Clients that asked and are not served, the last ones.
    pub unknown: Vec<Unknown>,
}

/// A client that is not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unknown {
    /// Its card.
    pub hardware: String,
    /// How often it asked.
    pub times: u64,
    /// When it asked last.
    pub last: Seconds,
}

impl Status {
    /// Counts the addresses of tables.
    pub(super) fn count<'a>(&mut self, tables: impl Iterator<Item = &'a Table>, now: Seconds) {
        (self.active, self.free, self.declined) = (0, 0, 0);
        for table in tables {
            let (mut active, mut declined) = (0, 0);
            for lease in table.leases() {
                let is_declined = |lease: &Lease| lease.state == State::Declined && lease.until > now;
                active += u64::from(lease.is_active(now));
                declined += u64::from(is_declined(lease));
            }
            self.active += active;
            self.declined += declined;
            let size = u64::try_from(table.pool().size()).unwrap_or(u64::MAX);
            self.free = self.free.saturating_add(size.saturating_sub(active + declined));
        }
    }
}

/// Clients that are not served, so many at most.
#[derive(Default)]
pub(super) struct Strangers(HashMap<Box<[u8]>, (u64, Seconds)>);

impl Strangers {
    pub(super) fn saw(&mut self, hardware: &[u8], now: Seconds) {
        if let Some((times, last)) = self.0.get_mut(hardware) {
            (*times, *last) = (*times + 1, now);
            return;
        }
        if self.0.len() >= MOST_UNKNOWN {
            let oldest = self.0.iter().min_by_key(|(_, (_, last))| *last).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(hardware.into(), (1, now));
    }

    pub(super) fn list(&self) -> Vec<Unknown> {
        let all = self.0.iter();
        let all =
            all.map(|(card, (times, last))| Unknown { hardware: hex(card), times: *times, last: *last });
        let mut all: Vec<Unknown> = all.collect();
        all.sort_by(|a, b| (b.last, &a.hardware).cmp(&(a.last, &b.hardware)));
        all
    }
}
