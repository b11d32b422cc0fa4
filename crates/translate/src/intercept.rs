//! Intercepts: from InterceptRequests and what they name to the carriers that stand in front of Services or in the place of
//! containers, what those carriers run, and why a request is not carried out. Pure.
//!
//! A Service has one carrier, whoever asks for its traffic, and a container has one: so two requests can only meet in one place,
//! and there it is decided whether their rules can be told apart.

pub mod front;
mod health;
pub mod layout;
pub mod names;
mod overlap;
pub mod picture;
mod plan;
mod policies;
mod rules;
pub mod swap;
mod target;
mod words;
pub mod world;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_api::conditions::Reason;
use causeway_api::{InterceptMode, InterceptRequest, InterceptState};
use causeway_ir::duration;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

pub use self::picture::{Accepted, Front, Picture, Refused, Swap, Verdict};
pub use self::target::{TargetKind, TargetRef, denies};
pub use self::world::World;

use self::plan::Taking;
use self::target::{Deniers, Found, Port};
use crate::endpoints::Protocol;
use crate::gateway::kinds::ObjectRef;
use crate::grants::{self, Target, Users};
use crate::services::ServiceRef;

/// How long a machine may be away before a container that was replaced for it is put back.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// What all requests mean together.
pub fn picture(world: &World) -> Picture {
    let mut picture = Picture::default();
    let mut places = Places::default();
    let deniers: BTreeMap<&str, Deniers<'_>> =
        world.near.iter().map(|(name, near)| (name.as_str(), Deniers::of(near))).collect();
    for (at, request) in by_age(&world.requests) {
        let verdict = match candidate(world, &deniers, at, request) {
            Ok(candidate) => match places.conflict(&candidate) {
                Some(message) => Verdict::Refused(Refused::new(Reason::Conflict, message)),
                None => places.take(candidate),
            },
            Err(verdict) => verdict,
        };
        picture.requests.insert(at.clone(), verdict);
    }
    for (service, takings) in places.services {
        if let Some(front) = front::make(world, &service, &takings) {
            picture.fronts.insert(service, front);
        }
    }
    for ((namespace, target), takings) in places.containers {
        if let Some(swap) = swap::make(world, &namespace, &target, &takings) {
            picture.swaps.insert((namespace, target), swap);
        }
    }
    picture
}

/// Requests in the order in which they were made, and in which they are served.
pub fn by_age(requests: &BTreeMap<ObjectRef, Arc<InterceptRequest>>) -> Vec<(&ObjectRef, &InterceptRequest)> {
    let mut by_age: Vec<(&ObjectRef, &InterceptRequest)> =
        requests.iter().map(|(at, request)| (at, &**request)).collect();
    // Times are whole seconds: of two in one, who was held first was first.
    let is_new = |request: &InterceptRequest| {
        !request.finalizers().iter().any(|finalizer| finalizer == causeway_api::names::FINALIZER_INTERCEPT)
    };
    by_age
        .sort_by_key(|(at, request)| (request.creation_timestamp().map(|time| time.0), is_new(request), *at));
    by_age
}

/// When a request ends by itself, if it does.
pub fn expiry(request: &InterceptRequest) -> Option<Timestamp> {
    let ttl = duration::parse(request.spec.ttl.as_deref()?).ok()?;
    request.creation_timestamp()?.0.checked_add(ttl).ok()
}

/// A request that could be carried out by itself.
struct Candidate<'a> {
    at: &'a ObjectRef,
    request: &'a InterceptRequest,
    port: Port,
    taking: Taking,
    fronts: front::Fronts,
    accepted: Accepted,
}

