//! Who holds which name. Who has a claim has the name; of those who ask for what is free, the oldest request is first, and it gets
//! all of its names or none, so that no two can wait for each other. A name and a wildcard above it are one matter: unless the
//! wildcard's owner says otherwise, both are of one namespace.

use std::collections::{BTreeMap, HashMap};

use causeway_api::conditions::Reason;
use causeway_api::{ClaimOwner, DomainClaimSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use super::case::Case;
use super::name::Hostname;
use super::world::World;
use super::zones::{self, Origin, Zone, ZoneKey};
use crate::gateway::kinds::ObjectRef;

/// Why a request does not get a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocked {
    /// Another one has it, or one above or below; or there are too many.
    pub reason: Reason,
    /// The name.
    pub name: Hostname,
    /// Who holds it, or the one above or below.
    pub holder: Option<(ObjectRef, Hostname, Option<Time>)>,
    /// For people.
    pub message: String,
}

/// The name of the claim of a hostname in a zone: the same whoever makes it.
pub fn claim_name(zone_id: &str, name: &Hostname) -> String {
    // FNV-1a: stable over versions. It tells apart what the front can't say.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in zone_id.bytes().chain([0]).chain(name.as_str().bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let front: String = name.base().chars().take(230).collect();
    format!("{}.{hash:016x}", front.trim_end_matches(['.', '-']))
}

/// What the claim of a name says that a case takes in its zone: enough to take all of it back by.
pub fn claim_spec(case: &Case, zone: &Zone, name: &Hostname) -> DomainClaimSpec {
    let origin = zone.key.origin.clone();
    DomainClaimSpec {
        zone_id: zone.key.id.clone(),
        hostname: name.to_string(),
        owner_ref: ClaimOwner {
            namespace: case.at.namespace.clone(),
            name: case.at.name.clone(),
            uid: case.uid.clone(),
        },
        hostname_zone: zone.key.name.clone(),
        domain: origin.as_ref().map(|_| zone.domain.to_string()),
        dns: origin.map(|origin| origin.dns),
        allow_names_below: case.request.as_ref().is_some_and(|request| request.spec.allow_names_below),
    }
}

/// What a claim should say of the operator's settings and does not, as it was made before that was remembered: what they say now.
pub fn missing_origin(claim: &DomainClaimSpec, world: &World) -> Option<Origin> {
    let key = ZoneKey::of_claim(claim);
    if key.name.is_some() || key.origin.is_some() {
        return None;
    }
    let name = Hostname::parse(&claim.hostname).ok()?;
    zones::zone_by_key(&key, &name, world)?.key.origin
}

/// Somebody below a wildcard whose owner no longer lets others in.
#[derive(Debug, Clone, PartialEq)]
pub struct LetIn {
    /// The wildcard.
    pub wildcard: Hostname,
    /// The name below it.
    pub name: Hostname,
    /// Who holds that.
    pub holder: ObjectRef,
}

/// The most names of a namespace, and of others below its wildcards: more are not in its grant.
const MOST: usize = 4096;

struct Taken {
    zone_id: String,
    zone: Option<String>,
    namespace: String,
    at: ObjectRef,
    since: Option<Time>,
    allows_below: bool,
}

#[derive(Default)]
struct Names {
    all: HashMap<Hostname, Vec<Taken>>,
    /// How many each namespace has.
    counts: HashMap<String, usize>,
}

