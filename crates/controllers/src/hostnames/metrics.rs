//! What is counted of hostnames, in the words of the prior system where it had some.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

/// How a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Standing {
    Ready,
    Pending,
    Waiting,
    Refused,
    Deleting,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStanding {
    state: Standing,
}

/// Whom a call went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Role {
    Dns,
    Issuer,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRole {
    provider: Role,
}

/// The figures; clones share their values.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    hostnames: Family<ByStanding, Gauge>,
    gateways: Gauge,
    issuance: Histogram,
    longest_pending: Gauge,
    earliest_expiry: Gauge,
    provider_failures: Family<ByRole, Counter>,
    failing_since: Family<ByRole, Gauge>,
    drift: Counter,
}

impl Figures {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("causeway_hostnames");
        let figures = Self {
            hostnames: Family::default(),
            gateways: Gauge::default(),
            // From 1 s to about 4.5 hours.
            issuance: Histogram::new(exponential_buckets(1.0, 2.0, 15)),
            longest_pending: Gauge::default(),
            earliest_expiry: Gauge::default(),
            provider_failures: Family::default(),
            failing_since: Family::default(),
            drift: Counter::default(),
        };
        registry.register("requests", "GatewayHostnameRequests by how they stand", figures.hostnames.clone());
        registry.register("gateways", "Gateways of the pool", figures.gateways.clone());
        registry.register_with_unit(
            "certificate_issuance_duration",
            "Time from asking for a certificate to having it",
            Unit::Seconds,
            figures.issuance.clone(),
        );
        registry.register_with_unit(
            "certificate_longest_pending",
            "How long the certificate has been waited for that is waited for the longest",
            Unit::Seconds,
            figures.longest_pending.clone(),
        );
        registry.register(
            "certificate_earliest_expiry_timestamp",
            "When the first of all certificates that are served ends or ended, in seconds since 1970; 0 without any",
            figures.earliest_expiry.clone(),
        );
        registry.register(
            "provider_failures",
            "Calls to DNS providers and issuers that failed",
            figures.provider_failures.clone(),
        );
        registry.register(
            "provider_failing_since_timestamp",
            "Since when one of the DNS providers or issuers has failed at all that it was asked, in seconds since 1970; 0 if none does",
            figures.failing_since.clone(),
        );
        registry.register(
            "drift",
            "Records and certificates that somebody changed and that were put right",
            figures.drift.clone(),
        );
        figures
    }

    pub(super) fn stand(&self, standings: impl Iterator<Item = Standing>) {
        let mut counts = [0_i64; 5];
        for standing in standings {
            counts[standing as usize] += 1;
        }
        for state in
            [Standing::Ready, Standing::Pending, Standing::Waiting, Standing::Refused, Standing::Deleting]
        {
            self.hostnames.get_or_create(&ByStanding { state }).set(counts[state as usize]);
        }
    }

    pub(super) fn gateways(&self, count: usize) {
        self.gateways.set(count as i64);
    }

    pub(super) fn certificates(&self, longest_pending: i64, earliest_expiry: i64) {
        self.longest_pending.set(longest_pending);
        self.earliest_expiry.set(earliest_expiry);
    }

    pub(super) fn issued(&self, seconds: i64) {
        self.issuance.observe(seconds.max(0) as f64);
    }

    pub(super) fn failed(&self, provider: Role) {
        self.provider_failures.get_or_create(&ByRole { provider }).inc();
    }

    /// Since when the first of those in this role fails that fail.
    pub(super) fn failing(&self, provider: Role, since: Option<i64>) {
        self.failing_since.get_or_create(&ByRole { provider }).set(since.unwrap_or_default());
    }

    pub(super) fn drifted(&self) {
        self.drift.inc();
    }
}
