//! `HostnameZone`: a DNS zone that teams may ask for names in, who may ask for which, and who writes records and issues
//! certificates there. Written by the platform team.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::{forbidden, required, rule};

/// A zone and its rules.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "causeway.dev",
    version = "v1alpha1",
    kind = "HostnameZone",
    plural = "hostnamezones",
    status = "HostnameZoneStatus",
    shortname = "hzone",
    category = "causeway",
    doc = "A DNS zone in which namespaces may ask for hostnames.",
    derive = "PartialEq",
    derive = "Default",
    selectable = ".spec.zoneId",
    printcolumn(name = "Zone", type_ = "string", json_path = ".spec.zoneId"),
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.domain"),
    printcolumn(name = "DNS", type_ = "string", json_path = ".spec.dns.provider"),
    printcolumn(name = "Issuer", type_ = "string", json_path = ".spec.certificates.issuer"),
    printcolumn(name = "Names", type_ = "integer", json_path = ".status.hostnames"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = forbidden("self.domain == oldSelf.domain", ".domain", "can't be changed, as records are where they were written: delete the object, which waits for what is held in it, and create another"),
    validation = forbidden("self.dns.provider == oldSelf.dns.provider", ".dns.provider", "can't be changed, as records are where they were written: delete the object, which waits for what is held in it, and create another"),
    validation = forbidden("(has(self.dns.server) ? self.dns.server : '') == (has(oldSelf.dns.server) ? oldSelf.dns.server : '')", ".dns.server", "can't be changed, as records are where they were written: delete the object, which waits for what is held in it, and create another"),
    validation = rule("!has(self.patterns) || self.patterns.all(p, p == self.domain || p.endsWith('.' + self.domain))", ".patterns", "must all end with domain: no other name is in this zone"),
    validation = rule("self.certificates.issuer != 'aws' || !has(self.gatewayClass) || self.gatewayClass != 'causeway'", ".gatewayClass", "can't be causeway with issuer aws, whose keys never leave the cloud: write a class of AWS load balancers, for example aws-alb, or another issuer")
)]
pub struct HostnameZoneSpec {
    /// The DNS provider's id of the zone, as requests name it.
    #[schemars(length(max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9][-A-Za-z0-9._/]*$')")
        .message("must be the id of a DNS zone as its provider writes it, for example Z0123456789ABCDEFGHIJ or example.com"))]
    pub zone_id: String,
    /// The zone's own name; every hostname in it ends with this.
    #[schemars(schema_with = "crate::schema::hostname")]
    pub domain: String,
    /// Who writes records.
    #[serde(default)]
    pub dns: ZoneDns,
    /// Who issues certificates.
    #[serde(default)]
    pub certificates: ZoneCertificates,
    /// Namespaces that may ask. Left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Names that may be asked for: a name, or `*.team.example.com` for every name below, wildcards too. `{namespace}` stands
    /// for the namespace that asks. Left out: every name in the zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "name_patterns")]
    pub patterns: Vec<String>,
    /// How many hostnames a namespace may hold in this zone. Left out: as many as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub quota: Option<i32>,
    /// GatewayClass of requests that name none. Left out: the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub gateway_class: Option<String>,
}

/// Who writes records.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = required("self.provider != 'rfc2136' || has(self.server)", ".server", "is needed for rfc2136: the address of the zone's primary server, for example 192.0.2.53 or ns1.example.com:53"),
    validation = rule("!has(self.answeredBy) || self.provider == 'rfc2136'", ".answeredBy", "is for rfc2136 alone: leave it out"),
    validation = required("self.provider != 'rfc2136' || has(self.credentialsSecret)", ".credentialsSecret", "is needed for rfc2136: the Secret with the TSIG key (entries keyName, algorithm, secret)")
)]
pub struct ZoneDns {
    /// The provider.
    #[serde(default)]
    pub provider: DnsProviderKind,
    /// Secret in the operator's namespace with what the provider asks for. For rfc2136: `keyName`, `algorithm` and `secret`
    /// (base64) of the TSIG key. For aws, where the usual ways of the environment don't do: `accessKeyId` and `secretAccessKey`, or
    /// `roleArn` of a role to act as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub credentials_secret: Option<String>,
    /// For rfc2136: the zone's primary server, with a port where that is not 53.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 261))]
    #[x_kube(validation = Rule::new("self.matches('^[^/@\\\\s]+$')")
        .message("must be the primary server's name or address, with a port where that is not 53, for example 192.0.2.53, ns1.example.com:5353 or [2001:db8::53]:53"))]
    pub server: Option<String>,
    /// For rfc2136: further servers that must answer as the primary does before a record counts as published, or as removed: the
    /// secondaries that clients ask. Left out: the primary alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "name_servers")]
    pub answered_by: Vec<String>,
    /// For aws: the region of the API's endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub region: Option<String>,
    /// For aws: another endpoint than the region's, for tests and private endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub endpoint: Option<String>,
}

