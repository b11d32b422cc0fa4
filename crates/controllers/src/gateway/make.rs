//! Brings the objects of one Gateway to what they should be, in an order in which nothing is ever missing: what a plan names
//! before the plan, and what an earlier plan named only after the next one is there.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use causeway_api::{PlanPart, UpdatePolicy};
use causeway_base::lock::lock;
use causeway_ir::Plan;
use causeway_translate::{
    gateway::{kinds::ObjectRef, picture::GatewayPicture},
    gateway_pod::parts,
};
use kube::{Client, ResourceExt};
use tokio::time::Instant;

use super::{
    desired::{Desired, Subject, asked},
    settings::{Effective, Settings},
    standing::Standing,
};
use crate::{
    framework::{
        apply::{Action, Applier, Owner, Report, Wanted},
        children::Children,
        error::Category,
        kinds::{POD_DISRUPTION_BUDGET, SERVICE, SERVICE_ACCOUNT, SUPPLY},
        report::chain,
    },
    vlan::proxy,
};

/// How long an address is not asked for again that was refused.
const RETRY_ADDRESS: Duration = Duration::from_secs(30);

/// Makes the objects of Gateways.
pub(crate) struct Maker {
    applier: Applier,
    settings: Settings,
    pods: proxy::Settings,
    /// The parts of the plan that each Gateway had last.
    parts: Mutex<HashMap<ObjectRef, (Plan, Vec<PlanPart>)>>,
    /// Addresses that can't be had, of each Gateway.
    refused: Mutex<HashMap<ObjectRef, Refused>>,
    /// Whether some can't be had that could before, or the other way round.
    has_news: AtomicBool,
}

/// Addresses that can't be had, each with the reason and since when.
type Refused = BTreeMap<String, (String, Instant)>;

impl Maker {
    pub(crate) fn new(
        client: Client,
        manager: &'static str,
        settings: Settings,
        pods: proxy::Settings,
    ) -> Self {
        let applier = Applier::new(client, manager);
        Self {
            applier,
            settings,
            pods,
            parts: Mutex::default(),
            refused: Mutex::default(),
            has_news: AtomicBool::new(false),
        }
    }

    /// Forgets Gateways that are not ours any more.
    pub(crate) fn retain(&self, is_ours: impl Fn(&ObjectRef) -> bool) {
        lock(&self.parts).retain(|at, _| is_ours(at));
        lock(&self.refused).retain(|at, _| is_ours(at));
    }

    /// The addresses that a Gateway can't have, each with the reason.
    pub(crate) fn unusable(&self, at: &ObjectRef) -> BTreeMap<String, String> {
        let refused = lock(&self.refused);
        let refused = refused.get(at).into_iter().flatten();
        refused.map(|(address, (why, _))| (address.clone(), why.clone())).collect()
    }

    /// Whether it has become known meanwhile that addresses can or can't be had.
    pub(crate) fn take_news(&self) -> bool {
        self.has_news.swap(false, Ordering::Relaxed)
    }

    /// Removes everything that was made for an owner.
    pub(crate) async fn remove(&self, owner: &Owner, children: &Children) -> Report {
        self.applier.converge(owner, &[], &[], children).await
    }

    /// Whether its pods are of another image than they should be.
    pub(crate) fn wants_update(&self, picture: &GatewayPicture, standing: &Standing) -> bool {
        let effective = Effective::of(&picture.parameters, &self.settings, &self.pods);
        effective.update_policy == UpdatePolicy::Automatic
            && image(standing).is_some_and(|runs| *runs != effective.image)
    }

    /// Makes what a Gateway needs. `may_update` says whether its pods may be given another image now.
    pub(crate) async fn make(
        &self,
        at: &ObjectRef,
        picture: &GatewayPicture,
        owner: &Owner,
        standing: &Standing,
        children: &Children,
        may_update: bool,
    ) -> Report {
        let effective = Effective::of(&picture.parameters, &self.settings, &self.pods);
        let address = asked(picture).next().map(ToOwned::to_owned);
        let subject = Subject {
            at,
            picture,
            effective: &effective,
            openshift: self.pods.openshift,
            address: address.as_deref(),
        };
        let mut desired = subject.desired(&self.parts_of(at, &picture.plan));
        let mut wanted = desired.foundation();
        wanted.extend(new_parts(at, &desired, children));
        let mut report = self.applier.apply_all(owner, &wanted, children).await;
        // Nothing may name what is not there. The last plan and its parts stay meanwhile.
        if report.failures().next().is_some() {
            return report;
        }
        let Some(account) = account(at, &desired, &report, children) else { return report };
        desired.set_account(&account);
        if let Some(image) = held_image(standing, &effective, may_update) {
            desired.set_image(&image);
        }
        let mut keep = desired.founded();
        let with_service = self.may_ask(at, address.as_deref());
        if !with_service {
            // What clients use stays while they ask for something else in vain.
            keep.extend(desired.service.iter().map(|service| (SERVICE, service.name_any())));
        }
        if with_service && has_other_address(standing, address.as_deref()) {
            // A Service never changes its address: it is made anew by the next look, once this one is gone.
            let all_but = desired.rest(children.served(POD_DISRUPTION_BUDGET).is_some(), false);
            report.join(self.applier.converge(owner, &all_but, &keep, children).await);
            return report;
        }
        let rest = desired.rest(children.served(POD_DISRUPTION_BUDGET).is_some(), with_service);
        let mut rest = self.applier.converge(owner, &rest, &keep, children).await;
        self.learn(at, picture, &desired, &mut rest);
        report.join(rest);
        report
    }

