//! TLS on either side of an engine. Certificates and keys are named in a plan, never contained in it.

mod validity;

use serde::{Deserialize, Serialize};

use crate::http::Http;
use crate::{ConnectionRoute, Name, Pattern};

pub use validity::{Age, Validity};

/// The name under which whoever runs the plan finds a certificate with its key, or a set of authorities.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CertificateRef(pub Name);

/// TLS that ends at the listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Terminate {
    /// The certificates to choose from by server name; at least one.
    pub certificates: Vec<CertificateRef>,
    /// What is asked of clients; default nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificates: Option<ClientCertificates>,
    /// What is looked at inside.
    pub then: Then,
}

/// What is inside of terminated TLS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Then {
    /// Bytes that are not looked at.
    Tcp(ConnectionRoute),
    /// Requests.
    Http(Http),
}

/// Which certificates clients show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientCertificates {
    /// The authorities that are trusted.
    pub authorities: CertificateRef,
    /// What follows from a missing or bad one; default required.
    #[serde(default)]
    pub mode: ClientCertificateMode,
}

/// What follows from a missing or bad client certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientCertificateMode {
    /// The connection is refused.
    #[default]
    Required,
    /// A missing one is fine, a bad one is refused.
    Optional,
    /// Both are fine, and the upstream is told which it was.
    InsecureFallback,
}

/// TLS to the endpoints of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpstreamTls {
    /// The name to ask for and to find in the certificate; default that of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<Name>,
    /// Names one of which the certificate has in place of that one; default that one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subject_names: Vec<SubjectName>,
    /// The authorities that are trusted; default the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<CertificateRef>,
    /// The certificate to show; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateRef>,
    /// The endpoint stands in front of another, and says one byte of any value when that is reached: before it does, nobody is
    /// connected to. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirms: bool,
}

/// A name in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SubjectName {
    /// A host; `*.` in it fits a `*.` in the certificate.
    Host(Pattern),
    /// Such as `spiffe://cluster/ns/shop`, compared letter by letter.
    Uri(String),
}
