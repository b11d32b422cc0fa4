//! The controller of DNSServers and of DHCPServers: an object becomes a pod for each of its addresses, exactly the rights
//! that they need, and what the operator has to tell them. What is particular to a kind is said by [`Server`].

mod desired;
mod observe;
mod status;

use std::hash::{Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::{
    AddressClaim, PodTemplate, ServerReplica, ServerStatus, UpdatePolicy,
    conditions::{ConditionType, Reason, Status},
    names,
};
use causeway_ir::Problem;
use futures::stream::BoxStream;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use kube::{
    Client, Resource, ResourceExt,
    api::DynamicObject,
    core::{NamespaceResourceScope, object::HasStatus},
    runtime::reflector::ObjectRef,
};
use serde::{Serialize, de::DeserializeOwned};

use super::proxy::{Settings, desired::name_problem};
use crate::{
    framework::{
        apply::{Applier, Owner, Report},
        children::{ChildKind, Children, is_kind, typed},
        error::Error,
        events::Recorder,
        finalizer::Finalizer,
        finding::Finding,
        kinds::{ADDRESS_CLAIM, DEPLOYMENT, NETWORK_ATTACHMENT},
        runner::{Reconciler, life},
        status::{Shared, Writer, now},
        wakes::Wakes,
    },
    grants::{Grants, REFERENCE_GRANT},
    pod_template,
    vlan::{
        accepted::{self, Accepted},
        addresses::{Addresses, Asks},
        claims::{self, Attachment, Claims},
        fleet::{
            LOOK_AGAIN, LOOK_AT_OTHERS,
            pace::Pace,
            patience::Patience,
            replica::{is_taken, serving_addresses},
            reports::Reports,
            step::Step,
            stuck::Stuck,
            summary::Pass,
        },
        neighbours,
    },
};

pub(crate) use self::{observe::MOST_REPLICAS, status::Common};

/// A status of such a kind.
pub(crate) trait State:
    ServerStatus + Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<S: State> Shared for S {
    const OWN_CONDITIONS: &'static [ConditionType] = &status::OWN_CONDITIONS;

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        ServerStatus::conditions_mut(self)
    }

    /// Each server reports for itself.
    fn drop_foreign(&mut self) {
        self.replicas_mut().clear();
    }
}

/// A kind that this controller serves.
pub(crate) trait Server:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status: State>
    + Clone
    + Serialize
    + DeserializeOwned
    + std::fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// Its controller, the command that its pods run, and the ending of its children's names: `dns` or `dhcp`.
    const ROLE: &'static str;
    /// The field manager.
    const MANAGER: &'static str;
    /// Who Events are from.
    const REPORTER: &'static str;
    /// The label `app` of its pods.
    const APP: &'static str;
    /// The plural of the kind.
    const PLURAL: &'static str;
    /// What it makes.
    const CHILDREN: &'static [ChildKind];
    /// What it reads.
    const READS: &'static [ChildKind];

    /// Everything in the spec that makes it impossible to run.
    fn problems(&self) -> Vec<Problem>;
    /// The attachment that it names.
    fn attachment(&self) -> Option<Attachment>;
    /// What its children are made of; none for a spec with problems.
    fn outline(&self) -> Option<Outline>;
    /// What other objects have already, so that it can't be this one's, too.
    fn conflict(&self, _children: &Children, _grants: Option<&Grants>) -> Option<Problem> {
        None
    }
    /// What its pods say of themselves.
    fn reports(&self) -> &[ServerReplica] {
        self.status().map_or(&[], ServerStatus::replicas)
    }
    /// Whether an address is its own, or its to give.
    fn uses(&self, address: IpAddr) -> bool;
    /// What the operator tells its pods.
    fn told(&self, children: &Children, grants: Option<&Grants>, now: Timestamp) -> Told;
    /// Whether a change of an object that it reads matters to it, beside those of every kind.
    fn is_concerned(&self, read: &DynamicObject) -> bool;
    /// Why servers that all answer would turn a new client away; `reports` are theirs.
    fn turns_away(&self, _reports: &[&ServerReplica]) -> Option<Finding> {
        None
    }
    /// Its status: what is the same for every kind, and what its pods and the operator know besides.
    fn status_of(common: Common, reports: &[&ServerReplica]) -> Self::Status;
    /// The field manager that a pod reports as.
    fn report_manager(pod: &str) -> String {
        names::server_report_manager(Self::ROLE, pod)
    }
}

