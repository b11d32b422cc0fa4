//! Certificates of the run: made once, ECDSA with P-256, each with a key of its own, in a directory as gateways want them;
//! and those that take the place of one of them while it is in use.

use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The chain, the key, and both in one file, beside each other.
pub(crate) const CHAIN: &str = "tls.crt";
pub(crate) const KEY: &str = "tls.key";
pub(crate) const BOTH: &str = "tls.pem";
/// How many there are for one place, where they are replaced.
pub(crate) const CHANGES: usize = 64;

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

    /// A directory with one certificate of this name, and beside it all that may be in its place; made when it is first
    /// wanted.
    pub(crate) fn changing(&self, name: &str) -> anyhow::Result<PathBuf> {
        let dir = self.0.path().join("changing");
        if !dir.exists() {
            for number in 0..CHANGES {
                make(&successor(&dir, number), name)?;
            }
            replace(&dir, name, 0)?;
        }
        Ok(dir)
    }
}

/// Where the certificates are that may take the place of the one of a directory: not in it, for gateways read all there is.
fn successor(dir: &Path, number: usize) -> PathBuf {
    dir.with_extension("next").join(number.to_string())
}

/// Puts another certificate into its place, file by file, as those do who renew certificates.
pub(crate) fn replace(dir: &Path, name: &str, number: usize) -> anyhow::Result<()> {
    let (from, to) = (successor(dir, number), dir.join(name));
    std::fs::create_dir_all(&to)?;
    for file in [KEY, CHAIN, BOTH] {
        let beside = to.join(format!(".{file}"));
        std::fs::copy(from.join(file), &beside)?;
        std::fs::rename(&beside, to.join(file))?;
    }
    Ok(())
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
    read_in(&dir.join(name))
}

/// All certificates that may be in one place, in their order.
pub(crate) fn read_successors(dir: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    (0..CHANGES).map(|number| read_in(&successor(dir, number))).collect()
}

fn read_in(dir: &Path) -> anyhow::Result<CertificateDer<'static>> {
    let path = dir.join(CHAIN);
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

    #[test]
    fn another_certificate_takes_the_place_of_one_and_nothing_else_is_there() {
        let certificates = Certificates::new().unwrap();
        let dir = certificates.changing("a.test").unwrap();
        let all = read_successors(&dir).unwrap();
        assert_eq!(read(&dir, "a.test").unwrap(), all[0]);
        replace(&dir, "a.test", 7).unwrap();
        assert_eq!(certificates.changing("a.test").unwrap(), dir);
        assert_eq!(read(&dir, "a.test").unwrap(), all[7]);
        assert_ne!(all[0], all[7]);
        assert_eq!(dir.read_dir().unwrap().count(), 1);
        assert_eq!(dir.join("a.test").read_dir().unwrap().count(), 3);
    }
}
