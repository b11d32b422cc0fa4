//! One look at everything, and what follows from it, in an order in which a target is never without an answer: carriers before
//! Services lead to them, Services back before carriers go, and requests last of all.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use causeway_api::{
    InterceptRequest, StowawayPods, Workstation, WorkstationConnection,
    conditions::{self, ConditionType, Reason},
    names,
};
use causeway_base::backoff::spread;
use causeway_link::{Identity, Role, is_due};
use causeway_translate::{
    gateway::kinds::ObjectRef,
    intercept::{
        self, Accepted, Picture, TargetKind, TargetRef, Verdict,
        front::carrier_name,
        names::{
            LINK_PORT, STOWAWAY, WIREGUARD_GATEWAY_V4, WIREGUARD_GATEWAY_V6, carrier as carrier_link_name,
        },
        swap,
        world::Near,
    },
    stowaway_pod::{Bounds, Grant, Open, Told},
};
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::{ObjectReference, Pod, Secret, Service},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};

use super::{
    Controller, LOOK_AGAIN, SOON,
    authority::Keys,
    carrier::{Carrier, Maker, Of, Root, Standing},
    neighbourhood::Namespace,
    observe,
    services::{Hold, Services, Wish},
    status::{self, Facts},
    stowaway::{self, Installed, Installer, Way, trouble_of},
    workloads,
    workstations::{self, Common, Judged},
};
use crate::framework::{
    apply::Report,
    children::{Children, typed},
    error::Error,
    events::{Note, Severity},
    finding::Finding,
    kinds::{SECRET, SERVICE_CIDR},
    report::chain,
    status::now,
};

/// One look.
pub(super) struct Pass<'a> {
    controller: &'a Controller,
    children: &'a Children,
    keys: Arc<Keys>,
    requests: BTreeMap<ObjectRef, Arc<InterceptRequest>>,
    workstations: Vec<Arc<Workstation>>,
    roots: Vec<Root>,
    now: Timestamp,
}

