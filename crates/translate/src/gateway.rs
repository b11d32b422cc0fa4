//! Gateway API for classes whose `controllerName` is ours: from all objects to what every Gateway runs and to what the
//! status of each object says. One function computes the whole picture, so that nothing in it can contradict itself:
//! whatever changes, who controls asks for the picture again.

mod addresses;
mod attach;
mod backends;
pub mod certificates;
mod class;
pub mod features;
mod hosts;
pub mod kinds;
mod listeners;
mod own;
pub mod picture;
mod plan;
mod policies;
mod report;
mod routes;
mod rules;
mod secrets;
mod status;
mod traffic;
pub mod world;

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

pub use picture::{GatewayPicture, Picture};
pub use world::World;

use backends::Backends;
use kinds::{Gateway, ListenerSet, ObjectRef};
use own::{Own, attach_all};
use plan::Built;
use policies::Policies;
use routes::Parents;
use secrets::Lookup;
use traffic::TrafficPolicies;
use world::Observed;

/// Whose classes are ours, and who writes our parts of a status.
pub const CONTROLLER_NAME: &str = "causeway.dev/gateway";

/// What follows from a world at this moment. The same world gives the same picture, but for the age of certificates
/// and the time that new transitions in statuses get.
pub fn picture(world: &World, now: Timestamp) -> Picture {
    let lookup = Lookup::new(world, now);
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let classes = class::classes(world);
    let mut uses = class::Uses::default();

    let mut sets: BTreeMap<ObjectRef, Vec<&ListenerSet>> = BTreeMap::new();
    for set in world.listener_sets.values() {
        if let Some(parent) = listeners::parent_of(set) {
            sets.entry(parent).or_default().push(set);
        }
    }
    let mut picture = Picture::default();
    let mut owns = Vec::new();
    for gateway in world.gateways.values() {
        let Some(class) = classes.get(gateway.spec.gateway_class_name.as_str()) else {
            if !class::is_of_others(&gateway.spec.gateway_class_name, world) {
                picture.nobodys.insert(gateway.meta.at.clone());
            }
            continue;
        };
        let sets = sets.get(&gateway.meta.at).map(Vec::as_slice).unwrap_or_default();
        owns.push(Own::new(gateway, class, sets, &mut uses, &lookup));
    }
    let parents = parents(&owns);

    let policies = Policies::of(&lookup);
    let backends = Backends::new(&lookup, &policies);
    let mut routes = routes::routes(world, &parents);
    let states = attach_all(&mut owns, &mut routes, &parents, &backends);
    let traffic = TrafficPolicies::of(world, &owns, &parents);
    let built: Vec<Built> = owns.iter().map(|own| plan::build(own, &routes, &backends, &traffic)).collect();

    for (name, class) in &classes {
        if let Some(object) = world.classes.get(*name) {
            picture.classes.insert((*name).to_owned(), class::status(object, class, &now));
        }
    }
    for (place, (route, parents)) in routes.iter().zip(&states).enumerate() {
        let status = report::route_status(route, parents, &built, place, &now);
        picture.routes.insert((route.kind, route.meta.at.clone()), status);
    }
    picture.policies = report::policy_statuses(&policies, &owns, &routes, &lookup, &now);
    picture.traffic_policies = report::traffic_statuses(&traffic, &now);
    picture.parameters = uses.statuses(world, &now);
    let nothing = Observed::default();
    for (own, built) in owns.into_iter().zip(built) {
        let observed = world.observed.get(&own.gateway.meta.at).unwrap_or(&nothing);
        let standing = report::standing(&own, observed);
        for (place, set) in own.sets.iter().enumerate() {
            let status = report::set_status(&own, place, &standing, &now);
            picture.listener_sets.insert(set.object.meta.at.clone(), status);
        }
        let status = report::gateway_status(&own, &standing, observed, &now);
        let at = own.gateway.meta.at.clone();
        picture.gateways.insert(at, gateway_picture(own, built, standing.accepted.holds, status));
    }
    picture.references = lookup.references.into_inner();
    picture
}

/// Where routes may attach.
fn parents(owns: &[Own<'_>]) -> Parents {
    let mut parents = Parents::default();
    for (place, own) in owns.iter().enumerate() {
        parents.gateways.insert(own.gateway.meta.at.clone(), place);
        for (set, found) in own.sets.iter().enumerate() {
            parents.sets.insert(found.object.meta.at.clone(), (place, set));
        }
    }
    parents
}

fn gateway_picture(own: Own<'_>, built: Built, accepted: bool, status: picture::Status) -> GatewayPicture {
    let gateway: &Gateway = own.gateway;
    let infrastructure = gateway.spec.infrastructure.clone().unwrap_or_default();
    let Built { plan, backends, certificates, authorities, ports, lost: _ } = built;
    GatewayPicture {
        generation: gateway.meta.generation,
        accepted,
        plan,
        backends,
        certificates,
        authorities,
        ports,
        addresses: own.requested.good,
        labels: infrastructure.labels,
        annotations: infrastructure.annotations,
        parameters: own.parameters.unwrap_or_default(),
        status,
    }
}

#[cfg(test)]
mod tests;
