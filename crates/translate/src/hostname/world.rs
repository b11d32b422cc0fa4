//! Everything that decides about hostnames, as it was last read: objects, and what providers said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::conditions::Reason;
use causeway_api::{
    DomainClaim, GatewayHostnameRequest, HostnameZone, Visibility, ZoneCertificates, ZoneDns, names,
};
use k8s_openapi::jiff::Timestamp;

use super::case::Want;
use super::name::Hostname;
use super::order::Order;
use super::zones::ZoneKey;
use crate::gateway::kinds::ObjectRef;

/// What the operator decides where requests and zones leave it open.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Namespace of the pool.
    pub edge_namespace: String,
    /// GatewayClass of requests whose zone names none.
    pub gateway_class: String,
    /// Where there is no HostnameZone: who writes records.
    pub dns: ZoneDns,
    /// Where there is no HostnameZone: who issues certificates.
    pub certificates: ZoneCertificates,
    /// Where there is no HostnameZone: the domains that may be asked for.
    pub domains: Vec<String>,
    /// Where there is neither: any domain may be asked for, if our own DNS server has it. Who asks for a name then says in which
    /// domain names must be held, for all namespaces, so this is for one machine.
    pub any_domain: bool,
    /// Certificates on a gateway.
    pub most_certificates: usize,
    /// Rules of routes on a gateway.
    pub most_rules: usize,
    /// Listeners on a Gateway object; more are in ListenerSets.
    pub most_listeners: usize,
    /// Where TLS is listened for.
    pub https_port: u16,
    /// Where HTTP is listened for, to redirect and to prove names; none for not at all.
    pub http_port: Option<u16>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            edge_namespace: names::EDGE_NAMESPACE.to_owned(),
            gateway_class: names::GATEWAY_CLASS.to_owned(),
            dns: ZoneDns::default(),
            certificates: ZoneCertificates::default(),
            domains: Vec::new(),
            any_domain: true,
            most_certificates: 20,
            most_rules: 100,
            most_listeners: 64,
            https_port: 443,
            http_port: Some(80),
        }
    }
}

/// Everything that decides about hostnames.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The time.
    pub now: Timestamp,
    /// What is left open.
    pub settings: Settings,
    /// What teams ask for.
    pub requests: BTreeMap<ObjectRef, Arc<GatewayHostnameRequest>>,
    /// Where they may ask.
    pub zones: BTreeMap<String, Arc<HostnameZone>>,
    /// Who holds which name, by the claims' own names.
    pub claims: BTreeMap<String, Arc<DomainClaim>>,
    /// The labels of each namespace.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// The GatewayClasses that there are, each with its controller.
    pub classes: BTreeMap<String, String>,
    /// Certificates that were asked for, by the names of their Secrets.
    pub orders: BTreeMap<String, Arc<Order>>,
    /// The gateways of the edge namespace.
    pub gateways: BTreeMap<String, Member>,
    /// What providers said of records that they were asked for, by zone, name and the uid of the request.
    pub records: BTreeMap<(ZoneKey, Hostname, String), Told>,
    /// What is wrong with the provider or the issuer of a zone.
    pub broken_zones: BTreeMap<ZoneKey, (Reason, String)>,
}

/// What a provider said of a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// What it was asked for.
    pub want: Want,
    /// What became of it.
    pub progress: Progress,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// It is served.
    Settled,
    /// It is accepted.
    Pending(String),
    /// It is refused, or could not be done so far.
    Failed(Reason, String),
}

/// A Gateway of the edge namespace as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Member {
    /// Whether it is one of the pool, and not somebody's own.
    pub is_ours: bool,
    /// Whether it is going away.
    pub deleting: bool,
    /// Its class.
    pub class: String,
    /// How widely it is seen.
    pub visibility: Visibility,
    /// The web application firewall that it has.
    pub waf: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The listeners for hostnames, of the Gateway and of the ListenerSets that were made for it.
    pub listeners: BTreeMap<Hostname, Listening>,
    /// Answers that prove names and are served: host and path.
    pub answers: BTreeSet<(String, String)>,
    /// Where it is reached.
    pub addresses: Vec<String>,
    /// Rules of the routes that name it.
    pub rules: usize,
    /// What keeps it from its work, in its own words: on its way, or in need of somebody.
    pub trouble: Option<(Reason, String)>,
}

/// A listener as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listening {
    /// The Secret or the ARN of its certificate.
    pub certificate: String,
    /// Whose routes it takes.
    pub namespace: String,
    /// The number of the ListenerSet that it is in; 0 for the Gateway itself.
    pub set: usize,
    /// Whether it serves in this very form.
    pub programmed: bool,
    /// Since when it is not said to, in seconds since 1970, only as a newer configuration is on its way.
    pub pending_since: Option<i64>,
    /// Why not, in the gateway's words: on its way, or in need of somebody.
    pub trouble: Option<(Reason, String)>,
}

impl Member {
    /// Whether one of its listeners is to serve this certificate.
    pub(super) fn names_certificate(&self, reference: &str) -> bool {
        self.listeners.values().any(|listening| listening.certificate == reference)
    }

    /// Whether it listens for a name of this namespace: nobody else's routes are taken.
    pub fn takes_routes_of(&self, namespace: &str) -> bool {
        self.listeners.values().any(|listening| listening.namespace == namespace)
    }
}

impl World {
    /// What became of this very change.
    pub fn told(&self, uid: &str, zone: &ZoneKey, name: &Hostname, want: &Want) -> Option<&Progress> {
        let told = self.records.get(&(zone.clone(), name.clone(), uid.to_owned()))?;
        (told.want == *want).then_some(&told.progress)
    }
}
