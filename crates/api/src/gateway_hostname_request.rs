//! `GatewayHostnameRequest`: asks for a hostname with certificate, gateway and DNS record.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a `GatewayHostnameRequest` asks for.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "GatewayHostnameRequest",
    plural = "gatewayhostnamerequests",
    namespaced,
    status = "GatewayHostnameRequestStatus",
    shortname = "ghr",
    category = "causeway",
    doc = "Asks for a hostname: certificate, place on a gateway and DNS record.",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.hostname",
    selectable = ".spec.zoneId",
    printcolumn(name = "Hostname", type_ = "string", json_path = ".spec.hostname"),
    printcolumn(name = "Gateway", type_ = "string", json_path = ".status.assignedGateway"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        priority = 1
    ),
    printcolumn(name = "Visibility", type_ = "string", json_path = ".spec.visibility", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct GatewayHostnameRequestSpec {
    /// The DNS provider's id of the zone that the hostname is in.
    #[schemars(length(max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9][-A-Za-z0-9._/]*$')")
        .message("must be the id of a DNS zone as its provider writes it, for example Z0123456789ABCDEFGHIJ or example.com"))]
    pub zone_id: String,
    /// The name to publish.
    #[schemars(schema_with = "crate::schema::fqdn")]
    pub hostname: String,
    /// What the hostname is used for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Who may reach it.
    #[serde(default)]
    pub visibility: Visibility,
    /// GatewayClass of the gateway to use.
    #[serde(default = "default_gateway_class")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub gateway_class: String,
    /// Web application firewall that the gateway must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new("self.startsWith('arn:') && self.split(':').size() >= 6")
        .message("must be the ARN of a web ACL, for example arn:aws:wafv2:eu-west-1:123456789012:regional/webacl/name/id"))]
    pub waf_arn: Option<String>,
    /// Choose among gateways with these labels only; none is made then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_selector: Option<LabelSelector>,
}

impl Default for GatewayHostnameRequestSpec {
    fn default() -> Self {
        Self {
            zone_id: String::new(),
            hostname: String::new(),
            environment: None,
            visibility: Visibility::default(),
            gateway_class: default_gateway_class(),
            waf_arn: None,
            gateway_selector: None,
        }
    }
}

/// What a hostname is used for.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    /// Development.
    Dev,
    /// Rehearsal.
    Staging,
    /// Production.
    Prod,
}

/// Who may reach a hostname.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum Visibility {
    /// Everybody.
    #[default]
    InternetFacing,
    /// The private network only.
    Internal,
}

/// What was observed of a `GatewayHostnameRequest`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct GatewayHostnameRequestStatus {
    /// Claimed, CertificateRequested, DnsValidated, CertificateIssued, ListenerAttached, DnsAliasReady, Ready, Deleting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The gateway that serves the hostname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_gateway: Option<String>,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_gateway_namespace: Option<String>,
    /// The load balancer's name or address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_load_balancer: Option<String>,
    /// The certificate's id at its issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_arn: Option<String>,
    /// Digest of the spec that is in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_spec_hash: Option<String>,
}

fn default_gateway_class() -> String {
    "aws-alb".to_owned()
}
