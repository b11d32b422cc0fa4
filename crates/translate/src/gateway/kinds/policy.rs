//! Policies for backends.

use serde::Deserialize;

use super::Object;
use crate::references::CertificateAuthorityRef;

/// A BackendTLSPolicy.
pub type BackendTlsPolicy = Object<BackendTlsPolicySpec>;

/// How gateways speak TLS to Services.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTlsPolicySpec {
    /// Which Services, of the policy's own namespace.
    #[serde(default)]
    pub target_refs: Vec<TargetRef>,
    /// What is asked of their certificates.
    #[serde(default)]
    pub validation: BackendValidation,
}

/// A target of a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// Its group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The name of a port; all ports if left out.
    #[serde(default)]
    pub section_name: Option<String>,
}

/// What is asked of a backend's certificate.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendValidation {
    /// The authorities that are trusted.
    #[serde(default)]
    pub ca_certificate_refs: Vec<CertificateAuthorityRef>,
    /// `System` for those that the machine trusts.
    #[serde(default, rename = "wellKnownCACertificates")]
    pub well_known_ca_certificates: Option<String>,
    /// The name to ask for, and to find if there are no further names.
    #[serde(default)]
    pub hostname: String,
    /// Names one of which the certificate has.
    #[serde(default)]
    pub subject_alt_names: Vec<SubjectAltName>,
}

/// A name in a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectAltName {
    /// `Hostname` or `URI`.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// With `Hostname`.
    #[serde(default)]
    pub hostname: Option<String>,
    /// With `URI`.
    #[serde(default)]
    pub uri: Option<String>,
}
