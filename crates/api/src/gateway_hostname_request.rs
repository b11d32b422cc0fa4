//! `GatewayHostnameRequest`: asks for a hostname with certificate, gateway and DNS record.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::rule;

/// What a `GatewayHostnameRequest` asks for.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
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
    printcolumn(name = "Expires", type_ = "date", json_path = ".status.certificate.notAfter", priority = 1),
    printcolumn(name = "Visibility", type_ = "string", json_path = ".spec.visibility", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = rule("!self.allowNamesBelow || self.hostname.startsWith('*.') || (has(self.additionalHostnames) && self.additionalHostnames.exists(h, h.startsWith('*.')))", ".allowNamesBelow", "is for wildcards, and this asks for none: leave it out, or ask for one, for example *.apps.example.com")
)]
pub struct GatewayHostnameRequestSpec {
    /// The DNS provider's id of the zone that the hostname is in.
    #[schemars(length(max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9][-A-Za-z0-9._/]*$')")
        .message("must be the id of a DNS zone as its provider writes it, for example Z0123456789ABCDEFGHIJ or example.com"))]
    pub zone_id: String,
    /// The name to publish: a name in the zone, the zone's own name, or a wildcard. Case, a dot at the end and the spelling of
    /// international names make no difference.
    #[schemars(schema_with = "crate::schema::written_hostname")]
    pub hostname: String,
    /// More names on the same certificate and gateway, each held and published like the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::written_hostnames")]
    pub additional_hostnames: Vec<String>,
    /// What the hostname is used for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// Who may reach it.
    #[serde(default)]
    pub visibility: Visibility,
    /// GatewayClass of the gateway to use. Left out: the zone's, or the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub gateway_class: Option<String>,
    /// How long resolvers may keep the address, in seconds. Left out: 300. Aliases of a cloud have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub ttl: Option<i32>,
    /// For a wildcard: other namespaces may hold names below it, which are then theirs.
    #[serde(default)]
    pub allow_names_below: bool,
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
    /// The GatewayClass that is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_class: Option<String>,
    /// The HostnameZone that lets this namespace ask; left out where the operator's settings do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname_zone: Option<String>,
    /// The names as they are held: lower case, without a dot at the end, international names in their xn-- form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// Where the names lead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The records that were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<PublishedRecord>,
    /// The certificate's id at its issuer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_arn: Option<String>,
    /// The certificate that is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PublishedCertificate>,
    /// Who holds a name that this request waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<NameHolder>,
    /// Digest of the spec that is in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_spec_hash: Option<String>,
}

/// A record that was written.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct PublishedRecord {
    /// Its name.
    pub name: String,
    /// Its type: A, AAAA, CNAME or TXT.
    #[serde(rename = "type")]
    pub type_: String,
    /// What it says; of an alias the name that it follows.
    pub value: String,
}

/// A certificate as it is served.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PublishedCertificate {
    /// Who issued it, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// From when it is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// Until when it is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
    /// When its successor is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_at: Option<Time>,
    /// Its serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The Secret beside the gateway that it is in; none where a cloud keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
}

/// Who holds a name, and since when.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NameHolder {
    /// The name.
    pub hostname: String,
    /// The holder's namespace.
    pub namespace: String,
    /// The holder's name.
    pub name: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}
