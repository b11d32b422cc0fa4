//! Zones: who may ask for which names, and who writes records and issues certificates there.

use std::collections::BTreeMap;

use causeway_api::conditions::Reason;
use causeway_api::{
    ChallengeKind, DnsProviderKind, DomainClaimSpec, HostnameZone, IssuerKind, ZoneCertificates, ZoneDns,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::core::{Selector, SelectorExt as _};
use serde::{Deserialize, Serialize};

use super::name::Hostname;
use super::world::World;

/// Which zone, for those who keep something by it: the HostnameZone if there is one, and the provider's id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneKey {
    /// The HostnameZone; none for the operator's settings.
    pub name: Option<String>,
    /// The provider's id of it.
    pub id: String,
    /// Of one of the operator's settings: what those said of it. Left out of what was written before that was remembered.
    pub origin: Option<Origin>,
}

/// A zone as the operator's settings said: they may be others by the time that its records are removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Who writes records.
    pub dns: ZoneDns,
    /// Its own name.
    pub domain: String,
}

impl Origin {
    /// What the settings say of a zone of this name. Route 53 is one service for all regions: another region is no other place.
    fn new(dns: &ZoneDns, domain: String) -> Self {
        let region = dns.region.clone().filter(|_| dns.provider != DnsProviderKind::Aws);
        Self { dns: ZoneDns { region, ..dns.clone() }, domain }
    }

    /// Whether both are one place, given the same id.
    fn is_that_of(&self, other: &Self) -> bool {
        same_place(&self.dns, &other.dns)
            && (self.dns.provider == DnsProviderKind::Aws || self.domain == other.domain)
    }
}

/// Whether records are written to the same servers; with which credentials is another matter.
fn same_place(one: &ZoneDns, other: &ZoneDns) -> bool {
    (one.provider, &one.server) == (other.provider, &other.server)
}

impl ZoneKey {
    /// The zone of a claim.
    pub fn of_claim(claim: &DomainClaimSpec) -> Self {
        let origin = claim.dns.as_ref().zip(claim.domain.clone());
        Self {
            name: claim.hostname_zone.clone(),
            id: claim.zone_id.clone(),
            origin: origin.map(|(dns, domain)| Origin::new(dns, domain)),
        }
    }

    /// Whether both are one place, as far as is known of them.
    pub(super) fn is_that_of(&self, zone: &Self) -> bool {
        let origins = self.origin.as_ref().zip(zone.origin.as_ref());
        (&self.name, &self.id) == (&zone.name, &zone.id)
            && origins.is_none_or(|(one, other)| one.is_that_of(other))
    }

    /// What can be done where nobody knows any more where its records are.
    pub(super) fn remedy(&self) -> String {
        match &self.name {
            Some(zone) => format!("as its HostnameZone {zone} is gone: make it again"),
            None => format!(
                "as the operator is not told of zone {} any more: start it with the --hostname-dns and --hostname-domain that the \
                 zone was written by",
                self.id
            ),
        }
    }

    /// Who has its records, for those who wonder why it is not the one of the settings; nothing where it is.
    pub(super) fn provider(&self, world: &World) -> String {
        let others = self.origin.as_ref().filter(|origin| !same_place(&origin.dns, &world.settings.dns));
        let Some(origin) = others else { return String::new() };
        let provider = match origin.dns.provider {
            DnsProviderKind::Local => "our own DNS server",
            DnsProviderKind::Rfc2136 => "dynamic updates",
            DnsProviderKind::Aws => "Route 53",
        };
        format!(", which the operator's settings of then had written to {provider},")
    }
}

/// A zone with all that its providers need to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone {
    /// Which one.
    pub key: ZoneKey,
    /// Its own name.
    pub domain: Hostname,
    /// Who writes records.
    pub dns: ZoneDns,
    /// Who issues certificates.
    pub certificates: ZoneCertificates,
    /// The class of requests that name none.
    pub gateway_class: String,
    /// Names that a namespace may hold.
    pub quota: Option<usize>,
}

impl Zone {
    /// Tells issuers apart: a certificate of another one is another certificate.
    pub fn issuer(&self) -> String {
        let certificates = &self.certificates;
        match certificates.issuer {
            IssuerKind::Local => "local".to_owned(),
            IssuerKind::Acme => {
                format!("acme {}", certificates.directory.as_deref().unwrap_or_default())
            }
            IssuerKind::Aws => format!("aws {}", certificates.region.as_deref().unwrap_or_default()),
        }
    }

