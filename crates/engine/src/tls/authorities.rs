//! Authorities whose certificates are trusted.

use std::sync::{Arc, OnceLock};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// A set of authorities.
#[derive(Debug)]
pub struct Authorities {
    pub(super) roots: Arc<RootCertStore>,
}

/// Why authorities can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is none.
    #[error("there is no certificate in PEM: it begins with -----BEGIN CERTIFICATE-----")]
    None,
    /// One of them.
    #[error("certificate {0} can't be read as that of an authority")]
    Unreadable(usize, #[source] rustls::Error),
}

impl Authorities {
    /// Reads certificates of authorities, one after the other.
    ///
    /// # Errors
    /// If there is none, or one can't be read.
    pub fn from_pem(pem: &[u8]) -> Result<Self, Error> {
        let certificates: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|_| Error::None)?;
        let mut roots = RootCertStore::empty();
        for (place, certificate) in certificates.into_iter().enumerate() {
            roots.add(certificate).map_err(|error| Error::Unreadable(place + 1, error))?;
        }
        if roots.is_empty() {
            return Err(Error::None);
        }
        Ok(Self { roots: Arc::new(roots) })
    }
}

/// The system's, read when they are first asked for.
pub(super) fn of_system() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let read = || {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        // What other programs can't read of it is left out here, too.
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            tracing::warn!(
                "the system has no authorities: no endpoint is trusted without some that the plan names"
            );
        }
        Arc::new(roots)
    };
    Arc::clone(ROOTS.get_or_init(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_authority_is_told() {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap().cert.pem();
        assert_eq!(Authorities::from_pem([made.clone(), made].concat().as_bytes()).unwrap().roots.len(), 2);
        let junk = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        for (pem, words) in [("", "no certificate"), ("junk", "no certificate"), (junk, "certificate 1")] {
            let message = Authorities::from_pem(pem.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
