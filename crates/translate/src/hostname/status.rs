//! What a request is told: a condition for each step, in the order of the steps.

use std::collections::BTreeSet;

use causeway_api::conditions::{self, ConditionType, Reason, Status};
use causeway_api::{GatewayHostnameRequestStatus, NameHolder, PublishedCertificate, PublishedRecord};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::case::{Case, Want};
use super::listeners::set_name;
use super::name::Hostname;
use super::order::Order;
use super::world::{Progress, World};

/// The condition types of a request; `Deleting` is there while it goes.
pub const CONDITIONS: &[ConditionType] = &[
    ConditionType::Claimed,
    ConditionType::CertificateRequested,
    ConditionType::DnsValidated,
    ConditionType::CertificateIssued,
    ConditionType::ListenerAttached,
    ConditionType::DnsAliasReady,
    ConditionType::Ready,
    ConditionType::Deleting,
];

/// The most letters of a message.
const LONGEST: usize = 1024;

/// What is said of one step.
type Said = (Status, Reason, String);

/// What issuers said last of orders, by their Secrets, or, where there is no order yet, by the uid of the request.
pub type Waiting = std::collections::BTreeMap<String, (Reason, String)>;

/// The status that follows `previous`.
pub fn status(
    case: &Case,
    previous: &GatewayHostnameRequestStatus,
    world: &World,
    waiting: &Waiting,
) -> GatewayHostnameRequestStatus {
    let now = Time(Timestamp::from_second(world.now.as_second()).unwrap_or(world.now));
    let generation =
        case.request.as_ref().and_then(|request| request.metadata.generation).unwrap_or_default();
    let mut next = previous.clone();
    let set = |conditions: &mut Vec<Condition>, kind: ConditionType, (status, reason, message): Said| {
        let message: String = message.chars().take(LONGEST).collect();
        conditions::set(conditions, kind, status, reason, message, generation, &now);
    };
    if case.is_leaving() {
        let (reason, why) = case.leaving.clone().unwrap_or_else(|| {
            (Reason::DeletionInProgress, "everything that was made is removed".to_owned())
        });
        set(&mut next.conditions, ConditionType::Deleting, (Status::True, reason, why));
        let ready = (Status::False, Reason::DeletionInProgress, "it is being deleted".to_owned());
        set(&mut next.conditions, ConditionType::Ready, ready);
        next.observed_generation = Some(generation);
        return next;
    }
    let steps = Steps { case, waiting };
    let said = [
        (ConditionType::Claimed, steps.claimed()),
        (ConditionType::CertificateRequested, steps.requested()),
        (ConditionType::DnsValidated, steps.validated()),
        (ConditionType::CertificateIssued, steps.issued()),
        (ConditionType::ListenerAttached, steps.attached()),
        (ConditionType::DnsAliasReady, steps.published()),
    ];
    let ready = steps.ready(&said);
    for (kind, said) in said {
        set(&mut next.conditions, kind, said);
    }
    set(&mut next.conditions, ConditionType::Ready, ready);
    next.observed_generation = Some(generation);
    // What is refused or waits says nothing of what still serves.
    next.waiting_for = case.blocked.as_ref().and_then(|blocked| {
        let (at, hostname, since) = blocked.holder.clone()?;
        Some(NameHolder { hostname: hostname.to_string(), namespace: at.namespace, name: at.name, since })
    });
    if case.is_claimed() {
        facts(case, previous, world, &mut next);
    }
    if let Some(order) = &case.certificate.serve {
        next.certificate_arn = order.issued.as_ref().and_then(|issued| issued.arn.clone());
        next.certificate = Some(certificate(order));
    }
    next
}

fn facts(
    case: &Case,
    previous: &GatewayHostnameRequestStatus,
    world: &World,
    next: &mut GatewayHostnameRequestStatus,
) {
    next.hostname_zone = case.zone.as_ref().and_then(|zone| zone.key.name.clone());
    next.hostnames = case.names.iter().map(ToString::to_string).collect();
    next.gateway_class = Some(case.class());
    if let Some(gateway) = &case.gateway {
        next.assigned_gateway = Some(gateway.clone());
        next.assigned_gateway_namespace = Some(world.settings.edge_namespace.clone());
    }
    next.assigned_load_balancer = case.addresses.first().cloned();
    next.addresses.clone_from(&case.addresses);
    if case.published {
        next.records = records(case, previous, world);
        next.observed_spec_hash = case.request.as_ref().map(|request| spec_hash(&request.spec));
    }
}