    /// The zone as it was for an order of this issuer, in the words of [`Self::issuer`]. Credentials are those of today, if the
    /// issuer is of the same kind.
    #[must_use]
    pub(super) fn with_issuer(mut self, issuer: &str) -> Self {
        if self.issuer() == issuer {
            return self;
        }
        let (kind, place) = issuer.split_once(' ').unwrap_or((issuer, ""));
        let place = Some(place.to_owned()).filter(|place| !place.is_empty());
        let today = self.certificates;
        let (issuer, directory, region) = match kind {
            "acme" => (IssuerKind::Acme, place, None),
            "aws" => (IssuerKind::Aws, None, place),
            _ => (IssuerKind::Local, None, None),
        };
        self.certificates = if today.issuer == issuer {
            ZoneCertificates { directory, region, ..today }
        } else {
            ZoneCertificates { issuer, directory, region, ..ZoneCertificates::default() }
        };
        self
    }
}

/// Why a request can't be carried out as it is written: a reason, and a message with the field and the remedy.
pub type Refusal = (Reason, String);

/// The zone of a HostnameZone.
pub(super) fn zone_of(object: &HostnameZone, world: &World) -> Result<Zone, String> {
    let spec = &object.spec;
    Ok(Zone {
        key: ZoneKey { name: Some(object.name_any()), id: spec.zone_id.clone(), origin: None },
        domain: domain(&spec.domain)?,
        dns: spec.dns.clone(),
        certificates: spec.certificates.clone(),
        gateway_class: spec.gateway_class.clone().unwrap_or_else(|| world.settings.gateway_class.clone()),
        quota: spec.quota.and_then(|quota| usize::try_from(quota).ok()),
    })
}

/// The zone by which a claim's records are written and removed, if it is still known.
pub(super) fn zone_by_key(key: &ZoneKey, name: &Hostname, world: &World) -> Option<Zone> {
    match &key.name {
        Some(zone) => {
            let found = zone_of(world.zones.get(zone)?, world).ok()?;
            // Records are where they were written.
            Some(Zone { key: key.clone(), ..found })
        }
        None => of_key(key, name, world),
    }
}

/// The zone of the settings that something was written in. What may be asked for by now is another matter, and so is who writes
/// records by now. Of what does not say, today's provider is asked. The id is the domain, but for Route 53, which knows the domain of
/// its ids itself: there the one that the settings know today is as good as the one of then.
fn of_key(key: &ZoneKey, name: &Hostname, world: &World) -> Option<Zone> {
    let provider = world.settings.dns.provider;
    let today = || {
        let is_aws = provider == DnsProviderKind::Aws;
        is_aws.then(|| of_settings(&key.id, std::slice::from_ref(name), world).ok()).flatten()
    };
    if let Some(Origin { dns, domain }) = &key.origin {
        let today = today().filter(|_| dns.provider == DnsProviderKind::Aws);
        let then = || Some(settings_zone(&key.id, Hostname::parse_domain(domain).ok()?, world));
        return Some(Zone { key: key.clone(), dns: dns.clone(), ..today.or_else(then)? });
    }
    if provider == DnsProviderKind::Aws {
        return today();
    }
    let domain = Hostname::parse_domain(&key.id).ok()?;
    // The proof of a name may be beside it, as its mark is.
    name.is_in(domain.as_str()).then(|| settings_zone(&key.id, domain, world))
}

/// The zone that lets this namespace ask for these names.
///
/// # Errors
/// Why none does.
pub(super) fn admit(
    zone_id: &str,
    names: &[Hostname],
    namespace: &str,
    world: &World,
) -> Result<Zone, Refusal> {
    if world.zones.is_empty() {
        let zone = of_settings(zone_id, names, world)?;
        named_rightly(&zone, namespace, world)?;
        return Ok(zone);
    }
    let mut refusal = None;
    for object in world.zones.values().filter(|zone| zone.spec.zone_id == zone_id) {
        match admits(object, names, namespace, world) {
            Ok(zone) => return Ok(zone),
            Err(why) => refusal = refusal.or(Some(why)),
        }
    }
    Err(refusal.unwrap_or_else(|| not_found(zone_id, namespace, world)))
}

fn not_found(zone_id: &str, namespace: &str, world: &World) -> Refusal {
    let known: Vec<&str> = world
        .zones
        .values()
        .filter(|zone| selects(zone.spec.namespace_selector.as_ref(), namespace, world))
        .map(|zone| zone.spec.zone_id.as_str())
        .collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    (
        Reason::ZoneNotFound,
        format!(
            "spec.zoneId: there is no HostnameZone with zoneId {zone_id}: write one that this namespace may use ({known}), or ask \
             the platform team for it"
        ),
    )
}

