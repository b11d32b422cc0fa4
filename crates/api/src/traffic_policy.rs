//! `TrafficPolicy`: what Gateway API has no words for yet: limits, allow lists, error pages, direct responses, rewrites by
//! expressions, failover, tunnels. It is attached to what it is for, as Gateway API's own policies are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{required, rule};

/// What is asked of requests to Gateways of class causeway. Every field counts by itself: that of the nearest target, which
/// is a rule of a route, then the route, its listener, its ListenerSet, its Gateway; for one target that of the oldest policy.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "TrafficPolicy",
    plural = "trafficpolicies",
    namespaced,
    status = "TrafficPolicyStatus",
    shortname = "tpol",
    category = "causeway",
    label("gateway.networking.k8s.io/policy", "Inherited"),
    doc = "Asks more of requests to Gateways of class causeway than Gateway API has words for.",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].reason"
    ),
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.targetRefs[0].kind", priority = 1),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.targetRefs[0].name", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = required(
        "has(self.allowedClients) || has(self.trustedProxies) || has(self.rateLimit) || has(self.bodyLimit) || \
         has(self.errorPages) || has(self.directResponse) || has(self.pathRewrite) || has(self.failover) || \
         has(self.connect)",
        ".targetRefs",
        "asks for nothing: write allowedClients, trustedProxies, rateLimit, bodyLimit, errorPages, directResponse, pathRewrite, failover or connect",
    ),
    validation = rule(
        "!has(self.trustedProxies) || self.targetRefs.all(t, t.kind == 'Gateway' && !has(t.sectionName))",
        ".trustedProxies",
        "is for whole Gateways: target these alone, without sectionName",
    ),
    validation = rule(
        "!has(self.failover) || self.targetRefs.all(t, t.kind == 'HTTPRoute' || t.kind == 'GRPCRoute')",
        ".failover",
        "is for routes, which have the backends: target HTTPRoutes or GRPCRoutes alone",
    )
)]
pub struct TrafficPolicySpec {
    /// What this is for, in the policy's own namespace.
    #[schemars(length(min = 1, max = 16))]
    pub target_refs: Vec<PolicyTarget>,
    /// Addresses and networks that may ask; others get 403. Behind trustedProxies the client that they name. Left out:
    /// everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::client_list")]
    pub allowed_clients: Option<Vec<String>>,
    /// The proxies before a Gateway whose word on their clients counts. Left out: nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted_proxies: Option<TrustedProxies>,
    /// How often each client may ask; more gets 429. Each rule of a route counts by itself, and so does each pod. Left out:
    /// as often as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<ClientRateLimit>,
    /// How long the body of a request may be, as 16Mi or 512Ki or in bytes; a longer one gets 413 as soon as it is known to
    /// be, and nothing is buffered. Left out: as long as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::size")]
    pub body_limit: Option<String>,
    /// What is said with errors that the Gateway itself answers; those of backends stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub error_pages: Option<Vec<ErrorPage>>,
    /// Answers in the place of the backends, whether there are any or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_response: Option<DirectResponse>,
    /// The path that backends see instead, unless the rule has a URLRewrite of the path itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_rewrite: Option<RegexRewrite>,
    /// Backends that get requests only while those before them have no endpoint that can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,
    /// Whether CONNECT opens a stream of bytes to a backend of the rule, whatever address the client names. Left out: it gets
    /// 405.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<bool>,
}

/// What a policy is for.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTarget {
    /// Group of the target. Left out: gateway.networking.k8s.io.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::gateway_group")]
    pub group: Option<String>,
    /// Gateway, ListenerSet, HTTPRoute or GRPCRoute.
    #[schemars(schema_with = "crate::schema::policy_target_kind")]
    pub kind: String,
    /// Name of the target.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Name of a listener of a Gateway or ListenerSet, or of a rule of a route. Left out: all of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub section_name: Option<String>,
}

/// The proxies before a Gateway whose word on their clients counts.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct TrustedProxies {
    /// Their addresses and networks.
    #[schemars(schema_with = "crate::schema::client_list")]
    pub from: Vec<String>,
    /// Where they say it: XForwardedFor for X-Forwarded-For and X-Forwarded-Proto, or Forwarded. Left out: XForwardedFor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<ForwardedHeader>,
}

/// Where proxies say who their client is.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// In `X-Forwarded-For` and `X-Forwarded-Proto`.
    XForwardedFor,
    /// In `Forwarded`.
    Forwarded,
}

/// How often a client may ask.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClientRateLimit {
    /// So many requests of one client address, in IPv6 of one network of 64 bits.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub requests: u32,
    /// In this time. Left out: 1s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub per: Option<String>,
    /// So many may come at once. Left out: as many as requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst: Option<u32>,
}

/// What is said with statuses that the Gateway itself answers.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ErrorPage {
    /// Statuses from 400 to 599.
    #[schemars(schema_with = "crate::schema::error_statuses")]
    pub statuses: Vec<u16>,
    /// Type of the page. Left out: text/html; charset=utf-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub content_type: Option<String>,
    /// The page.
    #[schemars(length(max = 16384))]
    pub body: String,
}

/// An answer that is the same for every request.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct DirectResponse {
    /// Status of the answer. Left out: 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 200, max = 599))]
    pub status: Option<u16>,
    /// Type of the body. Left out: text/plain; charset=utf-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub content_type: Option<String>,
    /// Body of the answer. Left out: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub body: Option<String>,
}

/// What stands in place of a path that an expression matches from end to end; one that it does not match stays.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RegexRewrite {
    /// Expression with groups, as in /users/([0-9]+)/(?<rest>.*), in the syntax of RE2.
    #[schemars(length(min = 1, max = 1024))]
    pub pattern: String,
    /// The path instead, with what groups matched, as in /${rest}/of/$1.
    #[schemars(length(min = 1, max = 1024))]
    pub replacement: String,
}

/// Backends that wait for others to fail.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// Backends of the route's rules that stand by: the first gets requests while no backend that is not in this list can be
    /// used, the second while the first can't either, and so on.
    #[schemars(length(min = 1, max = 16))]
    pub standby: Vec<StandbyBackend>,
}

/// A backend as backendRefs name it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StandbyBackend {
    /// Name of the Service.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the Service. Left out: the policy's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// What was observed of a `TrafficPolicy`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TrafficPolicyStatus {
    /// Accepted: whether it is, at every target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What became of it at each target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<PolicyAncestor>,
}

/// What became of a policy at one target.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAncestor {
    /// The target.
    pub ancestor_ref: PolicyAncestorRef,
    /// Who says it.
    pub controller_name: String,
    /// Accepted, and Conflicted if an older policy has some of what this one asks for.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// A target of a policy.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAncestorRef {
    /// Its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its listener or rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}