fn records(case: &Case, previous: &GatewayHostnameRequestStatus, world: &World) -> Vec<PublishedRecord> {
    let mut records = Vec::new();
    // What is being removed is there until it is gone.
    for removed in case.publications.iter().filter(|one| one.want == Want::Nothing && one.before.is_some()) {
        let told = world.told(&case.uid, &removed.zone.key, &removed.name, &Want::Nothing);
        if told != Some(&Progress::Settled) {
            let there = previous.records.iter().filter(|record| record.name == removed.name.as_str());
            records.extend(there.cloned());
        }
    }
    for publication in &case.publications {
        let mut add = |type_: &str, value: String| {
            let (name, type_) = (publication.name.to_string(), type_.to_owned());
            records.push(PublishedRecord { name, type_, value });
        };
        match &publication.want {
            Want::Nothing => {}
            Want::Addresses(addresses, _) => {
                for address in addresses {
                    add(if address.is_ipv4() { "A" } else { "AAAA" }, address.to_string());
                }
            }
            Want::Balancer(target, _) | Want::Canonical(target, _) => {
                let type_ = if matches!(publication.want, Want::Balancer(..)) { "ALIAS" } else { "CNAME" };
                add(type_, target.clone());
            }
            Want::Texts(texts, _) => texts.iter().for_each(|text| add("TXT", text.clone())),
        }
    }
    records.sort();
    records
}

fn certificate(order: &Order) -> PublishedCertificate {
    let time = |seconds: i64| Timestamp::from_second(seconds).ok().map(Time);
    let Some(issued) = &order.issued else { return PublishedCertificate::default() };
    PublishedCertificate {
        issuer: Some(issued.issuer.clone()),
        not_before: time(issued.not_before),
        not_after: time(issued.not_after),
        renew_at: issued.renew_at.and_then(time),
        serial: Some(issued.serial.clone()),
        secret_name: issued.arn.is_none().then(|| order.secret.clone()),
    }
}

/// FNV-1a of the spec: stable over versions, and all it has to show is that another spec is in effect.
fn spec_hash(spec: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(spec).unwrap_or_default();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

struct Steps<'a> {
    case: &'a Case,
    waiting: &'a Waiting,
}

