//! What the operator decides where requests and zones leave it open, and who supplies issuers and DNS providers.

use std::{fmt, sync::Arc, time::Duration};

use causeway_api::names;
use causeway_providers::{Error, certificate::CertificateIssuer, dns::DnsProvider};
use causeway_translate::hostname::{Zone, world};
use futures::future::BoxFuture;
use jiff::Timestamp;

/// Who has issuers and DNS providers for zones.
pub trait Suppliers: Send + Sync {
    /// Who writes the records of a zone.
    ///
    /// # Errors
    /// When its settings or credentials don't do.
    fn dns<'a>(&'a self, zone: &'a Zone) -> BoxFuture<'a, Result<Arc<dyn DnsProvider>, Error>>;

    /// Who issues the certificates of a zone.
    ///
    /// # Errors
    /// When its settings or credentials don't do.
    fn issuer<'a>(&'a self, zone: &'a Zone) -> BoxFuture<'a, Result<Arc<dyn CertificateIssuer>, Error>>;

    /// Told of a zone whose provider or issuer refuses: its credentials may be others the next time.
    fn forget(&self, zone: &Zone) {
        let _ = zone;
    }
}

/// One of them, shared.
#[derive(Clone)]
pub struct SuppliersRef(pub Arc<dyn Suppliers>);

impl SuppliersRef {
    /// Shares it.
    pub fn new(suppliers: impl Suppliers + 'static) -> Self {
        Self(Arc::new(suppliers))
    }
}

impl fmt::Debug for SuppliersRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Suppliers")
    }
}

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What requests and zones leave open.
    pub world: world::Settings,
    /// The operator's namespace, with the credentials of zones.
    pub namespace: String,
    /// How often records and certificates are looked at that nobody is known to have touched.
    pub sweep: Duration,
    /// How long a certificate of our own authority is good for.
    pub local_lifetime: Duration,
    /// Whether what would be done is only said.
    pub dry_run: bool,
    /// The port of our own DNS server's Service.
    pub dns_port: u16,
    /// Others than the usual issuers and DNS providers.
    pub suppliers: Option<SuppliersRef>,
    /// The time.
    pub now: fn() -> Timestamp,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            world: world::Settings::default(),
            namespace: names::NAMESPACE.to_owned(),
            sweep: Duration::from_mins(10),
            local_lifetime: causeway_providers::local::Issuer::LIFETIME,
            dry_run: false,
            dns_port: 53,
            suppliers: None,
            now: Timestamp::now,
        }
    }
}
