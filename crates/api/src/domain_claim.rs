//! `DomainClaim`: the lock that gives one hostname in one zone to one request. Its name is derived from both, so the
//! API server's answer to a create decides who was first. It outlives its request until the name's records are gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::ZoneDns;
use crate::rules::forbidden;

/// What a `DomainClaim` locks.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "DomainClaim",
    plural = "domainclaims",
    status = "DomainClaimStatus",
    category = "causeway",
    doc = "Gives one hostname in one zone to one request.",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.hostname",
    selectable = ".spec.zoneId",
    printcolumn(name = "Zone", type_ = "string", json_path = ".spec.zoneId"),
    printcolumn(name = "Hostname", type_ = "string", json_path = ".spec.hostname"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".spec.ownerRef.namespace"),
    printcolumn(name = "Request", type_ = "string", json_path = ".spec.ownerRef.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = forbidden("self.zoneId == oldSelf.zoneId", ".zoneId", "can't be changed: a claim is for one zone and hostname"),
    validation = forbidden("self.hostname == oldSelf.hostname", ".hostname", "can't be changed: a claim is for one zone and hostname")
)]
pub struct DomainClaimSpec {
    /// The zone.
    #[schemars(length(max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9][-A-Za-z0-9._/]*$')")
        .message("must be the id of a DNS zone as its provider writes it, for example Z0123456789ABCDEFGHIJ or example.com"))]
    pub zone_id: String,
    /// The hostname, in its normal form.
    #[schemars(schema_with = "crate::schema::server_name")]
    pub hostname: String,
    /// The request that holds it.
    pub owner_ref: ClaimOwner,
    /// The HostnameZone by which its records are written and removed; left out where the operator's settings say how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub hostname_zone: Option<String>,
    /// Where there is no HostnameZone: who writes its records, as the operator's settings said when it was claimed. They are removed
    /// there, whatever the settings say by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<ZoneDns>,
    /// Where there is no HostnameZone: the zone's own name, as the operator's settings had it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::hostname")]
    pub domain: Option<String>,
    /// For a wildcard: other namespaces may hold names below it.
    #[serde(default)]
    pub allow_names_below: bool,
}

/// The request that holds a claim.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct ClaimOwner {
    /// Its namespace.
    #[schemars(schema_with = "crate::schema::label")]
    pub namespace: String,
    /// Its name.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Its uid, so that a later object of the same name is not taken for it.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}

/// What was observed of a `DomainClaim`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DomainClaimStatus {
    /// Claimed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the present owner got it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Time>,
    /// Whether records may have been written: said before the first is. From then on the name is held until they are known to be gone.
    #[serde(default)]
    pub may_have_records: bool,
}
