//! `InterceptRequest`: sends a workload's traffic, or the part that matches, to a developer's machine.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::{fixed, forbidden, required, rule};

/// What an `InterceptRequest` should do.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "InterceptRequest",
    plural = "interceptrequests",
    namespaced,
    status = "InterceptRequestStatus",
    shortname = "ireq",
    category = "causeway",
    doc = "Sends traffic of a workload in this namespace to a developer's machine.",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.workstation",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target"),
    printcolumn(name = "Pod", type_ = "string", json_path = ".spec.targetPod", priority = 1),
    printcolumn(name = "Workstation", type_ = "string", json_path = ".spec.workstation"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Active", type_ = "boolean", json_path = ".status.active"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = required(
        "has(self.target) != has(self.targetPod)",
        ".target",
        "write either target: KIND/NAME of a workload, or targetPod: the name of one pod",
    ),
    validation = forbidden(fixed("target"), ".target", "can't be changed: delete the request and create another"),
    validation = forbidden(fixed("targetPod"), ".targetPod", "can't be changed: delete the request and create another"),
    validation = forbidden(fixed("targetContainer"), ".targetContainer", "can't be changed: delete the request and create another"),
    validation = forbidden(
        "self.targetContainerPort == oldSelf.targetContainerPort",
        ".targetContainerPort",
        "can't be changed: delete the request and create another",
    ),
    validation = required(
        "self.mode != 'Container' || (!has(self.match) && !self.mirror)",
        ".match",
        "in mode Container nothing of the original is left to answer the rest: leave match and mirror out, or use mode Service",
    ),
    validation = forbidden("self.mode == oldSelf.mode", ".mode", "can't be changed: delete the request and create another")
)]
pub struct InterceptRequestSpec {
    /// The workload, as KIND/NAME: deployment/shop, statefulset/db, replicaset/old, pod/one. Short kinds work too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    #[x_kube(validation = Rule::new("self.matches('^(?i:deploy|deployments?|sts|statefulsets?|rs|replicasets?|po|pods?)/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')")
        .message("must be KIND/NAME with KIND one of deployment, statefulset, replicaset, pod, for example deployment/shop"))]
    pub target: Option<String>,
    /// One pod, instead of target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub target_pod: Option<String>,
    /// Container of the pod. Left out: the one that has the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label")]
    pub target_container: Option<String>,
    /// Port of the container, by number or by its name in the pod.
    #[schemars(schema_with = "crate::schema::port_or_name")]
    pub target_container_port: IntOrString,
    /// Name of the Workstation that gets the traffic, or NAMESPACE/NAME.
    #[schemars(schema_with = "crate::schema::object_path")]
    pub workstation: String,
    /// Port on the developer's machine.
    #[schemars(range(min = 1, max = 65535))]
    pub destination_port: u16,
    /// Address behind the developer's machine, for example of a container. Left out: the machine itself.
    #[serde(rename = "destinationIP", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub destination_ip: Option<String>,
    /// Where the traffic is taken over.
    #[serde(default)]
    pub mode: InterceptMode,
    /// Requests to take: those that any entry matches. Left out: all traffic, of any protocol.
    #[serde(rename = "match", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub matches: Vec<HttpMatch>,
    /// The developer's machine gets a copy of the requests, and its answers are thrown away: the original answers. HTTP only.
    #[serde(default)]
    pub mirror: bool,
    /// Who answers health checks: probes of the target's containers by path, and those that say so in their user agent.
    #[serde(default)]
    pub health_checks: HealthCheckTarget,
    /// Whether requests go to the original workload while the developer's machine does not answer.
    #[serde(default = "yes")]
    pub fallback: bool,
    /// The request ends by itself after this time. Left out: it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::lease_duration")]
    pub ttl: Option<String>,
}

impl Default for InterceptRequestSpec {
    fn default() -> Self {
        Self {
            target: None,
            target_pod: None,
            target_container: None,
            target_container_port: IntOrString::Int(80),
            workstation: String::new(),
            destination_port: 80,
            destination_ip: None,
            mode: InterceptMode::default(),
            matches: Vec::new(),
            mirror: false,
            health_checks: HealthCheckTarget::default(),
            fallback: true,
            ttl: None,
        }
    }
}

/// Where traffic is taken over.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterceptMode {
    /// In front of the pods; they keep running as they are.
    #[default]
    Service,
    /// In the container's place.
    Container,
}

/// Who answers health checks.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HealthCheckTarget {
    /// The original workload.
    #[default]
    Original,
    /// The developer's machine, if they match.
    Workstation,
}

/// A set of rules that must all hold.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[x_kube(validation = required(
    "has(self.headers) || has(self.path) || has(self.method)",
    ".headers",
    "an entry needs at least one of headers, path and method; leave match out to take all traffic",
))]
pub struct HttpMatch {
    /// Headers that must be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub headers: Vec<HeaderMatch>,
    /// The path, without its query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
    /// The method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
}

/// A header that must be there.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct HeaderMatch {
    /// The header's name; upper and lower case are the same.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9!#$%&*+.^_`|~-]+$')")
        .message("must be the name of an HTTP header, for example x-user"))]
    pub name: String,
    /// What its value is compared with.
    #[schemars(length(max = 4096))]
    pub value: String,
    /// How it is compared.
    #[serde(rename = "type", default)]
    pub kind: MatchType,
}

/// A path that must be asked for.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[x_kube(validation = rule(
    "self.type == 'Regex' || self.value.startsWith('/')",
    ".value",
    "must start with / unless type is Regex",
))]
pub struct PathMatch {
    /// What the path is compared with.
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
    /// How it is compared.
    #[serde(rename = "type", default)]
    pub kind: MatchType,
}

/// How text is compared.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchType {
    /// Equal.
    #[default]
    Exact,
    /// Starts with.
    Prefix,
    /// A regular expression matches somewhere in it; `^` and `$` are its ends.
    Regex,
}

/// An HTTP method.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs)]
pub enum Method {
    Connect,
    Delete,
    Get,
    Head,
    Options,
    Patch,
    Post,
    Put,
    Trace,
}

/// What was observed of an `InterceptRequest`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InterceptRequestStatus {
    /// Ready, Accepted, Installed, Connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the intercept is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<InterceptState>,
    /// Whether the developer's machine gets traffic at the moment.
    #[serde(default)]
    pub active: bool,
    /// The Services whose traffic is taken over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// What the target was before, for people; it is restored from what was written beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_object")]
    pub original_config: Option<BTreeMap<String, Value>>,
}

/// Where an intercept is in its life.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InterceptState {
    /// Not begun.
    #[default]
    Requested,
    /// The target is being taken over.
    Installing,
    /// Taken over; traffic still goes to the original.
    Installed,
    /// Traffic goes to the developer's machine.
    Active,
    /// The target is being put back.
    Restoring,
    /// The target does not exist at the moment.
    Missing,
    /// A person must fix something.
    Error,
}

fn yes() -> bool {
    true
}