/// What the children of an object are made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outline {
    /// The address of each replica, and the length of its network's prefix.
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    pub(crate) attachment: Option<Attachment>,
    pub(crate) image: Option<String>,
    pub(crate) pod_template: Option<PodTemplate>,
    pub(crate) update_policy: Option<UpdatePolicy>,
    /// Whether its pods get raw sockets.
    pub(crate) raw_sockets: bool,
    /// The port that the pod network asks at, by UDP and TCP.
    pub(crate) service_port: Option<u16>,
    /// Whether its pods keep leases, and hand out names.
    pub(crate) keeps_leases: bool,
    /// ConfigMaps of others that its pods read.
    pub(crate) reads: Vec<String>,
}

/// What the operator tells the pods of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Entries of their ConfigMap.
    pub(crate) entries: Vec<(&'static str, String)>,
    /// What is to be said of that in `ClientsKnown`.
    pub(crate) clients: Option<Finding>,
    /// Why something can't be told.
    pub(crate) refusal: Option<Finding>,
    /// For how many replicas leases are kept, should there have been more than are asked for.
    pub(crate) kept_replicas: usize,
    /// When something else is to be told, whatever happens.
    pub(crate) look_again: Option<Duration>,
}

impl Told {
    /// Of something that is not there.
    pub(crate) fn missing(message: String) -> Self {
        Self { refusal: Some(Finding::no(Reason::NotFound, message)), ..Self::default() }
    }
}

impl<K: Server> Accepted for K {
    fn place(&self) -> (String, &'static str) {
        (names::server_config_map(&self.name_any(), K::ROLE), names::ACCEPTED_SERVER_FILE)
    }

    fn is_taken(&self) -> bool {
        is_taken(self.reports(), self.meta().generation)
    }
}

/// Reconciles objects of one kind.
pub(crate) struct Controller<K: Server> {
    settings: Settings,
    applier: Applier,
    claims: Claims,
    finalizer: Finalizer<K>,
    reports: Reports,
    status: Writer<K::Status>,
    wakes: Wakes<K>,
    patience: Patience<K>,
    pace: Pace<K>,
    stuck: Stuck<K>,
    events: Recorder,
}

impl<K: Server> Controller<K> {
    /// A controller that reports Events as the replica `identity`.
    pub(crate) fn new(client: Client, settings: Settings, identity: &str) -> Self {
        let wakes = Wakes::default();
        Self {
            pace: Pace::new(settings.updates_at_once, wakes.clone()),
            stuck: Stuck::new(client.clone(), wakes.clone()),
            settings,
            applier: Applier::new(client.clone(), K::MANAGER),
            claims: Claims::new(client.clone(), K::MANAGER),
            finalizer: Finalizer::new(client.clone(), names::FINALIZER_SERVER),
            reports: Reports::new(client.clone(), K::report_manager),
            status: Writer::new(client.clone(), K::MANAGER),
            patience: Patience::new(wakes.clone()),
            wakes,
            events: Recorder::new(client, K::REPORTER, identity),
        }
    }

    /// The claims in other namespaces first, then the finalizer; all else goes with the owner.
    async fn clean_up(&self, object: &K, owner: &Owner) -> Result<(), Error> {
        if !self.finalizer.is_on(object) {
            return Ok(());
        }
        self.claims.release_all(owner.uid()).await?;
        self.finalizer.remove(object).await
    }

