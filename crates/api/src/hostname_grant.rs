//! `HostnameGrant`: which hostnames a namespace holds. Written by the operator alone, one in each namespace; admission and
//! gateways compare routes with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// What a namespace holds.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "HostnameGrant",
    plural = "hostnamegrants",
    namespaced,
    status = "HostnameGrantStatus",
    category = "causeway",
    doc = "Written by the operator: which hostnames this namespace holds, and may therefore route.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Hostnames", type_ = "string", json_path = ".spec.hostnames"),
    printcolumn(name = "Zones", type_ = "string", json_path = ".spec.zones", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct HostnameGrantSpec {
    /// Names that this namespace holds. `*.team.example.com` is every name below.
    #[serde(default)]
    #[schemars(schema_with = "granted_hostnames")]
    pub hostnames: Vec<String>,
    /// Names below a wildcard of this namespace that others hold.
    #[serde(default)]
    #[schemars(schema_with = "granted_hostnames")]
    pub except: Vec<String>,
    /// The domains in which a name must be held to be routed.
    #[serde(default)]
    #[schemars(schema_with = "granted_hostnames")]
    pub zones: Vec<String>,
    /// In the gateways' namespace only: the namespaces that hold a name, and whose own grant says which. To all others admission
    /// refuses every name in the zones, also before they have a grant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "holders")]
    pub holders: Vec<String>,
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
}

/// Compared by patterns, not by rules: the list may be long, and patterns cost nothing.
fn granted_hostnames(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = crate::schema::server_name_set(generator);
    schema.insert("maxItems".to_owned(), 4096.into());
    schema
}

/// Namespaces. Like the names compared by patterns, and there may be as many as a cluster has.
fn holders(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 16384,
        "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "minLength": 1, "maxLength": 63},
    })
}
