//! Hostnames that teams ask for: who may have which, who holds it, which certificate, which gateway, which records. One function
//! computes the whole picture from all objects and from what providers said last, so that no two requests can be told to
//! contradict each other. It decides; it calls nobody. What is to be done next follows from what is there, whoever made it and
//! whenever they were interrupted.
//!
//! A name goes through: held (a claim), certified (an order), served (a listener), published (records). A name that is no longer
//! asked for goes back the same way, but for a new one that takes its place: that one is published first.

mod case;
mod claims;
pub mod listeners;
pub mod name;
pub mod order;
mod pool;
pub mod status;
pub mod world;
mod zones;

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::HostnameGrantSpec;

pub use case::{Case, Certificate, Held, Publication, Want};
pub use claims::{Blocked, LetIn, claim_name, claim_spec, missing_origin};
pub use listeners::{DesiredGateway, Entry};
pub use name::Hostname;
pub use world::World;
pub use zones::{Origin, Refusal, Zone, ZoneKey};

/// What follows from a world.
#[derive(Debug, Default)]
pub struct Picture {
    /// Everybody who asks for something or has something, by uid.
    pub cases: BTreeMap<String, Case>,
    /// The gateways of the pool as they should be, by name; those that are not here should go.
    pub gateways: BTreeMap<String, DesiredGateway>,
    /// What each namespace holds; none at all where no domain is managed.
    pub grants: BTreeMap<String, HostnameGrantSpec>,
    /// How many names are held in each HostnameZone.
    pub zones: BTreeMap<String, usize>,
    /// The HostnameZones that something rests on, or is about to: a name or a certificate.
    pub zones_in_use: BTreeSet<String>,
}

/// What follows from this world.
pub fn picture(world: &World) -> Picture {
    let mut cases = case::cases(world);
    claims::settle(world, &mut cases);
    for case in cases.values_mut() {
        case.judge_certificate(world);
    }
    pool::assign(world, &mut cases);
    for case in cases.values_mut() {
        case.judge_service(world);
        case.judge_publication(world);
        case.retire(world);
    }
    Picture {
        gateways: listeners::desired(world, &cases),
        grants: grants(world, &cases),
        zones: zone_counts(world),
        zones_in_use: zones_in_use(world, &cases),
        cases,
    }
}

/// The domains in which a name must be held to be routed: those of the zones and of the settings, and whatever somebody holds a
/// name in, however he came to it. Who holds a name has it for himself, though nobody may ask for names there any more.
fn managed_domains(world: &World) -> BTreeSet<String> {
    let zones = world.zones.values().map(|zone| &zone.spec.domain);
    let mut domains: BTreeSet<String> =
        zones.chain(&world.settings.domains).map(|domain| normal(domain)).collect();
    for claim in world.claims.values() {
        let Ok(name) = Hostname::parse(&claim.spec.hostname) else { continue };
        // The id of a zone is its domain, unless a cloud has ids of its own.
        let zone = normal(claim.spec.domain.as_deref().unwrap_or(&claim.spec.zone_id));
        if claim.spec.hostname_zone.is_none() && name.is_in(&zone) {
            domains.insert(zone);
        } else if !domains.iter().any(|domain| name.is_in(domain)) {
            domains.insert(name.base().to_owned());
        }
    }
    domains
}

fn normal(text: &str) -> String {
    Hostname::parse_domain(text).map_or_else(|_| text.to_ascii_lowercase(), |name| name.as_str().to_owned())
}

/// What each namespace holds. A claim that is being made counts: its route may come in the next moment.
fn grants(world: &World, cases: &BTreeMap<String, Case>) -> BTreeMap<String, HostnameGrantSpec> {
    let zones: Vec<String> = managed_domains(world).into_iter().collect();
    if zones.is_empty() {
        return BTreeMap::new();
    }
    let mut held: BTreeMap<&str, BTreeSet<Hostname>> = BTreeMap::new();
    let mut holders: Vec<(&Hostname, &str)> = Vec::new();
    for case in cases.values() {
        for name in case.held.iter().map(|held| &held.name) {
            held.entry(&case.at.namespace).or_default().insert(name.clone());
            holders.push((name, case.at.namespace.as_str()));
        }
    }
    // Where the gateways are, routes answer for names that are being proven, and for no longer than that.
    let proving = cases.values().filter(|case| case.proving_gateway(world).is_some());
    for host in proving.flat_map(Case::proofs_by_http) {
        held.entry(world.settings.edge_namespace.as_str()).or_default().insert(host);
    }
    let none = BTreeSet::new();
    let grant = |namespace: &String| {
        let own = held.get(namespace.as_str()).unwrap_or(&none);
        let wildcards: Vec<&Hostname> = own.iter().filter(|name| name.is_wildcard()).collect();
        let except: BTreeSet<String> = if wildcards.is_empty() {
            BTreeSet::new()
        } else {
            let others = holders.iter().filter(|(_, holder)| holder != namespace);
            let below = others.filter(|(name, _)| wildcards.iter().any(|wildcard| wildcard.shadows(name)));
            below.map(|(name, _)| name.to_string()).collect()
        };
        HostnameGrantSpec {
            hostnames: own.iter().map(ToString::to_string).collect(),
            except: except.into_iter().collect(),
            zones: zones.clone(),
            // A namespace that came a moment ago has no grant yet, and is not among these.
            holders: if *namespace == world.settings.edge_namespace {
                held.keys().map(|holder| (*holder).to_owned()).collect()
            } else {
                Vec::new()
            },
        }
    };
    world.namespaces.keys().map(|namespace| (namespace.clone(), grant(namespace))).collect()
}

fn zone_counts(world: &World) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = world.zones.keys().map(|name| (name.clone(), 0)).collect();
    for claim in world.claims.values() {
        if let Some(count) = claim.spec.hostname_zone.as_ref().and_then(|zone| counts.get_mut(zone)) {
            *count += 1;
        }
    }
    counts
}

fn zones_in_use(world: &World, cases: &BTreeMap<String, Case>) -> BTreeSet<String> {
    let claims = world.claims.values().filter_map(|claim| claim.spec.hostname_zone.clone());
    let orders = world.orders.values().filter_map(|order| order.hostname_zone.clone());
    let wanted = cases.values().filter_map(|case| case.zone.as_ref()?.key.name.clone());
    claims.chain(orders).chain(wanted).collect()
}

/// Every HostnameZone that makes sense.
pub fn known_zones(world: &World) -> Vec<Zone> {
    world.zones.values().filter_map(|zone| zones::zone_of(zone, world).ok()).collect()
}

/// The zone that an order rests on, if it is still known.
pub fn zone_of_order(order: &order::Order, world: &World) -> Option<Zone> {
    let name = order.names.first().map(|name| Hostname::trusted(name))?;
    let zone = zones::zone_by_key(&order.zone(), &name, world)?;
    Some(zone.with_issuer(&order.issuer))
}

#[cfg(test)]
mod tests;
