//! Who the ends are: an authority, which lives with one of them, and a short-lived certificate with a name for each
//! end. Nobody else has a certificate of that authority, so nobody else gets past the handshake.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedCipherSuite};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use crate::tls::VERSION;

/// How long an end's certificate is good for; whoever keeps one longer has it renewed.
pub(crate) const LIFETIME: Duration = Duration::from_hours(24 * 30);
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
    /// A name that no end can have.
    #[error("{0:?} can't be the name of an end: use a DNS label")]
    Name(String),
    /// The authority can't vouch for anybody.
    #[error("the authority's certificate can't be used to verify")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// What an end does when a connection is made. Its certificate is good for that only, so neither can play the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Connects.
    Dialer,
    /// Is connected to.
    Listener,
}

impl Role {
    fn purpose(self) -> ExtendedKeyUsagePurpose {
        match self {
            Self::Dialer => ExtendedKeyUsagePurpose::ClientAuth,
            Self::Listener => ExtendedKeyUsagePurpose::ServerAuth,
        }
    }

    fn params(self, name: &str) -> Result<CertificateParams, rcgen::Error> {
        let name = domain_name(name);
        let mut params = CertificateParams::new(vec![name.clone()])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![self.purpose()];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let now = SystemTime::now();
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + LIFETIME).into();
        Ok(params)
    }
}

/// Where the names of ends live, so that they are never those of anybody else.
const DOMAIN: &str = ".link.causeway.internal";

fn domain_name(name: &str) -> String {
    format!("{name}{DOMAIN}")
}

/// The authority that a group of ends trusts: both ends of a pair, or a listener and all who may dial it.
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
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new() -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Causeway link");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // It ends when its ends do, not on a day: after a long sleep they must still know each other.
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
    ///
    /// # Errors
    /// When a part is missing or is no certificate or key.
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

    /// The certificate that ends know it by; no secret.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, Error> {
        Ok(Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?)
    }

    /// A fresh key and certificate for the end that is called `name`, which is a DNS label.
    ///
    /// # Errors
    /// When `name` can't be part of a certificate.
    pub fn issue(&self, role: Role, name: &str) -> Result<Identity, Error> {
        let key = KeyPair::generate()?;
        let certificate = role.params(name)?.signed_by(&key, &self.issuer()?)?;
        Ok(Identity {
            authority: self.certificate.clone(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Signs a key that an end made itself; only the key is taken from the request.
    ///
    /// # Errors
    /// When the request can't be read.
    pub fn renew(&self, request: &str, role: Role, name: &str) -> Result<String, Error> {
        let request = CertificateSigningRequestParams::from_pem(request)?;
        let certificate = role.params(name)?.signed_by(&request.public_key, &self.issuer()?)?;
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
    ///
    /// # Errors
    /// When a part is missing or is no certificate or key.
    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        let missing = |what| Error::Missing { what, source: rustls::pki_types::pem::Error::NoItemsFound };
        Ok(Self {
            certificate: section(pem, "CERTIFICATE", 0).ok_or_else(|| missing("certificate"))?,
            key: section(pem, "PRIVATE KEY", 0).ok_or_else(|| missing("key"))?,
            authority: section(pem, "CERTIFICATE", 1).ok_or_else(|| missing("authority's certificate"))?,
        })
    }

    /// Its certificate; no secret.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// What its key is known by.
    pub fn key_id(&self) -> Option<KeyId> {
        KeyId::of(&CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok()?)
    }

    /// Its private key; keep it where only the owner can read it.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The certificate of the authority that it trusts; no secret.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// When the certificate ends, if it can be read.
    pub fn expires(&self) -> Option<SystemTime> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok()?;
        expiry_of(&certificate)
    }

    /// A new key and the request to have it signed, for [`Authority::renew`].
    ///
    /// # Errors
    /// When no key can be made.
    pub fn request(&self) -> Result<(String, Renewal), Error> {
        let key = KeyPair::generate()?;
        // The authority takes nothing but the key from it.
        let request = CertificateParams::default().serialize_request(&key)?;
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
        let mut config = self.tls_server()?;
        config.alpn_protocols = vec![VERSION.to_vec()];
        Ok(config.into())
    }

    /// For plain TLS 1.3 with ends of the same authority, which have to show their certificates; [`name_of`] says whose one
    /// is. For those who carry something else than a link.
    ///
    /// # Errors
    /// When the identity is not one of a listener.
    pub fn tls_server(&self) -> Result<ServerConfig, Error> {
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
        Ok(config)
    }

    /// For the end that dials.
    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>, Error> {
        let (chain, key) = self.chain()?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(chain, key)?;
        config.resumption = rustls::client::Resumption::disabled();
        config.alpn_protocols = vec![VERSION.to_vec()];
        Ok(config.into())
    }
}

/// The key of an end that lives where its authority does not: the key stays with its owner, and only a request to sign it
/// goes out, again before the certificate ends.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new() -> Result<Self, Error> {
        Ok(Self(KeyPair::generate()?.serialize_pem()))
    }

    /// The key as text; keep it where only the owner can read it.
    pub fn to_pem(&self) -> &str {
        &self.0
    }

    /// Reads what [`Self::to_pem`] gave.
    ///
    /// # Errors
    /// When there is no key in it.
    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        Ok(Self(KeyPair::from_pem(pem)?.serialize_pem()))
    }

    /// The request to have it signed, for [`Authority::renew`]; no secret.
    ///
    /// # Errors
    /// When the key can't be used.
    pub fn request(&self) -> Result<String, Error> {
        let request = CertificateParams::default().serialize_request(&KeyPair::from_pem(&self.0)?)?;
        Ok(request.pem()?)
    }

    /// The identity with the certificate that the authority gave.
    ///
    /// # Errors
    /// When one of the texts is no certificate, or the certificate is that of another key.
    pub fn identity(&self, certificate: &str, authority: &str) -> Result<Identity, Error> {
        let missing = |what| Error::Missing { what, source: rustls::pki_types::pem::Error::NoItemsFound };
        let identity = Identity {
            authority: section(authority, "CERTIFICATE", 0)
                .ok_or_else(|| missing("authority's certificate"))?,
            certificate: section(certificate, "CERTIFICATE", 0).ok_or_else(|| missing("certificate"))?,
            key: self.0.clone(),
        };
        // Fails for a certificate of another key.
        identity.client_config()?;
        Ok(identity)
    }
}

