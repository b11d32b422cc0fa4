//! One look at everything, and what follows from it: whatever can be done now is done for all requests at once.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use causeway_api::{
    DnsProviderKind, DomainClaim, GatewayHostnameRequest, HostnameZone,
    conditions::{self, ConditionType, Reason, Status},
    names,
};
use causeway_base::lock::lock;
use causeway_translate::hostname::{
    self, Case, Origin, Picture, World, ZoneKey, claim_name, claim_spec, listeners::COMPONENT,
    missing_origin, status::status,
};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use super::{
    Controller, FIELD_MANAGER, grants, local,
    metrics::{Role, Standing},
    orders::Outcome,
    probe, rehearsal,
    status::{no_notes, notes},
};
use crate::framework::{
    apply::{self, Owner, Wanted},
    children::{ChildKind, Children, typed},
    error::Error,
    events::{Note, Severity},
    kinds::{
        CONFIG_MAP, DEPLOYMENT, DOMAIN_CLAIM, GATEWAY, GATEWAY_HOSTNAME_REQUEST, HOSTNAME_ZONE, HTTP_ROUTE,
        LISTENER_SET, LOAD_BALANCER_CONFIGURATION, SERVICE, TRAFFIC_POLICY,
    },
    overseer::Failed,
};

/// How soon it is said anew how long something has been waited for.
const COUNTED: Duration = Duration::from_mins(1);

/// How many requests are worked on at a time.
const AT_ONCE: usize = 16;

/// Does this work, some of it at a time.
fn bounded<'a, T: Send + 'a>(work: impl Iterator<Item = BoxFuture<'a, T>>) -> BoxFuture<'a, Vec<T>> {
    let work: Vec<_> = work.collect();
    stream::iter(work).buffer_unordered(AT_ONCE).collect().boxed()
}

/// One look.
pub(super) struct Pass<'a> {
    controller: &'a Controller,
    children: &'a Children,
}

impl<'a> Pass<'a> {
    pub(super) fn new(controller: &'a Controller, children: &'a Children) -> Self {
        Self { controller, children }
    }

    fn world(&self) -> World {
        let controller = self.controller;
        let mut world = lock(&controller.readings).world(self.children, &controller.settings);
        lock(&controller.claims_ahead).retain(|name, claim| {
            let is_ahead = !world.claims.contains_key(name);
            if is_ahead {
                world.claims.insert(name.clone(), Arc::clone(claim));
            }
            is_ahead
        });
        world.orders = controller.orders.observe(self.children);
        world.records = controller.records.told();
        world.broken_zones = controller.records.broken();
        world
    }

    /// Does all of it; says when it wants to look again.
    pub(super) async fn run(self) -> Result<Option<Duration>, Failed> {
        let controller = self.controller;
        // Without its definition there would be no request, and all that was made would be for nobody.
        if [GATEWAY_HOSTNAME_REQUEST, DOMAIN_CLAIM, HOSTNAME_ZONE]
            .iter()
            .any(|kind| self.children.served(*kind).is_none())
        {
            return Ok(None);
        }
        if controller.settings.dry_run {
            return Ok(Some(self.rehearse().await));
        }
        let mut failures = Vec::new();
        self.notice_zones();
        let mut world = self.world();
        let picture = hostname::picture(&world);
        probe::answers(&mut world, &picture).await;
        self.hold_requests(&picture, &mut failures).await;
        self.hold_zones(&world, &picture, &mut failures).await;
        self.claim(&world, &picture, &mut failures).await;
        let mut moved = self.certify(&world, &picture, &mut failures).await;
        let edge = &controller.settings.world.edge_namespace;
        // What a namespace holds is said before anybody can be served, and taken back before anybody else can hold it.
        failures.extend(grants::write(&controller.applier, &picture.grants, edge, self.children).await.err());
        self.serve(&picture, &mut failures).await;
        // Before anything is written in a zone, it has to be known that it is there.
        let untold = |case: &&Case| case.held.iter().any(|held| !held.may_have_records);
        let new = picture.cases.values().filter(untold).filter_map(|case| case.zone.clone());
        let zones = new.chain(hostname::known_zones(&world)).collect();
        let round = controller.records.carry(&picture, zones, &controller.figures).await;
        moved |= round.moved;
        self.tell_claims(&world, &mut failures).await;
        moved |= self.retire(&world, &picture, &mut failures).await;
        for (uid, what) in &round.drifted {
            if let Some(request) = picture.cases.get(uid).and_then(|case| case.request.as_deref()) {
                self.tell_drift(request, what).await;
            }
        }
        self.tidy_server(&picture, &mut failures).await;
        // What is said is what is known by now.
        let world =
            if moved { self.world() } else { World { broken_zones: controller.records.broken(), ..world } };
        let picture = if moved { hostname::picture(&world) } else { picture };
        self.tell(&world, &picture, &mut failures).await;
        let waits = self.count(&world, &picture);
        let again = if moved {
            Some(Duration::ZERO)
        } else {
            let orders = controller.orders.again(&picture, &world);
            [round.again, orders, waits.then_some(COUNTED)].into_iter().flatten().min()
        };
        match failures.into_iter().max_by_key(Error::retry) {
            Some(error) => Err(Failed { error, again }),
            None => Ok(again),
        }
    }

