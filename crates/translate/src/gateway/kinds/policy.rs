//! Policies for backends, and for traffic.

use serde::Deserialize;
use serde_json::Value;

use super::meta::{field, items};
use super::{Object, Spec};
use crate::references::CertificateAuthorityRef;

/// A TrafficPolicy.
pub type TrafficPolicy = Object<causeway_api::TrafficPolicySpec>;
/// A BackendTLSPolicy.
pub type BackendTlsPolicy = Object<BackendTlsPolicySpec>;

impl Spec for causeway_api::TrafficPolicySpec {
    fn outline(spec: &Value) -> Self {
        Self { target_refs: items(spec, "targetRefs"), ..Self::default() }
    }
}

/// How gateways speak TLS to Services.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "AnyVersion")]
pub struct BackendTlsPolicySpec {
    /// Which Services, of the policy's own namespace.
    pub target_refs: Vec<TargetRef>,
    /// What is asked of their certificates.
    pub validation: BackendValidation,
}

impl Spec for BackendTlsPolicySpec {
    fn outline(spec: &Value) -> Self {
        let mut target_refs = items(spec, "targetRefs");
        target_refs.extend(field::<Option<TargetRef>>(spec, "targetRef"));
        Self { target_refs, ..Self::default() }
    }
}

/// As it is written, in any version: `v1alpha2` has one target and other words.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyVersion {
    #[serde(default)]
    target_refs: Vec<TargetRef>,
    #[serde(default)]
    target_ref: Option<TargetRef>,
    #[serde(default)]
    validation: Option<BackendValidation>,
    #[serde(default)]
    tls: Option<BackendValidation>,
}

impl From<AnyVersion> for BackendTlsPolicySpec {
    fn from(written: AnyVersion) -> Self {
        let AnyVersion { mut target_refs, target_ref, validation, tls } = written;
        target_refs.extend(target_ref);
        Self { target_refs, validation: validation.or(tls).unwrap_or_default() }
    }
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
    #[serde(default, alias = "caCertRefs")]
    pub ca_certificate_refs: Vec<CertificateAuthorityRef>,
    /// `System` for those that the machine trusts.
    #[serde(default, rename = "wellKnownCACertificates", alias = "wellKnownCACerts")]
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
