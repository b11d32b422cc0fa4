//! One look at everything, and what follows from it, in an order in which a target is never without an answer: carriers before
//! Services lead to them, Services back before carriers go, and requests last of all.

mod grants;
mod leaving;
mod telling;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use causeway_api::{InterceptRequest, Workstation, conditions::Reason, names};
use causeway_base::{backoff::spread, lock::lock};
use causeway_link::{Identity, Role, is_due};
use causeway_translate::{
    gateway::kinds::ObjectRef,
    intercept::{
        self, Accepted, Picture, Refused, Verdict,
        front::carrier_name,
        names::{STOWAWAY, taken},
        swap,
        world::Near,
    },
    stowaway_pod::{Bounds, Grant, Open, Told},
};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::{Pod, Secret, Service},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::grants::{grants, likely};
use super::{
    Controller, LOOK_AGAIN, SOON,
    authority::Keys,
    carrier::{Carrier, Maker, Of, Root, Standing},
    neighbourhood::Namespace,
    observe,
    room::Room,
    services::{Hold, Services, Wish, is_taken},
    stowaway::{self, Installed, Installer, trouble_of},
    workloads,
    workstations::{self, Judged},
};
use crate::framework::{
    apply::Report,
    children::{Children, typed},
    error::Error,
    finding::Finding,
    kinds::SECRET,
    overseer::Failed,
    report::chain,
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