    /// Says what would be done, if that is another plan than the one before.
    async fn rehearse(&self) -> Duration {
        let controller = self.controller;
        let plan = rehearsal::plan(&self.world(), &controller.records).await;
        let is_new = {
            let mut said = lock(&controller.said);
            let is_new = *said != plan;
            said.clone_from(&plan);
            is_new
        };
        if is_new {
            tracing::info!(lines = plan.len(), "a dry run for hostnames: this would be done, and nothing is");
            for line in plan {
                tracing::info!("plan: {line}");
            }
        }
        controller.settings.sweep
    }

    /// The zones of our own DNS server are an object: whoever changes it is noticed at once.
    fn notice_zones(&self) {
        let controller = self.controller;
        let map = self.children.get(CONFIG_MAP, &controller.settings.world.edge_namespace, local::SERVER);
        let version = map.and_then(|map| map.resource_version());
        let mut seen = lock(&controller.zones_version);
        if *seen != version {
            controller.records.look_again(DnsProviderKind::Local);
            *seen = version;
        }
    }

    /// Nothing is made for a request that could go without anybody noticing.
    async fn hold_requests(&self, picture: &Picture, failures: &mut Vec<Error>) {
        let finalizer = &self.controller.finalizer;
        let wanting = picture.cases.values().filter(|case| !case.names.is_empty() && !case.is_leaving());
        let requests =
            wanting.filter_map(|case| case.request.as_deref()).filter(|request| !finalizer.is_on(request));
        let results: Vec<Result<bool, Error>> =
            bounded(requests.map(|request| finalizer.add(request).boxed())).await;
        failures.extend(results.into_iter().filter_map(Result::err));
    }

    /// A zone stays for as long as something rests on it: it says how that is cleared up.
    async fn hold_zones(&self, world: &World, picture: &Picture, failures: &mut Vec<Error>) {
        let finalizer = &self.controller.zone_finalizer;
        for (name, zone) in &world.zones {
            let is_used = picture.zones_in_use.contains(name);
            let is_leaving = zone.metadata.deletion_timestamp.is_some();
            let result = match (is_leaving, finalizer.is_on(zone)) {
                (false, false) if is_used => finalizer.add(zone).await.map(drop),
                (true, true) if !is_used => finalizer.remove(zone).await,
                _ => Ok(()),
            };
            failures.extend(result.err());
        }
    }