    /// The parts of a plan; made only when it is another.
    fn parts_of(&self, at: &ObjectRef, plan: &Plan) -> Vec<PlanPart> {
        let mut known = lock(&self.parts);
        if let Some((_, parts)) = known.get(at).filter(|(before, _)| before == plan) {
            return parts.clone();
        }
        let made = parts::split(plan);
        known.insert(at.clone(), (plan.clone(), made.clone()));
        made
    }

    /// Whether a Service with this address may be asked for: not right after it was refused.
    fn may_ask(&self, at: &ObjectRef, address: Option<&str>) -> bool {
        let refused = lock(&self.refused);
        let before = address.and_then(|address| refused.get(at)?.get(address));
        before.is_none_or(|(_, since)| since.elapsed() >= RETRY_ADDRESS)
    }

    /// Remembers which addresses could not be had. That is for the status to say, and no failure.
    fn learn(&self, at: &ObjectRef, picture: &GatewayPicture, desired: &Desired, report: &mut Report) {
        let now = Instant::now();
        let mut asked = asked(picture);
        let first = asked.next();
        let further = asked.map(|address| {
            let why = "a Gateway has one address here: ask for one, and make another Gateway for another";
            (address.to_owned(), (why.to_owned(), now))
        });
        let mut refused: Refused = further.collect();
        let name = desired.service.as_ref().map(ResourceExt::name_any).unwrap_or_default();
        match (report.of(SERVICE, &name), first) {
            (Some(Err(error)), Some(address)) if error.category() == Category::Refused => {
                refused.insert(address.to_owned(), (chain(error), now));
                report.forgive(SERVICE, &name);
            }
            // It was not asked for again.
            (None, Some(address)) => {
                let before = lock(&self.refused).get(at).and_then(|before| before.get(address)).cloned();
                refused.extend(before.map(|before| (address.to_owned(), before)));
            }
            _ => {}
        }
        let mut all = lock(&self.refused);
        let before = all.get(at);
        let is_news = before.map_or(!refused.is_empty(), |before| !before.keys().eq(refused.keys()));
        if is_news {
            self.has_news.store(true, Ordering::Relaxed);
        }
        all.insert(at.clone(), refused);
    }
}

/// The parts of a plan that are not there yet. One that is there is the same: it is named by its content.
fn new_parts(at: &ObjectRef, desired: &Desired, children: &Children) -> Vec<Wanted> {
    let is_there = |name: &str, text: Option<&str>| {
        children.get(SUPPLY, &at.namespace, name).is_some_and(|object| {
            let found = object.data.pointer("/spec/plan/text").and_then(serde_json::Value::as_str);
            object.metadata.deletion_timestamp.is_none() && found == text
        })
    };
    let text = |part: &causeway_api::Supply| part.spec.plan.as_ref().map(|plan| plan.text.clone());
    let new = desired.parts.iter().filter(|part| !is_there(&part.name_any(), text(part).as_deref()));
    new.map(|part| Wanted::new(SUPPLY, part)).collect()
}

/// The uid of the pods' account.
fn account(at: &ObjectRef, desired: &Desired, report: &Report, children: &Children) -> Option<String> {
    let name = desired.service_account.name_any();
    match report.of(SERVICE_ACCOUNT, &name)? {
        Ok(Action::Applied(object)) => object.uid(),
        Ok(Action::Unchanged) => children.get(SERVICE_ACCOUNT, &at.namespace, &name)?.uid(),
        _ => None,
    }
}

/// The image that pods keep though another one would be theirs: those of all Gateways are not replaced together, nor against
/// the will of who runs them.
fn held_image(standing: &Standing, effective: &Effective, may_update: bool) -> Option<String> {
    let runs = image(standing)?;
    let is_held = effective.update_policy == UpdatePolicy::Manual || !may_update;
    (*runs != effective.image && is_held).then(|| runs.clone())
}

/// The image of its pods.
fn image(standing: &Standing) -> Option<&String> {
    let spec = standing.deployment.as_ref()?.spec.as_ref()?.template.spec.as_ref()?;
    spec.containers.first()?.image.as_ref()
}

/// Whether its Service has another address than the one that is asked for.
fn has_other_address(standing: &Standing, address: Option<&str>) -> bool {
    let Some(address) = address else { return false };
    let spec = standing.service.as_ref().and_then(|service| service.spec.as_ref());
    spec.is_some_and(|spec| {
        let is_balanced = spec.type_.as_deref() == Some("LoadBalancer");
        !is_balanced && spec.cluster_ip.as_deref().is_some_and(|has| has != address)
    })
}
