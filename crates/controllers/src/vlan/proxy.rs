//! The ProxyServer controller: one object becomes a pod per address, a Service in front of them, and exactly the rights
//! that they need. What is wrong with one is [`causeway_translate::proxy`]'s to say, for the proxies themselves too.

pub(crate) mod desired;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod observe;
mod places;
mod settings;
mod status;
mod update;

use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use causeway_api::{AddressClaim, Backend, ProxyServer, ProxyServerStatus, names};
use causeway_ir::Problem;
use causeway_translate::proxy::{bare_address, references, validate};
use futures::stream::BoxStream;
use kube::{Client, ResourceExt, api::DynamicObject, runtime::reflector::ObjectRef};

pub use self::settings::Settings;
use self::{observe::Observed, places::places};
use crate::{
    framework::{
        apply::{Applier, Owner, Report},
        children::{ChildKind, Children, is_kind, typed},
        error::Error,
        events::Recorder,
        finalizer::Finalizer,
        kinds::{
            ADDRESS_CLAIM, CONFIG_MAP, DEPLOYMENT, DHCP_SERVER, DNS_SERVER, NETWORK_ATTACHMENT, POD,
            POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT,
        },
        runner::{Reconciler, life},
        status::{Writer, now},
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

const NAME: &str = "proxy";
const FIELD_MANAGER: &str = "causeway-proxy";

/// Reconciles ProxyServers.
pub(crate) struct Controller {
    settings: Settings,
    applier: Applier,
    claims: Claims,
    finalizer: Finalizer<ProxyServer>,
    reports: Reports,
    status: Writer<ProxyServerStatus>,
    wakes: Wakes<ProxyServer>,
    patience: Patience<ProxyServer>,
    pace: Pace<ProxyServer>,
    stuck: Stuck<ProxyServer>,
    events: Recorder,
}

impl Controller {
    /// A controller that reports Events as the replica `identity`.
    pub(crate) fn new(client: Client, settings: Settings, identity: &str) -> Self {
        let wakes = Wakes::default();
        Self {
            pace: Pace::new(settings.updates_at_once, wakes.clone()),
            stuck: Stuck::new(client.clone(), wakes.clone()),
            settings,
            applier: Applier::new(client.clone(), FIELD_MANAGER),
            claims: Claims::new(client.clone(), FIELD_MANAGER),
            finalizer: Finalizer::new(client.clone(), names::FINALIZER_PROXY),
            reports: Reports::new(client.clone(), names::report_manager),
            status: Writer::new(client.clone(), FIELD_MANAGER),
            patience: Patience::new(wakes.clone()),
            wakes,
            events: Recorder::new(client, "causeway.dev/proxy", identity),
        }
    }

    /// The objects in other namespaces first, then the finalizer; all else goes with the owner.
    async fn clean_up(&self, proxy: &ProxyServer, owner: &Owner) -> Result<(), Error> {
        if !self.finalizer.is_on(proxy) {
            return Ok(());
        }
        let kinds = [ROLE, ROLE_BINDING];
        let mut report = self.applier.remove_remote(owner, &kinds).await?;
        if !report.is_empty() && report.failures().next().is_none() {
            // Most objects go at once; look again whether these have.
            report = self.applier.remove_remote(owner, &kinds).await?;
        }
        if report.is_empty() {
            self.claims.release_all(owner.uid()).await?;
            return self.finalizer.remove(proxy).await;
        }
        let previous = self.status.previous(proxy);
        let next = status::deleting(&previous, &report, generation(proxy), &now());
        self.write(proxy, &previous, &next).await?;
        // The watch brings it back when the last of them is gone.
        report.into_result()
    }

    async fn write(
        &self,
        proxy: &ProxyServer,
        previous: &ProxyServerStatus,
        next: &ProxyServerStatus,
    ) -> Result<(), Error> {
        self.status.report(proxy, previous, next, &self.events, status::notes).await
    }
}

impl Reconciler for Controller {
    type Primary = ProxyServer;
    const NAME: &'static str = NAME;
    const CHILDREN: &'static [ChildKind] =
        &[SERVICE_ACCOUNT, ROLE, ROLE_BINDING, CONFIG_MAP, DEPLOYMENT, SERVICE, POD, POD_DISRUPTION_BUDGET];
    const READS: &'static [ChildKind] =
        &[REFERENCE_GRANT, ADDRESS_CLAIM, NETWORK_ATTACHMENT, DHCP_SERVER, DNS_SERVER];

    async fn reconcile(&self, proxy: Arc<ProxyServer>, children: Children) -> Result<(), Error> {
        let Some(owner) = Owner::of(&*proxy) else {
            return Ok(());
        };
        if proxy.metadata.deletion_timestamp.is_some() {
            return self.clean_up(&proxy, &owner).await;
        }
        let problems = problems(&proxy, &self.settings);
        let grants = self.settings.require_grants.then(|| Grants::read(&children.all(REFERENCE_GRANT)));
        let accepted = accepted::last(&*proxy, &problems, &children)
            .filter(|accepted| self::problems(accepted, &self.settings).is_empty());
        // While the spec can't be run, what runs is kept as the last good one asks for.
        let effective = if problems.is_empty() { Some(&*proxy) } else { accepted.as_ref() };
        let before = observe::observe(&proxy, &owner, &children, &Report::default());
        let mut desired = effective.map(|effective| {
            desired::desired(effective, &self.settings, grants.as_ref(), accepted.as_ref(), &before)
        });
        let (mut report, mut step) = (Report::default(), Step::default());
        let mut addresses = Addresses::default();
        if let (Some(desired), Some(effective)) = (&mut desired, effective) {
            // First the promise to clean up, then what has to be cleaned up.
            let asks = asks(effective, &before);
            let reaches_out = !self.settings.is_confined && (desired.reaches_out() || asks.are_elsewhere());
            let is_promised =
                !reaches_out || self.finalizer.is_on(&proxy) || self.finalizer.add(&proxy).await?;
            if !is_promised {
                return Ok(());
            }
            addresses = asks.claim(&self.claims, &owner, grants.as_ref(), &children).await;
            let unknown = addresses.withhold(&mut desired.deployments);
            desired.budget.take_if(|_| children.served(POD_DISRUPTION_BUDGET).is_none());
            let policy = self.settings.update_policy(&proxy.spec);
            step = Step::decide(&*proxy, policy, &desired.deployments, &before, &self.pace);
            let rollout = &mut step.rollout;
            rollout.kept.retain(|name| !addresses.takes_away(name, &before.deployments));
            let wait = rollout.held.iter().chain(&rollout.kept).chain(&unknown);
            let mut keep: Vec<_> = wait.map(|name| (DEPLOYMENT, name.clone())).collect();
            if !rollout.held.is_empty() {
                // A pod that is still to be replaced may start again.
                keep.push((CONFIG_MAP, desired::bootstrap_name(&proxy.name_any())));
            }
            let wanted = desired.wanted(&rollout.held, &step.checks.pods);
            report = self.applier.converge(&owner, &wanted, &keep, &children).await;
        }
        self.claims.release(owner.uid(), &addresses.wanted, &children).await?;
        if addresses.waits() {
            self.wakes.wake_in(LOOK_AGAIN, ObjectRef::from_obj(&*proxy));
        }
        let mut observed = observe::observe(&proxy, &owner, &children, &report);
        self.stuck.explain(&*proxy, &mut observed.pods).await;
        let reported = proxy.status.iter().flat_map(|status| &status.replicas);
        let reported = reported.map(|report| report.name.as_str());
        self.reports.remove_stale(&*proxy, reported, &observed.pods).await?;
        let mut refusals = refusals(&proxy, grants.as_ref(), &children);
        if self.settings.is_confined && !refusals.is_empty() {
            refusals = vec![
                "this operator serves each of its namespaces by itself (--namespaces): have proxy and Service in the same one"
                    .to_owned(),
            ];
        }
        if !refusals.is_empty() {
            self.wakes.wake_in(LOOK_AT_OTHERS, ObjectRef::from_obj(&*proxy));
        }
        let previous = self.status.previous(&*proxy);
        let serving = serving_addresses(&observed.reports);
        let unreached = neighbours::unreached(&*proxy, attachment(&proxy).as_ref(), &serving, &children);
        let pass = Pass {
            problems: &problems,
            accepted: accepted.as_ref().map(generation),
            held: &step.rollout.held,
            waiting: step.waiting.as_ref(),
            image_troubles: &step.checks.troubles,
            withheld: &addresses.withheld,
            unreached: unreached.as_deref(),
        };
        let input = status::Input {
            proxy: &proxy,
            pass,
            desired: desired.as_ref(),
            failures: report.failures().collect(),
            refusals,
            observed: &observed,
        };
        if status::is_settling(&previous, &input) && self.patience.has_more(&*proxy) {
            return Ok(());
        }
        let next = status::next(&previous, &input, &now());
        self.write(&proxy, &previous, &next).await?;
        report.into_result()?;
        addresses.error.map_or(Ok(()), Err)
    }

    fn is_concerned(&self, proxy: &ProxyServer, read: &DynamicObject) -> bool {
        let attachment = attachment(proxy);
        if let Some(claim) = typed::<AddressClaim>(read).filter(|_| is_kind(read, ADDRESS_CLAIM)) {
            let asked = || asks(proxy, &Observed::default());
            return claims::place(&claim)
                .is_some_and(|(place, address)| Some(place) == attachment || asked().has(address));
        }
        if is_kind(read, DHCP_SERVER) || is_kind(read, DNS_SERVER) {
            return attachment.is_some() && neighbours::is_witness(proxy, read);
        }
        let there = read.namespace();
        let is_there = |backend: &Backend| Some(&backend.target_namespace) == there.as_ref();
        let supply = proxy.status.as_ref().and_then(|status| status.supply.as_ref());
        let is_read =
            || supply.is_some_and(|supply| supply.namespaces.iter().any(|read| Some(read) == there.as_ref()));
        let is_attached = attachment.is_some_and(|attachment| Some(attachment.namespace) == there);
        there != proxy.namespace() && (proxy.spec.backends.iter().any(is_there) || is_read() || is_attached)
    }

    /// The proxies report in the status, and the summary follows them; so does the word of what they are supplied with.
    fn wakes_on(proxy: &ProxyServer) -> Option<u64> {
        let mut hasher = life(proxy);
        let reported = proxy.status.as_ref().map(|status| (&status.replicas, &status.supply));
        serde_json::to_string(&reported).unwrap_or_default().hash(&mut hasher);
        Some(hasher.finish())
    }

    fn wakes(&self) -> BoxStream<'static, ObjectRef<ProxyServer>> {
        self.wakes.stream()
    }

    fn leave(&self) {
        self.pace.clear();
    }

    fn forget(&self, proxy: &ProxyServer) {
        self.patience.forget(proxy);
        self.pace.end(proxy);
        self.status.forget(proxy.metadata.uid.as_deref().unwrap_or_default());
    }
}

impl Accepted for ProxyServer {
    fn place(&self) -> (String, &'static str) {
        (names::accepted_config_map(&self.name_any()), names::ACCEPTED_FILE)
    }

    fn is_taken(&self) -> bool {
        let reports = self.status.as_ref().map_or(&[][..], |status| &status.replicas);
        is_taken(reports, self.metadata.generation)
    }
}

/// The attachment that a proxy names.
fn attachment(proxy: &ProxyServer) -> Option<Attachment> {
    let network = &proxy.spec.network_config;
    let (name, namespace) = (&network.network_attachment_name, &network.network_attachment_namespace);
    Attachment::named(name.as_ref(), namespace.as_ref(), proxy)
}

/// The addresses that a proxy asks for.
pub(crate) fn asks(proxy: &ProxyServer, observed: &Observed) -> Asks {
    let places = places(&proxy.spec, observed);
    Asks::new(proxy, attachment(proxy), places.iter().filter_map(|place| bare_address(place.address?)))
}

/// Everything that keeps this object from being made into pods.
fn problems(proxy: &ProxyServer, settings: &Settings) -> Vec<Problem> {
    let mut problems = validate(proxy).err().unwrap_or_default();
    problems.extend(desired::name_problem(&proxy.name_any()));
    problems.extend(settings.image_problems(&proxy.spec));
    let of_pods = proxy.spec.pod_template.as_ref();
    problems.extend(of_pods.into_iter().flat_map(|pods| pod_template::problems(pods, "spec.podTemplate")));
    problems
}

/// Why Services in other namespaces are not used.
fn refusals(proxy: &ProxyServer, grants: Option<&Grants>, children: &Children) -> Vec<String> {
    let supply = proxy.status.as_ref().and_then(|status| status.supply.clone()).unwrap_or_default();
    let mut refusals =
        references::refusals(proxy, grants, |name| supply.missing_namespaces.iter().any(|gone| gone == name));
    if !refusals.is_empty() && children.served(REFERENCE_GRANT).is_none() {
        refusals.push(
            "this cluster has no ReferenceGrants, so nothing can be granted: install the definitions of the Gateway \
             API, or run the operator with --require-grants=false"
                .to_owned(),
        );
    }
    refusals
}

fn generation(proxy: &ProxyServer) -> i64 {
    proxy.metadata.generation.unwrap_or_default()
}