/// A key that waits for its certificate.
pub struct Renewal {
    authority: String,
    key: String,
}

impl Renewal {
    /// The identity with the certificate that the authority gave.
    pub fn signed(self, certificate: String) -> Identity {
        Identity { authority: self.authority, certificate, key: self.key }
    }
}

/// The name that a dialer expects the other end to show.
pub(crate) fn server_name(name: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(domain_name(name)).map_err(|_| Error::Name(name.to_owned()))
}

/// The name in a certificate that has been verified.
pub fn name_of(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let names = certificate.subject_alternative_name().ok()??;
    names.value.general_names.iter().find_map(|name| match name {
        x509_parser::extensions::GeneralName::DNSName(name) => Some(name.strip_suffix(DOMAIN)?.to_owned()),
        _ => None,
    })
}

/// How old a certificate is, by its last day; nothing is known of one that can't be read.
pub(crate) fn age_of(certificate: &CertificateDer<'_>) -> Option<Duration> {
    let issued = expiry_of(certificate)?.checked_sub(LIFETIME)?;
    // One from the future is new.
    Some(SystemTime::now().duration_since(issued).unwrap_or_default())
}

/// What a key is known by, whichever certificate it has: the first half of the SHA-256 of its SubjectPublicKeyInfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(pub [u8; 16]);