fn admits(
    object: &HostnameZone,
    names: &[Hostname],
    namespace: &str,
    world: &World,
) -> Result<Zone, Refusal> {
    let (name, spec) = (object.name_any(), &object.spec);
    let zone = zone_of(object, world)
        .map_err(|why| (Reason::ZoneNotFound, format!("HostnameZone {name}: {why}")))?;
    if object.metadata.deletion_timestamp.is_some() {
        let message = format!(
            "HostnameZone {name} is being deleted, and goes when nothing is held in it any more: ask for a name in another zone, and \
             delete this request"
        );
        return Err((Reason::ZoneNotFound, message));
    }
    if !selects(spec.namespace_selector.as_ref(), namespace, world) {
        let message = format!(
            "HostnameZone {name} is not for namespace {namespace}: ask the platform team to let its namespaceSelector choose it"
        );
        return Err((Reason::NotGranted, message));
    }
    inside(&zone.domain, names)?;
    let patterns: Vec<String> =
        spec.patterns.iter().map(|pattern| pattern.replace("{namespace}", namespace)).collect();
    for asked in names {
        let allowed = patterns.is_empty() || patterns.iter().any(|pattern| fits(asked, pattern));
        if !allowed {
            let message = format!(
                "HostnameZone {name} does not let namespace {namespace} ask for {asked}: write a name like {}, or ask the platform \
                 team to add it to the zone's patterns",
                patterns.join(" or ")
            );
            return Err((Reason::NotGranted, message));
        }
    }
    let certificates = &zone.certificates;
    let by_http = certificates.issuer == IssuerKind::Acme && certificates.challenge == ChallengeKind::Http01;
    if by_http && world.settings.http_port.is_none() {
        let message = format!(
            "HostnameZone {name} wants names proven by HTTP-01, and gateways have no port for HTTP: ask the platform team for \
             challenge DNS-01 (spec.certificates.challenge)"
        );
        return Err((Reason::InvalidSpec, message));
    }
    Ok(zone)
}

/// Whether a name is what a pattern says, or below what it says.
fn fits(name: &Hostname, pattern: &str) -> bool {
    let Ok(pattern) = Hostname::parse(pattern) else { return false };
    *name == pattern || pattern.shadows(name)
}

fn inside(domain: &Hostname, names: &[Hostname]) -> Result<(), Refusal> {
    for (index, name) in names.iter().enumerate() {
        if !name.is_in(domain.as_str()) {
            let field =
                if index == 0 { "spec.hostname".to_owned() } else { "spec.additionalHostnames".to_owned() };
            let message = format!(
                "{field}: {name} is not in the zone, whose names end with {domain}: write one that does, or another zoneId"
            );
            return Err((Reason::InvalidSpec, message));
        }
    }
    Ok(())
}

/// Whether the id of a zone of the operator's settings is one that nobody else's zone can have, nor be inside of.
fn named_rightly(zone: &Zone, namespace: &str, world: &World) -> Result<(), Refusal> {
    let (id, domain) = (&zone.key.id, &zone.domain);
    // Route 53 has ids of its own, without a dot; whether this one is that of the domain is asked there. The name of a zone would be
    // another spelling, and so another zone to all that compares them; it may be in use since before that was the provider.
    let is_own = zone.dns.provider == DnsProviderKind::Aws;
    if is_own && id.contains('.') && !world.claims.values().any(|claim| claim.spec.zone_id == *id) {
        let message =
            format!("spec.zoneId: {id} is the name of a zone: write the id that Route 53 has given it");
        return Err((Reason::ZoneNotFound, message));
    }
    if !is_own && Hostname::parse_domain(id).ok().as_ref() != Some(domain) {
        let message = format!("spec.zoneId: {id} is not the zone that these names are in: write {domain}");
        return Err((Reason::ZoneNotFound, message));
    }
    if !world.settings.domains.is_empty() {
        return Ok(());
    }
    // Where any domain may be asked for, those that are in use are others' matter, what is above and below them, too.
    let used = world
        .claims
        .values()
        .filter_map(|claim| Some((Hostname::parse_domain(&claim.spec.zone_id).ok()?, &claim.spec)));
    let used: Vec<_> = used.collect();
    if used.iter().any(|(theirs, _)| theirs == domain) {
        return Ok(());
    }
    for (theirs, other) in used.into_iter().filter(|(_, other)| other.owner_ref.namespace != namespace) {
        if theirs.is_in(domain.as_str()) || domain.is_in(theirs.as_str()) {
            let message = format!(
                "spec.zoneId: {domain} overlaps with zone {theirs}, in which GatewayHostnameRequest {}/{} holds {}: ask for the name \
                 in that zone",
                other.owner_ref.namespace, other.owner_ref.name, other.hostname
            );
            return Err((Reason::Shadowed, message));
        }
    }
    Ok(())
}

