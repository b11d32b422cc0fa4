//! A certificate that was asked for, as it is remembered beside its key: enough to go on from wherever somebody was interrupted.

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::zones::{Origin, ZoneKey};
use crate::gateway::kinds::ObjectRef;

/// The annotation of a Secret that an order is remembered in.
pub const ANNOTATION: &str = "causeway.dev/order";

/// A certificate that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Its Secret.
    #[serde(skip)]
    pub secret: String,
    /// The request that it is for.
    #[serde(skip)]
    pub at: ObjectRef,
    /// The uid of that.
    #[serde(skip)]
    pub uid: String,
    /// Counts the orders of a request.
    pub serial: u32,
    /// Its names, the first of which is the subject.
    pub names: Vec<String>,
    /// Who issues it.
    pub issuer: String,
    /// The HostnameZone whose issuer and DNS it rests on; none for the operator's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname_zone: Option<String>,
    /// The provider's id of that zone.
    pub zone_id: String,
    /// Of a zone of the operator's settings: what those said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// When it was begun, in seconds since 1970.
    pub begun: i64,
    /// How many before it came to nothing, one after another.
    #[serde(default)]
    pub failed_before: u32,
    /// When the first of those was begun, in seconds since 1970; none without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// The Secret of the order whose certificate it will take the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// The issuer's word for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// What shows that the names are ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<Proof>,
    /// Whether the issuer was told that they are there.
    #[serde(default)]
    pub told: bool,
    /// The certificate, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued: Option<Issued>,
    /// Why there will never be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failure>,
    /// Whether its certificate is lost: somebody removed or revoked it.
    #[serde(default)]
    pub lost: bool,
}

/// Something that shows that a name is ours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Proof {
    /// A TXT record.
    Txt {
        /// Where.
        name: String,
        /// Its text.
        text: String,
    },
    /// A CNAME.
    Cname {
        /// Where.
        name: String,
        /// The other name.
        target: String,
    },
    /// An answer to `GET http://host/path`.
    Http {
        /// The host.
        host: String,
        /// The path.
        path: String,
        /// The whole body.
        body: String,
    },
}

/// A certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Issued {
    /// Who signed it.
    pub issuer: String,
    /// Its serial number.
    pub serial: String,
    /// Good from, in seconds since 1970.
    pub not_before: i64,
    /// Good until, in seconds since 1970.
    pub not_after: i64,
    /// When its successor is asked for, in seconds since 1970; none where its issuer renews it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_at: Option<i64>,
    /// The ARN, where a cloud keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arn: Option<String>,
}

/// Why an order came to nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// In the issuer's words, with the remedy.
    pub message: String,
    /// When, in seconds since 1970.
    pub at: i64,
    /// How many came to nothing one after another.
    pub times: u32,
}

impl Failure {
    /// When the next one may be tried: a minute later at first, at most six hours.
    pub fn over_at(&self) -> i64 {
        let minutes = 1_i64 << self.times.saturating_sub(1).min(9);
        self.at.saturating_add((minutes * 60).min(6 * 3600))
    }
}

impl Order {
    /// The zone that it rests on.
    pub fn zone(&self) -> ZoneKey {
        ZoneKey { name: self.hostname_zone.clone(), id: self.zone_id.clone(), origin: self.origin.clone() }
    }

    /// What a listener names: the ARN, or the Secret.
    pub fn reference(&self) -> &str {
        self.issued.as_ref().and_then(|issued| issued.arn.as_deref()).unwrap_or(&self.secret)
    }

    /// Whether it holds a certificate that can be served.
    pub fn is_good(&self, now: Timestamp) -> bool {
        !self.lost && self.issued.as_ref().is_some_and(|issued| issued.not_after > now.as_second())
    }

    /// Whether it is still worked on.
    pub fn is_pending(&self) -> bool {
        !self.lost && self.issued.is_none() && self.failed.is_none()
    }

    /// Since when there should be the certificate of this order, in seconds since 1970: whoever begins another one after it carries
    /// that over.
    pub fn awaited_since(&self) -> i64 {
        match (&self.issued, &self.failed) {
            // It was there, and was lost.
            (Some(_), Some(failed)) => failed.at,
            _ => self.since.unwrap_or(self.begun),
        }
    }

    /// Whether its successor should be asked for.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let renew_at = self.issued.as_ref().and_then(|issued| issued.renew_at);
        renew_at.is_some_and(|at| at <= now.as_second())
    }
}
