//! Everybody who asks for hostnames or has some: a request, or what one left behind that is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use causeway_api::conditions::{self, ConditionType, Reason};
use causeway_api::{GatewayHostnameRequest, IssuerKind, Visibility};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use super::claims::{Blocked, LetIn};
use super::name::Hostname;
use super::order::{Failure, Order, Proof};
use super::world::{Listening, Member, Progress, World};
use super::zones::{self, Refusal, Zone, ZoneKey};
use crate::gateway::kinds::ObjectRef;

/// How long resolvers may keep what no request says otherwise of, in seconds.
const TTL: u32 = 300;
/// How long they may keep proofs, which come and go.
const PROOF_TTL: u32 = 60;

/// How long a gateway may take to take a newer configuration into use, in seconds.
const PENDING_GRACE: i64 = 120;

/// Somebody who asks for hostnames or has some.
#[derive(Debug, Clone, Default)]
pub struct Case {
    /// The request's uid.
    pub uid: String,
    /// Where it is, or was.
    pub at: ObjectRef,
    /// The request, unless it is gone.
    pub request: Option<Arc<GatewayHostnameRequest>>,
    /// Why it can't be carried out as it is written; what it has stays.
    pub refusal: Option<Refusal>,
    /// The zone that its names are in.
    pub zone: Option<Zone>,
    /// The names that it asks for, the first of which is the subject; none when it goes or is refused.
    pub names: Vec<Hostname>,
    /// The names that it holds, also those that it no longer asks for.
    pub held: Vec<Held>,
    /// The names to claim now.
    pub claim: Vec<Hostname>,
    /// Who holds one of its names.
    pub blocked: Option<Blocked>,
    /// Why others may still have names below its wildcard, though it says that they may not.
    pub lets_in: Option<LetIn>,
    /// Its orders, the oldest first.
    pub orders: Vec<Arc<Order>>,
    /// What follows for its certificate.
    pub certificate: Certificate,
    /// The gateway that serves it, or will.
    pub gateway: Option<String>,
    /// Why there is none.
    pub no_gateway: Option<Refusal>,
    /// Whether all its names are served with the certificate.
    pub attached: bool,
    /// Those of its names that are served by a ListenerSet, with its number: routes name that.
    pub sets: BTreeMap<Hostname, usize>,
    /// Why they are not, in the gateway's words.
    pub service_trouble: Option<Refusal>,
    /// The addresses that its names should lead to.
    pub addresses: Vec<String>,
    /// What should be in DNS. A name that is not here is left as it is.
    pub publications: Vec<Publication>,
    /// What is wrong with the records that prove its names, or is waited for.
    pub proof_trouble: Option<Refusal>,
    /// Whether all its names lead to its gateway.
    pub published: bool,
    /// What is wrong with records.
    pub record_trouble: Option<Refusal>,
    /// Names whose listeners may go, since nobody is led to them any more.
    pub dropped: BTreeSet<Hostname>,
    /// Orders to give up, by their Secrets.
    pub remove_orders: Vec<String>,
    /// Claims to release, by their names.
    pub release: Vec<String>,
    /// What it waits for on its way out, and what kind of wait that is.
    pub leaving: Option<(Reason, String)>,
}

/// A name that is held.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The name.
    pub name: Hostname,
    /// Where its records are.
    pub zone: ZoneKey,
    /// The claim.
    pub claim: String,
    /// Since when.
    pub since: Option<Time>,
    /// Whether there may be records.
    pub may_have_records: bool,
}

/// What follows for a certificate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Certificate {
    /// The zone that it rests on. Of a request that can't be carried out, that of what it has.
    pub zone: Option<Zone>,
    /// Its names, the first of which is the subject.
    pub names: Vec<Hostname>,
    /// The order whose certificate is to be served.
    pub serve: Option<Arc<Order>>,
    /// The order that is worked on.
    pub pending: Option<Arc<Order>>,
    /// The serial of an order to begin.
    pub start: Option<u32>,
    /// Why the last one came to nothing.
    pub failed: Option<String>,
    /// When another one is tried after it, in seconds since 1970.
    pub rests_until: Option<i64>,
}

