//! Route 53 and ACM, in programs that are built with their clients.

use std::{collections::BTreeMap, sync::Arc};

use causeway_providers::{Error, certificate::CertificateIssuer, dns::DnsProvider};

/// Where and as whom.
#[cfg_attr(not(feature = "aws"), expect(dead_code, reason = "nobody is asked without the clients"))]
pub(super) struct Place {
    /// The controller, as it is named in marks and tags.
    pub(super) instance: String,
    pub(super) region: Option<String>,
    /// Another endpoint than Amazon's.
    pub(super) endpoint: Option<String>,
    /// The entries of a Secret.
    pub(super) credentials: BTreeMap<String, String>,
}

#[cfg(feature = "aws")]
impl Place {
    fn settings(self) -> causeway_providers::aws::Settings {
        use causeway_providers::{Secret, aws};
        let entry = |key: &str| self.credentials.get(key).map(|text| text.trim().to_owned());
        let keys = entry("accessKeyId").zip(entry("secretAccessKey"));
        aws::Settings {
            keys: keys.map(|(id, secret)| aws::Keys { id, secret: Secret::new(secret) }),
            role: entry("roleArn"),
            profile: None,
            instance: self.instance,
            region: self.region,
            endpoint: self.endpoint,
        }
    }
}

#[cfg(feature = "aws")]
pub(super) async fn dns(place: Place) -> Result<Arc<dyn DnsProvider>, Error> {
    Ok(Arc::new(causeway_providers::aws::Route53::new(&place.settings()).await?))
}

#[cfg(feature = "aws")]
pub(super) async fn issuer(place: Place) -> Result<Arc<dyn CertificateIssuer>, Error> {
    Ok(Arc::new(causeway_providers::aws::Acm::new(&place.settings()).await?))
}

#[cfg(not(feature = "aws"))]
pub(super) fn dns(_: Place) -> std::future::Ready<Result<Arc<dyn DnsProvider>, Error>> {
    std::future::ready(Err(absent()))
}

#[cfg(not(feature = "aws"))]
pub(super) fn issuer(_: Place) -> std::future::Ready<Result<Arc<dyn CertificateIssuer>, Error>> {
    std::future::ready(Err(absent()))
}

#[cfg(not(feature = "aws"))]
fn absent() -> Error {
    Error::Invalid {
        what: "this program is built without the clients of AWS".to_owned(),
        remedy: "take one that is built with the feature aws, as releases are, or another provider"
            .to_owned(),
    }
}