/// Says of every case which names it may claim now, or who holds one of them.
pub(super) fn settle(world: &World, cases: &mut BTreeMap<String, Case>) {
    let mut names = Names::default();
    for claim in world.claims.values() {
        let (spec, owner) = (&claim.spec, &claim.spec.owner_ref);
        let Ok(name) = Hostname::parse(&spec.hostname) else { continue };
        let at = ObjectRef::new(&owner.namespace, &owner.name);
        let of_request =
            world.requests.get(&at).filter(|request| request.uid().as_deref() == Some(&owner.uid));
        let since = claim.status.as_ref().and_then(|status| status.claimed_at.clone());
        names.take(
            name,
            Taken {
                zone_id: spec.zone_id.clone(),
                zone: spec.hostname_zone.clone(),
                namespace: owner.namespace.clone(),
                at,
                since: since.or_else(|| claim.metadata.creation_timestamp.clone()),
                allows_below: of_request
                    .map_or(spec.allow_names_below, |request| request.spec.allow_names_below),
            },
        );
    }
    for (owner, let_in) in names.keep_open() {
        let of_owner = cases.values_mut().find(|case| case.at == owner && case.request.is_some());
        if let Some(case) = of_owner {
            case.lets_in = Some(let_in);
        }
    }
    let mut queue: Vec<&mut Case> = cases.values_mut().filter(|case| !case.names.is_empty()).collect();
    queue.sort_by_key(|case| {
        let created = case.request.as_ref().and_then(|request| request.metadata.creation_timestamp.clone());
        (created.map(|time| time.0), case.at.clone())
    });
    for case in queue {
        names.serve(case);
    }
}

impl Names {
    fn take(&mut self, name: Hostname, taken: Taken) {
        *self.counts.entry(taken.namespace.clone()).or_default() += 1;
        self.all.entry(name).or_default().push(taken);
    }

    /// Who has let others in can't shut the door behind one of them: nobody else would ever come to a name there, nor could he have
    /// had the wildcard like that. Until they are gone it stays as it was; gives whom that concerns.
    fn keep_open(&mut self) -> Vec<(ObjectRef, LetIn)> {
        let mut open = Vec::new();
        for (wildcard, taken) in self.all.iter().filter(|(name, _)| name.is_wildcard()) {
            for closed in taken.iter().filter(|taken| !taken.allows_below) {
                let below = self.all.iter().filter(|(name, _)| wildcard.shadows(name));
                let foreign = below.filter_map(|(name, others)| {
                    let other = others.iter().find(|other| other.namespace != closed.namespace)?;
                    Some((name, other))
                });
                // The same one each time, as it is told.
                if let Some((name, other)) = foreign.min_by_key(|(name, _)| *name) {
                    let (wildcard, name) = (wildcard.clone(), name.clone());
                    open.push((closed.at.clone(), LetIn { wildcard, name, holder: other.at.clone() }));
                }
            }
        }
        for (owner, let_in) in &open {
            for taken in self.all.get_mut(&let_in.wildcard).into_iter().flatten() {
                taken.allows_below |= taken.at == *owner;
            }
        }
        open
    }

    /// Why a grant would have no room for these names: that of the namespace, or of somebody who lets others have names below his.
    fn no_room(&self, needed: &[Hostname], namespace: &str) -> Option<String> {
        let held = self.counts.get(namespace).copied().unwrap_or_default();
        if held + needed.len() > MOST {
            return Some(format!(
                "namespace {namespace} holds {held} hostnames, and no namespace can hold more than {MOST}: give some up, or ask for a \
                 wildcard in their place"
            ));
        }
        for above in needed.iter().flat_map(Hostname::wildcards_above) {
            let others = self.all.get(&above).into_iter().flatten();
            for owner in others.filter(|taken| taken.namespace != namespace) {
                let below = self.all.iter().filter(|(name, _)| above.shadows(name));
                let foreign = below
                    .filter(|(_, all)| all.iter().any(|taken| taken.namespace != owner.namespace))
                    .count();
                if foreign + needed.len() > MOST {
                    return Some(format!(
                        "{foreign} names below {above}, which namespace {} holds, are others' already, and there is no room for more \
                         than {MOST}: ask for a name elsewhere",
                        owner.namespace
                    ));
                }
            }
        }
        None
    }

