//! `GatewayPlan`: what the operator hands to the pods of a Gateway, and what they say of it. The plan itself is in parts, in
//! `Supply` objects that are named here by their digests: a part never changes, so what is listed counts all at once.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the pods of a Gateway run.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "GatewayPlan",
    plural = "gatewayplans",
    namespaced,
    status = "GatewayPlanStatus",
    doc = "Written by the operator, for the pods of one Gateway: which plan they run. Their own words on it are in the status.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Gateway", type_ = "string", json_path = ".spec.gateway"),
    printcolumn(name = "Serving", type_ = "string", json_path = ".status.replicas[*].serving"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct GatewayPlanSpec {
    /// The Gateway of this namespace.
    pub gateway: String,
    /// The Gateway's generation that the plan was made of.
    #[serde(default)]
    pub gateway_generation: i64,
    /// The digests of the plan's parts, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// Secrets of this namespace with the certificates that the plan names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<String>,
}

/// What the pods say.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GatewayPlanStatus {
    /// Each pod, written by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub replicas: Vec<GatewayReplica>,
}

/// What one pod of a Gateway says of itself. Written by the pod, removed by the operator when the pod is gone.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GatewayReplica {
    /// Name of the pod.
    pub name: String,
    /// The generation of the plan that it last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation of the plan that it runs: an earlier one while the newest is refused or not all there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_generation: Option<i64>,
    /// The Gateway's generation that this plan was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_generation: Option<i64>,
    /// It does all that the plan asks for.
    #[serde(default)]
    pub serving: bool,
    /// Addresses and ports that it listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listening: Vec<String>,
    /// Why it stays with an earlier plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What else keeps it from its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}
