//! What would be done for hostnames, said and not done. It looks one step further than a pass does: as if every name that is free
//! had been claimed already, so that its certificate, its gateway and its records are part of the plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use causeway_api::{DomainClaim, DomainClaimStatus};
use causeway_providers::{
    Name,
    dns::{Change, Wanted},
};
use causeway_translate::hostname::{
    self, Case, Hostname, Picture, World, Zone, ZoneKey, claim_name, claim_spec,
};

use super::{
    records::{Records, wish},
    status::said,
};

/// The plan, a line for each thing that would be done (`+`, `-`, `~`), is as it should be (`=`) or can't be done (`!`).
pub(super) async fn plan(world: &World, records: &Records) -> Vec<String> {
    let now = hostname::picture(world);
    let claimed = claimed(world, &now);
    let next = hostname::picture(&claimed);
    let mut lines: Vec<String> = next.cases.values().flat_map(|case| of_case(case, &now)).collect();
    lines.extend(gateways(&claimed, &next));
    lines.extend(in_dns(&claimed, &next, records).await);
    lines
}

/// The world after every claim that can be made.
fn claimed(world: &World, picture: &Picture) -> World {
    let mut world = world.clone();
    for case in picture.cases.values() {
        let Some(zone) = &case.zone else { continue };
        for name in &case.claim {
            let mut claim = DomainClaim::new(&claim_name(&zone.key.id, name), claim_spec(case, zone, name));
            claim.metadata.uid = Some(case.uid.clone());
            claim.status = Some(DomainClaimStatus { may_have_records: true, ..DomainClaimStatus::default() });
            world.claims.insert(claim_name(&zone.key.id, name), Arc::new(claim));
        }
    }
    world
}

fn of_case(case: &Case, now: &Picture) -> Vec<String> {
    let at = &case.at;
    let mut lines = Vec::new();
    let blocked = case.blocked.as_ref().map(|blocked| &blocked.message);
    let refused = [&case.refusal, &case.no_gateway].into_iter().flatten().map(|(_, message)| message);
    lines.extend(refused.chain(blocked).map(|message| format!("! {at}: {message}")));
    let claims = now.cases.get(&case.uid).into_iter().flat_map(|case| &case.claim);
    lines.extend(claims.map(|name| format!("+ claim of {name} for {at}")));
    if let (Some(_), Some(zone)) = (case.certificate.start, &case.certificate.zone) {
        let names: Vec<String> = case.certificate.names.iter().map(ToString::to_string).collect();
        let verb = if case.certificate.serve.is_some() { "~" } else { "+" };
        lines.push(format!("{verb} certificate for {} by {}", names.join(", "), zone.issuer()));
    }
    lines.extend(case.remove_orders.iter().map(|order| format!("- certificate {order} of {at}")));
    lines.extend(case.release.iter().map(|claim| format!("- claim {claim} of {at}")));
    lines
}

fn gateways(world: &World, picture: &Picture) -> Vec<String> {
    let new = picture.gateways.iter().filter(|(name, _)| !world.gateways.contains_key(*name));
    let wanted: BTreeSet<&str> = picture
        .gateways
        .keys()
        .map(String::as_str)
        .chain(picture.cases.values().filter_map(|case| case.gateway.as_deref()))
        .collect();
    let gone =
        world.gateways.iter().filter(|(name, member)| member.is_ours && !wanted.contains(name.as_str()));
    new.map(|(name, gateway)| format!("+ Gateway {name} of class {}", gateway.class))
        .chain(gone.map(|(name, _)| format!("- Gateway {name}")))
        .collect()
}

/// What would be done in a zone.
struct Planned {
    zone: Zone,
    changes: Vec<Change>,
    /// Names that wait for the address of a gateway.
    later: Vec<(Hostname, String)>,
}

impl Planned {
    fn none(zone: &Zone) -> Self {
        Self { zone: zone.clone(), changes: Vec::new(), later: Vec::new() }
    }
}

/// What each zone's provider would write, by its own plan.
async fn in_dns(world: &World, picture: &Picture, records: &Records) -> Vec<String> {
    let mut zones: BTreeMap<ZoneKey, Planned> = BTreeMap::new();
    for case in picture.cases.values() {
        let object = case.at.to_string();
        let mut planned: BTreeSet<&Hostname> = BTreeSet::new();
        for publication in &case.publications {
            planned.insert(&publication.name);
            let change = change(&publication.name, &object, wish(&publication.want));
            let entry = zones.entry(publication.zone.key.clone());
            entry.or_insert_with(|| Planned::none(&publication.zone)).changes.extend(change);
        }
        let (Some(zone), Some(gateway)) = (&case.zone, &case.gateway) else { continue };
        let member = world.gateways.get(gateway);
        let found = member.map(|member| member.addresses.as_slice()).unwrap_or_default();
        let addresses: BTreeSet<IpAddr> = found.iter().filter_map(|address| address.parse().ok()).collect();
        for name in case.names.iter().filter(|name| !planned.contains(name)) {
            let entry = zones.entry(zone.key.clone());
            let planned = entry.or_insert_with(|| Planned::none(zone));
            if addresses.is_empty() {
                planned.later.push((name.clone(), gateway.clone()));
            } else {
                let want = Wanted::Addresses { addresses: addresses.clone(), ttl: case.ttl() };
                planned.changes.extend(change(name, &object, Some(want)));
            }
        }
    }
    let mut lines = Vec::new();
    for planned in zones.into_values() {
        match of_zone(&planned, records).await {
            Ok(said) => lines.extend(said),
            Err(error) => lines.push(format!("! zone {}: {}", planned.zone.key.id, said(&error).1)),
        }
    }
    lines
}

fn change(name: &Hostname, object: &str, want: Option<Wanted>) -> Option<Change> {
    let name = Name::parse(name.as_str()).ok()?;
    Some(Change { name, object: object.to_owned(), want: want?, settled: None })
}

async fn of_zone(planned: &Planned, records: &Records) -> Result<Vec<String>, causeway_providers::Error> {
    let Planned { zone, changes, later } = planned;
    let (provider, there) = records.provider(zone).await?;
    let mut lines: Vec<String> = if changes.is_empty() {
        vec![format!("zone {}", there.domain)]
    } else {
        provider.plan(&there, changes).await?.to_string().lines().map(ToOwned::to_owned).collect()
    };
    let names: Vec<Name> = later.iter().filter_map(|(name, _)| Name::parse(name.as_str()).ok()).collect();
    let found = provider.observe(&there, &names).await?;
    for (name, gateway) in later {
        let there = found.iter().find(|(found, _)| found.as_str() == name.as_str()).map(|(_, found)| found);
        lines.push(match there.filter(|found| !found.records.is_empty()) {
            Some(found) if found.owners.is_empty() => {
                format!("! {name} has {found}, which nobody marked as ours: it would not be touched")
            }
            Some(found) => format!("~ {name} {found} → the address of Gateway {gateway}"),
            None => format!("+ {name} → the address of Gateway {gateway}"),
        });
    }
    Ok(lines)
}
