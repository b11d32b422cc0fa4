//! Certificate issuers and DNS providers: our own authority and DNS server (`local`), ACME, dynamic updates of DNS
//! (`rfc2136`), and AWS. A crate of its own to keep their clients away from everything else; it must never see Kubernetes.
//!
//! Two seams, both safe to call again after a kill at any moment: [`dns::DnsProvider`] writes records with the mark of
//! their owner, [`certificate::CertificateIssuer`] is a small state machine that its caller drives. Nothing is kept in
//! here but the directory of `local`'s authority: keys, handles and accounts are data that the caller stores.

#![warn(missing_docs, unreachable_pub)]

pub mod acme;
#[cfg(feature = "aws")]
pub mod aws;
pub mod certificate;
pub mod dns;
pub mod local;
pub mod rfc2136;

mod error;
mod http;
mod name;
mod secret;
mod x509;

pub use error::{Error, Retry};
pub use name::Name;
pub use secret::Secret;