/// Everything but the other requests.
fn candidate<'a>(
    world: &'a World,
    deniers: &BTreeMap<&str, Deniers<'a>>,
    at: &'a ObjectRef,
    request: &'a InterceptRequest,
) -> Result<Candidate<'a>, Verdict> {
    if request.metadata.deletion_timestamp.is_some() || expiry(request).is_some_and(|end| end <= world.now) {
        return Err(Verdict::Ending);
    }
    let spec = &request.spec;
    let refused = |reason, message: String| Verdict::Refused(Refused::new(reason, message));
    let (Some(near), Some(deniers)) = (world.near.get(&at.namespace), deniers.get(at.namespace.as_str()))
    else {
        return Err(Verdict::Pending("the objects of its namespace are being read".to_owned()));
    };
    if world.denied.contains(&at.namespace) {
        let message = format!(
            "namespace {} forbids intercepts by its label {}: deny",
            at.namespace,
            causeway_api::names::INTERCEPT
        );
        return Err(refused(Reason::Denied, message));
    }
    let rules = rules::compile(spec).map_err(|problems| {
        let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
        refused(Reason::InvalidSpec, words.join("; "))
    })?;
    let target = TargetRef::of(spec).map_err(|message| refused(Reason::InvalidSpec, message))?;
    let found = Found::look(near, &target).map_err(|message| {
        let missing =
            Refused { state: InterceptState::Missing, ..Refused::new(Reason::TargetNotFound, message) };
        Verdict::Refused(missing)
    })?;
    if let Some(denier) = found.denier(near) {
        let message =
            format!("{denier} forbids intercepts by its label {}: deny", causeway_api::names::INTERCEPT);
        return Err(refused(Reason::Denied, message));
    }
    let port = Port::look(near, &found, spec).map_err(|(reason, message)| refused(reason, message))?;
    if !port.protocols.contains(&Protocol::Tcp) && (!spec.matches.is_empty() || spec.mirror) {
        let message = format!(
            "spec.match: port {} carries datagrams, and rules and copies are of requests: leave match and mirror out",
            port.number
        );
        return Err(refused(Reason::InvalidSpec, message));
    }
    let (workstation, station) = station(world, at, &spec.workstation)?;
    let fronts = match spec.mode {
        InterceptMode::Service => front::look(near, deniers, &found, &port),
        InterceptMode::Container => front::Fronts::default(),
    };
    match spec.mode {
        InterceptMode::Service if fronts.taken.is_empty() => {
            return Err(refused(Reason::NoService, fronts.nothing(&target, &port)));
        }
        InterceptMode::Service => {}
        InterceptMode::Container => {
            swap::check(near, &found, &port).map_err(|message| refused(Reason::InvalidSpec, message))?;
        }
    }
    // With a fallback a container is replaced for as long as somebody answers in its place.
    let may_hold = spec.mode == InterceptMode::Container && spec.fallback && station.replica.is_none();
    let held_from = if may_hold { waited_for_until(world, near, &target, station) } else { None };
    let address = spec.destination_ip.as_deref().and_then(|text| text.parse().ok());
    let taking = Taking {
        request: at.clone(),
        uid: request.uid().unwrap_or_default(),
        labels: found.labels.cloned().unwrap_or_default(),
        port: port.clone(),
        rules,
        mirror: spec.mirror,
        fallback: spec.fallback,
        health: health::Health::of(spec, &found, &port),
        workstation: station.uid.clone(),
        address,
        destination: spec.destination_port,
        replica: station.replica.clone(),
    };
    let accepted = Accepted {
        target: target.clone(),
        target_uid: found.uid().to_owned(),
        services: fronts.taken.keys().cloned().collect(),
        container: port.container.clone(),
        missed: fronts.missed.clone(),
        workstation: workstation.clone(),
        workstation_uid: station.uid.clone(),
        takes: words::takes(spec, &port),
        owner: station.owner.clone(),
        is_held: may_hold && held_from.is_none(),
        held_from,
    };
    Ok(Candidate { at, request, port, taking, fronts, accepted })
}

/// Until when a machine that is away is waited for. A container that is in its place is left there at once, and one that was replaced
/// is put back after a while, so that a short loss does not replace pods twice.
fn waited_for_until(
    world: &World,
    near: &world::Near,
    target: &TargetRef,
    station: &world::Station,
) -> Option<Timestamp> {
    let is_replaced = near.replaced.contains_key(target) || near.stood_in.contains_key(target);
    let since = station.away.filter(|_| is_replaced)?;
    since.checked_add(PATIENCE).ok().filter(|until| *until > world.now)
}

