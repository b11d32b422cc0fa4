//! The identity in a verified client certificate: the common name is the user, the organisations are the groups.

use std::collections::BTreeMap;
use std::fmt::Write;

use aws_lc_rs::digest;
use jiff::Timestamp;

use super::User;

/// A client certificate that chains to our authority. The TLS layer makes one only after verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerCertificate {
    name: String,
    groups: Vec<String>,
    not_after: Timestamp,
    fingerprint: String,
}

impl PeerCertificate {
    /// Reads a certificate that the caller has verified; `None` if it names no user.
    pub(crate) fn from_verified_der(der: &[u8]) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().last()?.as_str().ok()?;
        if name.is_empty() {
            return None;
        }
        let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
        let mut fingerprint = String::new();
        for byte in digest::digest(&digest::SHA256, der).as_ref() {
            write!(fingerprint, "{byte:02x}").ok()?;
        }
        Some(Self {
            name: name.to_owned(),
            groups,
            not_after: Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?,
            fingerprint,
        })
    }

    pub(super) fn is_valid_at(&self, now: Timestamp) -> bool {
        now <= self.not_after
    }

    pub(super) fn user(&self) -> User {
        let credential = vec![format!("X509SHA256={}", self.fingerprint)];
        User {
            name: self.name.clone(),
            uid: String::new(),
            groups: self.groups.clone(),
            extra: BTreeMap::from([(super::token::CREDENTIAL_ID.to_owned(), credential)]),
        }
    }
}
