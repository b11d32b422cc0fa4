//! Certificates with their keys, and those of authorities, as Secrets and ConfigMaps have them: read and checked once, when
//! the object is read. Whether they are valid at this time of day is not asked: who terminates TLS says when they expire.

use std::fmt;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// The entry of a ConfigMap with the certificates of authorities.
pub const CA_ENTRY: &str = "ca.crt";

/// A certificate with its chain and key, or the reason why there is none.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The certificate and its chain, PEM.
    pub certificate: Vec<u8>,
    /// The key, PEM.
    pub key: Vec<u8>,
    /// Why it can't be used; none if it can.
    pub problem: Option<String>,
}

/// A key is nobody's to read in a log.
impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("problem", &self.problem).finish_non_exhaustive()
    }
}

impl KeyPair {
    /// Reads `tls.crt` and `tls.key` of a Secret.
    pub fn read(secret: &Secret) -> Self {
        let entry = |name: &str| {
            secret.data.as_ref().and_then(|data| data.get(name)).map(|bytes| bytes.0.clone()).or_else(|| {
                secret.string_data.as_ref().and_then(|data| data.get(name)).map(|text| text.clone().into())
            })
        };
        let (certificate, key) = (entry("tls.crt"), entry("tls.key"));
        let problem = match (&certificate, &key) {
            (Some(certificate), Some(key)) => check_pair(certificate, key).err(),
            (None, _) => Some("has no tls.crt: write the certificate there, in PEM".to_owned()),
            (_, None) => Some("has no tls.key: write the key there, in PEM".to_owned()),
        };
        Self { certificate: certificate.unwrap_or_default(), key: key.unwrap_or_default(), problem }
    }
}

fn check_pair(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let chain = certificates("tls.crt", certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| "has no private key in tls.key: write one in PEM, without a passphrase".to_owned())?;
    let signer = aws_lc_rs::sign::any_supported_type(&key)
        .map_err(|error| format!("has a key in tls.key that can't be used: {error}"))?;
    match CertifiedKey::new(chain, signer).keys_match() {
        // A key that does not say its public half can't be compared.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err("has a key in tls.key that is not the one of the certificate in tls.crt".to_owned())
        }
        Err(error) => Err(format!("has a certificate in tls.crt that can't be read: {error}")),
    }
}

/// Certificates of authorities, or the reason why there are none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Authorities {
    /// PEM.
    pub certificates: String,
    /// Why they can't be used; none if they can.
    pub problem: Option<String>,
}

impl Authorities {
    /// Reads [`CA_ENTRY`] of a ConfigMap.
    pub fn read(config_map: &ConfigMap) -> Self {
        let Some(text) = config_map.data.as_ref().and_then(|data| data.get(CA_ENTRY)) else {
            let problem = format!("has no {CA_ENTRY}: write the authorities' certificates there, in PEM");
            return Self { certificates: String::new(), problem: Some(problem) };
        };
        let problem = check_authorities(text).err();
        Self { certificates: text.clone(), problem }
    }
}

fn check_authorities(text: &str) -> Result<(), String> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certificates(CA_ENTRY, text.as_bytes())? {
        roots
            .add(certificate)
            .map_err(|error| format!("has a certificate in {CA_ENTRY} that can't be read: {error}"))?;
    }
    Ok(())
}

fn certificates(entry: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!("has no certificate in {entry}: write it in PEM")),
    }
}