    /// Gives a case all that it still needs, or says why not.
    fn serve(&mut self, case: &mut Case) {
        let Some(zone) = &case.zone else { return };
        let needed: Vec<Hostname> =
            case.names.iter().filter(|name| !case.holds(&zone.key.id, name)).cloned().collect();
        if needed.is_empty() {
            return;
        }
        let namespace = &case.at.namespace;
        let allows_below = case.request.as_ref().is_some_and(|request| request.spec.allow_names_below);
        for name in &needed {
            if let Some(blocked) = self.conflict(name, &zone.key.id, namespace, allows_below) {
                case.blocked = Some(blocked);
                return;
            }
        }
        if let Some(quota) = zone.quota {
            let mine = |taken: &&Taken| taken.namespace == *namespace && taken.zone == zone.key.name;
            let held = self.all.values().flatten().filter(mine).count();
            if held + needed.len() > quota {
                let message = format!(
                    "namespace {namespace} holds {held} of {quota} hostnames that HostnameZone {} lets it have: give one up, or \
                     ask the platform team for more",
                    zone.key.name.as_deref().unwrap_or_default()
                );
                let name = needed[0].clone();
                case.blocked = Some(Blocked { reason: Reason::QuotaReached, name, holder: None, message });
                return;
            }
        }
        if let Some(message) = self.no_room(&needed, namespace) {
            let name = needed[0].clone();
            case.blocked = Some(Blocked { reason: Reason::QuotaReached, name, holder: None, message });
            return;
        }
        for name in &needed {
            self.take(
                name.clone(),
                Taken {
                    zone_id: zone.key.id.clone(),
                    zone: zone.key.name.clone(),
                    namespace: namespace.clone(),
                    at: case.at.clone(),
                    since: None,
                    allows_below,
                },
            );
        }
        case.claim = needed;
    }

    fn conflict(
        &self,
        name: &Hostname,
        zone_id: &str,
        namespace: &str,
        allows_below: bool,
    ) -> Option<Blocked> {
        for taken in self.all.get(name).into_iter().flatten() {
            // A namespace may publish one name in two zones, as for inside and outside.
            if taken.zone_id == zone_id || taken.namespace != namespace {
                return Some(blocked(Reason::AlreadyClaimed, name, name, taken));
            }
        }
        for above in name.wildcards_above() {
            let others = self.all.get(&above).into_iter().flatten();
            let other = others.into_iter().find(|taken| taken.namespace != namespace && !taken.allows_below);
            if let Some(taken) = other {
                return Some(blocked(Reason::Shadowed, name, &above, taken));
            }
        }
        if name.is_wildcard() && !allows_below {
            for (below, others) in self.all.iter().filter(|(below, _)| name.shadows(below)) {
                if let Some(taken) = others.iter().find(|taken| taken.namespace != namespace) {
                    return Some(blocked(Reason::Shadowed, name, below, taken));
                }
            }
        }
        None
    }
}

fn blocked(reason: Reason, name: &Hostname, theirs: &Hostname, taken: &Taken) -> Blocked {
    let since = taken
        .since
        .as_ref()
        .map_or_else(String::new, |since| format!(" since {}", since.0.strftime("%Y-%m-%dT%H:%M:%SZ")));
    let holder = format!("GatewayHostnameRequest {}", taken.at);
    let message = match (reason, theirs.is_wildcard(), name == theirs) {
        (Reason::AlreadyClaimed, ..) | (_, _, true) => {
            format!("{name} is held by {holder}{since}; this request gets it when that one gives it up")
        }
        (_, true, _) => format!(
            "{name} is below {theirs}, which is held by {holder}{since}: its owner can let others have names below it \
             (spec.allowNamesBelow)"
        ),
        (_, false, _) => format!(
            "{name} would answer for {theirs}, which is held by {holder}{since}: with spec.allowNamesBelow it stays theirs"
        ),
    };
    let holder = Some((taken.at.clone(), theirs.clone(), taken.since.clone()));
    Blocked { reason, name: name.clone(), holder, message }
}