    /// Everything that keeps this object from being made into pods.
    fn problems(&self, object: &K) -> Vec<Problem> {
        let mut problems = object.problems();
        problems.extend(name_problem(&object.name_any()));
        if let Some(outline) = object.outline() {
            problems.extend(self.settings.image_problem("spec.image", outline.image.as_ref()));
            let of_pods = outline.pod_template.iter();
            problems.extend(of_pods.flat_map(|pods| pod_template::problems(pods, "spec.podTemplate")));
        }
        problems
    }
}

impl<K: Server> Reconciler for Controller<K> {
    type Primary = K;
    const NAME: &'static str = K::ROLE;
    const CHILDREN: &'static [ChildKind] = K::CHILDREN;
    const READS: &'static [ChildKind] = K::READS;

    async fn reconcile(&self, object: Arc<K>, children: Children) -> Result<(), Error> {
        let object = &*object;
        let Some(owner) = Owner::of(object) else { return Ok(()) };
        if object.meta().deletion_timestamp.is_some() {
            return self.clean_up(object, &owner).await;
        }
        let mut problems = self.problems(object);
        let grants = self.settings.require_grants.then(|| Grants::read(&children.all(REFERENCE_GRANT)));
        if problems.is_empty()
            && let Some(conflict) = object.conflict(&children, grants.as_ref())
        {
            problems.push(conflict);
            // What another gives up shows in an object of his.
            self.wakes.wake_in(LOOK_AT_OTHERS, ObjectRef::from_obj(object));
        }
        let accepted = accepted::last(object, &problems, &children)
            .filter(|accepted| self.problems(accepted).is_empty());
        // While the spec can't be run, what runs is kept as the last good one asks for.
        let effective = if problems.is_empty() { Some(object) } else { accepted.as_ref() };
        let effective = effective.and_then(|effective| Some((effective, effective.outline()?)));
        let before = observe::observe(object, &owner, &children, &Report::default());
        let told = effective.as_ref().map(|(effective, _)| {
            let mut told = effective.told(&children, grants.as_ref(), now().0);
            let near = effective.attachment().map(|at| neighbours::told(*effective, &at, &children));
            told.entries.extend(near.map(|near| (names::NEIGHBOURS, near)));
            told
        });
        let told = told.unwrap_or_default();
        if told.clients.as_ref().is_some_and(|clients| clients.status == Status::False) {
            // A kind that is defined by now shows in no object.
            self.wakes.wake_in(LOOK_AGAIN, ObjectRef::from_obj(object));
        }
        if let Some(rest) = told.look_again {
            self.wakes.wake_in(rest, ObjectRef::from_obj(object));
        }
        let (mut report, mut step) = (Report::default(), Step::default());
        let mut addresses = Addresses::default();
        if let Some((effective, outline)) = &effective {
            let asked = outline.addresses.iter().map(|(address, _)| *address);
            let asks = Asks::new(*effective, outline.attachment.clone(), asked);
            // First the promise to clean up, then what has to be cleaned up.
            let is_elsewhere = !self.settings.is_confined && asks.are_elsewhere();
            let is_promised =
                !is_elsewhere || self.finalizer.is_on(object) || self.finalizer.add(object).await?;
            if !is_promised {
                return Ok(());
            }
            let subject = desired::Subject::new(*effective, outline, &self.settings, &before);
            let mut desired = subject.desired(&told, accepted.as_ref());
            addresses = asks.claim(&self.claims, &owner, grants.as_ref(), &children).await;
            let unknown = addresses.withhold(&mut desired.deployments);
            desired.leave_out_what_is_not_served(&children);
            let policy = outline.update_policy.unwrap_or(self.settings.update_policy);
            step = Step::decide(object, policy, &desired.deployments, &before, &self.pace);
            let rollout = &mut step.rollout;
            rollout.kept.retain(|name| !addresses.takes_away(name, &before.deployments));
            let wait = rollout.held.iter().chain(&rollout.kept).chain(&unknown);
            let keep: Vec<_> = wait.map(|name| (DEPLOYMENT, name.clone())).collect();
            let wanted = desired.wanted(&rollout.held, &step.checks.pods);
            report = self.applier.converge(&owner, &wanted, &keep, &children).await;
        }
        self.claims.release(owner.uid(), &addresses.wanted, &children).await?;
        if addresses.waits() {
            self.wakes.wake_in(LOOK_AGAIN, ObjectRef::from_obj(object));
        }
        let mut observed = observe::observe(object, &owner, &children, &report);
        self.stuck.explain(object, &mut observed.pods).await;
        let reported = object.reports().iter().map(|report| report.name.as_str());
        self.reports.remove_stale(object, reported, &observed.pods).await?;
        let previous = self.status.previous(object);
        let unreached = neighbours::unreached(
            object,
            object.attachment().as_ref(),
            &serving_addresses(&observed.reports),
            &children,
        );
        let pass = Pass {
            problems: &problems,
            accepted: accepted.as_ref().and_then(|accepted| accepted.meta().generation),
            held: &step.rollout.held,
            waiting: step.waiting.as_ref(),
            image_troubles: &step.checks.troubles,
            withheld: &addresses.withheld,
            unreached: unreached.as_deref(),
        };
        let input = status::Input {
            object,
            pass,
            outline: effective.as_ref().map(|(_, outline)| outline),
            failures: report.failures().collect(),
            missing_attachment: missing_attachment(object, &children),
            told: &told,
            observed: &observed,
        };
        if status::is_settling(&previous, &input) && self.patience.has_more(object) {
            return Ok(());
        }
        let next = status::next(&previous, &input, &now());
        self.status.report(object, &previous, &next, &self.events, status::notes).await?;
        report.into_result()?;
        addresses.error.map_or(Ok(()), Err)
    }

