//! Certificates with their keys, by the names that plans use.

use std::collections::HashMap;
use std::sync::Arc;

use causeway_ir::{Name, Pattern};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;

/// Certificates by the names that plans use.
pub type Certificates = HashMap<Name, Arc<Certificate>>;

/// A certificate with its chain and key.
#[derive(Debug)]
pub struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    /// The names that it is for.
    pub(super) names: Vec<Pattern>,
    /// In seconds since 1970.
    expires: i64,
}

/// Why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The chain.
    #[error("there is no certificate in PEM: it begins with -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    /// The key.
    #[error("there is no private key in PEM: it begins with -----BEGIN PRIVATE KEY----- or the like")]
    NoKey,
    /// The first certificate of the chain.
    #[error("the certificate can't be read")]
    Unreadable,
    /// Both, together.
    #[error("the certificate and the key do not fit together, or the key is of a kind that is not used")]
    Unfit(#[source] rustls::Error),
}

impl Certificate {
    /// Reads a chain, the server's own certificate first, and its key.
    ///
    /// # Errors
    /// If there are none, or they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|_| Error::NoCertificate)?;
        let own = chain.first().ok_or(Error::NoCertificate)?;
        let (names, expires) = read(own).ok_or(Error::Unreadable)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| Error::NoKey)?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(Error::Unfit)?;
        Ok(Self { key: Arc::new(key), names, expires })
    }

    /// When it expires, in seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.expires
    }
}

/// The names and the end of a certificate.
fn read(certificate: &[u8]) -> Option<(Vec<Pattern>, i64)> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let names = match certificate.subject_alternative_name().ok()? {
        None => Vec::new(),
        Some(names) => {
            let names = names.value.general_names.iter();
            // What is no name that a client can ask for is for others.
            names
                .filter_map(|name| match name {
                    GeneralName::DNSName(name) => Pattern::parse(name).ok(),
                    _ => None,
                })
                .collect()
        }
    };
    Some((names, certificate.validity().not_after.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_and_its_key_belong_together() {
        let made = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            rcgen::generate_simple_self_signed(names).unwrap()
        };
        let (one, other) = (made(&["a.test", "*.b.test"]), made(&["c.test"]));
        let read = |chain: &str, key: &str| Certificate::from_pem(chain.as_bytes(), key.as_bytes());
        let certificate = read(&one.cert.pem(), &one.signing_key.serialize_pem()).unwrap();
        let expected = ["a.test", "*.b.test"].map(|name| Pattern::parse(name).unwrap());
        assert_eq!(certificate.names, expected);
        assert!(certificate.expires() > 0);
        for (chain, key, words) in [
            (one.cert.pem(), other.signing_key.serialize_pem(), "do not fit"),
            ("nothing".to_owned(), one.signing_key.serialize_pem(), "no certificate"),
            (one.cert.pem(), "nothing".to_owned(), "no private key"),
        ] {
            let message = read(&chain, &key).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
