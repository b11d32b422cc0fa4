//! Our own certificate authority: a root that its owner keeps, and short-lived certificates of it.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use causeway_base::file;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints, SanType, SerialNumber,
};

use crate::certificate::{Certificate, CertificateIssuer, Look, Order, Renewal};
use crate::{Error, Name, Secret, x509};

/// How long the root is good for.
const ROOT_LIFETIME: Duration = Duration::from_hours(24 * 365 * 10);
/// A clock that is a little behind must not refuse a certificate made just now.
const CLOCK_SKEW: Duration = Duration::from_hours(1);

/// The root: its certificate, which clients are told to trust, and its key.
pub struct Authority {
    certificate: String,
    key: Secret,
}

impl Authority {
    /// A new one. With domains it can vouch for names in those only, whoever gets hold of its key.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn generate(domains: &[Name]) -> Result<Self, Error> {
        let failed = |error| Error::unavailable("the local authority", error);
        let mut params = CertificateParams::default();
        let now = SystemTime::now();
        params.distinguished_name = DistinguishedName::new();
        // Several may be trusted by one client: the name tells them apart for people.
        let number = causeway_base::random::number() & 0xffff_ffff;
        params.distinguished_name.push(DnType::CommonName, format!("Causeway local authority {number:08x}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + ROOT_LIFETIME).into();
        if !domains.is_empty() {
            let permitted = domains.iter().map(|domain| GeneralSubtree::DnsName(domain.to_string()));
            // Without these, addresses of any kind would be allowed.
            let excluded = [CidrSubnet::V4([0; 4], [0; 4]), CidrSubnet::V6([0; 16], [0; 16])];
            params.name_constraints = Some(NameConstraints {
                permitted_subtrees: permitted.collect(),
                excluded_subtrees: excluded.map(GeneralSubtree::IpAddress).into(),
            });
        }
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        Ok(Self { certificate: certificate.pem(), key: Secret::new(key.serialize_pem()) })
    }

    /// The one in a directory, made there if there is none: `ca.pem` with its key, for its owner only, and `ca.crt` without,
    /// for everybody.
    ///
    /// # Errors
    /// When it can't be read or written.
    pub fn open(directory: &Path, domains: &[Name]) -> Result<Self, Error> {
        let path = directory.join("ca.pem");
        let failed = |error| Error::unavailable(format!("the local authority in {}", path.display()), error);
        let authority = match std::fs::read_to_string(&path) {
            Ok(pem) => Self::from_pem(&Secret::new(pem))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let authority = Self::generate(domains)?;
                file::create_private_dir(directory).map_err(failed)?;
                file::replace(&path, file::PRIVATE, authority.to_pem().expose().as_bytes())
                    .map_err(failed)?;
                authority
            }
            Err(error) => return Err(failed(error)),
        };
        let exported = directory.join("ca.crt");
        if std::fs::read_to_string(&exported).ok().as_deref() != Some(authority.certificate()) {
            file::replace(&exported, 0o644, authority.certificate.as_bytes()).map_err(failed)?;
        }
        Ok(authority)
    }

    /// Certificate and key as text, to be stored.
    pub fn to_pem(&self) -> Secret {
        Secret::new(format!("{}{}", self.certificate, self.key.expose()))
    }

    /// Reads what [`Self::to_pem`] gave.
    ///
    /// # Errors
    /// When a part is missing or broken.
    pub fn from_pem(pem: &Secret) -> Result<Self, Error> {
        let pem = pem.expose();
        let broken = || {
            Error::invalid(
                "the stored authority has no certificate and key",
                "restore it, or remove it for a new one, which clients have to trust anew",
            )
        };
        let split = pem.find("-----BEGIN PRIVATE KEY-----").ok_or_else(broken)?;
        let authority =
            Self { certificate: pem[..split].to_owned(), key: Secret::new(pem[split..].to_owned()) };
        authority.issuer().map_err(|_| broken())?;
        Ok(authority)
    }

    /// The certificate that clients are told to trust, as PEM; no secret.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    fn issuer(&self) -> Result<rcgen::Issuer<'static, KeyPair>, rcgen::Error> {
        rcgen::Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(self.key.expose())?)
    }
}

/// Issues certificates of an authority at once.
pub struct Issuer {
    authority: Authority,
    lifetime: Duration,
}

impl Issuer {
    /// How long a certificate is good for unless told otherwise.
    pub const LIFETIME: Duration = Duration::from_hours(24 * 7);

    /// Certificates of this authority are good for `lifetime`.
    pub fn new(authority: Authority, lifetime: Duration) -> Self {
        Self { authority, lifetime }
    }

    /// Who signs.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    fn issue(&self, order: &Order) -> Result<Certificate, Error> {
        let now = SystemTime::now();
        if let Some(held) = order.held.as_deref().and_then(|chain| x509::leaf(chain).ok())
            && held.fits(order, now)?
        {
            return Ok(held.certificate);
        }
        let no_key = || Error::invalid("the order has no key", "make one and store it first");
        let key = order.key.as_ref().ok_or_else(no_key)?.pair()?;
        let failed = |error: rcgen::Error| Error::unavailable("the local authority", error);
        let mut params = CertificateParams::default();
        // By default it would be made of the key, and two certificates of one key would be taken for the same.
        let mut serial = [0; 16];
        aws_lc_rs::rand::fill(&mut serial).map_err(|_| failed(rcgen::Error::RingUnspecified))?;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.distinguished_name = DistinguishedName::new();
        for name in &order.names {
            let name = name.as_str().try_into().map_err(failed)?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        // A tenth at most, so that a certificate for minutes is not half over when it is made.
        params.not_before = (now - CLOCK_SKEW.min(self.lifetime / 10)).into();
        params.not_after = (now + self.lifetime).into();
        let issuer = self.authority.issuer().map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        Ok(x509::leaf(&certificate.pem())?.certificate)
    }
}

impl CertificateIssuer for Issuer {
    fn name(&self) -> &'static str {
        "local"
    }

    fn wants_key(&self) -> bool {
        true
    }

    fn request<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<String, Error>> {
        ready(Ok(format!("local:{}/{}", order.id, order.serial))).boxed()
    }

    /// Signs at once; a certificate that the order holds and that fits is left as it is.
    fn look<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<Look, Error>> {
        ready(self.issue(order).map(Look::Issued)).boxed()
    }

    fn proofs_served<'a>(&'a self, _order: &'a Order) -> BoxFuture<'a, Result<(), Error>> {
        ready(Ok(())).boxed()
    }

    fn renewal<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, Result<Renewal, Error>> {
        ready(x509::held(order).map(|leaf| x509::renewal(&leaf.certificate))).boxed()
    }

    fn in_use<'a>(&'a self, _order: &'a Order) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        ready(Ok(Vec::new())).boxed()
    }

    /// Nothing is kept of it, and it ends soon.
    fn remove<'a>(&'a self, _order: &'a Order) -> BoxFuture<'a, Result<(), Error>> {
        ready(Ok(())).boxed()
    }
}

#[cfg(test)]
mod tests;
