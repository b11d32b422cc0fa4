//! What is said of a look: statuses of requests and workstations, and Events on targets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway_api::conditions::ConditionType;
use causeway_api::{InterceptRequest, StowawayPods, conditions};
use causeway_translate::gateway::kinds::ObjectRef;
use causeway_translate::intercept::names::{LINK_PORT, WIREGUARD_GATEWAY_V4, WIREGUARD_GATEWAY_V6};
use causeway_translate::intercept::{Picture, TargetKind, TargetRef, Verdict, swap};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde_json::Value;

use super::{Outcome, Pass, places};
use crate::framework::error::Error;
use crate::framework::events::{Note, Severity};
use crate::framework::kinds::SERVICE_CIDR;
use crate::framework::status::now;
use crate::intercepts::carrier::{Of, Root};
use crate::intercepts::neighbourhood::Namespace;
use crate::intercepts::services::Hold;
use crate::intercepts::status::Facts;
use crate::intercepts::stowaway::{Installed, Way};
use crate::intercepts::workstations::{Common, Judged};
use crate::intercepts::{observe, status, stowaway, workstations};

impl Pass<'_> {
    /// Writes the statuses of requests, and tells their targets who intercepts them. Gives back whose machines get traffic.
    pub(super) async fn tell_requests(
        &self,
        picture: &Picture,
        judged: &[Judged],
        outcomes: &BTreeMap<(String, Of), Outcome>,
        known: &BTreeMap<String, Arc<Namespace>>,
        failures: &mut Vec<Error>,
    ) -> BTreeSet<String> {
        let controller = self.controller;
        let connected: BTreeSet<&str> =
            judged.iter().filter(|one| one.is_connected()).map(|one| one.uid.as_str()).collect();
        let mut intercepting = BTreeSet::new();
        let time = now();
        for (at, request) in &self.requests {
            let Some(verdict) = picture.requests.get(at) else { continue };
            let facts = self.facts(at, request, verdict, outcomes, known, &connected);
            let previous = controller.requests.previous(&**request);
            let next = status::status(request, &previous, &facts, &time);
            if next.active
                && let Verdict::Accepted(accepted) = verdict
            {
                intercepting.insert(accepted.workstation_uid.clone());
            }
            let was = conditions::find(&previous.conditions, ConditionType::Installed);
            let is = conditions::find(&next.conditions, ConditionType::Installed);
            let holds =
                |condition: Option<&Condition>| condition.is_some_and(|condition| condition.status == "True");
            if holds(was) != holds(is) {
                self.tell_target(at, request, verdict, known, holds(is)).await;
            }
            let told =
                controller.requests.report(&**request, &previous, &next, &controller.events, status::notes);
            failures.extend(told.await.err());
        }
        intercepting
    }

    pub(super) fn facts<'f>(
        &self,
        at: &ObjectRef,
        request: &InterceptRequest,
        verdict: &'f Verdict,
        outcomes: &BTreeMap<(String, Of), Outcome>,
        known: &BTreeMap<String, Arc<Namespace>>,
        connected: &BTreeSet<&str>,
    ) -> Facts<'f> {
        let uid = request.uid().unwrap_or_default();
        let mut facts = Facts {
            verdict,
            holds: BTreeMap::new(),
            is_current: true,
            is_connected: false,
            is_left: self.is_left(at, request),
            failure: None,
            originals: BTreeMap::new(),
        };
        let places: Vec<Of> = match verdict {
            Verdict::Accepted(accepted) => {
                facts.is_connected = connected.contains(accepted.workstation_uid.as_str());
                places(request, accepted)
            }
            _ => Vec::new(),
        };
        for of in places {
            let Some(outcome) = outcomes.get(&(at.namespace.clone(), of.clone())) else {
                facts.is_current = false;
                continue;
            };
            let name = name_of(&of);
            facts.is_current &= outcome.is_current;
            facts.failure = facts.failure.or_else(|| outcome.failure.clone());
            if let (Of::Service(service), Some(original)) = (&of, &outcome.original) {
                facts.originals.insert(service.clone(), original.clone());
            }
            facts.holds.insert(name, outcome.hold.clone().unwrap_or(Hold::Freeing));
        }
        if !matches!(verdict, Verdict::Accepted(_)) {
            if !known.contains_key(&at.namespace) {
                facts.failure = self.controller.neighbourhood.trouble(&at.namespace);
            }
            // What can't be put back keeps the request.
            let served = self.roots.iter().filter(|root| root.serves(&uid)).filter_map(Root::of);
            for of in served.chain(self.adrift_of(at, request)) {
                let Some(outcome) = outcomes.get(&(at.namespace.clone(), of.clone())) else { continue };
                if outcome.hold == Some(Hold::Lost) {
                    facts.holds.insert(name_of(&of), Hold::Lost);
                } else if outcome.hold == Some(Hold::Freeing) {
                    facts.failure = facts.failure.or_else(|| outcome.failure.clone());
                }
            }
        }
        facts
    }

    /// Whether a carrier carries it out, or may do so, or has left something of it.
    pub(super) fn is_left(&self, at: &ObjectRef, request: &InterceptRequest) -> bool {
        let uid = request.uid().unwrap_or_default();
        self.roots.iter().any(|root| root.serves(&uid)) || self.adrift_of(at, request).next().is_some()
    }

    /// What is adrift of all that a request was carried out by, or may be.
    pub(super) fn adrift_of(&self, at: &ObjectRef, request: &InterceptRequest) -> impl Iterator<Item = Of> {
        let services = request.status.iter().flat_map(|status| &status.services).cloned().map(Of::Service);
        let target = TargetRef::of(&request.spec).ok().filter(|_| swap::is_swap(request)).map(Of::Target);
        let is_read = self.read.contains(&at.namespace);
        services
            .chain(target)
            .filter(move |of| !is_read || self.adrift.contains(&(at.namespace.clone(), of.clone())))
    }

    /// An Event on the target: who intercepts it, and that it is over.
    async fn tell_target(
        &self,
        at: &ObjectRef,
        request: &InterceptRequest,
        verdict: &Verdict,
        known: &BTreeMap<String, Arc<Namespace>>,
        begins: bool,
    ) {
        let Ok(target) = TargetRef::of(&request.spec) else { return };
        let uid = known.get(&at.namespace).and_then(|near| uid_of(near, &target));
        let reference = ObjectReference {
            api_version: Some(if target.kind == TargetKind::Pod { "v1" } else { "apps/v1" }.to_owned()),
            kind: Some(target.kind.kind().to_owned()),
            namespace: Some(at.namespace.clone()),
            name: Some(target.name.clone()),
            uid,
            ..ObjectReference::default()
        };
        let text = match verdict {
            Verdict::Accepted(accepted) if begins => {
                let owner = accepted.owner.as_ref().map(|owner| format!(" ({owner})")).unwrap_or_default();
                format!(
                    "InterceptRequest {at}: Workstation {}{owner} gets {}",
                    accepted.workstation, accepted.takes
                )
            }
            _ => format!("InterceptRequest {at} does not take traffic of it any more"),
        };
        let note = Note {
            severity: Severity::Normal,
            reason: if begins { "Intercepted" } else { "InterceptEnded" }.to_owned(),
            action: "Intercept",
            text,
        };
        self.controller.events.publish(&reference, note).await;
    }

    pub(super) async fn tell_workstations(
        &self,
        judged: &[Judged],
        standing: &stowaway::Standing,
        installed: &Installed,
        intercepting: &BTreeSet<String>,
        failures: &mut Vec<Error>,
    ) {
        let controller = self.controller;
        let settings = &controller.settings;
        let nodes = observe::nodes(self.children);
        let way = Way::find(settings, standing.service.as_ref(), standing.entry.as_ref(), &nodes);
        let routed = self.routed(&nodes);
        let common = Common {
            keys: &self.keys,
            way: &way,
            pods: StowawayPods {
                namespace: settings.namespace.clone(),
                pods: standing.serving().into_iter().map(|pod| pod.name).collect(),
                port: LINK_PORT,
            },
            trouble: installed.trouble.clone().or_else(|| standing.trouble(self.now)),
            note: installed.note.clone(),
            routed: &routed,
            intercepting,
        };
        let time = now();
        for one in judged.iter().filter(|one| !one.is_leaving()) {
            let previous = controller.workstations.previous(&*one.object);
            let next = workstations::status(one, &previous, &common, &time);
            let told = controller.workstations.report(
                &*one.object,
                &previous,
                &next,
                &controller.events,
                workstations::notes,
            );
            failures.extend(told.await.err());
        }
    }

    /// The networks that WireGuard peers send here: those of the settings, or those of Services and pods as the cluster tells.
    fn routed(&self, nodes: &[k8s_openapi::api::core::v1::Node]) -> Vec<IpNet> {
        let settings = &self.controller.settings;
        let gateway = match settings.network {
            IpNet::V4(_) => WIREGUARD_GATEWAY_V4,
            IpNet::V6(_) => WIREGUARD_GATEWAY_V6,
        };
        if !settings.routed.is_empty() {
            return std::iter::once(IpNet::from(gateway)).chain(settings.routed.iter().copied()).collect();
        }
        let services = self.children.all(SERVICE_CIDR);
        let of_services = services.iter().flat_map(|one| {
            let cidrs = one.data.pointer("/spec/cidrs").and_then(Value::as_array).cloned();
            cidrs.unwrap_or_default().into_iter().filter_map(|cidr| Some(cidr.as_str()?.to_owned()))
        });
        let of_pods = nodes.iter().flat_map(|node| {
            let spec = node.spec.clone().unwrap_or_default();
            spec.pod_cidrs.unwrap_or_else(|| spec.pod_cidr.into_iter().collect())
        });
        let found: BTreeSet<IpNet> =
            of_services.chain(of_pods).filter_map(|cidr| cidr.parse().ok()).collect();
        let found = found.into_iter().chain(settings.bounds.networks.iter().copied()).collect::<Vec<_>>();
        std::iter::once(IpNet::from(gateway)).chain(IpNet::aggregate(&found)).collect()
    }
}

/// As people read it.
fn name_of(of: &Of) -> String {
    match of {
        Of::Service(name) => format!("Service {name}"),
        Of::Target(target) => target.to_string(),
    }
}

/// The uid of a target.
fn uid_of(near: &Namespace, target: &TargetRef) -> Option<String> {
    let is_it = |name: String| name == target.name;
    match target.kind {
        TargetKind::Deployment => near.deployments.all().iter().find(|one| is_it(one.name_any()))?.uid(),
        TargetKind::StatefulSet => near.stateful_sets.all().iter().find(|one| is_it(one.name_any()))?.uid(),
        TargetKind::ReplicaSet => near.replica_sets.all().iter().find(|one| is_it(one.name_any()))?.uid(),
        TargetKind::Pod => near.pods.all().iter().find(|one| is_it(one.name_any()))?.uid(),
    }
}