/// The workstation that a request names, if it may.
fn station<'a>(
    world: &'a World,
    at: &ObjectRef,
    named: &str,
) -> Result<(ObjectRef, &'a world::Station), Verdict> {
    let (namespace, name) = named.split_once('/').unwrap_or((&at.namespace, named));
    let workstation = ObjectRef::new(namespace, name);
    let users =
        Users { group: causeway_api::names::GROUP, kind: "InterceptRequest", namespace: &at.namespace };
    let wanted = Target { group: causeway_api::names::GROUP, kind: "Workstation", name };
    if !world.grants.permit_object(users, namespace, wanted) {
        // Whether there is such a Workstation is for that namespace to tell.
        let advice = grants::advice_for(users, namespace, wanted);
        return Err(Verdict::Refused(Refused::new(Reason::RefNotPermitted, advice)));
    }
    let missing = |message: String| Verdict::Refused(Refused::new(Reason::WorkstationNotFound, message));
    let Some(station) = world.workstations.get(&workstation) else {
        let others = world.workstations.keys().filter(|other| other.namespace == namespace);
        let near = causeway_base::near::did_you_mean(name, others.map(|other| other.name.as_str()));
        return Err(missing(format!("there is no Workstation {workstation}{near}; connect creates it")));
    };
    match &station.unusable {
        Some(why) => Err(missing(format!("Workstation {workstation} can't be used: {why}"))),
        None => Ok((workstation, station)),
    }
}

/// What was taken so far, by place.
#[derive(Default)]
struct Places {
    services: BTreeMap<ServiceRef, Vec<(Taking, Vec<usize>)>>,
    containers: BTreeMap<(String, TargetRef), Vec<Taking>>,
    /// Requests on a target, in any mode.
    targets: BTreeMap<(String, TargetRef), Vec<(ObjectRef, InterceptMode)>>,
}

impl Places {
    /// Why the request can't be carried out beside older ones.
    fn conflict(&self, candidate: &Candidate<'_>) -> Option<String> {
        let namespace = &candidate.at.namespace;
        for (service, ports) in &candidate.fronts.taken {
            let at = ServiceRef { namespace: namespace.clone(), name: service.clone() };
            for (other, others) in self.services.get(&at).into_iter().flatten() {
                if others.iter().any(|port| ports.contains(port))
                    && let Some(words) = overlap::words(&candidate.taking.rules, &other.rules)
                {
                    return Some(both(candidate, &other.request, &words));
                }
            }
        }
        let on_target = (namespace.clone(), candidate.accepted.target.clone());
        let by_container = candidate.request.spec.mode == InterceptMode::Container;
        for (other, mode) in self.targets.get(&on_target).into_iter().flatten() {
            if by_container != (*mode == InterceptMode::Container) {
                let words =
                    "one of them is of mode Container, which leaves nothing of the target to the other";
                return Some(both(candidate, other, words));
            }
        }
        if !by_container {
            return None;
        }
        let others = self.containers.get(&on_target).into_iter().flatten();
        for other in others {
            if other.port.container != candidate.port.container {
                let words = "each replaces another container: only one container of a target can be replaced";
                return Some(both(candidate, &other.request, words));
            }
            if other.port.number == candidate.port.number {
                return Some(both(candidate, &other.request, "both ask for all traffic of one port"));
            }
        }
        None
    }

    fn take(&mut self, candidate: Candidate<'_>) -> Verdict {
        let Candidate { at, request, taking, fronts, accepted, .. } = candidate;
        let on_target = (at.namespace.clone(), accepted.target.clone());
        self.targets.entry(on_target.clone()).or_default().push((at.clone(), request.spec.mode));
        match request.spec.mode {
            InterceptMode::Service => {
                for (name, ports) in fronts.taken {
                    let service = ServiceRef { namespace: at.namespace.clone(), name };
                    self.services.entry(service).or_default().push((taking.clone(), ports));
                }
            }
            InterceptMode::Container if accepted.is_held => {}
            InterceptMode::Container => self.containers.entry(on_target).or_default().push(taking),
        }
        Verdict::Accepted(Box::new(accepted))
    }
}

/// The younger of two hears why.
fn both(candidate: &Candidate<'_>, other: &ObjectRef, words: &str) -> String {
    format!(
        "InterceptRequest {} can't be carried out beside the older {other}, which has {} already: {words}",
        candidate.at, candidate.accepted.target
    )
}

/// The objects of a namespace that requests are about.
fn near_names<'a>(wanted: &str, known: impl Iterator<Item = &'a String>) -> String {
    causeway_base::near::did_you_mean(wanted, known.map(String::as_str))
}
