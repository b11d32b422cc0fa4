//! The authority that all TLS servers here have their certificates from, and that all clients trust.

use std::sync::{Arc, OnceLock};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, ServerConfig};

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "the authority of the tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let (der, pem) = (certificate.der().clone(), certificate.pem());
        Authority { issuer: Issuer::new(params, key), certificate: der, pem }
    })
}

/// The authority's certificate, for clients that read it from a file.
pub fn pem() -> &'static str {
    &authority().pem
}

/// What clients trust.
pub fn roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(authority().certificate.clone()).unwrap();
    roots
}

/// A server with a certificate of its own: `subject` is its common name, `names` are what clients may ask for.
pub fn server(subject: &str, names: &[&str]) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, subject);
    let certificate = params.signed_by(&key, &authority().issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    Arc::new(config)
}