/// A change of DNS.
#[derive(Debug, Clone, PartialEq)]
pub struct Publication {
    /// Where.
    pub zone: Zone,
    /// Which name; it may be none that can be held, as proofs begin with an underscore.
    pub name: Hostname,
    /// What should be there.
    pub want: Want,
    /// What has been there before, as far as the request's status says.
    pub before: Option<Want>,
}

/// What should be at a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// Nothing of this request's.
    Nothing,
    /// These addresses.
    Addresses(BTreeSet<IpAddr>, u32),
    /// The addresses of this load balancer.
    Balancer(String, u32),
    /// Another name's records.
    Canonical(String, u32),
    /// These texts.
    Texts(BTreeSet<String>, u32),
}

/// Everybody, by uid.
pub(super) fn cases(world: &World) -> BTreeMap<String, Case> {
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for (at, request) in &world.requests {
        let uid = request.uid().unwrap_or_default();
        let mut case =
            Case { uid: uid.clone(), at: at.clone(), request: Some(Arc::clone(request)), ..Case::default() };
        if !case.is_leaving() {
            match read(request, world) {
                Ok((zone, names)) => (case.zone, case.names) = (Some(zone), names),
                Err(refusal) => case.refusal = Some(refusal),
            }
        }
        cases.insert(uid, case);
    }
    for claim in world.claims.values() {
        let (spec, owner) = (&claim.spec, &claim.spec.owner_ref);
        let Ok(name) = Hostname::parse(&spec.hostname) else { continue };
        let case = cases.entry(owner.uid.clone()).or_insert_with(|| Case {
            uid: owner.uid.clone(),
            at: ObjectRef::new(&owner.namespace, &owner.name),
            ..Case::default()
        });
        let status = claim.status.clone().unwrap_or_default();
        case.held.push(Held {
            name,
            zone: ZoneKey::of_claim(spec),
            claim: claim.name_any(),
            since: status.claimed_at.or_else(|| claim.metadata.creation_timestamp.clone()),
            may_have_records: status.may_have_records,
        });
    }
    for order in world.orders.values() {
        let case = cases.entry(order.uid.clone()).or_insert_with(|| Case {
            uid: order.uid.clone(),
            at: order.at.clone(),
            ..Case::default()
        });
        case.orders.push(Arc::clone(order));
    }
    for case in cases.values_mut() {
        case.orders.sort_by_key(|order| order.serial);
        case.remember_origins();
        case.stay(world);
    }
    cases
}