/// What became of one carrier.
#[derive(Default)]
struct Outcome {
    hold: Option<Hold>,
    is_current: bool,
    failure: Option<Finding>,
    original: Option<Value>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        controller: &'a Controller,
        children: &'a Children,
        keys: Arc<Keys>,
        requests: BTreeMap<ObjectRef, Arc<InterceptRequest>>,
        workstations: Vec<Arc<Workstation>>,
        roots: Vec<Root>,
    ) -> Self {
        Self { controller, children, keys, requests, workstations, roots, now: (controller.settings.now)() }
    }

    /// Does all of it; says when it wants to look again.
    pub(super) async fn run(self) -> Result<Duration, Error> {
        let controller = self.controller;
        let standing = stowaway::Standing::read(self.children, &controller.settings.namespace);
        let before = self.told();
        let judged = controller.judge.all(
            self.workstations.clone(),
            &self.keys,
            before.as_ref().map_or(&[], |told| &told.open.peers),
            &standing.pod_names(),
            controller.settings.network,
            self.now,
        );
        let known = controller.neighbourhood.known();
        let picture = self.picture(&judged, &known, &standing);
        let mut failures = Vec::new();
        failures.extend(self.hold_requests(&picture).await.err());
        let carriers = carriers(&picture);
        let roots = self.make_roots(&carriers, &mut failures).await;
        let installed = self.install(&judged, before.as_ref(), &roots, &carriers, &standing).await;
        let mut waiting = false;
        let outcomes = self.carry(&carriers, &roots, &known, &mut failures, &mut waiting).await;
        waiting |= self.put_back(&carriers, &known, &mut failures).await;
        let intercepting = self.tell_requests(&picture, &judged, &outcomes, &known, &mut failures).await;
        failures.extend(self.tell_workstations(&judged, &standing, &installed, &intercepting).await.err());
        failures.extend(self.release(&judged, &picture).await.err());
        failures.extend(self.forget_pods(&standing).await.err());
        controller.services.retain(|uid| is_service_there(&known, uid));
        controller.carriers.retain(|(namespace, name)| {
            carriers.iter().any(|one| one.namespace() == namespace && one.name() == *name)
        });
        if let Err(error) = installed.report.into_result() {
            failures.push(error);
        }
        if let Some(error) = failures.into_iter().max_by_key(Error::retry) {
            return Err(error);
        }
        Ok(self.again(&judged, waiting))
    }

    /// What the pods of the cluster's end were told last.
    fn told(&self) -> Option<Told> {
        let namespace = &self.controller.settings.namespace;
        let secret: Secret = typed(&*self.children.get(SECRET, namespace, workstations::told_name())?)?;
        let entries: BTreeMap<String, ByteString> = secret.data?;
        Told::read(&entries)
    }

    fn picture(
        &self,
        judged: &[Judged],
        known: &BTreeMap<String, Arc<Namespace>>,
        standing: &stowaway::Standing,
    ) -> Picture {
        let near: BTreeMap<String, Near> = known
            .iter()
            .map(|(name, namespace)| {
                let seen = self.controller.services.see(&self.keys, namespace);
                let replaced = workloads::Workloads::see(&self.keys, namespace);
                (name.clone(), observe::near(namespace, &seen, &replaced))
            })
            .collect();
        let stations = judged.iter().map(|one| (one.at.clone(), one.station())).collect();
        let world = observe::world(
            self.children,
            self.requests.clone(),
            stations,
            near,
            standing.serving(),
            self.now,
        );
        intercept::picture(&world)
    }

    /// No target is touched for a request that could go without anybody noticing.
    async fn hold_requests(&self, picture: &Picture) -> Result<(), Error> {
        let finalizer = &self.controller.request_finalizer;
        for (at, request) in &self.requests {
            let is_accepted = matches!(picture.requests.get(at), Some(Verdict::Accepted(_)));
            if is_accepted && !finalizer.is_on(request) {
                finalizer.add(request).await?;
            }
        }
        let finalizer = &self.controller.workstation_finalizer;
        for workstation in &self.workstations {
            if workstation.metadata.deletion_timestamp.is_none() && !finalizer.is_on(workstation) {
                finalizer.add(workstation).await?;
            }
        }
        Ok(())
    }

    /// What each carrier's objects belong to.
    async fn make_roots(&self, carriers: &[Carrier<'_>], failures: &mut Vec<Error>) -> Vec<Option<Root>> {
        let mut roots = Vec::with_capacity(carriers.len());
        for carrier in carriers {
            match self.controller.carriers.root(*carrier, self.children).await {
                Ok(root) => roots.push(root),
                Err(source) => {
                    failures.push(Error::Objects { failed: 1, total: 1, source: Box::new(source) });
                    roots.push(None);
                }
            }
        }
        roots
    }

    /// The cluster's end, for as long as there is a workstation; who may come and what carriers may have is told first.
    async fn install(
        &self,
        judged: &[Judged],
        before: Option<&Told>,
        roots: &[Option<Root>],
        carriers: &[Carrier<'_>],
        standing: &stowaway::Standing,
    ) -> Installed {
        let controller = self.controller;
        if judged.is_empty() {
            let report = controller.applier.converge(&self.keys.owner, &[], &[], self.children).await;
            return Installed { report, ..Installed::default() };
        }
        let Some(identity) = self.identity(before) else { return Installed::default() };
        let mut grants: Vec<Grant> = Vec::new();
        for (carrier, root) in carriers.iter().zip(roots) {
            let Some(root) = root else { continue };
            grants.extend(carrier.deliveries().iter().map(|delivery| Grant {
                carrier: carrier_link_name(&root.uid()),
                workstation: delivery.workstation.clone(),
                address: delivery.address,
                port: delivery.port,
            }));
        }
        grants.sort();
        grants.dedup();
        let bounds = &controller.settings.bounds;
        let mut peers: Vec<_> = judged.iter().filter_map(|one| one.peer().cloned()).collect();
        peers.sort_by(|one, other| one.uid.cmp(&other.uid));
        let told = Told {
            identity: identity.to_pem(),
            wireguard: Some(self.keys.wireguard),
            open: Open {
                peers,
                grants,
                bounds: Bounds {
                    networks: bounds.networks.clone(),
                    denied: bounds.denied.clone(),
                    no_services: bounds.no_services,
                    no_pods: bounds.no_pods,
                    outside_names: bounds.outside_names,
                },
            },
        };
        let installer = Installer {
            applier: &controller.applier,
            settings: &controller.settings,
            pods: &controller.pods,
            owner: &self.keys.owner,
            children: self.children,
            standing,
        };
        installer.install(&told).await
    }

    /// What the cluster's end proves itself with: what it has, if that is good for a while.
    fn identity(&self, before: Option<&Told>) -> Option<Identity> {
        let authority = &self.keys.authority;
        let has = before.and_then(|told| Identity::from_pem(&told.identity).ok());
        let is_good = |identity: &Identity| {
            let age = authority.age_of_identity(identity, Role::Listener, STOWAWAY);
            age.is_some_and(|age| !is_due(age))
        };
        has.filter(is_good).or_else(|| authority.issue(Role::Listener, STOWAWAY).ok())
    }

    /// Makes carriers and leads traffic to them.
    async fn carry(
        &self,
        carriers: &[Carrier<'_>],
        roots: &[Option<Root>],
        known: &BTreeMap<String, Arc<Namespace>>,
        failures: &mut Vec<Error>,
        waiting: &mut bool,
    ) -> BTreeMap<(String, Of), Outcome> {
        let controller = self.controller;
        let mut updating = carriers.iter().filter(|one| Maker::is_rolling(**one, self.children)).count();
        let mut outcomes = BTreeMap::new();
        for (carrier, root) in carriers.iter().zip(roots) {
            let key = (carrier.namespace().to_owned(), carrier.of());
            let (Some(root), Some(near)) = (root, known.get(carrier.namespace())) else {
                let hold = Hold::Taking("an earlier carrier is being removed".to_owned());
                outcomes.insert(key, Outcome { hold: Some(hold), ..Outcome::default() });
                continue;
            };
            let is_next = controller.carriers.wants_update(*carrier, self.children);
            let may_update = updating < controller.pods.updates_at_once;
            updating += usize::from(may_update && is_next);
            let sealed = match carrier {
                Carrier::Front(_, front) => Services::seal(&self.keys, &front.uid, &front.selector),
                Carrier::Swap(..) => None,
            };
            let mut report = controller
                .carriers
                .make(*carrier, root, &self.keys, sealed.as_deref(), self.children, may_update)
                .await;
            if report.forgive_passing() {
                *waiting = true;
                let hold = Hold::Taking("an earlier carrier is being removed".to_owned());
                outcomes.insert(key, Outcome { hold: Some(hold), ..Outcome::default() });
                continue;
            }
            let mut outcome = Outcome { failure: failure_of(&report), ..Outcome::default() };
            if let Err(error) = report.into_result() {
                failures.push(error);
            }
            match self.lead(*carrier, root, near, &mut outcome).await {
                Ok(()) => {}
                Err(error) => {
                    outcome.failure.get_or_insert(Finding::no(Reason::ReconciliationFailed, chain(&error)));
                    failures.push(error);
                }
            }
            outcomes.insert(key, outcome);
        }
        outcomes
    }

    /// Leads traffic to a carrier, if it is ready for that.
    async fn lead(
        &self,
        carrier: Carrier<'_>,
        root: &Root,
        near: &Namespace,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let controller = self.controller;
        match carrier {
            Carrier::Front(at, front) => {
                let name = carrier_name(&at.name);
                let pods = near.pods.all();
                let own = pods.iter().map(|pod| &**pod).filter(|pod| {
                    observe::is_of_carrier(*pod)
                        && pod.labels().get(names::LABEL_OWNER_NAME).is_some_and(|owner| *owner == name)
                });
                let standing = Standing::of(&root.plan, carrier.version(), own);
                outcome.is_current = standing.is_current;
                outcome.original = Some(json!({ "selector": front.selector }));
                let services = near.services.all();
                let Some(service) = services.iter().find(|one| one.name_any() == at.name) else {
                    return Ok(());
                };
                let is_settled = controller.carriers.is_settled(carrier, root, &standing.ready);
                let wish = Wish { selector: Some(&front.selector), standing: &standing, is_settled };
                outcome.hold = Some(controller.services.bring(&self.keys, near, service, &wish).await?);
            }
            Carrier::Swap(_, target, swap) => {
                let wish = workloads::Wish {
                    root,
                    version: carrier.version(),
                    swap,
                    image: &controller.pods.manager_image,
                };
                let (hold, is_current) =
                    controller.workloads.bring(&self.keys, near, target, Some(&wish), self.children).await?;
                outcome.hold = Some(hold);
                outcome.is_current = is_current;
            }
        }
        Ok(())
    }

    /// Gives back what no request asks for any more, and then removes its carrier. Says whether something is waited for.
    async fn put_back(
        &self,
        carriers: &[Carrier<'_>],
        known: &BTreeMap<String, Arc<Namespace>>,
        failures: &mut Vec<Error>,
    ) -> bool {
        let controller = self.controller;
        let mut waiting = false;
        for root in self.roots.iter().filter(|root| !root.is_leaving()) {
            let is_wanted =
                carriers.iter().any(|one| one.namespace() == root.namespace() && one.name() == root.name());
            // A request that is not understood yet may still ask for it.
            let is_open = self.requests.iter().any(|(at, request)| {
                at.namespace == root.namespace()
                    && root.serves(&request.uid().unwrap_or_default())
                    && !known.contains_key(&at.namespace)
            });
            let Some(near) = known.get(&root.namespace()).filter(|_| !is_wanted && !is_open) else {
                continue;
            };
            waiting = true;
            let hold = match root.of() {
                Some(Of::Service(name)) => self.give_back(near, &name).await,
                Some(Of::Target(target)) => controller
                    .workloads
                    .bring(&self.keys, near, &target, None, self.children)
                    .await
                    .map(|(hold, _)| hold),
                None => Ok(Hold::Free),
            };
            match hold {
                Ok(Hold::Free) => {
                    if let Err(source) = controller.carriers.remove(root).await {
                        failures.push(Error::Objects { failed: 1, total: 1, source: Box::new(source) });
                    }
                }
                Ok(_) => {}
                Err(error) => failures.push(error),
            }
        }
        waiting
    }

    async fn give_back(&self, near: &Namespace, name: &str) -> Result<Hold, Error> {
        let services = near.services.all();
        let Some(service) = services.iter().find(|one| one.name_any() == name) else { return Ok(Hold::Free) };
        let wish = Wish { selector: None, standing: &Standing::default(), is_settled: true };
        self.controller.services.bring(&self.keys, near, service, &wish).await
    }

    /// Writes the statuses of requests, and tells their targets who intercepts them. Gives back whose machines get traffic.
    async fn tell_requests(
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
            let holds = |condition: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>| {
                condition.is_some_and(|condition| condition.status == "True")
            };
            if holds(was) != holds(is) {
                self.tell_target(at, request, verdict, known, holds(is)).await;
            }
            let told =
                controller.requests.report(&**request, &previous, &next, &controller.events, status::notes);
            failures.extend(told.await.err());
        }
        intercepting
    }

    fn facts<'f>(
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
            is_left: self.is_left(&uid),
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
            let name = match &of {
                Of::Service(name) => format!("Service {name}"),
                Of::Target(target) => target.to_string(),
            };
            facts.is_current &= outcome.is_current;
            facts.failure = facts.failure.or_else(|| outcome.failure.clone());
            if let (Of::Service(service), Some(original)) = (&of, &outcome.original) {
                facts.originals.insert(service.clone(), original.clone());
            }
            facts.holds.insert(name, outcome.hold.clone().unwrap_or(Hold::Freeing));
        }
        if !matches!(verdict, Verdict::Accepted(_)) {
            // What can't be put back keeps the request.
            for root in self.roots.iter().filter(|root| root.serves(&uid)) {
                let Some(Of::Service(name)) = root.of() else { continue };
                let lost = known
                    .get(&at.namespace)
                    .is_some_and(|near| self.controller.services.see(&self.keys, near).lost.contains(&name));
                if lost {
                    facts.holds.insert(format!("Service {name}"), Hold::Lost);
                }
            }
        }
        facts
    }

    /// Whether a carrier carries it out, or may do so.
    fn is_left(&self, uid: &str) -> bool {
        self.roots.iter().any(|root| root.serves(uid))
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

    async fn tell_workstations(
        &self,
        judged: &[Judged],
        standing: &stowaway::Standing,
        installed: &Installed,
        intercepting: &BTreeSet<String>,
    ) -> Result<(), Error> {
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
            controller
                .workstations
                .report(&*one.object, &previous, &next, &controller.events, workstations::notes)
                .await?;
        }
        Ok(())
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

    /// Lets go what is over: requests whose targets are as they were, workstations that nobody sends to, and those whose time
    /// has come.
    async fn release(&self, judged: &[Judged], picture: &Picture) -> Result<(), Error> {
        let controller = self.controller;
        for (at, request) in &self.requests {
            let is_over = matches!(picture.requests.get(at), Some(Verdict::Ending));
            if !is_over {
                continue;
            }
            if request.metadata.deletion_timestamp.is_none() {
                self.expire::<InterceptRequest>(request).await?;
            } else if controller.request_finalizer.is_on(request)
                && !self.is_left(&request.uid().unwrap_or_default())
            {
                controller.request_finalizer.remove(request).await?;
                controller.requests.forget(&request.uid().unwrap_or_default());
            }
        }
        for one in judged {
            if one.is_leaving() {
                let is_used = self.requests.iter().any(|(at, request)| {
                    let named = &request.spec.workstation;
                    let (namespace, name) = named.split_once('/').unwrap_or((&at.namespace, named));
                    (namespace, name) == (one.at.namespace.as_str(), one.at.name.as_str())
                        && self.is_left(&request.uid().unwrap_or_default())
                });
                if controller.workstation_finalizer.is_on(&one.object) && !is_used {
                    controller.workstation_finalizer.remove(&one.object).await?;
                    controller.workstations.forget(&one.uid);
                }
            } else if one.expiry().is_some_and(|end| end <= self.now) {
                self.expire::<Workstation>(&one.object).await?;
            }
        }
        Ok(())
    }

    /// Deletes what has had its time.
    async fn expire<K>(&self, object: &K) -> Result<(), Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let note = Note {
            severity: Severity::Normal,
            reason: "Expired".to_owned(),
            action: "Delete",
            text: "its time to live, spec.ttl, is over".to_owned(),
        };
        self.controller.events.publish(&object.object_ref(&()), note).await;
        let namespace = object.namespace().unwrap_or_default();
        let api = Api::<K>::namespaced(self.controller.client.clone(), &namespace);
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        match api.delete(&object.name_any(), &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(()),
            Err(source) => {
                let kind = if K::kind(&()) == "Workstation" { "Workstation" } else { "InterceptRequest" };
                Err(Error::ChangeTarget { kind, name: format!("{namespace}/{}", object.name_any()), source })
            }
        }
    }

    /// Removes the words of pods of the cluster's end that are gone.
    async fn forget_pods(&self, standing: &stowaway::Standing) -> Result<(), Error> {
        let controller = self.controller;
        let pods = standing.pod_names();
        let mut gone: BTreeMap<String, bool> = BTreeMap::new();
        for workstation in &self.workstations {
            let connections = workstation.status.iter().flat_map(|status| &status.connections);
            for WorkstationConnection { replica, .. } in
                connections.filter(|one| !pods.contains(&one.replica))
            {
                let is_gone = if let Some(is_gone) = gone.get(replica) {
                    *is_gone
                } else {
                    // The caches may be behind a pod that has just begun to report.
                    let api =
                        Api::<Pod>::namespaced(controller.client.clone(), &controller.settings.namespace);
                    let name = format!("{}/{replica}", controller.settings.namespace);
                    let pod = api.get_metadata_opt(replica).await;
                    let is_gone = pod.map_err(|source| Error::LookUpPod { name, source })?.is_none();
                    gone.insert(replica.clone(), is_gone);
                    is_gone
                };
                if is_gone {
                    self.forget(workstation, replica).await?;
                }
            }
        }
        Ok(())
    }

    /// Gives up, in a pod's place, what it had written.
    async fn forget(&self, workstation: &Workstation, replica: &str) -> Result<(), Error> {
        let name = workstation.name_any();
        let namespace = workstation.namespace().unwrap_or_default();
        let body = json!({
            "apiVersion": names::API_VERSION, "kind": "Workstation", "metadata": { "name": name }, "status": {},
        });
        let params = PatchParams::apply(&names::stowaway_report_manager(replica)).force();
        let api = Api::<Workstation>::namespaced(self.controller.client.clone(), &namespace);
        match api.patch_status(&name, &params, &Patch::Apply(&body)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
            Err(source) => Err(Error::WriteStatus { source }),
        }
    }

    /// When to look again though nothing changes: when a time is over, or somebody was left alone for long enough.
    fn again(&self, judged: &[Judged], waiting: bool) -> Duration {
        if waiting {
            return SOON;
        }
        let ends = self.requests.values().filter_map(|request| intercept::expiry(request));
        let ends = ends.chain(judged.iter().filter_map(Judged::expiry));
        let until = ends.map(|end| {
            let left = end.duration_since(self.now);
            Duration::try_from(left).unwrap_or_default().max(SOON)
        });
        let fights = [self.controller.services.again(), self.controller.workloads.again()];
        let fights = fights.into_iter().flatten().map(|left| left.max(SOON));
        until.chain(fights).min().unwrap_or(LOOK_AGAIN).min(spread(LOOK_AGAIN))
    }
}

/// All carriers of a picture.
fn carriers(picture: &Picture) -> Vec<Carrier<'_>> {
    let fronts = picture.fronts.iter().map(|(at, front)| Carrier::Front(at, front));
    let swaps =
        picture.swaps.iter().map(|((namespace, target), swap)| Carrier::Swap(namespace, target, swap));
    fronts.chain(swaps).collect()
}

/// Where a request is carried out.
fn places(request: &InterceptRequest, accepted: &Accepted) -> Vec<Of> {
    if accepted.is_held {
        return Vec::new();
    }
    if swap::is_swap(request) {
        return vec![Of::Target(accepted.target.clone())];
    }
    accepted.services.iter().cloned().map(Of::Service).collect()
}

/// What could not be done for a carrier.
fn failure_of(report: &Report) -> Option<Finding> {
    report.failures().next().map(trouble_of)
}

fn is_service_there(known: &BTreeMap<String, Arc<Namespace>>, uid: &str) -> bool {
    let all = known.values().flat_map(|namespace| namespace.services.all());
    all.into_iter().any(|service: Arc<Service>| service.metadata.uid.as_deref() == Some(uid))
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
