//! TLS of the load: the same cryptography for every gateway, and the very certificate of each name. Signatures are not
//! checked, which would cost the load more than most gateways.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// The certificates that each name may show: one, but where it is replaced.
#[derive(Debug)]
pub(super) struct Trust {
    names: HashMap<String, Vec<CertificateDer<'static>>>,
    /// Which of a name's were shown, a bit for each.
    shown: AtomicU64,
}

impl Trust {
    pub(super) fn new(names: HashMap<String, Vec<CertificateDer<'static>>>) -> Self {
        Self { names, shown: AtomicU64::new(0) }
    }

    /// How many of a name's were shown, of 64 at most.
    pub(super) fn shown(&self) -> u32 {
        self.shown.load(Relaxed).count_ones()
    }

    /// The last in their order that was shown.
    pub(super) fn last_shown(&self) -> u32 {
        self.shown.load(Relaxed).checked_ilog2().unwrap_or(0)
    }
}

/// TLS 1.3 with X25519, AES-128-GCM and ECDSA P-256, and one protocol inside.
pub(super) fn config(trust: Arc<Trust>, protocol: &[u8], resumes: bool) -> anyhow::Result<Arc<ClientConfig>> {
    let provider = CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![kx_group::X25519],
        ..aws_lc_rs::default_provider()
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(trust)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = if resumes { Resumption::in_memory_sessions(4) } else { Resumption::disabled() };
    Ok(Arc::new(config))
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let own = self.names.get(name.to_str().as_ref());
        match own.and_then(|own| own.iter().position(|own| own == certificate)) {
            Some(place) => {
                self.shown.fetch_or(1 << (place % 64), Relaxed);
                Ok(ServerCertVerified::assertion())
            }
            None => Err(Error::General("the certificate of another name".into())),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2".into()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