    /// Takes the names that are free.
    async fn claim(&self, world: &World, picture: &Picture, failures: &mut Vec<Error>) {
        let controller = self.controller;
        let is_held = |case: &&Case| {
            let zone = case.zone.as_ref().and_then(|zone| zone.key.name.as_ref());
            let zone_stays = zone.is_none_or(|zone| {
                world.zones.get(zone).is_some_and(|zone| controller.zone_finalizer.is_on(zone))
            });
            let request = case.request.as_deref();
            zone_stays && request.is_some_and(|request| controller.finalizer.is_on(request))
        };
        let claiming = picture.cases.values().filter(|case| !case.claim.is_empty()).filter(is_held);
        let wanted = claiming.flat_map(|case| case.claim.iter().map(move |name| (case, name)));
        let results: Vec<Result<(), Error>> =
            bounded(wanted.map(|(case, name)| self.make_claim(case, name).boxed())).await;
        failures.extend(results.into_iter().filter_map(Result::err));
        let lasting = world.claims.values().filter(|claim| claim.metadata.deletion_timestamp.is_none());
        let unplaced = lasting.filter_map(|claim| Some((claim, missing_origin(&claim.spec, world)?)));
        let results: Vec<Result<(), Error>> =
            bounded(unplaced.map(|(claim, origin)| self.place(claim, origin).boxed())).await;
        failures.extend(results.into_iter().filter_map(Result::err));
    }

    /// Says who has the records of a claim that was made before that was said: today's settings, before they are others.
    async fn place(&self, claim: &DomainClaim, origin: Origin) -> Result<(), Error> {
        let api = Api::<DomainClaim>::all(self.controller.client.clone());
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = json!({
            "metadata": {"uid": claim.uid()}, "spec": {"dns": origin.dns, "domain": origin.domain},
        });
        match api.patch(&claim.name_any(), &params, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            // Somebody has released it meanwhile.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(source) => Err(objects("DomainClaim", &claim.name_any(), source)),
        }
    }

    /// Says of claims since when they are held, and that there may be records before there are any: once their zone is known to be there.
    async fn tell_claims(&self, world: &World, failures: &mut Vec<Error>) {
        let unsaid = world.claims.values().filter(|claim| claim.metadata.deletion_timestamp.is_none());
        let unsaid = unsaid.filter_map(|claim| {
            let before = claim.status.clone().unwrap_or_default();
            let is_there = || self.controller.records.is_there(&ZoneKey::of_claim(&claim.spec));
            let status = json!({
                "claimedAt": before.claimed_at.as_ref().or(claim.metadata.creation_timestamp.as_ref()),
                "mayHaveRecords": before.may_have_records || is_there(),
            });
            let is_said = before.claimed_at.is_some() && status["mayHaveRecords"] == before.may_have_records;
            (!is_said).then_some((claim, status))
        });
        let results: Vec<Result<(), Error>> =
            bounded(unsaid.map(|(claim, status)| self.tell_claim(claim, status).boxed())).await;
        failures.extend(results.into_iter().filter_map(Result::err));
    }

