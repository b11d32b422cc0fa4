//! The server's own certificate authority and the key that signs ServiceAccount tokens.
//!
//! Both live in the data directory's `pki/`, are made once and outlive restarts; everything else (serving and
//! client certificates) is issued from them when needed and never written to `pki/`.

mod issue;
mod subject;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_base::file;
use rcgen::{Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const TOKEN_KEY: &str = "sa.key";
const CA_LIFETIME: Duration = Duration::from_hours(10 * 365 * 24);

/// Why the keys could not be read, made or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("can't create directory {}; check that its parent exists and is writable", path.display())]
    CreateDirectory { path: PathBuf, source: std::io::Error },
    #[error("can't read {}; check its owner and mode (it must be readable by this user)", path.display())]
    ReadFile { path: PathBuf, source: std::io::Error },
    #[error("can't write {}; check free space and that the directory is writable", path.display())]
    WriteFile { path: PathBuf, source: std::io::Error },
    #[error(
        "{} {problem}; restore it from a backup, or delete {} to start with new keys (kubeconfigs and tokens made \
         before stop working)",
        path.display(),
        path.parent().unwrap_or(path).display()
    )]
    UnusableFile { path: PathBuf, problem: &'static str },
    #[error("can't make a {what} certificate for {name:?}")]
    Issue { what: &'static str, name: String, source: rcgen::Error },
    #[error("can't make a private key")]
    MakeKey { source: rcgen::Error },
    #[error("the TLS library refuses the serving certificate")]
    ServingKey { source: rustls::Error },
}

/// A certificate and its private key, both in PEM.
#[derive(Clone)]
pub(crate) struct PemPair {
    pub certificate: String,
    pub key: String,
}

/// A certificate with its private key, ready for TLS.
pub(crate) struct Serving {
    pub certificate: CertificateDer<'static>,
    pub key: PrivateKeyDer<'static>,
    pub not_after: jiff::Timestamp,
}

/// The certificate authority and the token key.
pub(crate) struct Pki {
    issuer: Issuer<'static, KeyPair>,
    ca_pem: String,
    ca_der: CertificateDer<'static>,
    token_key: KeyPair,
}

impl Pki {
    /// Reads `dir`, making what is not there yet.
    pub(crate) fn open(dir: &Path) -> Result<Self, Error> {
        file::create_private_dir(dir)
            .map_err(|source| Error::CreateDirectory { path: dir.to_owned(), source })?;
        let (ca_key_path, ca_path) = (dir.join(CA_KEY), dir.join(CA_CERTIFICATE));
        let (ca_key, ca_pem) = match (read(&ca_key_path)?, read(&ca_path)?) {
            (Some(key), Some(certificate)) => (parse_key(&ca_key_path, &key)?, certificate),
            // The key is written first, so a crash in between leaves it alone: the certificate follows from it.
            (Some(key), None) => {
                let key = parse_key(&ca_key_path, &key)?;
                let certificate = issue::authority(&key, CA_LIFETIME)?;
                write(&ca_path, &certificate)?;
                (key, certificate)
            }
            (None, Some(_)) => {
                return Err(unusable(&ca_key_path, "is missing although its certificate is there"));
            }
            (None, None) => {
                let key = new_key()?;
                write(&ca_key_path, &key.serialize_pem())?;
                let certificate = issue::authority(&key, CA_LIFETIME)?;
                write(&ca_path, &certificate)?;
                (key, certificate)
            }
        };
        let token_key_path = dir.join(TOKEN_KEY);
        let token_key = if let Some(key) = read(&token_key_path)? {
            parse_key(&token_key_path, &key)?
        } else {
            let key = new_key()?;
            write(&token_key_path, &key.serialize_pem())?;
            key
        };
        Self::assemble(ca_key, ca_pem, token_key, &ca_path)
    }

    /// Keys that live as long as this process.
    pub(crate) fn ephemeral() -> Result<Self, Error> {
        let ca_key = new_key()?;
        let ca_pem = issue::authority(&ca_key, CA_LIFETIME)?;
        Self::assemble(ca_key, ca_pem, new_key()?, Path::new(CA_CERTIFICATE))
    }

    fn assemble(ca_key: KeyPair, ca_pem: String, token_key: KeyPair, path: &Path) -> Result<Self, Error> {
        let ca_der = CertificateDer::from_pem_slice(ca_pem.as_bytes())
            .map_err(|_| unusable(path, "is not a PEM certificate"))?;
        issue::check_authority(&ca_der, &ca_key).map_err(|problem| unusable(path, problem))?;
        let issuer = Issuer::from_ca_cert_der(&ca_der, ca_key)
            .map_err(|_| unusable(path, "can't be used as a certificate authority"))?;
        Ok(Self { issuer, ca_pem, ca_der, token_key })
    }

    /// The authority's certificate, for clients to trust.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    pub(crate) fn ca_der(&self) -> &CertificateDer<'static> {
        &self.ca_der
    }

    /// The private key of ServiceAccount tokens, PKCS#8 in DER.
    pub(crate) fn token_key(&self) -> &KeyPair {
        &self.token_key
    }

    /// A certificate that proves to this server that its holder is `name`, in `groups`.
    pub(crate) fn client_certificate(
        &self,
        name: &str,
        groups: &[&str],
        ttl: Duration,
    ) -> Result<PemPair, Error> {
        let key = new_key()?;
        let certificate = issue::client(&self.issuer, &key, name, groups, ttl)?;
        Ok(PemPair { certificate, key: key.serialize_pem() })
    }

    /// A certificate for the server itself under the given DNS names and addresses.
    pub(crate) fn serving_certificate(&self, names: &[String], ttl: Duration) -> Result<Serving, Error> {
        let key = new_key()?;
        let certificate = issue::serving(&self.issuer, &key, names, ttl)?;
        Ok(Serving {
            certificate: certificate.into(),
            key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            not_after: jiff::Timestamp::now() + ttl,
        })
    }
}

fn new_key() -> Result<KeyPair, Error> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(|source| Error::MakeKey { source })
}

fn unusable(path: &Path, problem: &'static str) -> Error {
    Error::UnusableFile { path: path.to_owned(), problem }
}

fn parse_key(path: &Path, pem: &str) -> Result<KeyPair, Error> {
    let key = KeyPair::from_pem(pem).map_err(|_| unusable(path, "is not a PEM private key"))?;
    if key.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256) {
        Ok(key)
    } else {
        Err(unusable(path, "is not an ECDSA P-256 key"))
    }
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| unusable(path, "is not a PEM file")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::ReadFile { path: path.to_owned(), source }),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    file::replace(path, file::PRIVATE, text.as_bytes())
        .map_err(|source| Error::WriteFile { path: path.to_owned(), source })
}
