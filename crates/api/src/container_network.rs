//! `ContainerNetwork`: a network of Docker or Podman, made, adopted or removed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{fixed, forbidden, required, rule};

/// What a `ContainerNetwork` should be.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "ContainerNetwork",
    plural = "containernetworks",
    namespaced,
    status = "ContainerNetworkStatus",
    shortname = "ctrnet",
    category = "causeway",
    doc = "A network of Docker or Podman.",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.networkName",
    printcolumn(name = "Network", type_ = "string", json_path = ".status.networkName"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = required(
        "has(self.networkName) || (self.mode == 'session' && !(has(self.persistent) && self.persistent))",
        ".networkName",
        "only mode session can do without: write the name of the runtime's network",
    ),
    validation = rule(
        "!has(self.networkName) || !(self.networkName in ['host', 'none'])",
        ".networkName",
        "host and none are no networks that containers share: name another, or leave it out in mode session",
    ),
    validation = rule(
        "!has(self.subnet) || self.mode in ['session', 'persistent'] || (has(self.persistent) && self.persistent)",
        ".subnet",
        "only modes session and persistent make a network: leave it out",
    ),
    validation = rule(
        "!has(self.subnet) || !self.subnet.contains(':') || self.ipv6",
        ".subnet",
        "is of IPv6: set ipv6 to true as well",
    ),
    validation = forbidden(fixed("subnet"), ".subnet", "can't be changed: delete the object and create another"),
    validation = forbidden(fixed("networkName"), ".networkName", "can't be changed: delete the object and create another"),
    validation = forbidden(fixed("persistent"), ".persistent", "can't be changed: delete the object and create another"),
    validation = forbidden("self.mode == oldSelf.mode", ".mode", "can't be changed: delete the object and create another"),
    validation = forbidden("self.ipv6 == oldSelf.ipv6", ".ipv6", "can't be changed: delete the object and create another")
)]
pub struct ContainerNetworkSpec {
    /// The network's name in the runtime. Only mode session may leave it out; a name is made up then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$"))]
    pub network_name: Option<String>,
    /// Whether the network carries IPv6 too.
    #[serde(default)]
    pub ipv6: bool,
    /// Its range of addresses in CIDR notation, of IPv4, or of IPv6 where ipv6 is true. Left out: the runtime chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::cidr")]
    pub subnet: Option<String>,
    /// How long the network lives.
    #[serde(default)]
    pub mode: NetworkMode,
    /// The older way to say mode: persistent; it wins over mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
}

impl ContainerNetworkSpec {
    /// The mode in effect: `persistent: true` wins.
    pub fn effective_mode(&self) -> NetworkMode {
        if self.persistent == Some(true) { NetworkMode::Persistent } else { self.mode }
    }
}

/// How long a network lives.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// Made now, removed with the object.
    #[default]
    Session,
    /// Made if missing, kept when the object goes.
    Persistent,
    /// Must exist; never made nor removed.
    Existing,
    /// Removed if it exists and Causeway made it here.
    Cleanup,
}

/// What was observed of a `ContainerNetwork`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ContainerNetworkStatus {
    /// Ready, RuntimeAvailable; Deleting while it waits for its network to go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the network is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ContainerNetworkState>,
    /// More about the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The runtime's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The runtime's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_name: Option<String>,
    /// The runtime's driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Whether it carries IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<bool>,
    /// Its networks in CIDR notation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<String>,
    /// Its routers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
    /// Containers attached to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_ids: Vec<String>,
}

/// Where a network is in its life.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContainerNetworkState {
    /// Not made yet.
    #[default]
    Pending,
    /// It exists.
    Running,
    /// It could not be made.
    FailedToStart,
    /// It was removed.
    Removed,
    /// It should exist and does not.
    NotFound,
}
