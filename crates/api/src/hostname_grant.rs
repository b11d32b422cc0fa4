//! `HostnameGrant`: which hostnames the requests of a namespace may ask for. Whoever may create it decides.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// What a `HostnameGrant` allows.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "HostnameGrant",
    plural = "hostnamegrants",
    namespaced,
    status = "HostnameGrantStatus",
    category = "causeway",
    doc = "Lets the requests of this namespace ask for hostnames.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Hostnames", type_ = "string", json_path = ".spec.hostnames"),
    printcolumn(name = "Zone", type_ = "string", json_path = ".spec.zoneId"),
    printcolumn(name = "In Use", type_ = "integer", json_path = ".status.requests"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HostnameGrantSpec {
    /// Names that may be asked for. `*.team.example.com` allows every name of one more label.
    #[schemars(schema_with = "granted_hostnames")]
    pub hostnames: Vec<String>,
    /// Only in this zone. Left out: in any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9][-A-Za-z0-9._/]*$')")
        .message("must be the id of a DNS zone as its provider writes it, for example Z0123456789ABCDEFGHIJ or example.com"))]
    pub zone_id: Option<String>,
}

/// What was observed of a `HostnameGrant`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HostnameGrantStatus {
    /// Accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Requests that rest on this grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<i32>,
}

fn granted_hostnames(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = crate::schema::wildcard_hostname_set(generator);
    schema.insert("minItems".to_owned(), 1.into());
    schema.insert("maxItems".to_owned(), 256.into());
    schema
}
