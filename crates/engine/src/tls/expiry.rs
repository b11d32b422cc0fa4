//! When certificates expire: shown as seconds that are left, and told in the log in time.

use std::fmt;
use std::sync::{Arc, RwLock};

use causeway_base::lock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::Certificates;

/// Left of a certificate when it is told, at most.
const SOON: i64 = 14 * 24 * 3600;
/// The part of its life that is left then, if that is less: whoever renews certificates has done so by then.
const PART: i64 = 6;

/// The certificates in use.
#[derive(Clone, Default)]
pub(crate) struct Expiry(Arc<RwLock<Arc<Certificates>>>);

impl Expiry {
    pub(crate) fn set(&self, certificates: &Arc<Certificates>) {
        *lock::write(&self.0) = Arc::clone(certificates);
    }

    /// Says which certificates have expired, or soon will.
    pub(crate) fn tell(&self) {
        let certificates = Arc::clone(&lock::read(&self.0));
        for (name, certificate) in certificates.iter() {
            let left = certificate.expires() - now();
            if left <= 0 {
                tracing::warn!(certificate = %name, "a certificate has expired: clients refuse it; renew it");
            } else if is_soon(left, certificate.expires() - certificate.begins()) {
                let days = left / (24 * 3600);
                tracing::warn!(certificate = %name, days, "a certificate is about to expire; renew it");
            }
        }
    }
}

fn is_soon(left: i64, life: i64) -> bool {
    left < SOON.min(life / PART)
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

impl fmt::Debug for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Expiry")
    }
}

impl Collector for Expiry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let certificates = Arc::clone(&lock::read(&self.0));
        let mut left: Vec<_> = certificates.iter().map(|(name, c)| (name, c.expires() - now())).collect();
        left.sort_unstable();
        let help = "Time until a certificate expires; negative once it has";
        let mut series = encoder.encode_descriptor(
            "causeway_certificate_expires",
            help,
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        for (name, left) in left {
            series.encode_family(&[("certificate", name.as_str())])?.encode_gauge(&left)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_told_in_time_and_not_all_its_life() {
        const DAY: i64 = 24 * 3600;
        for (left, life, soon) in [
            (13, 90, true),
            (15, 90, false),
            (60, 90, false),
            (20, 365, false),
            (13, 365, true),
            (2, 7, false),
            (1, 7, true),
        ] {
            assert_eq!(is_soon(left * DAY, life * DAY), soon, "{left} of {life} days");
        }
    }
}