impl KeyId {
    /// Of a certificate's key.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
        Some(Self::digest(certificate.public_key().raw))
    }

    /// Of the key that a request is to have signed; none if it can't be read.
    pub fn of_request(request: &str) -> Option<Self> {
        let request = CertificateSigningRequestDer::from_pem_slice(request.as_bytes()).ok()?;
        let (_, request) = X509CertificationRequest::from_der(&request).ok()?;
        Some(Self::digest(request.certification_request_info.subject_pki.raw))
    }

    fn digest(key: &[u8]) -> Self {
        let whole = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key);
        let mut half = [0; 16];
        half.copy_from_slice(&whole.as_ref()[..16]);
        Self(half)
    }
}

fn expiry_of(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let ends = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(ends))
}

/// A text that nobody can guess.
///
/// # Errors
/// When the system has no randomness to give.
pub fn token() -> Result<String, Error> {
    let mut bytes = [0; 16];
    provider().secure_random.fill(&mut bytes).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// AES first: it is the fastest where the processor helps, which is nearly everywhere.
pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
    provider.cipher_suites.sort_by_key(|suite| match suite.suite() {
        rustls::CipherSuite::TLS13_AES_128_GCM_SHA256 => 0,
        rustls::CipherSuite::TLS13_AES_256_GCM_SHA384 => 1,
        _ => 2,
    });
    provider.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_tells_its_name() {
        let identity =
            Authority::new().expect("keys").issue(Role::Dialer, "laptop-7").expect("a certificate");
        let (chain, _) = identity.chain().expect("a certificate");
        assert_eq!(name_of(&chain[0]).as_deref(), Some("laptop-7"));
        assert_eq!(name_of(&CertificateDer::from(vec![1, 2, 3])), None);
    }

    #[test]
    fn a_certificate_tells_its_age() {
        let authority = Authority::new().expect("keys");
        let key = KeyPair::generate().expect("a key");
        let mut params = Role::Listener.params("box").expect("a name");
        let old = Duration::from_hours(24 * 20);
        params.not_after = (SystemTime::now() + LIFETIME - old).into();
        let certificate = params.signed_by(&key, &authority.issuer().expect("keys")).expect("signed");
        let age = age_of(certificate.der()).expect("readable");
        assert!(age >= old && age < old + Duration::from_mins(1), "{age:?}");
        let (chain, _) = authority.issue(Role::Listener, "box").expect("keys").chain().expect("a chain");
        assert!(age_of(&chain[0]).expect("readable") < Duration::from_mins(1));
        assert_eq!(age_of(&CertificateDer::from(vec![1, 2, 3])), None);
    }

    #[test]
    fn a_renewed_identity_is_as_good_as_the_first() {
        let authority = Authority::new().expect("keys");
        let first = authority.issue(Role::Listener, "box").expect("a certificate");
        let (request, waiting) = first.request().expect("a request");
        let second = waiting.signed(authority.renew(&request, Role::Listener, "box").expect("signed"));
        assert!(second != first);
        second.server_config().expect("fits TLS");
        assert!(Identity::from_pem(&second.to_pem()).expect("reads") == second);
    }

    #[test]
    fn a_key_never_leaves_its_owner_and_becomes_an_identity() {
        let (authority, key) = (Authority::new().expect("keys"), Key::new().expect("a key"));
        let request = key.request().expect("a request");
        assert!(!request.contains("PRIVATE"));
        let certificate = authority.renew(&request, Role::Dialer, "laptop").expect("signed");
        let again = Key::from_pem(key.to_pem()).expect("reads");
        let identity = again.identity(&certificate, authority.certificate()).expect("fits");
        let month = SystemTime::now() + LIFETIME;
        let expires = identity.expires().expect("readable");
        assert!(expires <= month && expires > month - Duration::from_mins(1));
        assert!(Identity::from_pem(&identity.to_pem()).expect("reads") == identity);
        let other = Key::new().expect("a key");
        assert!(other.identity(&certificate, authority.certificate()).is_err(), "another key");
        assert!(key.identity("rubbish", authority.certificate()).is_err());
    }

    #[test]
    fn text_that_holds_no_keys_is_refused() {
        assert!(Authority::from_pem("rubbish").is_err());
        assert!(Identity::from_pem("rubbish").is_err());
        assert!(matches!(server_name("no good"), Err(Error::Name(_))));
    }
}
