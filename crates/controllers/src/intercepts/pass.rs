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
use causeway_base::{backoff::spread, lock::lock};
use causeway_link::{Identity, Role, is_due};
use causeway_translate::{
    gateway::kinds::ObjectRef,
    intercept::{
        self, Accepted, Picture, Refused, TargetKind, TargetRef, Verdict,
        front::carrier_name,
        names::{
            LINK_PORT, STOWAWAY, WIREGUARD_GATEWAY_V4, WIREGUARD_GATEWAY_V6, carrier as carrier_link_name,
            taken,
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
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Controller, LOOK_AGAIN, SOON,
    authority::Keys,
    carrier::{Carrier, Maker, Of, Root, Standing},
    neighbourhood::Namespace,
    observe,
    room::Room,
    services::{Hold, Services, Wish, is_taken},
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
    overseer::Failed,
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
    /// What carriers have though no plan says so any more: somebody has deleted that.
    adrift: BTreeSet<(String, Of)>,
    /// The namespaces of which that is known.
    read: BTreeSet<String>,
    now: Timestamp,
    began: Instant,
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
        Self {
            controller,
            children,
            keys,
            requests,
            workstations,
            roots,
            adrift: BTreeSet::new(),
            read: BTreeSet::new(),
            now: (controller.settings.now)(),
            began: Instant::now(),
        }
    }

    /// Does all of it; says when it wants to look again.
    pub(super) async fn run(mut self) -> Result<Duration, Failed> {
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
        let mut left_out = BTreeMap::new();
        let mut picture = self.picture(&judged, &known, &standing, &left_out);
        // Whoever is left out may have been in the way of others.
        loop {
            let more = self.beyond_room(&picture);
            if more.is_empty() {
                break;
            }
            left_out.extend(more);
            picture = self.picture(&judged, &known, &standing, &left_out);
        }
        let mut failures = Vec::new();
        let unheld = self.hold_requests(&picture, &mut failures).await;
        if !unheld.is_empty() {
            left_out.extend(unheld);
            picture = self.picture(&judged, &known, &standing, &left_out);
        }
        let carriers = carriers(&picture);
        self.adrift = self.adrift(&carriers, &known);
        self.read = known.keys().cloned().collect();
        let roots = self.make_roots(&carriers, &mut failures).await;
        let unjudged = self.unjudged(before.as_ref(), &judged, &known, &carriers, &roots);
        let grants = grants(&carriers, &roots, unjudged);
        let installed = self.install(&judged, before.as_ref(), grants, &standing).await;
        let mut waiting = false;
        let mut outcomes = self.carry(&carriers, &roots, &known, &mut failures, &mut waiting).await;
        waiting |= self.put_back(&carriers, &known, &mut outcomes, &mut failures).await;
        let intercepting = self.tell_requests(&picture, &judged, &outcomes, &known, &mut failures).await;
        self.tell_workstations(&judged, &standing, &installed, &intercepting, &mut failures).await;
        self.release(&judged, &picture, &mut failures).await;
        self.forget_pods(&standing, &mut failures).await;
        controller.services.retain(|uid| is_service_there(&known, uid));
        controller.workloads.retain(|uid| is_workload_there(&known, uid));
        controller.carriers.retain(|(namespace, name)| {
            carriers.iter().any(|one| one.namespace() == namespace && one.name() == *name)
        });
        if let Err(error) = installed.report.into_result() {
            failures.push(error);
        }
        // Something else that is refused is no reason to let the times of others pass; what is under way waits for the next try.
        let again = self.again(&picture, &judged, waiting && failures.is_empty());
        match failures.into_iter().max_by_key(Error::retry) {
            Some(error) => Err(Failed { error, again: Some(again) }),
            None => Ok(again),
        }
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
        left_out: &BTreeMap<ObjectRef, Verdict>,
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
        let mut requests = self.requests.clone();
        requests.retain(|at, _| !left_out.contains_key(at));
        let world = observe::world(self.children, requests, stations, near, standing.serving(), self.now);
        let mut picture = intercept::picture(&world);
        picture.requests.extend(left_out.iter().map(|(at, why)| (at.clone(), why.clone())));
        picture
    }

    /// The youngest requests that the pods of the cluster's end can't be told of, since there is no room for more.
    fn beyond_room(&self, picture: &Picture) -> BTreeMap<ObjectRef, Verdict> {
        let mut room = Room::new(self.controller.settings.room);
        let mut beyond = BTreeMap::new();
        for (at, request) in intercept::by_age(&self.requests) {
            let Some(Verdict::Accepted(accepted)) = picture.requests.get(at) else { continue };
            let grants: Vec<Grant> =
                places(request, accepted).iter().map(|_| likely(request, accepted)).collect();
            if grants.is_empty() || room.take(&at.namespace, &grants) {
                continue;
            }
            let message = format!(
                "there are as many older intercepts as namespace {}, or the cluster, may have: end those that nobody uses",
                at.namespace
            );
            let refused = Refused::new(Reason::LimitReached, message);
            beyond.insert(at.clone(), Verdict::Refused(refused));
        }
        beyond
    }

    /// No target is touched for a request that could go without anybody noticing: says which those are, and why.
    async fn hold_requests(
        &self,
        picture: &Picture,
        failures: &mut Vec<Error>,
    ) -> BTreeMap<ObjectRef, Verdict> {
        let finalizer = &self.controller.request_finalizer;
        let mut unheld = BTreeMap::new();
        let uids: BTreeSet<String> = self.requests.values().filter_map(|request| request.uid()).collect();
        lock(&self.controller.held).retain(|uid| uids.contains(uid));
        for (at, request) in &self.requests {
            let uid = request.uid().unwrap_or_default();
            if finalizer.is_on(request) {
                lock(&self.controller.held).remove(&uid);
                continue;
            }
            // The caches may not show yet what was added a moment ago.
            let is_held = lock(&self.controller.held).contains(&uid);
            if is_held || !matches!(picture.requests.get(at), Some(Verdict::Accepted(_))) {
                continue;
            }
            match finalizer.add(request).await {
                Ok(true) => drop(lock(&self.controller.held).insert(uid)),
                Ok(false) => drop(unheld.insert(at.clone(), Verdict::Pending("it is gone".to_owned()))),
                Err(error) => {
                    let why = format!("it can't be held: {}", chain(&error));
                    unheld.insert(at.clone(), Verdict::Pending(why));
                    failures.push(error);
                }
            }
        }
        let finalizer = &self.controller.workstation_finalizer;
        for workstation in &self.workstations {
            if workstation.metadata.deletion_timestamp.is_none() && !finalizer.is_on(workstation) {
                failures.extend(finalizer.add(workstation).await.err());
            }
        }
        unheld
    }

    /// What carriers have and neither a plan nor a request speaks of.
    fn adrift(
        &self,
        carriers: &[Carrier<'_>],
        known: &BTreeMap<String, Arc<Namespace>>,
    ) -> BTreeSet<(String, Of)> {
        let mut all = BTreeSet::new();
        for (name, near) in known {
            let services = near.services.all().into_iter().filter(|service| is_taken(service));
            all.extend(services.map(|service| (name.clone(), Of::Service(service.name_any()))));
            let seen = workloads::Workloads::see(&self.keys, near);
            let targets = seen.replaced.into_keys().chain(seen.stood_in.into_keys());
            all.extend(targets.map(|target| (name.clone(), Of::Target(target))));
        }
        for root in &self.roots {
            root.of().map(|of| all.remove(&(root.namespace(), of)));
        }
        for carrier in carriers {
            all.remove(&(carrier.namespace().to_owned(), carrier.of()));
        }
        all
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

    /// What carriers were granted that can't be judged for the moment, as their namespace is not read yet or they can't be made. It is
    /// not taken back: what is open there would end.
    fn unjudged(
        &self,
        before: Option<&Told>,
        judged: &[Judged],
        known: &BTreeMap<String, Arc<Namespace>>,
        carriers: &[Carrier<'_>],
        made: &[Option<Root>],
    ) -> Vec<Grant> {
        let is_unmade = |root: &Root| {
            let mut both = carriers.iter().zip(made);
            both.any(|(carrier, made)| {
                made.is_none() && carrier.namespace() == root.namespace() && root.of() == Some(carrier.of())
            })
        };
        let roots = self.roots.iter().filter(|root| !root.is_leaving());
        let names: BTreeSet<String> = roots
            .filter(|root| !known.contains_key(&root.namespace()) || is_unmade(root))
            .map(|root| carrier_link_name(&root.uid()))
            .collect();
        let peers: BTreeSet<&str> =
            judged.iter().filter_map(|one| one.peer()).map(|peer| peer.uid.as_str()).collect();
        let told = before.into_iter().flat_map(|told| &told.open.grants);
        told.filter(|grant| names.contains(&grant.carrier) && peers.contains(grant.workstation.as_str()))
            .cloned()
            .collect()
    }

    /// The cluster's end, for as long as there is a workstation; who may come and what carriers may have is told first.
    async fn install(
        &self,
        judged: &[Judged],
        before: Option<&Told>,
        grants: Vec<Grant>,
        standing: &stowaway::Standing,
    ) -> Installed {
        let controller = self.controller;
        if judged.is_empty() {
            let report = controller.applier.converge(&self.keys.owner, &[], &[], self.children).await;
            return Installed { report, ..Installed::default() };
        }
        let Some(identity) = self.identity(before) else { return Installed::default() };
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
            let Some(near) = known.get(carrier.namespace()) else { continue };
            let Some(root) = root else {
                outcomes.insert(key, self.lead_away(*carrier, near, failures).await);
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
                outcomes.insert(key, self.lead_away(*carrier, near, failures).await);
                continue;
            }
            let mut outcome = Outcome { failure: failure_of(&report), ..Outcome::default() };
            if let Err(error) = report.into_result() {
                failures.push(error);
            }
            self.lead(*carrier, Some(root), near, &mut outcome, failures).await;
            outcomes.insert(key, outcome);
        }
        outcomes
    }

    /// Where an earlier carrier is being removed: if somebody did that under a Service that leads to it, the Service goes back.
    async fn lead_away(&self, carrier: Carrier<'_>, near: &Namespace, failures: &mut Vec<Error>) -> Outcome {
        let mut outcome = Outcome::default();
        self.lead(carrier, None, near, &mut outcome, failures).await;
        if matches!(outcome.hold, None | Some(Hold::Taking(_))) {
            outcome.hold = Some(Hold::Taking("an earlier carrier is being removed".to_owned()));
        }
        outcome
    }

    async fn lead(
        &self,
        carrier: Carrier<'_>,
        root: Option<&Root>,
        near: &Namespace,
        outcome: &mut Outcome,
        failures: &mut Vec<Error>,
    ) {
        if let Err(error) = self.try_lead(carrier, root, near, outcome).await {
            outcome.failure.get_or_insert(Finding::no(Reason::ReconciliationFailed, chain(&error)));
            failures.push(error);
        }
    }

    /// Leads traffic to a carrier, if it is ready for that.
    async fn try_lead(
        &self,
        carrier: Carrier<'_>,
        root: Option<&Root>,
        near: &Namespace,
        outcome: &mut Outcome,
    ) -> Result<(), Error> {
        let controller = self.controller;
        match carrier {
            Carrier::Front(at, front) => {
                let name = carrier_name(&at.name);
                let pods = near.pods.all();
                let marks = taken(&front.selector, &name);
                let is_found =
                    |pod: &Pod| marks.iter().all(|(key, mark)| pod.labels().get(key) == Some(mark));
                let own = pods.iter().map(|pod| &**pod).filter(|pod| {
                    observe::is_of_carrier(*pod)
                        && pod.labels().get(names::LABEL_OWNER_NAME).is_some_and(|owner| *owner == name)
                        // One that is ready, and that the Service would not find, is as good as none.
                        && (is_found(pod) || !stowaway::is_ready(pod))
                });
                let standing =
                    root.map(|root| Standing::of(&root.plan, carrier.version(), own)).unwrap_or_default();
                outcome.is_current = standing.is_current;
                outcome.original = Some(json!({ "selector": front.selector }));
                let services = near.services.all();
                let Some(service) = services.iter().find(|one| one.name_any() == at.name) else {
                    return Ok(());
                };
                let is_settled =
                    root.is_some_and(|root| controller.carriers.is_settled(carrier, root, &standing.ready));
                let wish = Wish { selector: Some(&front.selector), standing: &standing, is_settled };
                outcome.hold = Some(controller.services.bring(&self.keys, near, service, &wish).await?);
            }
            Carrier::Swap(_, target, swap) => {
                let Some(root) = root else { return Ok(()) };
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
        outcomes: &mut BTreeMap<(String, Of), Outcome>,
        failures: &mut Vec<Error>,
    ) -> bool {
        let controller = self.controller;
        let mut waiting = false;
        for (namespace, of) in &self.adrift {
            let Some(near) = known.get(namespace) else { continue };
            let (outcome, _) = self.free(near, of, failures).await;
            waiting |= outcome.hold != Some(Hold::Lost);
            outcomes.insert((namespace.clone(), of.clone()), outcome);
        }
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
            let is_free = match root.of() {
                Some(of) => {
                    let (outcome, is_free) = self.free(near, &of, failures).await;
                    // Only people can help what is lost.
                    waiting |= outcome.hold != Some(Hold::Lost);
                    outcomes.insert((root.namespace(), of), outcome);
                    is_free
                }
                None => true,
            };
            if is_free {
                waiting = true;
                if let Err(source) = controller.carriers.remove(root).await {
                    failures.push(Error::Objects { failed: 1, total: 1, source: Box::new(source) });
                }
            }
        }
        waiting
    }

    /// Brings one nearer to what it was, and says whether it is that.
    async fn free(&self, near: &Namespace, of: &Of, failures: &mut Vec<Error>) -> (Outcome, bool) {
        let hold = match of {
            Of::Service(name) => self.give_back(near, name).await,
            Of::Target(target) => {
                let brought =
                    self.controller.workloads.bring(&self.keys, near, target, None, self.children).await;
                brought.map(|(hold, _)| hold)
            }
        };
        match hold {
            Ok(hold) => {
                let is_free = hold == Hold::Free;
                (Outcome { hold: Some(hold), ..Outcome::default() }, is_free)
            }
            Err(error) => {
                let failure = Some(Finding::no(Reason::RestoreFailed, chain(&error)));
                failures.push(error);
                (Outcome { hold: Some(Hold::Freeing), failure, ..Outcome::default() }, false)
            }
        }
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
    fn is_left(&self, at: &ObjectRef, request: &InterceptRequest) -> bool {
        let uid = request.uid().unwrap_or_default();
        self.roots.iter().any(|root| root.serves(&uid)) || self.adrift_of(at, request).next().is_some()
    }

    /// What is adrift of all that a request was carried out by, or may be.
    fn adrift_of(&self, at: &ObjectRef, request: &InterceptRequest) -> impl Iterator<Item = Of> {
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

    async fn tell_workstations(
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

    /// Lets go what is over: requests whose targets are as they were, workstations that nobody sends to, and those whose time
    /// has come.
    async fn release(&self, judged: &[Judged], picture: &Picture, failures: &mut Vec<Error>) {
        let controller = self.controller;
        for (at, request) in &self.requests {
            let is_over = matches!(picture.requests.get(at), Some(Verdict::Ending));
            if !is_over {
                continue;
            }
            if request.metadata.deletion_timestamp.is_none() {
                failures.extend(self.expire::<InterceptRequest>(request).await.err());
            } else if controller.request_finalizer.is_on(request) && !self.is_left(at, request) {
                match controller.request_finalizer.remove(request).await {
                    Ok(()) => controller.requests.forget(&request.uid().unwrap_or_default()),
                    Err(error) => failures.push(error),
                }
            }
        }
        for one in judged {
            if one.is_leaving() {
                let is_used = self.requests.iter().any(|(at, request)| {
                    let named = &request.spec.workstation;
                    let (namespace, name) = named.split_once('/').unwrap_or((&at.namespace, named));
                    (namespace, name) == (one.at.namespace.as_str(), one.at.name.as_str())
                        && self.is_left(at, request)
                });
                if controller.workstation_finalizer.is_on(&one.object) && !is_used {
                    match controller.workstation_finalizer.remove(&one.object).await {
                        Ok(()) => controller.workstations.forget(&one.uid),
                        Err(error) => failures.push(error),
                    }
                }
            } else if one.expiry().is_some_and(|end| end <= self.now) {
                failures.extend(self.expire::<Workstation>(&one.object).await.err());
            }
        }
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
    async fn forget_pods(&self, standing: &stowaway::Standing, failures: &mut Vec<Error>) {
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
                    let is_gone = match api.get_metadata_opt(replica).await {
                        Ok(pod) => pod.is_none(),
                        Err(source) => {
                            failures.push(Error::LookUpPod { name, source });
                            false
                        }
                    };
                    gone.insert(replica.clone(), is_gone);
                    is_gone
                };
                if is_gone {
                    failures.extend(self.forget(workstation, replica).await.err());
                }
            }
        }
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
    fn again(&self, picture: &Picture, judged: &[Judged], waiting: bool) -> Duration {
        if waiting {
            return SOON;
        }
        let ends = self.requests.values().filter_map(|request| intercept::expiry(request));
        let ends = ends.chain(judged.iter().filter_map(Judged::expiry));
        let ends = ends.chain(picture.requests.values().filter_map(|verdict| match verdict {
            Verdict::Accepted(accepted) => accepted.held_from,
            _ => None,
        }));
        let until = ends.map(|end| {
            let left = end.duration_since(self.now);
            Duration::try_from(left).unwrap_or_default().max(SOON)
        });
        let (services, workloads) = (&self.controller.services, &self.controller.workloads);
        let fights = [services.again(self.began), workloads.again(self.began)];
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

/// What carriers are granted, besides what some keep.
fn grants(carriers: &[Carrier<'_>], roots: &[Option<Root>], kept: Vec<Grant>) -> Vec<Grant> {
    let made = carriers.iter().zip(roots).filter_map(|(carrier, root)| Some((carrier, root.as_ref()?)));
    let mut grants: Vec<Grant> = made
        .flat_map(|(carrier, root)| {
            carrier.deliveries().iter().map(|delivery| Grant {
                carrier: carrier_link_name(&root.uid()),
                workstation: delivery.workstation.clone(),
                address: delivery.address,
                port: delivery.port,
            })
        })
        .chain(kept)
        .collect();
    grants.sort();
    grants.dedup();
    grants
}

/// What one carrier of a request will be granted for it, whatever the carrier is called: all uids are of one length.
fn likely(request: &InterceptRequest, accepted: &Accepted) -> Grant {
    Grant {
        carrier: carrier_link_name(&request.uid().unwrap_or_default()),
        workstation: accepted.workstation_uid.clone(),
        address: request.spec.destination_ip.as_deref().and_then(|text| text.parse().ok()),
        port: request.spec.destination_port,
    }
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

fn is_workload_there(known: &BTreeMap<String, Arc<Namespace>>, uid: &str) -> bool {
    let is_it = |metadata: &ObjectMeta| metadata.uid.as_deref() == Some(uid);
    known.values().any(|near| {
        near.deployments.all().iter().any(|one| is_it(&one.metadata))
            || near.stateful_sets.all().iter().any(|one| is_it(&one.metadata))
            || near.pods.all().iter().any(|one| is_it(&one.metadata))
    })
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