    async fn tell_claim(&self, claim: &DomainClaim, status: Value) -> Result<(), Error> {
        let api = Api::<DomainClaim>::all(self.controller.client.clone());
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        // The uid keeps it off another one of this name.
        let patch = json!({"metadata": {"uid": claim.uid()}, "status": status});
        match api.patch_status(&claim.name_any(), &params, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            // Somebody has released it meanwhile.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                lock(&self.controller.claims_ahead).remove(&claim.name_any());
                Ok(())
            }
            Err(source) => Err(objects("DomainClaim", &claim.name_any(), source)),
        }
    }

    /// Removes our own DNS server once no record is asked for.
    async fn tidy_server(&self, picture: &Picture, failures: &mut Vec<Error>) {
        let edge = &self.controller.settings.world.edge_namespace;
        let mut publications = picture.cases.values().flat_map(|case| &case.publications);
        let is_wanted = publications.any(|one| one.zone.dns.provider == DnsProviderKind::Local);
        let map = self.children.get(CONFIG_MAP, edge, local::SERVER);
        if is_wanted || map.is_some_and(|map| !local::is_empty(&map)) {
            return;
        }
        // The zones last: without them nobody knows what the server would have to serve.
        for kind in [DEPLOYMENT, SERVICE, CONFIG_MAP] {
            let found = self.children.get(kind, edge, local::SERVER).filter(|found| self.is_ours(found));
            let Some(found) = found else { continue };
            let result = self.controller.applier.delete(kind, &found).await;
            failures.extend(result.err().map(|source| Error::Objects {
                failed: 1,
                total: 1,
                source: Box::new(source),
            }));
        }
    }

    async fn make_claim(&self, case: &Case, name: &hostname::Hostname) -> Result<(), Error> {
        let Some(zone) = &case.zone else { return Ok(()) };
        let api = Api::<DomainClaim>::all(self.controller.client.clone());
        let claim = DomainClaim {
            metadata: ObjectMeta {
                name: Some(claim_name(&zone.key.id, name)),
                labels: Some([(names::LABEL_MANAGED_BY.to_owned(), names::MANAGED_BY.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: claim_spec(case, zone, name),
            status: None,
        };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match api.create(&params, &claim).await {
            Ok(made) => {
                lock(&self.controller.claims_ahead).insert(made.name_any(), Arc::new(made));
                Ok(())
            }
            // Whoever was first has it; the watch brings who that is.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(source) => Err(objects("DomainClaim", &claim.name_any(), source)),
        }
    }

    /// Begins certificates, carries them on, and looks after those that are there.
    async fn certify(&self, world: &World, picture: &Picture, failures: &mut Vec<Error>) -> bool {
        let orders = &self.controller.orders;
        let begin = picture.cases.values().filter_map(|case| {
            let (zone, serial) = (case.certificate.zone.as_ref()?, case.certificate.start?);
            Some((case, zone, serial))
        });
        let begun: Vec<Result<bool, Error>> = bounded(begin.map(|(case, zone, serial)| {
            orders.begin(case, zone, serial, world.now.as_second(), &self.controller.figures).boxed()
        }))
        .await;
        let carry = picture.cases.values().flat_map(|case| {
            let certificate = &case.certificate;
            let zone = certificate.zone.as_ref();
            certificate
                .serve
                .iter()
                .chain(&certificate.pending)
                .filter_map(move |order| Some((order, case, zone?)))
        });
        let carried: Vec<(&Case, Result<Outcome, Error>)> = bounded(carry.map(|(order, case, zone)| {
            async move { (case, orders.carry(order, case, zone, world, &self.controller.figures).await) }
                .boxed()
        }))
        .await;
        let mut moved = false;
        for result in begun {
            match result {
                Ok(made) => moved |= made,
                Err(error) => failures.push(error),
            }
        }
        for (case, result) in carried {
            match result {
                Ok(outcome) => {
                    moved |= outcome.moved;
                    if let Some((request, what)) = case.request.as_deref().zip(outcome.drift) {
                        self.controller.figures.drifted();
                        self.tell_drift(request, what).await;
                    }
                }
                Err(error) => failures.push(error),
            }
        }
        moved
    }

    /// Brings the gateways to what they should be, and removes those that nobody is on.
    async fn serve(&self, picture: &Picture, failures: &mut Vec<Error>) {
        let (controller, settings) = (self.controller, &self.controller.settings.world);
        let mut wanted: Vec<(ChildKind, Value)> = Vec::new();
        for gateway in picture.gateways.values() {
            wanted.extend(
                gateway
                    .load_balancer_configuration(settings)
                    .map(|value| (LOAD_BALANCER_CONFIGURATION, value)),
            );
            wanted.extend(gateway.gateway(settings).map(|value| (GATEWAY, value)));
            wanted.extend(gateway.listener_sets(settings).into_iter().map(|value| (LISTENER_SET, value)));
            wanted.extend(gateway.redirect(settings).map(|value| (HTTP_ROUTE, value)));
            wanted.extend(gateway.proof_routes(settings).into_iter().map(|value| (HTTP_ROUTE, value)));
            wanted.extend(gateway.proof_answers(settings).into_iter().map(|value| (TRAFFIC_POLICY, value)));
        }
        let kept: BTreeSet<(&str, String)> = wanted
            .iter()
            .map(|(kind, value)| {
                (kind.kind, value["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            })
            .collect();
        let owner = Owner::nobody(&settings.edge_namespace);
        for (kind, value) in wanted {
            if self.children.served(kind).is_none() {
                continue;
            }
            let result = controller.applier.found(&owner, &Wanted::raw(kind, value), self.children).await;
            failures.extend(result.err().map(|source| Error::Objects {
                failed: 1,
                total: 1,
                source: Box::new(source),
            }));
        }
        for kind in [HTTP_ROUTE, TRAFFIC_POLICY, LISTENER_SET, GATEWAY, LOAD_BALANCER_CONFIGURATION] {
            for object in self.children.all(kind) {
                let is_kept = kept.contains(&(kind.kind, object.name_any()));
                // A label can be set by anybody.
                if is_kept || !self.is_ours(&object) || !controller.applier.has_made(&object) {
                    continue;
                }
                let result = controller.applier.delete(kind, &object).await;
                failures.extend(result.err().map(|source| Error::Objects {
                    failed: 1,
                    total: 1,
                    source: Box::new(source),
                }));
            }
        }
    }

    fn is_ours(&self, object: &DynamicObject) -> bool {
        let label = |key: &str| object.labels().get(key).map(String::as_str);
        object.namespace().as_deref() == Some(&self.controller.settings.world.edge_namespace)
            && label(names::LABEL_COMPONENT) == Some(COMPONENT)
            && label(names::LABEL_MANAGED_BY) == Some(names::MANAGED_BY)
    }

    /// Gives up what nobody needs any more: certificates, then claims, then the requests themselves.
    async fn retire(&self, world: &World, picture: &Picture, failures: &mut Vec<Error>) -> bool {
        let controller = self.controller;
        let removing = picture.cases.values().flat_map(|case| {
            let gone = case.orders.iter().filter(|order| case.remove_orders.contains(&order.secret));
            gone.map(move |order| (case, order))
        });
        let removed: Vec<Result<Outcome, Error>> = bounded(removing.map(|(_, order)| {
            async move {
                let zone = hostname::zone_of_order(order, world);
                controller.orders.remove(order, zone.as_ref(), &controller.figures).await
            }
            .boxed()
        }))
        .await;
        let mut moved = false;
        for result in removed {
            match result {
                Ok(outcome) => moved |= outcome.moved,
                Err(error) => failures.push(error),
            }
        }
        let releasing = picture.cases.values().flat_map(|case| &case.release);
        let released: Vec<Result<(), Error>> =
            bounded(releasing.map(|name| self.release(name, world).boxed())).await;
        failures.extend(released.into_iter().filter_map(Result::err));
        let going =
            picture.cases.values().filter(|case| case.is_gone()).filter_map(|case| case.request.as_deref());
        let going = going.filter(|request| controller.finalizer.is_on(request));
        let gone: Vec<Result<(), Error>> =
            bounded(going.map(|request| controller.finalizer.remove(request).boxed())).await;
        failures.extend(gone.into_iter().filter_map(Result::err));
        moved
    }

    async fn release(&self, name: &str, world: &World) -> Result<(), Error> {
        let Some(claim) = world.claims.get(name) else { return Ok(()) };
        let api = Api::<DomainClaim>::all(self.controller.client.clone());
        // The uid guards a claim that somebody else made under the same name a moment ago.
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: claim.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        match api.delete(name, &params).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(source) => return Err(objects("DomainClaim", name, source)),
        }
        lock(&self.controller.claims_ahead).remove(name);
        Ok(())
    }

    async fn tell_drift(&self, request: &GatewayHostnameRequest, what: &str) {
        let note = Note {
            severity: Severity::Warning,
            reason: Reason::DriftDetected.as_str().to_owned(),
            action: "Reconcile",
            text: what.to_owned(),
        };
        self.controller.events.publish(&request.object_ref(&()), note).await;
    }

    /// Writes what is true of every request and of every zone.
    async fn tell(&self, world: &World, picture: &Picture, failures: &mut Vec<Error>) {
        let controller = self.controller;
        let waiting = controller.orders.waiting();
        let told = picture.cases.values().filter_map(|case| Some((case, case.request.as_deref()?)));
        let results: Vec<Result<(), Error>> = bounded(told.map(|(case, request)| {
            let waiting = &waiting;
            async move {
                let previous = controller.requests.previous(request);
                let next = status(case, &previous, world, waiting);
                controller.requests.report(request, &previous, &next, &controller.events, notes).await
            }
            .boxed()
        }))
        .await;
        failures.extend(results.into_iter().filter_map(Result::err));
        for object in self.children.all(HOSTNAME_ZONE) {
            let Some(zone) = typed::<HostnameZone>(&object) else { continue };
            failures.extend(self.tell_zone(&zone, world, picture).await.err());
        }
    }

    async fn tell_zone(&self, zone: &HostnameZone, world: &World, picture: &Picture) -> Result<(), Error> {
        let controller = self.controller;
        let name = zone.name_any();
        let previous = controller.zones.previous(zone);
        let mut next = previous.clone();
        let generation = zone.metadata.generation.unwrap_or_default();
        let broken = world.broken_zones.iter().find(|(key, _)| key.name.as_deref() == Some(&name));
        let (status, reason, message) = match broken {
            _ if zone.metadata.deletion_timestamp.is_some() => {
                let held = picture.zones.get(&name).copied().unwrap_or_default();
                let message =
                    format!("it goes when the {held} hostnames that are held in it have been given up");
                (Status::False, Reason::DeletionInProgress, message)
            }
            Some((_, (reason, why))) => (Status::False, *reason, why.clone()),
            None => {
                (Status::True, Reason::Ready, format!("names below {} can be asked for", zone.spec.domain))
            }
        };
        let now = crate::framework::status::whole_seconds(world.now);
        conditions::set(
            &mut next.conditions,
            ConditionType::Ready,
            status,
            reason,
            message,
            generation,
            &now,
        );
        next.observed_generation = Some(generation);
        next.hostnames = picture.zones.get(&name).and_then(|count| i32::try_from(*count).ok());
        controller.zones.report(zone, &previous, &next, &controller.events, no_notes).await
    }

    /// Says in figures how things are; true if a certificate is waited for.
    fn count(&self, world: &World, picture: &Picture) -> bool {
        let figures = &self.controller.figures;
        figures.stand(picture.cases.values().filter(|case| case.request.is_some()).map(standing));
        figures.gateways(world.gateways.values().filter(|member| member.is_ours).count());
        let now = world.now.as_second();
        let pending = picture.cases.values().filter_map(|case| case.waits_since(world));
        let pending = pending.map(|since| now - since).max();
        // What a listener names is what clients see, for how long ago it may have ended.
        let listeners = world.gateways.values().flat_map(|member| member.listeners.values());
        let named: BTreeSet<&str> = listeners.map(|listening| listening.certificate.as_str()).collect();
        let served = world.orders.values().filter(|order| named.contains(order.reference()));
        let served = served.chain(picture.cases.values().filter_map(|case| case.certificate.serve.as_ref()));
        let expiry = served.filter_map(|order| order.issued.as_ref()).map(|issued| issued.not_after);
        figures.certificates(pending.unwrap_or(0), expiry.min().unwrap_or(0));
        figures.failing(Role::Dns, self.controller.records.failing());
        figures.failing(Role::Issuer, self.controller.orders.failing());
        pending.is_some()
    }
}

fn standing(case: &Case) -> Standing {
    if case.is_leaving() {
        Standing::Deleting
    } else if case.refusal.is_some() || case.no_gateway.is_some() {
        Standing::Refused
    } else if case.blocked.is_some() {
        Standing::Waiting
    } else if case.is_ready() {
        Standing::Ready
    } else {
        Standing::Pending
    }
}

fn objects(kind: &'static str, name: &str, source: kube::Error) -> Error {
    let source = apply::Error::Apply { kind, name: name.to_owned(), source };
    Error::Objects { failed: 1, total: 1, source: Box::new(source) }
}
