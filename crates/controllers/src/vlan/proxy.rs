//! The ProxyServer controller: one object becomes a pod per address, a Service in front of them, and exactly the rights
//! that they need. What is wrong with one is [`causeway_translate::proxy`]'s to say, for the proxies themselves too.

mod desired;
#[cfg(test)]
mod fixture;
mod observe;
mod settings;
mod status;

use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use causeway_api::{Backend, ProxyServer, ProxyServerStatus, names};
use causeway_ir::Problem;
use causeway_translate::proxy::{references, validate};
use kube::{Client, ResourceExt, api::DynamicObject};

use self::observe::Reports;
pub use self::settings::Settings;
use crate::{
    framework::{
        apply::{Applier, Owner, Report},
        children::{ChildKind, Children},
        error::Error,
        events::Recorder,
        finalizer::Finalizer,
        kinds::{CONFIG_MAP, DEPLOYMENT, POD, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT},
        runner::{Reconciler, life},
        status::{Writer, now},
    },
    grants::{Grants, REFERENCE_GRANT},
};

const NAME: &str = "proxy";
const FIELD_MANAGER: &str = "causeway-proxy";

/// Reconciles ProxyServers.
pub(crate) struct Controller {
    settings: Settings,
    applier: Applier,
    finalizer: Finalizer<ProxyServer>,
    reports: Reports,
    status: Writer<ProxyServerStatus>,
    events: Recorder,
}

impl Controller {
    /// A controller that reports Events as the replica `identity`.
    pub(crate) fn new(client: Client, settings: Settings, identity: &str) -> Self {
        Self {
            settings,
            applier: Applier::new(client.clone(), FIELD_MANAGER),
            finalizer: Finalizer::new(client.clone(), names::FINALIZER_PROXY),
            reports: Reports::new(client.clone()),
            status: Writer::new(client.clone(), FIELD_MANAGER),
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
        &[SERVICE_ACCOUNT, ROLE, ROLE_BINDING, CONFIG_MAP, DEPLOYMENT, SERVICE, POD];
    const READS: &'static [ChildKind] = &[REFERENCE_GRANT];

    async fn reconcile(&self, proxy: Arc<ProxyServer>, children: Children) -> Result<(), Error> {
        let Some(owner) = Owner::of(&*proxy) else {
            return Ok(());
        };
        if proxy.metadata.deletion_timestamp.is_some() {
            return self.clean_up(&proxy, &owner).await;
        }
        let problems = problems(&proxy);
        let grants = self.settings.require_grants.then(|| Grants::read(&children.all(REFERENCE_GRANT)));
        let (report, ready_to_report) = if problems.is_empty() {
            let desired = desired::desired(&proxy, &self.settings, grants.as_ref());
            // First the promise to clean up, then what has to be cleaned up.
            let is_promised =
                !desired.reaches_out() || self.finalizer.is_on(&proxy) || self.finalizer.add(&proxy).await?;
            if !is_promised {
                return Ok(());
            }
            (self.applier.converge(&owner, &desired.wanted(), &[], &children).await, Some(desired))
        } else {
            // What runs is left as it is until the spec is corrected.
            (Report::default(), None)
        };
        let observed = observe::observe(&proxy, &owner, &children, &report);
        self.reports.remove_stale(&proxy, &observed).await?;
        let previous = self.status.previous(&*proxy);
        let input = status::Input {
            proxy: &proxy,
            problems: &problems,
            desired: ready_to_report.as_ref(),
            failures: report.failures().collect(),
            refusals: references::refusals(&proxy, grants.as_ref()),
            observed: &observed,
        };
        let next = status::next(&previous, &input, &now());
        self.write(&proxy, &previous, &next).await?;
        report.into_result()
    }

    fn is_concerned(proxy: &ProxyServer, grant: &DynamicObject) -> bool {
        let there = grant.namespace();
        let is_there = |backend: &Backend| Some(&backend.target_namespace) == there.as_ref();
        there != proxy.namespace() && proxy.spec.backends.iter().any(is_there)
    }

    /// The proxies report in the status, and the summary follows them.
    fn wakes_on(proxy: &ProxyServer) -> Option<u64> {
        let mut hasher = life(proxy);
        let replicas = proxy.status.as_ref().map(|status| &status.replicas);
        serde_json::to_string(&replicas).unwrap_or_default().hash(&mut hasher);
        Some(hasher.finish())
    }

    fn forget(&self, proxy: &ProxyServer) {
        self.status.forget(proxy.metadata.uid.as_deref().unwrap_or_default());
    }
}

/// Everything that keeps this object from being made into pods.
fn problems(proxy: &ProxyServer) -> Vec<Problem> {
    let mut problems = validate(proxy).err().unwrap_or_default();
    problems.extend(desired::name_problem(&proxy.name_any()));
    problems
}

fn generation(proxy: &ProxyServer) -> i64 {
    proxy.metadata.generation.unwrap_or_default()
}
