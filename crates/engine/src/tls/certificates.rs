//! Certificates with their keys, and authorities, by the names that plans use.

use std::collections::HashMap;
use std::sync::Arc;

use causeway_ir::tls::Validity;
use causeway_ir::{Name, Pattern};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;

use super::authorities::Authorities;

/// Certificates and authorities by the names that plans use. A certificate and a set of authorities may have the same
/// name.
#[derive(Debug, Default)]
pub struct Certificates {
    keys: HashMap<Name, Arc<Certificate>>,
    authorities: HashMap<Name, Arc<Authorities>>,
}

impl Certificates {
    /// Adds a certificate; the one that had its name.
    pub fn insert(&mut self, name: Name, certificate: Arc<Certificate>) -> Option<Arc<Certificate>> {
        self.keys.insert(name, certificate)
    }

    /// Adds authorities; those that had their name.
    pub fn insert_authorities(
        &mut self,
        name: Name,
        authorities: Arc<Authorities>,
    ) -> Option<Arc<Authorities>> {
        self.authorities.insert(name, authorities)
    }

    /// The certificate with a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Certificate>> {
        self.keys.get(name)
    }

    /// The authorities with a name.
    pub fn authorities(&self, name: &str) -> Option<&Arc<Authorities>> {
        self.authorities.get(name)
    }

    /// All certificates with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Arc<Certificate>)> {
        self.keys.iter()
    }
}

impl FromIterator<(Name, Arc<Certificate>)> for Certificates {
    fn from_iter<I: IntoIterator<Item = (Name, Arc<Certificate>)>>(certificates: I) -> Self {
        Self { keys: certificates.into_iter().collect(), authorities: HashMap::new() }
    }
}

/// A certificate with its chain and key.
#[derive(Debug)]
pub struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    /// The names that it is for.
    pub(super) names: Vec<Pattern>,
    validity: Validity,
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
        let (names, validity) = read(own).ok_or(Error::Unreadable)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| Error::NoKey)?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(Error::Unfit)?;
        Ok(Self { key: Arc::new(key), names, validity })
    }

    /// From when to when it counts.
    pub fn validity(&self) -> Validity {
        self.validity
    }
}

/// The names of a certificate, and from when to when it counts.
fn read(certificate: &[u8]) -> Option<(Vec<Pattern>, Validity)> {
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
    let validity = certificate.validity();
    let validity =
        Validity { begins: validity.not_before.timestamp(), expires: validity.not_after.timestamp() };
    Some((names, validity))
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
        assert!(certificate.validity().expires > 0);
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
