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

use causeway_api::UpdatePolicy;
use causeway_base::lock::lock;
use causeway_translate::gateway::{kinds::ObjectRef, picture::GatewayPicture};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Secret},
};
use kube::{Client, ResourceExt};
use tokio::time::Instant;

use super::{
    child,
    desired::{Desired, SESSION_ENTRY, SessionKey, Subject, asked, session_name},
    settings::{Effective, Settings},
    standing::Standing,
};
use crate::{
    framework::{
        apply::{Action, Applier, Owner, Report, Wanted},
        children::{Children, typed},
        error::Category,
        kinds::{POD, POD_DISRUPTION_BUDGET, SECRET, SERVICE, SERVICE_ACCOUNT},
        report::chain,
    },
    planned::{self, Split},
    vlan::{
        fleet::{deployment_state, image_check},
        proxy,
    },
};

/// How long an address is not asked for again that was refused.
const RETRY_ADDRESS: Duration = Duration::from_secs(30);

/// Makes the objects of Gateways.
pub(crate) struct Maker {
    applier: Applier,
    settings: Settings,
    pods: proxy::Settings,
    /// The parts of the plan that each Gateway had last.
    parts: Split<ObjectRef>,
    /// Addresses that can't be had, of each Gateway.
    refused: Mutex<HashMap<ObjectRef, Refused>>,
    /// What the pods of each Gateway sign sessions with, while no cache has shown it.
    session_keys: Mutex<HashMap<ObjectRef, SessionKey>>,
    /// What could not be made of each Gateway, and will not be by trying again.
    stuck: Mutex<HashMap<ObjectRef, String>>,
    /// Whether something can't be had that could before, or the other way round.
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
            parts: Split::default(),
            refused: Mutex::default(),
            session_keys: Mutex::default(),
            stuck: Mutex::default(),
            has_news: AtomicBool::new(false),
        }
    }

    /// Forgets Gateways that are not ours any more.
    pub(crate) fn retain(&self, is_ours: impl Fn(&ObjectRef) -> bool) {
        self.parts.retain(&is_ours);
        lock(&self.refused).retain(|at, _| is_ours(at));
        lock(&self.session_keys).retain(|at, _| is_ours(at));
        lock(&self.stuck).retain(|at, _| is_ours(at));
    }

    /// The addresses that a Gateway can't have, each with the reason.
    pub(crate) fn unusable(&self, at: &ObjectRef) -> BTreeMap<String, String> {
        let refused = lock(&self.refused);
        let refused = refused.get(at).into_iter().flatten();
        refused.map(|(address, (why, _))| (address.clone(), why.clone())).collect()
    }

    /// Why a Gateway can't be given what it needs, if it can't.
    pub(crate) fn stuck(&self, at: &ObjectRef) -> Option<String> {
        lock(&self.stuck).get(at).cloned()
    }

    /// Whether it has become known meanwhile that something can or can't be had.
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
        let report = self.bring(at, picture, owner, standing, children, may_update).await;
        // What the API server could not do now is tried again and no matter of the Gateway.
        let lasts =
            |category| matches!(category, Category::Refused | Category::Conflict | Category::Forbidden);
        let failure = report.failures().find(|error| lasts(error.category())).map(|error| chain(error));
        let mut stuck = lock(&self.stuck);
        let before = match &failure {
            Some(failure) => stuck.insert(at.clone(), failure.clone()),
            None => stuck.remove(at),
        };
        if before != failure {
            self.has_news.store(true, Ordering::Relaxed);
        }
        report
    }

    async fn bring(
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
            session_key: &self.session_key(at, children),
        };
        let mut desired = subject.desired(&self.parts.parts_of(at, &picture.plan));
        let mut wanted = desired.foundation();
        wanted.extend(planned::new_parts(&at.namespace, &desired.parts, children));
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
        let check = image_check(&desired.deployment, standing);
        if let (Some(_), Some(runs)) = (&check, image(standing)) {
            desired.set_image(runs);
        }
        let mut keep = desired.founded();
        let mut with_service = self.may_ask(at, address.as_deref());
        let is_moving = with_service && has_other_address(standing, address.as_deref());
        // A Service never changes its address: the one that works goes only when the other address can be had.
        let mut in_vain = None;
        if is_moving && let Some(service) = &desired.service {
            in_vain = self.applier.try_new(owner, &Wanted::new(SERVICE, service)).await.err();
        }
        with_service &= in_vain.is_none();
        if !with_service {
            // What clients use stays while they ask for something else in vain.
            keep.extend(desired.service.iter().map(|service| (SERVICE, service.name_any())));
        }
        if is_moving && with_service {
            // It is made anew by the next look, once this one is gone.
            let mut all_but = desired.rest(children.served(POD_DISRUPTION_BUDGET).is_some(), false);
            all_but.extend(check.iter().flatten().map(|pod| Wanted::new(POD, pod)));
            report.join(self.applier.converge(owner, &all_but, &keep, children).await);
            return report;
        }
        let mut rest = desired.rest(children.served(POD_DISRUPTION_BUDGET).is_some(), with_service);
        rest.extend(check.iter().flatten().map(|pod| Wanted::new(POD, pod)));
        let mut rest = self.applier.converge(owner, &rest, &keep, children).await;
        if let (Some(error), Some(service)) = (in_vain, &desired.service) {
            rest.add_failure(SERVICE, service.name_any(), error);
        }
        self.learn(at, picture, &desired, &mut rest);
        report.join(rest);
        report
    }

    /// What the pods of a Gateway sign sessions with: the same for as long as it is there.
    ///
    /// # Panics
    /// If the system has no random numbers.
    fn session_key(&self, at: &ObjectRef, children: &Children) -> SessionKey {
        let kept = children.get(SECRET, &at.namespace, &session_name(&child::name(&at.name)));
        let kept =
            kept.and_then(|object| typed::<Secret>(&object)?.data?.remove(SESSION_ENTRY)?.0.try_into().ok());
        let mut made = lock(&self.session_keys);
        let key = kept.or_else(|| made.get(at).copied()).unwrap_or_else(|| {
            let mut key = SessionKey::default();
            aws_lc_rs::rand::fill(&mut key).expect("the system has random numbers");
            key
        });
        made.insert(at.clone(), key);
        key
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

/// The pods that try an image before a working pod is given up for it; none once that has passed, or is not needed. A try
/// that was lost is removed, so that the next look makes another.
fn image_check(wanted: &Deployment, standing: &Standing) -> Option<Vec<Pod>> {
    let template = wanted.spec.as_ref().map(|spec| &spec.template)?;
    let runs = image(standing)?;
    let is_new = image_check::images(template).iter().any(|image| image != runs);
    let works = standing.deployment.as_ref().is_some_and(|live| deployment_state(live, 0).is_available);
    if !is_new || !works || !image_check::gives_up_first(wanted) {
        return None;
    }
    let pods = standing.pods();
    let node = pods.iter().find(|pod| !pod.is_leaving).and_then(|pod| pod.node.as_deref());
    let pod = image_check::pod(&wanted.name_any(), template, node);
    match standing.checks.iter().find(|check| check.name == pod.name_any()) {
        Some(check) if check.has_passed => None,
        Some(check) if check.is_lost => Some(Vec::new()),
        _ => Some(vec![pod]),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vlan::fleet::image_check::CheckState;

    fn deployment(image: &str, surge: i32) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "web-causeway"},
            "spec": {
                "selector": {}, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}},
                "template": {"spec": {"containers": [{"name": "gateway", "image": image}]}},
            },
            "status": {"availableReplicas": 1},
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_with_ports_of_its_node_stays_until_the_next_image_has_run_there() {
        let standing = |check: Option<CheckState>| {
            let mut standing = Standing::default();
            standing.deployment = Some(deployment("causeway:1", 0));
            standing.checks.extend(check);
            standing
        };
        let tried = image_check(&deployment("causeway:2", 0), &standing(None)).unwrap();
        let [pod] = &tried[..] else { panic!("{tried:?}") };
        let check =
            |has_passed, is_lost| CheckState { name: pod.name_any(), has_passed, is_lost, trouble: None };
        let after = |check| image_check(&deployment("causeway:2", 0), &standing(Some(check)));
        assert_eq!(after(check(false, false)), Some(tried.clone()), "it is waited for");
        assert_eq!(after(check(false, true)), Some(Vec::new()), "it is tried again");
        assert_eq!(after(check(true, false)), None);
        assert_eq!(image_check(&deployment("causeway:1", 0), &standing(None)), None, "the same image");
        assert_eq!(
            image_check(&deployment("causeway:2", 1), &standing(None)),
            None,
            "the next one comes first"
        );
    }
}
