//! Whether an authority gave a certificate, and how long ago: for those who keep certificates where others could replace them.

use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use x509_parser::prelude::FromDer as _;

use crate::identity::{Authority, Identity, Role, age_of, name_of, provider, server_name};

impl Authority {
    /// How old a certificate is that this authority gave to the key of `request`, for this role and name. None for any other,
    /// and for one that is not good any more.
    pub fn age_of(&self, certificate: &str, request: &str, role: Role, name: &str) -> Option<Duration> {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
        let request = CertificateSigningRequestDer::from_pem_slice(request.as_bytes()).ok()?;
        let (_, request) =
            x509_parser::certification_request::X509CertificationRequest::from_der(&request).ok()?;
        let (_, read) = x509_parser::parse_x509_certificate(&certificate).ok()?;
        let is_same_key = read.public_key().raw == request.certification_request_info.subject_pki.raw;
        if is_same_key { self.age(&certificate, role, name) } else { None }
    }

    /// The same of an identity, whose key has to be that of its certificate.
    pub fn age_of_identity(&self, identity: &Identity, role: Role, name: &str) -> Option<Duration> {
        let certificate = CertificateDer::from_pem_slice(identity.certificate().as_bytes()).ok()?;
        let fits = match role {
            Role::Dialer => identity.client_config().is_ok(),
            Role::Listener => identity.server_config().is_ok(),
        };
        if fits && identity.authority() == self.certificate() {
            self.age(&certificate, role, name)
        } else {
            None
        }
    }

    fn age(&self, certificate: &CertificateDer<'_>, role: Role, name: &str) -> Option<Duration> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.certificate().as_bytes()).ok()?).ok()?;
        let (roots, now) = (Arc::new(roots), UnixTime::now());
        let is_given = match role {
            Role::Dialer => WebPkiClientVerifier::builder_with_provider(roots, provider())
                .build()
                .is_ok_and(|verifier| verifier.verify_client_cert(certificate, &[], now).is_ok()),
            Role::Listener => {
                let server_name = server_name(name).ok()?;
                WebPkiServerVerifier::builder_with_provider(roots, provider()).build().is_ok_and(|verifier| {
                    verifier.verify_server_cert(certificate, &[], &server_name, &[], now).is_ok()
                })
            }
        };
        if !is_given || name_of(certificate).as_deref() != Some(name) {
            return None;
        }
        age_of(certificate)
    }
}

/// How old a certificate may become before it is renewed: half of its life.
pub fn is_due(age: Duration) -> bool {
    age > crate::identity::LIFETIME / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Key;

    #[test]
    fn only_what_was_given_for_this_key_name_and_role_counts() {
        let (authority, other) = (Authority::new().expect("keys"), Authority::new().expect("keys"));
        let (key, stranger) = (Key::new().expect("a key"), Key::new().expect("a key"));
        let (request, foreign) = (key.request().expect("made"), stranger.request().expect("made"));
        let given = authority.renew(&request, Role::Dialer, "laptop").expect("signed");
        let age = |certificate: &str, request: &str, role, name: &str| {
            authority.age_of(certificate, request, role, name)
        };
        assert!(age(&given, &request, Role::Dialer, "laptop").is_some_and(|age| !is_due(age)));
        assert!(age(&given, &foreign, Role::Dialer, "laptop").is_none(), "another key");
        assert!(age(&given, &request, Role::Dialer, "other").is_none(), "another name");
        assert!(age(&given, &request, Role::Listener, "laptop").is_none(), "another role");
        let forged = other.renew(&request, Role::Dialer, "laptop").expect("signed");
        assert!(age(&forged, &request, Role::Dialer, "laptop").is_none(), "another authority");
        assert!(age("rubbish", &request, Role::Dialer, "laptop").is_none());

        let listener = authority.issue(Role::Listener, "box").expect("keys");
        assert!(authority.age_of_identity(&listener, Role::Listener, "box").is_some());
        assert!(authority.age_of_identity(&listener, Role::Dialer, "box").is_none());
        assert!(other.age_of_identity(&listener, Role::Listener, "box").is_none());
    }
}
