//! TLS of the server: a serving certificate that is replaced while running, and client certificates that are asked
//! for but never required.

use std::net::IpAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use causeway_base::lock::{read, write};
use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};

use crate::access::PeerCertificate;
use crate::pki::{Error, Pki};

const LIFETIME: Duration = Duration::from_hours(30 * 24);
const RENEW_BEFORE: Duration = Duration::from_hours(10 * 24);
/// Short, and compared with the wall clock, since a machine that slept has missed its timers.
const CHECK_INTERVAL: Duration = Duration::from_hours(1);

const FIXED_NAMES: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The server's side of TLS.
pub(crate) struct ServerTls {
    pki: Arc<Pki>,
    names: Vec<String>,
    provider: Arc<CryptoProvider>,
    config: Arc<ServerConfig>,
    current: Arc<Current>,
    clients: Arc<dyn ClientCertVerifier>,
}

impl ServerTls {
    /// TLS with a new serving certificate for the usual names, this host, and `extra` names or addresses.
    pub(crate) fn new(pki: Arc<Pki>, extra: &[String]) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let names = names(host_name().into_iter().chain(extra.iter().cloned()));
        let serving = make(&pki, &names, &provider)?;
        let current = Arc::new(Current(RwLock::new(serving)));

        let mut roots = RootCertStore::empty();
        roots.add(pki.ca_der().clone()).map_err(|source| Error::ServingKey { source })?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .expect("a verifier with one root and no revocation lists can be built");
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("the provider supports TLS 1.2 and 1.3")
            .with_client_cert_verifier(Arc::new(OptionalClientCertificate(clients.clone())))
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { pki, names, provider, config: Arc::new(config), current, clients })
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// The identity in a client's chain if it is one of ours; a stranger's certificate counts as none.
    pub(super) fn verify_client(&self, chain: &[CertificateDer<'_>]) -> Option<PeerCertificate> {
        let (leaf, intermediates) = chain.split_first()?;
        match self.clients.verify_client_cert(leaf, intermediates, UnixTime::now()) {
            Ok(_) => PeerCertificate::from_verified_der(leaf),
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "client certificate ignored");
                None
            }
        }
    }

    /// Replaces the serving certificate; connections that are open keep theirs.
    pub(crate) fn renew(&self) -> Result<(), Error> {
        let serving = make(&self.pki, &self.names, &self.provider)?;
        *write(&self.current.0) = serving;
        Ok(())
    }

    /// Renews the certificate before it ends, for as long as it is polled.
    pub(super) async fn keep_renewed(&self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let not_after = read(&self.current.0).not_after;
            if Timestamp::now() + RENEW_BEFORE < not_after {
                continue;
            }
            match self.renew() {
                Ok(()) => tracing::info!("serving certificate renewed"),
                Err(error) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "serving certificate not renewed, trying again within the hour"
                ),
            }
        }
    }
}

struct ServingKey {
    key: Arc<CertifiedKey>,
    not_after: Timestamp,
}

/// The certificate that new handshakes use.
struct Current(RwLock<ServingKey>);

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Current")
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(read(&self.0).key.clone())
    }
}

/// Lets any client certificate through the handshake, as Kubernetes does: a client may hold a certificate for
/// someone else and a token for us. Possession of the key is still proven; trust is decided afterwards.
#[derive(Debug)]
struct OptionalClientCertificate(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for OptionalClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn make(pki: &Pki, names: &[String], provider: &CryptoProvider) -> Result<ServingKey, Error> {
    let serving = pki.serving_certificate(names, LIFETIME)?;
    let chain = vec![serving.certificate, pki.ca_der().clone()];
    let key = CertifiedKey::from_der(chain, serving.key, provider)
        .map_err(|source| Error::ServingKey { source })?;
    Ok(ServingKey { key: Arc::new(key), not_after: serving.not_after })
}

/// The fixed names and `extra`, each once; unspecified addresses are nobody's name.
fn names(extra: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = FIXED_NAMES.iter().map(|&n| n.to_owned()).collect();
    for name in extra {
        let unspecified = name.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
        if !name.is_empty() && !unspecified && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// This machine's name, where the kernel tells it and it can stand in a certificate.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    (!name.is_empty() && name.chars().all(allowed)).then(|| name.to_owned())
}