    fn is_concerned(&self, object: &K, read: &DynamicObject) -> bool {
        let attachment = object.attachment();
        if is_kind(read, ADDRESS_CLAIM) {
            let claim = typed::<AddressClaim>(read).filter(|_| attachment.is_some());
            return claim.is_some_and(|claim| {
                let is_near = Some(&claim.spec.holder.namespace) == object.meta().namespace.as_ref();
                // What another attachment is called says nothing of where it leads.
                is_near
                    || claims::place(&claim).is_some_and(|(place, address)| {
                        Some(&place) == attachment.as_ref() || object.uses(address)
                    })
            });
        }
        if neighbours::is_witness(object, read) && attachment.is_some() {
            return true;
        }
        if is_kind(read, NETWORK_ATTACHMENT) {
            let there = read.namespace().map(|namespace| Attachment { namespace, name: read.name_any() });
            return attachment.is_some() && attachment == there;
        }
        if is_kind(read, REFERENCE_GRANT) {
            return read.namespace() != object.namespace();
        }
        Server::is_concerned(object, read)
    }

    /// The pods report in the status, and the summary follows them.
    fn wakes_on(object: &K) -> Option<u64> {
        let mut hasher = life(object);
        serde_json::to_string(object.reports()).unwrap_or_default().hash(&mut hasher);
        Some(hasher.finish())
    }

    fn wakes(&self) -> BoxStream<'static, ObjectRef<K>> {
        self.wakes.stream()
    }

    fn leave(&self) {
        self.pace.clear();
    }

    fn forget(&self, object: &K) {
        self.patience.forget(object);
        self.pace.end(object);
        self.status.forget(object.meta().uid.as_deref().unwrap_or_default());
    }
}

/// What to say of an attachment that does not exist.
fn missing_attachment<K: Server>(object: &K, children: &Children) -> Option<String> {
    let attachment = object.attachment()?;
    if children.served(NETWORK_ATTACHMENT).is_none() {
        return Some(format!(
            "nothing here knows NetworkAttachmentDefinitions such as {attachment}: install Multus, or leave out \
             networkAttachmentName if the machine has the address already"
        ));
    }
    let there = children.get(NETWORK_ATTACHMENT, &attachment.namespace, &attachment.name);
    there.is_none().then(|| {
        format!("there is no NetworkAttachmentDefinition {attachment}: create it, or correct networkAttachmentName")
    })
}