/// The zone that the operator's settings make of an id.
fn of_settings(zone_id: &str, names: &[Hostname], world: &World) -> Result<Zone, Refusal> {
    let settings = &world.settings;
    let first = names.first().map(Hostname::as_str).unwrap_or_default();
    let allowed: Vec<Hostname> =
        settings.domains.iter().filter_map(|domain| Hostname::parse_domain(domain).ok()).collect();
    let domain = if settings.domains.is_empty() {
        if settings.dns.provider != DnsProviderKind::Local || !settings.any_domain {
            let message = "there is no HostnameZone, and the operator was given no domains (--hostname-domain): ask the platform \
                           team for a zone";
            return Err((Reason::ZoneNotFound, message.to_owned()));
        }
        Hostname::parse_domain(zone_id).map_err(|_| {
            let message = format!(
                "spec.zoneId: {zone_id} is not a domain: without a HostnameZone write the domain that {first} is in"
            );
            (Reason::ZoneNotFound, message)
        })?
    } else {
        domain_of_all(names, &allowed)?
    };
    inside(&domain, names)?;
    // However its name is spelled, it is one zone.
    let is_name = settings.dns.provider != DnsProviderKind::Aws
        && Hostname::parse_domain(zone_id).is_ok_and(|name| name == domain);
    let id = if is_name { domain.to_string() } else { zone_id.to_owned() };
    Ok(settings_zone(&id, domain, world))
}

fn settings_zone(id: &str, domain: Hostname, world: &World) -> Zone {
    let settings = &world.settings;
    let origin = Origin::new(&settings.dns, domain.to_string());
    Zone {
        dns: origin.dns.clone(),
        key: ZoneKey { name: None, id: id.to_owned(), origin: Some(origin) },
        domain,
        certificates: settings.certificates.clone(),
        gateway_class: settings.gateway_class.clone(),
        quota: None,
    }
}

/// The longest of the domains that each name is in, which is to be the same for all: records and claims of a name are in one zone,
/// whichever others it was asked for with.
fn domain_of_all(names: &[Hostname], allowed: &[Hostname]) -> Result<Hostname, Refusal> {
    let mut found: Option<(&Hostname, &Hostname)> = None;
    for name in names {
        let fitting = allowed.iter().filter(|domain| name.is_in(domain.as_str()));
        let Some(domain) = fitting.max_by_key(|domain| domain.as_str().len()) else {
            let field = if found.is_none() { "spec.hostname" } else { "spec.additionalHostnames" };
            let domains: Vec<&str> = allowed.iter().map(Hostname::as_str).collect();
            let message = format!(
                "{field}: {name} is in none of the domains that may be asked for: write a name that ends with {}",
                domains.join(" or ")
            );
            return Err((Reason::NotGranted, message));
        };
        match found {
            Some((first, other)) if other != domain => {
                let message = format!(
                    "spec.additionalHostnames: {name} is in domain {domain}, and {first} is in {other}: ask for it in a request of \
                     its own"
                );
                return Err((Reason::InvalidSpec, message));
            }
            Some(_) => {}
            None => found = Some((name, domain)),
        }
    }
    let found = found.map(|(_, domain)| domain.clone());
    found.ok_or_else(|| (Reason::InvalidSpec, "spec.hostname: there is none".to_owned()))
}

fn domain(text: &str) -> Result<Hostname, String> {
    Hostname::parse_domain(text).map_err(|why| format!("spec.domain: {why}"))
}

fn selects(selector: Option<&LabelSelector>, namespace: &str, world: &World) -> bool {
    let none = BTreeMap::new();
    let labels = world.namespaces.get(namespace).unwrap_or(&none);
    match selector {
        None => true,
        Some(selector) => chooses(selector, labels),
    }
}

/// Whether labels are chosen; a selector that makes no sense chooses nothing.
pub(super) fn chooses(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}
