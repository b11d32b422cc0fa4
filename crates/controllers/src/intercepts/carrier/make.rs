//! Brings the objects of carriers to what they should be, in an order in which nothing is ever missing: the plan that all else
//! belongs to, what it will name, and then what it says.

use std::sync::Arc;

use causeway_api::{GatewayPlan, UpdatePolicy, names};
use causeway_translate::intercept::front::OWNER_KIND;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{Client, ResourceExt as _, api::DynamicObject};

use super::{
    Carrier, Of, Subject,
    desired::{Desired, SERVES, secret_name},
    keys,
};
use crate::{
    framework::{
        apply::{self, Action, Applier, Owner, Report, Wanted},
        children::{Children, typed},
        kinds::{DEPLOYMENT, GATEWAY_PLAN, POD, SECRET, SERVICE_ACCOUNT, SUPPLY},
    },
    intercepts::{authority, settings::Settings},
    planned::{self, Split},
    vlan::{fleet::deployment_state, proxy},
};

/// The object that all of a carrier belongs to: its plan.
#[derive(Clone)]
pub(crate) struct Root {
    object: Arc<DynamicObject>,
    /// The plan.
    pub(crate) plan: GatewayPlan,
    owner: Owner,
}

impl Root {
    fn read(object: Arc<DynamicObject>) -> Option<Self> {
        let plan: GatewayPlan = typed(&object)?;
        let is_carrier = object.labels().get(names::LABEL_OWNER_KIND).is_some_and(|kind| kind == OWNER_KIND);
        let owner = Owner::of_dynamic(&object, &GATEWAY_PLAN.resource())?;
        is_carrier.then_some(Self { object, plan, owner })
    }

    pub(crate) fn namespace(&self) -> String {
        self.object.namespace().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> String {
        self.object.name_any()
    }

    pub(crate) fn uid(&self) -> String {
        self.object.uid().unwrap_or_default()
    }

    /// What it stands in front of, or in the place of.
    pub(crate) fn of(&self) -> Option<Of> {
        Of::parse(&self.plan.spec.gateway)
    }

    /// Whether it carries out the request of this uid, or did until a moment ago.
    pub(crate) fn serves(&self, uid: &str) -> bool {
        self.object.annotations().get(SERVES).is_some_and(|serves| serves.split(',').any(|one| one == uid))
    }

    /// Whom its objects belong to.
    pub(crate) fn owner(&self) -> Owner {
        self.owner.clone()
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }
}

/// Makes the objects of carriers.
pub(crate) struct Maker {
    applier: Applier,
    settings: Settings,
    pods: proxy::Settings,
    parts: Split<(String, String)>,
}

impl Maker {
    pub(crate) fn new(
        client: Client,
        manager: &'static str,
        settings: Settings,
        pods: proxy::Settings,
    ) -> Self {
        Self { applier: Applier::new(client, manager), settings, pods, parts: Split::default() }
    }

    /// Every carrier that there is.
    pub(crate) fn roots(children: &Children) -> Vec<Root> {
        children.all(GATEWAY_PLAN).into_iter().filter_map(Root::read).collect()
    }

    pub(crate) fn retain(&self, is_there: impl Fn(&(String, String)) -> bool) {
        self.parts.retain(is_there);
    }

    fn subject<'a>(&'a self, carrier: Carrier<'a>) -> Subject<'a> {
        Subject { carrier, settings: &self.settings, pods: &self.pods }
    }

    /// The object that all else of a carrier belongs to, made if it is not there. None while an earlier one goes.
    pub(crate) async fn root(
        &self,
        carrier: Carrier<'_>,
        children: &Children,
    ) -> Result<Option<Root>, apply::Error> {
        let (namespace, name) = (carrier.namespace(), carrier.name());
        let found = children.get(GATEWAY_PLAN, namespace, &name).and_then(Root::read);
        let is_it = |root: &Root| root.of() == Some(carrier.of());
        if let Some(root) = found.filter(is_it) {
            return Ok(Some(root).filter(|root| !root.is_leaving()));
        }
        let plan = self.subject(carrier).plan(&[]);
        let wanted = Wanted::new(GATEWAY_PLAN, &plan);
        match self.applier.found(&Owner::nobody(namespace), &wanted, children).await? {
            Action::Applied(object) => Ok(Root::read(object)),
            Action::Unchanged | Action::Waiting | Action::Deleted => Ok(None),
        }
    }