/// What a request asks for.
fn read(request: &GatewayHostnameRequest, world: &World) -> Result<(Zone, Vec<Hostname>), Refusal> {
    let spec = &request.spec;
    let invalid = |field: &str, why: String| (Reason::InvalidSpec, format!("{field}: {why}"));
    let mut names = vec![Hostname::parse(&spec.hostname).map_err(|why| invalid("spec.hostname", why))?];
    for (index, text) in spec.additional_hostnames.iter().enumerate() {
        let field = format!("spec.additionalHostnames[{index}]");
        let name = Hostname::parse(text).map_err(|why| invalid(&field, why))?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let namespace = request.namespace().unwrap_or_default();
    let zone = zones::admit(&spec.zone_id, &names, &namespace, world)?;
    Ok((zone, names))
}

impl Case {
    /// Whether it is on its way out.
    pub fn is_leaving(&self) -> bool {
        self.request.as_ref().is_none_or(|request| request.metadata.deletion_timestamp.is_some())
    }

    /// Whether nothing is left of it.
    pub fn is_gone(&self) -> bool {
        self.is_leaving() && self.held.is_empty() && self.orders.is_empty()
    }

    /// Whether it holds all that it asks for.
    pub fn is_claimed(&self) -> bool {
        !self.names.is_empty() && self.claim.is_empty() && self.blocked.is_none()
    }

    /// Whether traffic would pass.
    pub fn is_ready(&self) -> bool {
        self.is_claimed() && self.certificate.serve.is_some() && self.attached && self.published
    }

    /// The names that are being proven by answers of its gateway.
    pub(super) fn proofs_by_http(&self) -> impl Iterator<Item = Hostname> {
        let proofs = self.certificate.pending.iter().flat_map(|order| &order.proofs);
        proofs.filter_map(|proof| match proof {
            Proof::Http { host, .. } => Some(Hostname::trusted(host)),
            Proof::Txt { .. } | Proof::Cname { .. } => None,
        })
    }

    /// An order of the operator's settings that does not say what those were is of the time before that was remembered: what its
    /// claims say by now counts for it, too.
    fn remember_origins(&mut self) {
        for order in &mut self.orders {
            if order.hostname_zone.is_some() || order.origin.is_some() {
                continue;
            }
            let of_order = |held: &&Held| held.zone.name.is_none() && held.zone.id == order.zone_id;
            if let Some(origin) = self.held.iter().find(of_order).and_then(|held| held.zone.origin.clone()) {
                Arc::make_mut(order).origin = Some(origin);
            }
        }
    }

    /// Who has written the records of a name takes them back: a request stays where its claims say it is, though another
    /// HostnameZone with the same id has come before that one.
    fn stay(&mut self, world: &World) {
        let Some(zone) = &self.zone else { return };
        let there = |held: &&Held| held.zone.id == zone.key.id && self.names.contains(&held.name);
        let Some(held) = self.held.iter().find(there) else { return };
        let before = zones::zone_by_key(&held.zone, &held.name, world);
        let fits = |before: &Zone| self.names.iter().all(|name| name.is_in(before.domain.as_str()));
        if let Some(before) = before.filter(fits) {
            self.zone = Some(before);
        }
    }

    /// Whether it holds a name in the zone that it asks for it in.
    pub(super) fn holds(&self, zone_id: &str, name: &Hostname) -> bool {
        self.held.iter().any(|held| held.zone.id == zone_id && held.name == *name)
    }

    /// The class that it asks for.
    pub fn class(&self) -> String {
        let asked = self.request.as_ref().and_then(|request| request.spec.gateway_class.clone());
        let of_zone = || self.zone.as_ref().map(|zone| zone.gateway_class.clone());
        asked.or_else(of_zone).unwrap_or_default()
    }

    /// Who may reach it.
    pub fn visibility(&self) -> Visibility {
        self.request.as_ref().map(|request| request.spec.visibility).unwrap_or_default()
    }

    /// The certificate: which is served, which is worked on, and whether another one is to be begun.
    pub(super) fn judge_certificate(&mut self, world: &World) {
        let Some((zone, certified)) = self.certified(world) else { return };
        let names: Vec<String> = certified.iter().map(ToString::to_string).collect();
        let issuer = zone.issuer();
        let fits = |order: &&Arc<Order>| {
            same_names(&order.names, &names) && order.issuer == issuer && order.zone_id == zone.key.id
        };
        let fitting: Vec<&Arc<Order>> = self.orders.iter().filter(fits).collect();
        let serve = fitting.iter().rev().find(|order| order.is_good(world.now)).copied();
        let newest = |order: &&&Arc<Order>| serve.is_none_or(|serve| order.serial > serve.serial);
        let pending = fitting.iter().rev().find(|order| order.is_pending()).filter(newest).copied();
        let failed = fitting.last().filter(newest).and_then(|order| order.failed.as_ref());
        let is_due = serve.is_none_or(|serve| serve.is_due(world.now));
        let rests_until = failed.map(Failure::over_at).filter(|at| *at > world.now.as_second());
        let next = self.orders.last().map_or(1, |order| order.serial.saturating_add(1));
        self.certificate = Certificate {
            start: (is_due && pending.is_none() && rests_until.is_none()).then_some(next),
            serve: serve.cloned(),
            pending: pending.cloned(),
            failed: failed.map(|failed| failed.message.clone()),
            rests_until,
            names: certified,
            zone: Some(zone),
        };
    }

    /// What there should be a certificate for: what is asked for, or, as long as that can't be had, what is served. Who writes
    /// something that is refused keeps what he has, for which it has to be renewed.
    fn certified(&self, world: &World) -> Option<(Zone, Vec<Hostname>)> {
        if self.is_leaving() {
            return None;
        }
        if self.is_claimed() {
            return Some((self.zone.clone()?, self.names.clone()));
        }
        let is_served = |order: &&Arc<Order>| {
            order.issued.is_some()
                && world.gateways.values().any(|member| member.names_certificate(order.reference()))
        };
        let newest = || self.orders.iter().rev();
        let last = newest().find(is_served).or_else(|| newest().find(|order| order.is_good(world.now)))?;
        let names: Vec<Hostname> = last.names.iter().map(|name| Hostname::trusted(name)).collect();
        if !names.iter().all(|name| self.holds(&last.zone_id, name)) {
            return None;
        }
        Some((zones::zone_by_key(&last.zone(), &first_name(last), world)?, names))
    }

    /// The gateway that answers to those who look whether its names are its own: its own one, or, as long as it has none, the one
    /// that serves what it has.
    pub fn proving_gateway<'a>(&'a self, world: &'a World) -> Option<&'a str> {
        let serves = |member: &Member| {
            self.certificate.names.iter().any(|name| {
                member.listeners.get(name).is_some_and(|there| there.namespace == self.at.namespace)
            })
        };
        let serving = || world.gateways.iter().find(|(_, member)| serves(member)).map(|(name, _)| name);
        self.gateway.as_ref().or_else(serving).map(String::as_str)
    }

    /// Whether its gateway serves its names.
    pub(super) fn judge_service(&mut self, world: &World) {
        let Some(member) = self.gateway.as_ref().and_then(|name| world.gateways.get(name)) else { return };
        self.service_trouble.clone_from(&member.trouble);
        let Some(serve) = self.certificate.serve.clone() else { return };
        let was_attached = self.was_attached(&serve);
        let mut attached = true;
        for name in &self.names {
            let listening = member.listeners.get(name);
            if let Some(listening) = listening.filter(|listening| listening.set > 0) {
                self.sets.insert(name.clone(), listening.set);
            }
            let is_so = listening.is_some_and(|listening| {
                listening.certificate == serve.reference() && listening.namespace == self.at.namespace
            });
            attached &= is_so
                && listening.is_some_and(|listening| {
                    let waits =
                        listening.pending_since.map(|since| world.now.as_second().saturating_sub(since));
                    // The change of a neighbour takes nothing from it, unless that never ends.
                    listening.programmed || (was_attached && waits.is_some_and(|waits| waits < PENDING_GRACE))
                });
            if let Some((reason, why)) = listening.and_then(|listening| listening.trouble.clone()) {
                self.service_trouble = Some((reason, format!("{name}: {why}")));
            }
            if let Some(neighbour) = listening.and_then(|listening| self.neighbour(listening, world)) {
                let why = format!(
                    "{name}: its listener serves the certificate of GatewayHostnameRequest {neighbour}, which holds the same name in \
                     another zone: a gateway serves a name for one of them, so put this one on another by spec.gatewaySelector or \
                     spec.visibility, or delete one of the two"
                );
                self.service_trouble = Some((Reason::AttachmentFailed, why));
            }
        }
        // A successor that is on its way does not make what is served worse.
        self.attached = attached || self.serves_predecessor(member);
    }

    /// Another request of the namespace whose certificate a listener serves.
    fn neighbour(&self, listening: &Listening, world: &World) -> Option<ObjectRef> {
        let order = world.orders.values().find(|order| order.reference() == listening.certificate)?;
        let is_neighbour = order.uid != self.uid && listening.namespace == self.at.namespace;
        is_neighbour.then(|| order.at.clone())
    }

    /// Whether this very certificate was served on this very gateway when it was looked at last.
    fn was_attached(&self, serve: &Order) -> bool {
        let status = self.request.as_ref().and_then(|request| request.status.as_ref());
        status.is_some_and(|status| {
            let certificate = status.certificate.as_ref();
            let secret = certificate.and_then(|certificate| certificate.secret_name.as_deref());
            let reference = secret.or(status.certificate_arn.as_deref());
            conditions::find(&status.conditions, ConditionType::ListenerAttached)
                .is_some_and(|condition| condition.status == "True")
                && reference == Some(serve.reference())
                && status.assigned_gateway == self.gateway
        })
    }

    /// Whether all names are served with an older certificate that is still good.
    fn serves_predecessor(&self, member: &Member) -> bool {
        let good: BTreeSet<&str> =
            self.orders.iter().filter(|order| !order.lost).map(|order| order.reference()).collect();
        self.names.iter().all(|name| {
            member.listeners.get(name).is_some_and(|listening| {
                listening.programmed
                    && listening.namespace == self.at.namespace
                    && good.contains(listening.certificate.as_str())
            })
        })
    }

    /// What should be in DNS for the names that are asked for, and for the proofs of certificates.
    pub(super) fn judge_publication(&mut self, world: &World) {
        if let Some(zone) = self.certificate.zone.clone() {
            self.publish_proofs(&zone, world);
        }
        let Some(zone) = self.zone.clone().filter(|_| self.is_claimed()) else { return };
        let Some(member) = self.gateway.as_ref().and_then(|name| world.gateways.get(name)) else { return };
        self.addresses.clone_from(&member.addresses);
        let by_http = self.proofs_by_http().next().is_some();
        let Some(want) = alias(&member.addresses, self.ttl()).filter(|_| self.attached || by_http) else {
            return;
        };
        let served_before = self.request.as_ref().is_some_and(|request| {
            let status = request.status.as_ref();
            status.is_some_and(|status| {
                conditions::find(&status.conditions, ConditionType::DnsAliasReady)
                    .is_some_and(|condition| condition.status == "True")
                    && status.addresses == member.addresses
            })
        });
        let mut published = self.attached;
        for name in self.names.clone() {
            // Before it is said that there may be a record, there is none.
            let mut held = self.held.iter().filter(|held| held.name == name && held.zone.id == zone.key.id);
            if held.any(|held| !held.may_have_records) {
                published = false;
                if let Some(trouble) = world.broken_zones.get(&zone.key) {
                    self.record_trouble.get_or_insert_with(|| trouble.clone());
                }
                continue;
            }
            match world.told(&self.uid, &zone.key, &name, &want) {
                Some(Progress::Settled) => {}
                Some(Progress::Pending(why)) => {
                    published = false;
                    self.record_trouble.get_or_insert((Reason::Progressing, format!("{name}: {why}")));
                }
                Some(Progress::Failed(reason, why)) => {
                    published = false;
                    let provider = zone.key.provider(world);
                    self.record_trouble.get_or_insert((*reason, format!("{name}{provider}: {why}")));
                }
                None => published = false,
            }
            self.publications.push(Publication {
                zone: zone.clone(),
                name,
                want: want.clone(),
                before: served_before.then(|| want.clone()),
            });
        }
        self.published = published;
    }

    /// How long resolvers may keep its records, in seconds.
    pub fn ttl(&self) -> u32 {
        let asked = self.request.as_ref().and_then(|request| request.spec.ttl);
        asked.and_then(|ttl| u32::try_from(ttl).ok()).unwrap_or(TTL)
    }

    /// Proofs of the order that is worked on, and those of the one that is served which its issuer looks at again for ever.
    fn publish_proofs(&mut self, zone: &Zone, world: &World) {
        let mut texts: BTreeMap<Hostname, BTreeSet<String>> = BTreeMap::new();
        let mut names: BTreeMap<Hostname, String> = BTreeMap::new();
        let Certificate { serve, pending, .. } = &self.certificate;
        for order in serve.iter().chain(pending) {
            for proof in &order.proofs {
                match proof {
                    Proof::Txt { name, text } if order.is_pending() => {
                        texts.entry(Hostname::trusted(name)).or_default().insert(text.clone());
                    }
                    Proof::Cname { name, target } => {
                        names.insert(Hostname::trusted(name), target.clone());
                    }
                    Proof::Txt { .. } | Proof::Http { .. } => {}
                }
            }
        }
        // What an order left behind that is fulfilled, or came to nothing: a neighbour may have to prove the same name.
        let failed = |order: &&Arc<Order>| {
            order.failed.is_some() && order.issued.is_none() && order.zone().is_that_of(&zone.key)
        };
        let over = serve.iter().chain(self.orders.iter().filter(failed));
        let mut old: BTreeSet<Hostname> = over.flat_map(|order| proof_names(order)).collect();
        old.retain(|name| !texts.contains_key(name) && !names.contains_key(name));
        let publication =
            |name: Hostname, want: Want| Publication { zone: zone.clone(), name, want, before: None };
        let texts = texts.into_iter().map(|(name, texts)| publication(name, Want::Texts(texts, PROOF_TTL)));
        let names = names.into_iter().map(|(name, target)| publication(name, Want::Canonical(target, TTL)));
        let proofs: Vec<Publication> = texts.chain(names).collect();
        self.proof_trouble = proofs.iter().find_map(|proof| {
            let (reason, why) = match world.told(&self.uid, &zone.key, &proof.name, &proof.want)? {
                Progress::Settled => return None,
                Progress::Pending(why) => (Reason::Progressing, why),
                Progress::Failed(reason, why) => (*reason, why),
            };
            Some((reason, format!("{}: {why}", proof.name)))
        });
        let old = old.into_iter().map(|name| publication(name, Want::Nothing));
        let old: Vec<Publication> = old.collect();
        self.publications.extend(proofs.into_iter().chain(old));
    }

    /// What is no longer asked for goes: records first, then listeners, then certificates, and the claims last.
    pub(super) fn retire(&mut self, world: &World) {
        self.retire_orders(world);
        if !(self.is_leaving() || self.is_ready()) {
            return;
        }
        let wanted_zone = self.zone.as_ref().map(|zone| zone.key.id.clone());
        let is_wanted =
            |held: &Held| Some(&held.zone.id) == wanted_zone.as_ref() && self.names.contains(&held.name);
        let old: Vec<Held> = self.held.iter().filter(|held| !is_wanted(held)).cloned().collect();
        let mut clear: Vec<Held> = Vec::new();
        for held in old {
            let Some(zone) = zones::zone_by_key(&held.zone, &held.name, world) else {
                let why = format!("the record of {} can't be removed, {}", held.name, held.zone.remedy());
                self.leave_for(Reason::CleanupFailed, why);
                continue;
            };
            let told = world.told(&self.uid, &zone.key, &held.name, &Want::Nothing).cloned();
            let (key, name) = (zone.key.clone(), held.name.clone());
            self.publications.push(Publication {
                zone,
                name: name.clone(),
                want: Want::Nothing,
                before: self.written(&name).filter(|_| held.may_have_records),
            });
            match told {
                // One that is not ours was never written, or somebody took it over.
                Some(Progress::Settled | Progress::Failed(Reason::RecordNotOwned, _)) => clear.push(held),
                // A slip of the pen. What was written in a zone that can't be found keeps the name: it may only be out of sight.
                Some(Progress::Failed(Reason::ZoneNotFound, _)) if self.is_untouched(&held) => {
                    clear.push(held);
                }
                Some(Progress::Pending(why)) => {
                    let why = format!("the record of {name} is being removed: {why}");
                    self.leave_for(Reason::DeletionInProgress, why);
                }
                Some(Progress::Failed(_, why)) => {
                    let (zone, provider) = (&key.id, key.provider(world));
                    let why =
                        format!("the record of {name} in zone {zone}{provider} could not be removed: {why}");
                    self.leave_for(Reason::CleanupFailed, why);
                }
                None => {
                    let why = format!("the record of {name} is being removed");
                    self.leave_for(Reason::DeletionInProgress, why);
                }
            }
        }
        let still_named: BTreeSet<&Hostname> = self.names.iter().collect();
        let dropped: BTreeSet<Hostname> =
            clear.iter().map(|held| held.name.clone()).filter(|name| !still_named.contains(name)).collect();
        self.dropped = dropped;
        for held in clear {
            // A neighbour may hold the same name in another zone: then the listener is his.
            let is_shared = world.claims.values().any(|claim| {
                claim.spec.hostname == held.name.as_str()
                    && claim.spec.owner_ref.namespace == self.at.namespace
                    && claim.spec.owner_ref.uid != self.uid
            });
            let listens = world.gateways.iter().find(|(_, member)| {
                !(is_shared || self.names.contains(&held.name))
                    && member
                        .listeners
                        .get(&held.name)
                        .is_some_and(|there| there.namespace == self.at.namespace)
            });
            let certified = self.orders.iter().any(|order| {
                order.names.iter().any(|name| name == held.name.as_str()) && !self.is_kept(order)
            });
            if let Some((gateway, _)) = listens {
                let why = format!("Gateway {gateway} still listens for {}", held.name);
                self.leave_for(Reason::DeletionInProgress, why);
            } else if certified {
                let why = format!("the certificate of {} is still there", held.name);
                self.leave_for(Reason::WaitingForCertDetachment, why);
            } else {
                self.release.push(held.claim);
            }
        }
    }

    /// Whether nothing can have been written at a name, nor beside it.
    fn is_untouched(&self, held: &Held) -> bool {
        let proven = |order: &Arc<Order>| order.zone_id == held.zone.id && was_proven(order);
        !(held.may_have_records || self.orders.iter().any(proven))
    }

    /// What the status says that was written at a name: it is the request's though its mark is lost.
    fn written(&self, name: &Hostname) -> Option<Want> {
        let status = self.request.as_ref()?.status.as_ref()?;
        let records = status.records.iter().filter(|record| record.name == name.as_str());
        let (mut addresses, mut other) = (BTreeSet::new(), None);
        for record in records {
            match record.type_.as_str() {
                "A" | "AAAA" => addresses.extend(record.value.parse::<IpAddr>()),
                "ALIAS" => other = Some(Want::Balancer(record.value.clone(), self.ttl())),
                _ => {}
            }
        }
        other.or_else(|| (!addresses.is_empty()).then(|| Want::Addresses(addresses, self.ttl())))
    }

    /// Since when a certificate is waited for, in seconds since 1970: since the first of the orders that came to nothing one after
    /// another, or, where nobody could be asked yet, since its names are held or its predecessor was due. None if nothing is waited for.
    pub fn waits_since(&self, world: &World) -> Option<i64> {
        let Certificate { serve, pending, names, zone, .. } = &self.certificate;
        zone.as_ref()?;
        if let Some(pending) = pending {
            return Some(pending.awaited_since());
        }
        let is_due = serve.as_ref().is_none_or(|serve| serve.is_due(world.now));
        if !is_due {
            return None;
        }
        let wanted: Vec<String> = names.iter().map(ToString::to_string).collect();
        let newer = |order: &&Arc<Order>| serve.as_ref().is_none_or(|serve| order.serial > serve.serial);
        let failed = self.orders.last().filter(newer).filter(|last| last.failed.is_some());
        if let Some(failed) = failed.filter(|failed| same_names(&failed.names, &wanted)) {
            return Some(failed.awaited_since());
        }
        let due = serve.as_ref().and_then(|serve| serve.issued.as_ref()?.renew_at);
        let held = || self.held.iter().filter(|held| names.contains(&held.name));
        due.or_else(|| held().filter_map(|held| Some(held.since.as_ref()?.0.as_second())).max())
    }

    /// The first thing that is waited for is told.
    fn leave_for(&mut self, reason: Reason, why: String) {
        self.leaving.get_or_insert((reason, why));
    }

    fn is_kept(&self, order: &Arc<Order>) -> bool {
        let Certificate { serve, pending, .. } = &self.certificate;
        serve.iter().chain(pending).any(|kept| kept.secret == order.secret)
    }

    /// Orders that nobody needs go, once no listener names their certificate and their proofs are gone. The last one that came to
    /// nothing is remembered: it says when to try again.
    fn retire_orders(&mut self, world: &World) {
        let all = self.is_leaving() || self.is_ready();
        let newest = self.orders.last().map(|order| order.serial);
        let active: BTreeSet<Hostname> = self
            .publications
            .iter()
            .filter(|publication| publication.want != Want::Nothing)
            .map(|publication| publication.name.clone())
            .collect();
        for order in self.orders.clone() {
            let is_remembered = order.failed.is_some() && Some(order.serial) == newest && !self.is_leaving();
            let is_needed = !all && order.is_good(world.now);
            let is_served = world.gateways.values().any(|member| member.names_certificate(order.reference()));
            if self.is_kept(&order) || is_remembered || is_needed || is_served {
                continue;
            }
            if self.proofs_are_gone(&order, &active, world) {
                self.remove_orders.push(order.secret.clone());
                let why = "the certificate is being removed".to_owned();
                self.leave_for(Reason::WaitingForCertDetachment, why);
            }
        }
    }

    /// Whether the proofs of an order are gone, but for those that another one needs.
    fn proofs_are_gone(&mut self, order: &Order, active: &BTreeSet<Hostname>, world: &World) -> bool {
        let names = proof_names(order).into_iter().filter(|name| !active.contains(name));
        let names: Vec<Hostname> = names.collect();
        if names.is_empty() {
            return true;
        }
        let Some(zone) = zones::zone_by_key(&order.zone(), &first_name(order), world) else {
            let why = format!("the proofs of the certificate can't be removed, {}", order.zone().remedy());
            self.leave_for(Reason::CleanupFailed, why);
            return false;
        };
        let mut gone = true;
        for name in names {
            match world.told(&self.uid, &zone.key, &name, &Want::Nothing) {
                Some(Progress::Settled | Progress::Failed(Reason::RecordNotOwned, _)) => {}
                Some(Progress::Failed(Reason::ZoneNotFound, _)) if !was_proven(order) => {}
                told => {
                    gone = false;
                    let removed = format!("the proof {name} of the certificate");
                    let (reason, why) = match told {
                        Some(Progress::Failed(_, why)) => {
                            (Reason::CleanupFailed, format!("{removed} could not be removed: {why}"))
                        }
                        Some(Progress::Pending(why)) => {
                            (Reason::DeletionInProgress, format!("{removed} is being removed: {why}"))
                        }
                        _ => (Reason::DeletionInProgress, format!("{removed} is being removed")),
                    };
                    self.leave_for(reason, why);
                }
            }
            let zone = zone.clone();
            self.publications.push(Publication { zone, name, want: Want::Nothing, before: None });
        }
        gone
    }
}

/// The names of the records that were written as proofs.
fn proof_names(order: &Order) -> BTreeSet<Hostname> {
    let names = order.proofs.iter().filter_map(|proof| match proof {
        Proof::Txt { name, .. } | Proof::Cname { name, .. } => Some(Hostname::trusted(name)),
        Proof::Http { .. } => None,
    });
    names.collect()
}

/// Whether proofs of an order have been in DNS.
fn was_proven(order: &Order) -> bool {
    (order.told || order.issued.is_some()) && !proof_names(order).is_empty()
}

fn first_name(order: &Order) -> Hostname {
    order.names.first().map_or_else(|| Hostname::trusted(""), |name| Hostname::trusted(name))
}

fn same_names(a: &[String], b: &[String]) -> bool {
    a.first() == b.first() && a.iter().collect::<BTreeSet<_>>() == b.iter().collect::<BTreeSet<_>>()
}

/// What leads to these addresses: the addresses themselves, or, for a load balancer that has a name, that.
fn alias(addresses: &[String], ttl: u32) -> Option<Want> {
    let plain: BTreeSet<IpAddr> = addresses.iter().filter_map(|address| address.parse().ok()).collect();
    if !plain.is_empty() {
        return Some(Want::Addresses(plain, ttl));
    }
    addresses.first().map(|name| Want::Balancer(name.clone(), ttl))
}

/// Whether an issuer's certificates can be served by gateways of a class.
pub(super) fn issuer_fits(issuer: IssuerKind, is_alb: bool) -> Result<(), String> {
    match (issuer, is_alb) {
        (IssuerKind::Aws, false) => Err(
            "certificates of issuer aws can only be served by class aws-alb, since their keys never leave the cloud: choose another \
             class, or a zone with another issuer"
                .to_owned(),
        ),
        (IssuerKind::Local | IssuerKind::Acme, true) => Err(
            "load balancers of AWS serve certificates of issuer aws only: choose another class, or a zone with that issuer".to_owned(),
        ),
        _ => Ok(()),
    }
}
