//! Certificates with their keys, and those of authorities, as Secrets and ConfigMaps have them: read and checked once, when
//! the object is read. One that does not count at this time of day is used all the same: it is clients who refuse it.

use std::fmt;

use causeway_ir::tls::Validity;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// The entry of a ConfigMap with the certificates of authorities.
pub const CA_ENTRY: &str = "ca.crt";
/// What a certificate with its key, or all authorities of one policy or listener, may take in bytes: they are handed to pods
/// in Secrets, which have no more than 1 MiB, and the authorities that every system comes with take less than half of this.
const MOST: usize = 512 * 1024;

/// A certificate with its chain and key, or the reason why there is none.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The certificate and its chain, PEM.
    pub certificate: Vec<u8>,
    /// The key, PEM.
    pub key: Vec<u8>,
    /// From when to when it counts, or why it can't be used.
    pub checked: Result<Validity, String>,
}

/// A key is nobody's to read in a log.
impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("checked", &self.checked).finish_non_exhaustive()
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
        let checked = match (&certificate, &key) {
            (Some(certificate), Some(key)) => check_size("tls.crt and tls.key", &[certificate, key])
                .and_then(|()| check_pair(certificate, key)),
            (None, _) => Err("has no tls.crt: write the certificate there, in PEM".to_owned()),
            (_, None) => Err("has no tls.key: write the key there, in PEM".to_owned()),
        };
        Self { certificate: certificate.unwrap_or_default(), key: key.unwrap_or_default(), checked }
    }
}

fn check_pair(certificate: &[u8], key: &[u8]) -> Result<Validity, String> {
    let chain = certificates("tls.crt", certificate)?;
    let validity = validity(&chain)?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| "has no private key in tls.key: write one in PEM, without a passphrase".to_owned())?;
    let signer = aws_lc_rs::sign::any_supported_type(&key)
        .map_err(|error| format!("has a key in tls.key that can't be used: {error}"))?;
    match CertifiedKey::new(chain, signer).keys_match() {
        // A key that does not say its public half can't be compared.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(validity),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err("has a key in tls.key that is not the one of the certificate in tls.crt".to_owned())
        }
        Err(error) => Err(format!("has a certificate in tls.crt that can't be read: {error}")),
    }
}

/// From when to when the first certificate of a chain counts.
fn validity(chain: &[CertificateDer<'_>]) -> Result<Validity, String> {
    let (_, own) = chain
        .first()
        .and_then(|own| x509_parser::parse_x509_certificate(own).ok())
        .ok_or_else(|| "has a certificate in tls.crt that can't be read: make it anew".to_owned())?;
    let validity = own.validity();
    Ok(Validity { begins: validity.not_before.timestamp(), expires: validity.not_after.timestamp() })
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
        let problem = check_size(CA_ENTRY, &[text.as_bytes()]).and_then(|()| check_authorities(text)).err();
        Self { certificates: text.clone(), problem }
    }
}

/// Whether these are not too large, as they are written for pods.
pub(super) fn check_size(entry: &str, texts: &[&[u8]]) -> Result<(), String> {
    let written = texts.iter().map(|text| serde_json::to_string(&String::from_utf8_lossy(text)));
    let size: usize = written.map(|written| written.map_or(usize::MAX, |written| written.len())).sum();
    if size <= MOST {
        return Ok(());
    }
    Err(format!(
        "has {} KiB in {entry}, and {} KiB are the most: leave out what nobody needs",
        size / 1024,
        MOST / 1024
    ))
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
