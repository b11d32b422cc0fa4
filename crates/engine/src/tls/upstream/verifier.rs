//! Who an endpoint is: its certificate comes from an authority that is trusted, always, and has the name that was asked for
//! or, where a plan lists names, one of those.

use std::sync::Arc;

use causeway_ir::{Pattern, SubjectName};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::extensions::GeneralName;

#[derive(Debug)]
pub(super) struct Verifier {
    roots: Arc<RootCertStore>,
    /// One of these instead of the name that was asked for.
    names: Box<[SubjectName]>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(roots: Arc<RootCertStore>, names: &[SubjectName], provider: &CryptoProvider) -> Self {
        Self { roots, names: names.into(), algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        if self.names.is_empty() {
            verify_server_name(&certificate, server_name)?;
        } else if !has_one_of(end_entity, &self.names) {
            return Err(Error::InvalidCertificate(CertificateError::NotValidForName));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether a certificate has one of these names among its alternative ones; the subject is not looked at.
fn has_one_of(certificate: &[u8], names: &[SubjectName]) -> bool {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else { return false };
    let Ok(Some(has)) = certificate.subject_alternative_name() else { return false };
    has.value.general_names.iter().any(|has| names.iter().any(|wanted| is_same(has, wanted)))
}

fn is_same(has: &GeneralName<'_>, wanted: &SubjectName) -> bool {
    match (has, wanted) {
        (GeneralName::URI(uri), SubjectName::Uri(wanted)) => *uri == wanted,
        (GeneralName::DNSName(name), SubjectName::Host(wanted)) => match (Pattern::parse(name), wanted) {
            (Ok(has), wanted) if has == *wanted => true,
            // A wildcard in a certificate stands for one label.
            (Ok(Pattern::Below(domain)), Pattern::Exact(wanted)) => {
                wanted.split_once('.').is_some_and(|(_, rest)| *rest == domain)
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_has_one_of_the_names_or_none() {
        let mut parameters =
            rcgen::CertificateParams::new(["a.test".to_owned(), "*.b.test".to_owned()]).unwrap();
        parameters.subject_alt_names.push(rcgen::SanType::URI("spiffe://cluster/shop".try_into().unwrap()));
        let made = parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let host = |text: &str| SubjectName::Host(Pattern::parse(text).unwrap());
        let uri = |text: &str| SubjectName::Uri(text.to_owned());
        for (wanted, fits) in [
            (vec![host("a.test")], true),
            (vec![host("A.test")], true),
            (vec![host("x.b.test")], true),
            (vec![host("*.b.test")], true),
            (vec![host("x.y.b.test")], false),
            (vec![host("b.test")], false),
            (vec![host("*.a.test")], false),
            (vec![host("*.test")], false),
            (vec![uri("spiffe://cluster/shop")], true),
            (vec![uri("spiffe://cluster/shop/")], false),
            (vec![uri("spiffe://cluster/other"), host("a.test")], true),
            (vec![uri("a.test")], false),
            (vec![], false),
        ] {
            assert_eq!(has_one_of(made.der(), &wanted), fits, "{wanted:?}");
        }
    }
}