impl Steps<'_> {
    fn claimed(&self) -> Said {
        let case = self.case;
        if let Some((reason, why)) = &case.refusal {
            return (Status::False, *reason, why.clone());
        }
        if let Some(blocked) = &case.blocked {
            return (Status::False, blocked.reason, blocked.message.clone());
        }
        if !case.claim.is_empty() {
            return (Status::Unknown, Reason::Progressing, format!("{} is being claimed", list(&case.claim)));
        }
        let holds = format!("this request holds {}", list(&case.names));
        let open = case.lets_in.as_ref().map(|let_in| {
            format!(
                "; others may have names below {} until {}, which GatewayHostnameRequest {} holds, and all others there are given up: \
                 spec.allowNamesBelow counts only then",
                let_in.wildcard, let_in.name, let_in.holder
            )
        });
        (Status::True, Reason::Claimed, holds + &open.unwrap_or_default())
    }

    /// The order that conditions are about: the one that is worked on, unless a good one is served. None is about what a request
    /// has that asks for something else.
    fn order(&self) -> Option<&Order> {
        let certificate = Some(&self.case.certificate).filter(|_| self.case.is_claimed())?;
        certificate.serve.as_ref().or(certificate.pending.as_ref()).map(|order| &**order)
    }

    fn requested(&self) -> Said {
        match self.order() {
            Some(order) if order.handle.is_some() || order.issued.is_some() => {
                (Status::True, Reason::Requested, format!("asked {} for a certificate", order.issuer))
            }
            Some(order) => self.waits(order, Reason::RequestFailed, "the certificate is being asked for"),
            None => self.failed_or_waits(Reason::RequestFailed),
        }
    }

    fn validated(&self) -> Said {
        match self.order() {
            Some(order) if order.issued.is_some() || order.told => {
                (Status::True, Reason::RecordsCreated, "what proves the names is in place".to_owned())
            }
            Some(order) if order.proofs.is_empty() => self.waits(
                order,
                Reason::PendingValidationRecords,
                "the issuer has not said yet how to prove the names",
            ),
            Some(order) => match &self.case.proof_trouble {
                Some((Reason::Progressing, why)) => {
                    (Status::False, Reason::ValidationRecordFailed, why.clone())
                }
                Some((reason, why)) => (Status::False, *reason, why.clone()),
                None => self.waits(
                    order,
                    Reason::ValidationRecordFailed,
                    "what proves the names is being put in place",
                ),
            },
            None => self.failed_or_waits(Reason::ValidationFailed),
        }
    }

    fn issued(&self) -> Said {
        match self.order() {
            Some(Order { issued: Some(issued), .. }) => {
                let until = Timestamp::from_second(issued.not_after).unwrap_or_default();
                let message = format!(
                    "issued by {}, good until {}",
                    issued.issuer,
                    until.strftime("%Y-%m-%dT%H:%M:%SZ")
                );
                (Status::True, Reason::Issued, message)
            }
            Some(order) => self.waits(order, Reason::PendingIssuance, "the certificate is not issued yet"),
            None => self.failed_or_waits(Reason::ValidationFailed),
        }
    }

    /// What an issuer said last, or else this.
    fn waits(&self, order: &Order, reason: Reason, otherwise: &str) -> Said {
        match self.waiting.get(&order.secret) {
            Some((Reason::Progressing, why)) => (Status::False, reason, why.clone()),
            Some((reason, why)) => (Status::False, *reason, why.clone()),
            None => (Status::False, reason, otherwise.to_owned()),
        }
    }

    fn failed_or_waits(&self, reason: Reason) -> Said {
        let is_claimed = self.case.is_claimed();
        let begins = is_claimed && self.case.certificate.start.is_some();
        let nobody = self.waiting.get(&self.case.uid).filter(|_| begins);
        match (self.case.certificate.failed.as_ref().filter(|_| is_claimed), nobody) {
            (_, Some((reason, why))) => (Status::False, *reason, why.clone()),
            (Some(why), None) => (Status::False, reason, why.clone()),
            (None, None) => {
                (Status::Unknown, Reason::WaitingForOthers, "earlier steps come first".to_owned())
            }
        }
    }

    fn attached(&self) -> Said {
        let case = self.case;
        if let Some((reason, why)) = &case.no_gateway {
            return (Status::False, *reason, why.clone());
        }
        let Some(gateway) = case.gateway.as_ref().filter(|_| case.certificate.serve.is_some()) else {
            return (Status::Unknown, Reason::WaitingForOthers, "earlier steps come first".to_owned());
        };
        if case.attached {
            let mut message = format!("Gateway {gateway} serves {}", list(&case.names));
            let sets: BTreeSet<usize> = case.sets.values().copied().collect();
            for set in sets {
                let names =
                    case.sets.iter().filter(|(_, number)| **number == set).map(|(name, _)| name.clone());
                let names: Vec<Hostname> = names.collect();
                let set = set_name(gateway, set);
                let names = list(&names);
                message = format!("{message}; routes for {names} have the parent {set} of kind ListenerSet");
            }
            return (Status::True, Reason::Attached, message);
        }
        match &case.service_trouble {
            Some((reason, why)) => (Status::False, *reason, format!("Gateway {gateway}: {why}")),
            None => (Status::False, Reason::Progressing, format!("Gateway {gateway} does not serve it yet")),
        }
    }

    fn published(&self) -> Said {
        let case = self.case;
        if case.published {
            let message = format!("{} leads to {}", list(&case.names), case.addresses.join(", "));
            return (Status::True, Reason::Created, message);
        }
        match &case.record_trouble {
            Some((Reason::Progressing, why)) => return (Status::False, Reason::Progressing, why.clone()),
            Some((reason, why)) => return (Status::False, *reason, why.clone()),
            None => {}
        }
        match (&case.gateway, case.attached) {
            (Some(gateway), true) if case.addresses.is_empty() => {
                (Status::False, Reason::WaitingForAddress, format!("Gateway {gateway} has no address yet"))
            }
            (Some(_), true) => {
                (Status::False, Reason::Progressing, "the records are being written".to_owned())
            }
            _ => (Status::Unknown, Reason::WaitingForOthers, "earlier steps come first".to_owned()),
        }
    }

    fn ready(&self, said: &[(ConditionType, Said)]) -> Said {
        if self.case.is_ready() {
            return (Status::True, Reason::Ready, format!("{} is published", list(&self.case.names)));
        }
        let first = said.iter().find(|(_, (status, ..))| *status != Status::True);
        first.map_or_else(
            || (Status::False, Reason::NotReady, "not all steps are done".to_owned()),
            |(kind, (_, reason, message))| (Status::False, *reason, format!("{kind}: {message}")),
        )
    }
}

fn list(names: &[Hostname]) -> String {
    let names: Vec<&str> = names.iter().map(Hostname::as_str).collect();
    names.join(", ")
}
