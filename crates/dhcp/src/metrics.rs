//! What a server counts.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type Labels = [(&'static str, &'static str); 1];

/// All families.
#[derive(Clone, Default)]
pub struct Metrics {
    received: Family<Labels, Counter>,
    sent: Family<Labels, Counter>,
    silent: Family<Labels, Counter>,
    pub(crate) leases: Family<Labels, Gauge<i64, AtomicI64>>,
    pub(crate) conflicts: Counter,
    pub(crate) unprobed: Counter,
    pub(crate) commits: Counter,
    pub(crate) commit_errors: Counter,
    pub(crate) send_errors: Counter,
}

impl Metrics {
    /// Adds the families to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let r = registry;
        r.register("causeway_dhcp_received", "Messages of clients, by type", self.received.clone());
        r.register("causeway_dhcp_sent", "Replies, by type", self.sent.clone());
        r.register("causeway_dhcp_silent", "Messages without a reply, by reason", self.silent.clone());
        r.register("causeway_dhcp_addresses", "Addresses, by what became of them", self.leases.clone());
        r.register("causeway_dhcp_conflicts", "Addresses that somebody used already", self.conflicts.clone());
        r.register(
            "causeway_dhcp_unprobed",
            "Offers without a probe, for their number",
            self.unprobed.clone(),
        );
        r.register("causeway_dhcp_commits", "Groups of leases written to disk", self.commits.clone());
        r.register(
            "causeway_dhcp_commit_errors",
            "Groups that could not be written",
            self.commit_errors.clone(),
        );
        r.register("causeway_dhcp_send_errors", "Replies that could not be sent", self.send_errors.clone());
    }

    pub(crate) fn received(&self, message: &'static str) {
        self.received.get_or_create(&[("message", message)]).inc();
    }

    pub(crate) fn sent(&self, message: &'static str) {
        self.sent.get_or_create(&[("message", message)]).inc();
    }

    pub(crate) fn silent(&self, reason: &'static str) {
        self.silent.get_or_create(&[("reason", reason)]).inc();
    }
}
