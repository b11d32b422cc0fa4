//! Who the two ends are: an authority per pair, which lives with the host's end, and a short-lived certificate for
//! each end. Nobody but the pair has a certificate of that authority, so nobody else gets past the handshake.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedCipherSuite};

/// How long an end's certificate is good for. The container's is renewed long before.
pub const LIFETIME: Duration = Duration::from_hours(24 * 30);
/// A clock that is a little behind must not refuse a certificate made just now.
const CLOCK_SKEW: Duration = Duration::from_hours(1);

/// Why keys could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A certificate could not be made.
    #[error("can't make a certificate")]
    Make(#[from] rcgen::Error),
    /// Text that should hold keys does not.
    #[error("no {what} in the PEM text: make the keys anew")]
    Missing {
        /// What is missing.
        what: &'static str,
        /// What the parser says.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The keys don't fit TLS.
    #[error("the keys can't be used for TLS")]
    Tls(#[from] rustls::Error),
    /// The authority can't vouch for anybody.
    #[error("the authority's certificate can't be used to verify")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The end that dials, on the host.
    Host,
    /// The end that listens, in the container.
    Container,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Host => "host.link.causeway.internal",
            Self::Container => "container.link.causeway.internal",
        }
    }

    /// What its certificate is good for: neither end can play the other.
    fn purpose(self) -> ExtendedKeyUsagePurpose {
        match self {
            Self::Host => ExtendedKeyUsagePurpose::ClientAuth,
            Self::Container => ExtendedKeyUsagePurpose::ServerAuth,
        }
    }

    fn params(self) -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(vec![self.name().to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, self.name());
        params.extended_key_usages = vec![self.purpose()];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let now = SystemTime::now();
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + LIFETIME).into();
        Ok(params)
    }
}

/// The authority of one pair.
#[derive(Clone)]
pub struct Authority {
    certificate: String,
    key: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new one, with a key of its own.
    pub fn new() -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Causeway link");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // It ends with the pair, not on a day: after a long sleep the pair must still know itself.
        params.not_after = rcgen::date_time_ymd(9999, 12, 31);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Certificate and key as text; keep it where only the owner can read it.
    pub fn to_pem(&self) -> String {
        format!("{}{}", self.certificate, self.key)
    }

    /// Reads what [`Self::to_pem`] gave.
    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        let (certificate, key) = (section(pem, "CERTIFICATE", 0), section(pem, "PRIVATE KEY", 0));
        let missing = |what| Error::Missing { what, source: rustls::pki_types::pem::Error::NoItemsFound };
        let authority = Self {
            certificate: certificate.ok_or_else(|| missing("authority's certificate"))?,
            key: key.ok_or_else(|| missing("authority's key"))?,
        };
        authority.issuer()?;
        Ok(authority)
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, Error> {
        Ok(Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?)
    }

    /// A fresh key and certificate for one end.
    pub fn issue(&self, end: End) -> Result<Identity, Error> {
        let key = KeyPair::generate()?;
        let certificate = end.params()?.signed_by(&key, &self.issuer()?)?;
        Ok(Identity {
            authority: self.certificate.clone(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Signs a key that the container made itself; only the key is taken from the request.
    pub(crate) fn renew(&self, request: &str) -> Result<String, Error> {
        let request = CertificateSigningRequestParams::from_pem(request)?;
        let certificate = End::Container.params()?.signed_by(&request.public_key, &self.issuer()?)?;
        Ok(certificate.pem())
    }
}

/// The n-th section of a kind in a PEM text, with its frame.
fn section(pem: &str, kind: &str, n: usize) -> Option<String> {
    let (begin, end) = (format!("-----BEGIN {kind}-----"), format!("-----END {kind}-----"));
    let start = pem.match_indices(&begin).nth(n)?.0;
    let length = pem[start..].find(&end)? + end.len();
    Some(format!("{}\n", &pem[start..start + length]))
}

/// What one end shows and what it trusts.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    authority: String,
    certificate: String,
    key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Identity {
    /// Own certificate, key and the authority's certificate as text; keep it where only the owner can read it.
    pub fn to_pem(&self) -> String {
        format!("{}{}{}", self.certificate, self.key, self.authority)
    }

    /// Reads what [`Self::to_pem`] gave.
    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        let missing = |what| Error::Missing { what, source: rustls::pki_types::pem::Error::NoItemsFound };
        Ok(Self {
            certificate: section(pem, "CERTIFICATE", 0).ok_or_else(|| missing("certificate"))?,
            key: section(pem, "PRIVATE KEY", 0).ok_or_else(|| missing("key"))?,
            authority: section(pem, "CERTIFICATE", 1).ok_or_else(|| missing("authority's certificate"))?,
        })
    }

    /// A new key with the request to have it signed; the certificate is filled in by [`Self::renewed`].
    pub(crate) fn request(&self) -> Result<(String, Renewal), Error> {
        let key = KeyPair::generate()?;
        let request =
            CertificateParams::new(vec![End::Container.name().to_owned()])?.serialize_request(&key)?;
        let renewal = Renewal { authority: self.authority.clone(), key: key.serialize_pem() };
        Ok((request.pem()?, renewal))
    }

    fn chain(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes())
            .map_err(|source| Error::Missing { what: "certificate", source })?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|source| Error::Missing { what: "key", source })?;
        Ok((vec![certificate], key))
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.authority.as_bytes())
            .map_err(|source| Error::Missing { what: "authority's certificate", source })?;
        roots.add(authority)?;
        Ok(roots)
    }

    /// For the end that listens.
    pub(crate) fn server_config(&self) -> Result<Arc<ServerConfig>, Error> {
        let provider = provider();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.roots()?.into(), provider.clone()).build()?;
        let (chain, key) = self.chain()?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        // Each connection shows its certificate: a ticket would outlive a renewal.
        config.send_tls13_tickets = 0;
        Ok(config.into())
    }

    /// For the end that dials.
    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>, Error> {
        let (chain, key) = self.chain()?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(chain, key)?;
        config.resumption = rustls::client::Resumption::disabled();
        Ok(config.into())
    }
}

/// A key that waits for its certificate.
pub(crate) struct Renewal {
    authority: String,
    key: String,
}

impl Renewal {
    pub(crate) fn signed(self, certificate: String) -> Identity {
        Identity { authority: self.authority, certificate, key: self.key }
    }
}

/// The name that the host expects of the container.
pub(crate) fn container_name() -> ServerName<'static> {
    ServerName::try_from(End::Container.name()).expect("a valid DNS name")
}

/// A name for a session that nobody can guess.
pub(crate) fn token() -> Result<String, Error> {
    let mut bytes = [0; 16];
    provider().secure_random.fill(&mut bytes).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// AES first: both ends run on this machine, and it is the fastest where the processor helps.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
    provider.cipher_suites.sort_by_key(|suite| match suite.suite() {
        rustls::CipherSuite::TLS13_AES_128_GCM_SHA256 => 0,
        rustls::CipherSuite::TLS13_AES_256_GCM_SHA384 => 1,
        _ => 2,
    });
    provider.into()
}
