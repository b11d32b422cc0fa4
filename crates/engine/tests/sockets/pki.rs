//! Authorities and what they issue.

use std::sync::Arc;

use causeway_engine::{Authorities, Certificate, Certificates};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::support::name;

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) der: CertificateDer<'static>,
    pub(crate) pem: String,
}

/// A certificate with its key.
pub(crate) struct Issued {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) chain: String,
    pub(crate) key: String,
    secret: Vec<u8>,
}

pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

impl Authority {
    pub(crate) fn new(subject: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, subject);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap();
        let (der, pem) = (certificate.der().clone(), certificate.pem());
        Self { issuer: Issuer::new(parameters, key), der, pem }
    }

    /// Issues a certificate for hosts, addresses and URIs; the first is its common name, too.
    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        let (uris, hosts): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.contains("://"));
        let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
        let mut parameters = CertificateParams::new(hosts).unwrap();
        for uri in uris {
            parameters.subject_alt_names.push(SanType::URI(uri.try_into().unwrap()));
        }
        parameters.distinguished_name.push(DnType::CommonName, names[0]);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        Issued {
            der: certificate.der().clone(),
            chain: certificate.pem(),
            key: key.serialize_pem(),
            secret: key.serialize_der(),
        }
    }

    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        roots
    }
}

impl Issued {
    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.secret.clone()).unwrap()
    }

    /// A server that has it, and asks clients for certificates of an authority if one is given.
    pub(crate) fn server(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let builder =
            ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let roots = Arc::new(authority.roots());
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, provider()).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(vec![self.der.clone()], self.private_key()).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
        Arc::new(config)
    }
}

/// What is given to an engine.
pub(crate) fn given(keys: &[(&str, &Issued)], authorities: &[(&str, &Authority)]) -> Arc<Certificates> {
    let mut certificates = Certificates::default();
    for (text, issued) in keys {
        let certificate = Certificate::from_pem(issued.chain.as_bytes(), issued.key.as_bytes()).unwrap();
        certificates.insert(name(text), Arc::new(certificate));
    }
    for (text, authority) in authorities {
        let authorities = Authorities::from_pem(authority.pem.as_bytes()).unwrap();
        certificates.insert_authorities(name(text), Arc::new(authorities));
    }
    Arc::new(certificates)
}