/// Who issues certificates.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = required("self.issuer != 'acme' || has(self.directory)", ".directory", "is needed for acme: the URL of the directory, for example https://acme-v02.api.letsencrypt.org/directory")
)]
pub struct ZoneCertificates {
    /// The issuer.
    #[serde(default)]
    pub issuer: IssuerKind,
    /// Secret in the operator's namespace with what the issuer asks for. For acme: `eabKeyId` and `eabKey`, where the issuer
    /// wants an external account, and `ca.crt` with the roots that its own API is trusted by. For aws as in `dns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub credentials_secret: Option<String>,
    /// For acme: the URL of the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new("self.startsWith('https://')")
        .message("must be the https:// URL of an ACME directory, for example https://acme-v02.api.letsencrypt.org/directory"))]
    pub directory: Option<String>,
    /// For acme: where the issuer writes to when something is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 254))]
    #[x_kube(validation = Rule::new("self.matches('^[^@\\\\s:]+@[^@\\\\s]+$')")
        .message("must be an address of mail alone, for example platform@example.com"))]
    pub email: Option<String>,
    /// For acme: how names are proved.
    #[serde(default)]
    pub challenge: ChallengeKind,
    /// For aws: the region that certificates are kept in, which is that of the load balancers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub region: Option<String>,
    /// For aws: another endpoint than the region's, for tests and private endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub endpoint: Option<String>,
}

/// Who writes records.
#[derive(
    JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[serde(rename_all = "lowercase")]
pub enum DnsProviderKind {
    /// Causeway's own DNS server.
    #[default]
    Local,
    /// Dynamic update with a TSIG key: BIND, Knot, PowerDNS and others.
    Rfc2136,
    /// Route 53.
    Aws,
}

/// Who issues certificates.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "lowercase")]
pub enum IssuerKind {
    /// Causeway's own authority.
    #[default]
    Local,
    /// An ACME directory, as Let's Encrypt has.
    Acme,
    /// AWS Certificate Manager; for class aws-alb only, since its keys never leave the cloud.
    Aws,
}

/// How names are proved to an ACME issuer.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChallengeKind {
    /// By a TXT record; the only way for wildcards.
    #[default]
    #[serde(rename = "DNS-01")]
    Dns01,
    /// By a file that the gateway serves on port 80.
    #[serde(rename = "HTTP-01")]
    Http01,
}

/// What was observed of a `HostnameZone`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HostnameZoneStatus {
    /// Ready: its providers can be reached and let themselves be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hostnames that are held in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostnames: Option<i32>,
}

fn name_servers(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string", "minLength": 1, "maxLength": 261,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^[^/@\\\\s]+$')",
                "message": "must be a server's name or address, with a port where that is not 53, for example 192.0.2.54, ns2.example.com:5353 or [2001:db8::54]:53",
            }],
        },
    })
}

fn name_patterns(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let part = "([-a-z0-9]|[{]namespace[}])+";
    schemars::json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string", "minLength": 1, "maxLength": 253,
            "x-kubernetes-validations": [{
                "rule": format!("self.matches('^([*][.])?{part}([.]{part})*$')"),
                "message": "must be a lower-case DNS name, where {namespace} stands for the namespace that asks, and a wildcard only as its whole first label, for example shop.example.com or *.{namespace}.example.com",
            }],
        },
    })
}