    /// Makes all else. `may_update` says whether pods may be given another image now; `sealed` is the original of a Service
    /// with its proof. A plan that leads to nobody is not told: what the pods have from before runs on.
    pub(crate) async fn make(
        &self,
        carrier: Carrier<'_>,
        root: &Root,
        authority: &authority::Keys,
        sealed: Option<&str>,
        children: &Children,
        may_update: bool,
    ) -> Report {
        let (namespace, name) = (carrier.namespace().to_owned(), carrier.name());
        let subject = self.subject(carrier);
        let is_known = carrier.knows_originals();
        let parts = if is_known {
            self.parts.parts_of(&(namespace.clone(), name.clone()), carrier.plan())
        } else {
            Vec::new()
        };
        let secret: Option<Secret> =
            children.get(SECRET, &namespace, &secret_name(&name)).and_then(|object| typed(&object));
        let Some(keys) = keys::keys(authority, &root.uid(), secret.as_ref()) else {
            return Report::default();
        };
        let mut desired = subject.desired(&parts, &keys, sealed);
        let mut wanted = desired.foundation(children);
        wanted.extend(planned::new_parts(&namespace, &desired.parts, children));
        let mut report = self.applier.apply_all(&root.owner, &wanted, children).await;
        // Nothing may name what is not there. The last plan and its parts stay meanwhile.
        if report.failures().next().is_some() {
            return report;
        }
        if let Some(account) = account(&namespace, &desired, &report, children) {
            desired.set_account(&account);
        } else if desired.service_account.is_some() {
            return report;
        }
        // Its pods keep to one plan: those of another are others.
        desired.set_plan(&root.uid());
        let plan = is_known.then(|| Wanted::new(GATEWAY_PLAN, &subject.plan(&parts)));
        report.join(self.applier.apply_all(&Owner::nobody(&namespace), plan.as_slice(), children).await);
        if report.failures().next().is_some() {
            return report;
        }
        let mut keep = desired.founded();
        if !is_known {
            let owned = children.owned_by(&root.uid()).into_iter().filter(|(kind, _)| *kind == SUPPLY);
            keep.extend(owned.map(|(kind, part)| (kind, part.name_any())));
        }
        if self.is_held(&namespace, &name, children, may_update) {
            // As it is: what another version is told may mean nothing to it.
            desired.deployment = None;
            keep.push((DEPLOYMENT, name.clone()));
        }
        let rest = desired.rest(children);
        // A stand-in is made by who replaces containers.
        keep.push((POD, name));
        report.join(self.applier.converge(&root.owner, &rest, &keep, children).await);
        report
    }

    /// Whether these pods run the plan as it should be now, to the last endpoint.
    pub(crate) fn is_settled(&self, carrier: Carrier<'_>, root: &Root, pods: &[String]) -> bool {
        let parts = self.parts.parts_of(&(carrier.namespace().to_owned(), carrier.name()), carrier.plan());
        let is_newest = root.plan.spec.parts.iter().eq(parts.iter().map(|part| &part.digest));
        let replicas = root.plan.status.iter().flat_map(|status| &status.replicas);
        let running: Vec<&str> = replicas
            .filter(|replica| replica.serving && replica.running_generation == root.plan.metadata.generation)
            .map(|replica| replica.name.as_str())
            .collect();
        carrier.knows_originals() && is_newest && pods.iter().all(|pod| running.contains(&pod.as_str()))
    }

    /// Whether the pods of a carrier are of another image than they should be, and that is to be changed.
    pub(crate) fn wants_update(&self, carrier: Carrier<'_>, children: &Children) -> bool {
        let live = deployment(carrier.namespace(), &carrier.name(), children);
        self.pods.update_policy == UpdatePolicy::Automatic
            && live.as_ref().and_then(image).is_some_and(|runs| runs != self.pods.manager_image)
    }

    /// Whether the pods of a carrier are being replaced.
    pub(crate) fn is_rolling(carrier: Carrier<'_>, children: &Children) -> bool {
        deployment(carrier.namespace(), &carrier.name(), children)
            .is_some_and(|live| deployment_state(&live, 0).is_rolling)
    }

    /// Whether pods stay as they are though others would be made now: those of all carriers are not replaced together, nor against
    /// the will of who runs them.
    fn is_held(&self, namespace: &str, name: &str, children: &Children, may_update: bool) -> bool {
        let runs = deployment(namespace, name, children).as_ref().and_then(image);
        let is_other = runs.is_some_and(|runs| runs != self.pods.manager_image);
        is_other && (self.pods.update_policy == UpdatePolicy::Manual || !may_update)
    }

    /// Removes a carrier, and all that belongs to it.
    pub(crate) async fn remove(&self, root: &Root) -> Result<(), apply::Error> {
        self.applier.delete(GATEWAY_PLAN, &root.object).await.map(drop)
    }
}

/// The uid of the pods' account.
fn account(namespace: &str, desired: &Desired, report: &Report, children: &Children) -> Option<String> {
    let name = desired.service_account.as_ref()?.name_any();
    match report.of(SERVICE_ACCOUNT, &name)? {
        Ok(Action::Applied(object)) => object.uid(),
        Ok(Action::Unchanged) => children.get(SERVICE_ACCOUNT, namespace, &name)?.uid(),
        _ => None,
    }
}

fn deployment(namespace: &str, name: &str, children: &Children) -> Option<Deployment> {
    children.get(DEPLOYMENT, namespace, name).and_then(|object| typed(&object))
}

fn image(deployment: &Deployment) -> Option<String> {
    deployment.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.clone()
}
