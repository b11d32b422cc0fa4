//! Clients that show certificates: what is asked of them, and what endpoints hear of it.

use std::fmt::Write as _;
use std::sync::Arc;

use causeway_ir::tls::ClientCertificateMode;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use x509_parser::extensions::GeneralName;

use super::authorities::Authorities;

/// What endpoints hear of a certificate has at most about so many bytes: it goes with every request.
const MOST: usize = 4 << 10;

/// What is asked of clients.
#[derive(Debug)]
pub(crate) struct Clients {
    /// Tells whose certificate is good.
    trusted: Arc<dyn ClientCertVerifier>,
    authorities: Arc<RootCertStore>,
    mode: ClientCertificateMode,
}

impl Clients {
    pub(super) fn new(
        authorities: &Authorities,
        mode: ClientCertificateMode,
        provider: &Arc<CryptoProvider>,
    ) -> Option<Self> {
        let builder =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&authorities.roots), Arc::clone(provider));
        let builder = match mode {
            ClientCertificateMode::Required => builder,
            ClientCertificateMode::Optional | ClientCertificateMode::InsecureFallback => {
                builder.allow_unauthenticated()
            }
        };
        Some(Self { trusted: builder.build().ok()?, authorities: Arc::clone(&authorities.roots), mode })
    }

    /// Whether a client that was asked for this has shown what the other would ask it for.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.trusts_as(other) && (self.mode == other.mode || self.mode == ClientCertificateMode::Required)
    }

    /// Whether both ask the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.trusts_as(other) && self.mode == other.mode
    }

    fn trusts_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.authorities, &other.authorities)
            || self.authorities.roots == other.authorities.roots
    }

    /// Who decides in a handshake.
    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        match self.mode {
            ClientCertificateMode::Required | ClientCertificateMode::Optional => Arc::clone(&self.trusted),
            ClientCertificateMode::InsecureFallback => Arc::new(Lenient(Arc::clone(&self.trusted))),
        }
    }

    /// The lines with which endpoints hear of what a client has shown.
    pub(crate) fn introduction(&self, shown: &[CertificateDer<'_>]) -> Vec<u8> {
        let Some((own, others)) = shown.split_first() else { return b"ssl-client-verify: NONE\r\n".to_vec() };
        // In a lenient handshake nobody has asked yet, and a session that is resumed asks nobody.
        if self.trusted.verify_client_cert(own, others, UnixTime::now()).is_err() {
            return b"ssl-client-verify: FAILED\r\n".to_vec();
        }
        let mut lines = "ssl-client-verify: SUCCESS\r\n".to_owned();
        if let Some(described) = describe(own) {
            for part in ["x-forwarded-client-cert: ", &described, "\r\n"] {
                lines.push_str(part);
            }
        }
        lines.into_bytes()
    }
}

/// Takes any certificate, or none, from whoever has its key.
#[derive(Debug)]
struct Lenient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A client that has no fitting certificate is to show the one that it has.
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// A certificate in the words that Envoy uses: its hash, its subject, its names.
fn describe(certificate: &[u8]) -> Option<String> {
    let mut text = "Hash=".to_owned();
    for byte in aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate).as_ref() {
        write!(text, "{byte:02x}").ok()?;
    }
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let subject = escaped(&certificate.subject().to_string(), |c| matches!(c, '"' | '\\'));
    write!(text, ";Subject=\"{subject}\"").ok()?;
    let names = certificate.subject_alternative_name().ok().flatten();
    for name in names.iter().flat_map(|names| &names.value.general_names) {
        let (kind, name) = match name {
            GeneralName::URI(uri) => ("URI", uri),
            GeneralName::DNSName(name) => ("DNS", name),
            _ => continue,
        };
        let name = escaped(name, |c| matches!(c, '"' | '\\' | ';' | ',' | '=' | ' '));
        if text.len() + name.len() > MOST {
            break;
        }
        write!(text, ";{kind}={name}").ok()?;
    }
    (text.len() <= MOST).then_some(text)
}

/// Text in which nothing ends a line, or a part of it: what could is written as in a URL.
fn escaped(text: &str, special: impl Fn(char) -> bool) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_ascii_graphic() || c == ' ') && !special(c) && c != '%' {
            written.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            // Writing to text does not fail.
            let _ = write!(written, "%{byte:02X}");
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_certificate_ends_a_line() {
        let mut parameters = rcgen::CertificateParams::new(["a.test".to_owned()]).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "x\r\ny: \"z\" ä");
        parameters.subject_alt_names.push(rcgen::SanType::URI("spiffe://a/b;c".try_into().unwrap()));
        let made = parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let text = describe(made.der()).unwrap();
        assert!(text.starts_with("Hash=") && text.contains(";DNS=a.test;URI=spiffe://a/b%3Bc"), "{text}");
        assert!(text.contains("x%0D%0Ay: %22z%22 %C3%A4") && text.chars().all(|c| !c.is_control()), "{text}");
    }
}
