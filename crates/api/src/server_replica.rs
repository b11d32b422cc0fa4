//! What one running DNS or DHCP server says of itself in the status of its object.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one running server says of itself. Written by the server, removed by the operator when its pod is gone.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ServerReplica {
    /// Name of its pod.
    pub name: String,
    /// The generation of the spec that it last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation of the spec that it runs: an earlier one while the newest is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_generation: Option<i64>,
    /// It does what the generation asks for.
    #[serde(default)]
    pub serving: bool,
    /// Its address on the isolated network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Addresses and ports that it listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listening: Vec<String>,
    /// Whether its address is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<bool>,
    /// Addresses of neighbours, which are servers of its namespace on the same network, that do not answer it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<String>,
    /// Why it stays with an earlier configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What else keeps it from its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Names that a DNS server answers by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<i32>,
    /// Resolvers that a DNS server asks and that do not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing_upstreams: Vec<String>,
    /// Addresses of a DHCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leases: Option<LeaseCounts>,
}

/// The addresses of a DHCP server, as it sees them.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LeaseCounts {
    /// That clients have.
    #[serde(default)]
    pub active: i32,
    /// That nobody has.
    #[serde(default)]
    pub free: i32,
    /// That somebody uses who was not given them.
    #[serde(default)]
    pub declined: i32,
    /// Clients that asked lately and are not served.
    #[serde(default)]
    pub unknown_clients: i32,
}
