//! Certificates of the run: made once, ECDSA with P-256, each with a key of its own, in a directory as gateways want them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The chain, the key, and both in one file, beside each other.
pub(crate) const CHAIN: &str = "tls.crt";
pub(crate) const KEY: &str = "tls.key";
pub(crate) const BOTH: &str = "tls.pem";

/// Directories with a directory for each certificate.
pub(crate) struct Certificates(tempfile::TempDir);

impl Certificates {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("causeway-bench-certificates-").tempdir();
        Ok(Self(dir.context("can't make a directory for certificates")?))
    }

    /// A directory with certificates of these names and no others; made when it is first wanted.
    pub(crate) fn of(&self, names: &[String]) -> anyhow::Result<PathBuf> {
        let dir = self.0.path().join(names.len().to_string());
        if !dir.exists() {
            for name in names {
                make(&dir.join(name), name)
                    .with_context(|| format!("can't make a certificate for {name}"))?;
            }
        }
        Ok(dir)
    }
}

fn make(dir: &Path, name: &str) -> anyhow::Result<()> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = CertificateParams::new(vec![name.to_owned()])?.self_signed(&key)?;
    let (chain, key) = (certificate.pem(), key.serialize_pem());
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join(CHAIN), &chain)?;
    std::fs::write(dir.join(KEY), &key)?;
    std::fs::write(dir.join(BOTH), chain + &key)?;
    Ok(())
}

/// The certificate of a name.
pub(crate) fn read(dir: &Path, name: &str) -> anyhow::Result<CertificateDer<'static>> {
    let path = dir.join(name).join(CHAIN);
    CertificateDer::from_pem_file(&path).with_context(|| format!("can't read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_made_once() {
        let certificates = Certificates::new().unwrap();
        let names = ["a.test".to_owned(), "b.test".to_owned()];
        let dir = certificates.of(&names).unwrap();
        let first = read(&dir, "a.test").unwrap();
        assert_ne!(first, read(&dir, "b.test").unwrap());
        assert_eq!(read(&certificates.of(&names).unwrap(), "a.test").unwrap(), first);
        assert!(std::fs::read_to_string(dir.join("a.test").join(BOTH)).unwrap().contains("PRIVATE KEY"));
    }
}
