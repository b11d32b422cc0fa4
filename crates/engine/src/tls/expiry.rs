//! When certificates expire: shown as seconds that are left, and told in the log in time.

use std::fmt;
use std::sync::{Arc, RwLock};

use causeway_base::lock;
use causeway_ir::tls::Age;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::Certificates;

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
            match certificate.validity().at(now()) {
                Age::Expired => {
                    tracing::warn!(certificate = %name, "a certificate has expired: clients refuse it; renew it");
                }
                Age::Ending => {
                    let days = (certificate.validity().expires - now()) / (24 * 3600);
                    tracing::warn!(certificate = %name, days, "a certificate is about to expire; renew it");
                }
                Age::Early => {
                    tracing::warn!(certificate = %name, "a certificate does not count yet: clients refuse it; wait, or correct the clocks");
                }
                Age::Good => {}
            }
        }
    }
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
        let mut left: Vec<_> =
            certificates.iter().map(|(name, c)| (name, c.validity().expires - now())).collect();
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
