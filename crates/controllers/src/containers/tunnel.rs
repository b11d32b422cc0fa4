//! The controller of tunnel proxies (`ContainerNetworkTunnelProxy`). What takes its time, images, containers and the
//! process of the host end, is done by a worker per object: the reconciler tells it what is desired, and writes what it
//! tells into EndpointSlices and the status. Neither carries a byte: both may stop while streams go on.

mod apply;
mod desired;
mod directory;
mod figures;
mod history;
pub mod host;
pub mod journal;
mod ledger;
mod observe;
mod problem;
mod services;
mod state;
mod status;
mod sweep;
pub(crate) mod switched_off;
mod validate;
mod wakes;
mod worker;

pub(crate) use self::figures::Figures;
pub use self::sweep::{end_all, end_one};

use std::{hash::Hasher as _, path::PathBuf, sync::Arc, time::Duration};

use causeway_api::{ContainerNetworkTunnelProxy, ContainerNetworkTunnelProxyStatus, names};
use causeway_ir::tunnel::files;
use futures::{StreamExt, stream::BoxStream};
use jiff::Timestamp;
use kube::{Client, ResourceExt, api::DynamicObject, runtime::reflector::ObjectRef};

use self::{
    apply::Workers,
    desired::slices::slices,
    host::HostProgram,
    services::NamedServices,
    state::{Phase, State},
    wakes::Wakes,
    worker::{Context, Order},
};
use crate::{
    containers::runtime::ContainerRuntime,
    framework::{
        apply::{Applier, Owner, Wanted},
        children::{ChildKind, Children},
        error::Error,
        events::Recorder,
        finalizer::Finalizer,
        kinds::{CONTAINER_NETWORK, ENDPOINT_SLICE},
        report,
        runner::{Reconciler, life},
        status::Writer,
    },
    grants::{Grants, REFERENCE_GRANT},
};

const NAME: &str = "tunnel";
const FIELD_MANAGER: &str = "causeway-tunnel";
/// How long streams may go on after the object was deleted.
const DRAIN: Duration = Duration::from_secs(10);
/// How long they may go on when the objects end with the operator; it ends soon.
const SHORT_DRAIN: Duration = Duration::from_millis(500);

/// What the controller needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Where ports are remembered, keys kept and journals written.
    pub(crate) directory: PathBuf,
    /// The program of host ends.
    pub(crate) program: HostProgram,
    /// What happens to tunnels when the operator stops.
    pub(crate) on_stop: OnStop,
    /// Whether Services and networks of other namespaces need a ReferenceGrant there.
    pub(crate) require_grants: bool,
}

/// What happens to tunnels when the operator stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStop {
    /// Host ends and containers go on, and the next operator adopts them.
    #[default]
    Leave,
    /// They end: the objects end with the operator, so that there will be nobody to adopt them.
    End,
}

/// Reconciles tunnel proxies.
pub(crate) struct Controller {
    client: Client,
    settings: Settings,
    runtime: ContainerRuntime,
    applier: Applier,
    finalizer: Finalizer<ContainerNetworkTunnelProxy>,
    status: Writer<ContainerNetworkTunnelProxyStatus>,
    events: Recorder,
    wakes: Arc<Wakes>,
    services: NamedServices,
    workers: Workers,
}

impl Controller {
    /// A controller that reports Events as the replica `identity`.
    pub(crate) fn new(
        client: Client,
        runtime: ContainerRuntime,
        settings: Settings,
        figures: Figures,
        identity: &str,
    ) -> Self {
        let wakes: Arc<Wakes> = Arc::default();
        let context = Context {
            runtime: runtime.clone(),
            directory: settings.directory.clone(),
            program: settings.program.clone(),
            figures,
        };
        Self {
            settings,
            runtime,
            applier: Applier::new(client.clone(), FIELD_MANAGER),
            finalizer: Finalizer::new(client.clone(), names::FINALIZER_TUNNEL_PROXY),
            status: Writer::new(client.clone(), FIELD_MANAGER),
            events: Recorder::new(client.clone(), "causeway.dev/tunnel", identity),
            workers: Workers::new(context, wakes.clone()),
            services: NamedServices::new(client.clone(), wakes.clone()),
            wakes,
            client,
        }
    }

    fn order(&self, proxy: &ContainerNetworkTunnelProxy, order: Order) -> State {
        self.workers.order(proxy, order, || self.status.latest(proxy).unwrap_or_default())
    }

    /// First nobody is sent to the tunnels any more, then they are closed, then the object may go.
    async fn clean_up(
        &self,
        proxy: &ContainerNetworkTunnelProxy,
        owner: &Owner,
        children: &Children,
    ) -> Result<(), Error> {
        if !self.finalizer.is_on(proxy) {
            return Ok(());
        }
        let here = self.applier.converge(owner, &[], &[], children).await;
        let elsewhere = self.applier.remove_remote(owner, &[ENDPOINT_SLICE]).await?;
        let failures: Vec<_> =
            here.failures().chain(elsewhere.failures()).map(|error| report::chain(error)).collect();
        let state = self.order(proxy, Order::End { drain: DRAIN });
        if state.phase == Phase::Gone && failures.is_empty() {
            drop(self.workers.depart(proxy));
            return self.finalizer.remove(proxy).await;
        }
        let previous = self.status.previous(proxy);
        let generation = proxy.metadata.generation.unwrap_or_default();
        let next = status::deleting(&previous, &state, &failures, generation, Timestamp::now());
        self.write(proxy, &previous, &next).await?;
        here.into_result()?;
        elsewhere.into_result()
    }

    async fn write(
        &self,
        proxy: &ContainerNetworkTunnelProxy,
        previous: &ContainerNetworkTunnelProxyStatus,
        next: &ContainerNetworkTunnelProxyStatus,
    ) -> Result<(), Error> {
        self.status.report(proxy, previous, next, &self.events, status::notes).await
    }
}

impl Reconciler for Controller {
    type Primary = ContainerNetworkTunnelProxy;
    const NAME: &'static str = NAME;
    const CHILDREN: &'static [ChildKind] = &[ENDPOINT_SLICE];
    /// Services are read too, but only those that are named are watched.
    const READS: &'static [ChildKind] = &[CONTAINER_NETWORK, REFERENCE_GRANT];

    async fn reconcile(
        &self,
        proxy: Arc<ContainerNetworkTunnelProxy>,
        children: Children,
    ) -> Result<(), Error> {
        let Some(owner) = Owner::of(&*proxy) else {
            return Ok(());
        };
        if proxy.metadata.deletion_timestamp.is_some() {
            return self.clean_up(&proxy, &owner, &children).await;
        }
        // First the promise to clean up, then what has to be cleaned up.
        if !self.finalizer.is_on(&proxy) && !self.finalizer.add(&proxy).await? {
            return Ok(());
        }
        let grants = self.settings.require_grants.then(|| Grants::read(&children.all(REFERENCE_GRANT)));
        let named = self.services.follow(&proxy, grants.as_ref()).await?;
        let observed = observe::observe(&proxy, &named, grants, &children);
        let valid = validate::validate(&proxy, &observed);
        let desired = desired::desired(&proxy, &valid, &observed);
        let state = self.order(&proxy, Order::Serve(Box::new(desired.clone())));
        if state.phase == Phase::Looking {
            // What an operator before this one left may serve as it is; the worker wakes this again when it knows.
            return Ok(());
        }
        let slices = slices(&proxy, &desired, &state);
        let wanted: Vec<_> = slices.iter().map(|slice| Wanted::new(ENDPOINT_SLICE, slice)).collect();
        let report = self.applier.converge(&owner, &wanted, &[], &children).await;
        let previous = self.status.previous(&*proxy);
        let (namespace, name) = (proxy.namespace().unwrap_or_default(), proxy.name_any());
        let directory = self.settings.directory.join(&namespace).join(&name);
        let input = status::Input {
            proxy: &proxy,
            desired: &desired,
            state: &state,
            failures: report.failures().map(|error| report::chain(error)).collect(),
            journal: journal::path(&self.settings.directory, &namespace, &name).display().to_string(),
            output: directory.join(files::OUTPUT).display().to_string(),
        };
        let next = status::next(&previous, &input, Timestamp::now());
        self.write(&proxy, &previous, &next).await?;
        report.into_result()
    }

    fn wakes_on(proxy: &ContainerNetworkTunnelProxy) -> Option<u64> {
        Some(life(proxy).finish())
    }

    fn is_concerned(&self, proxy: &ContainerNetworkTunnelProxy, read: &DynamicObject) -> bool {
        observe::is_observed(proxy, read)
    }

    /// Usually nothing is left by then; a finalizer that somebody removed by hand leaves the worker.
    fn forget(&self, proxy: &ContainerNetworkTunnelProxy) {
        self.status.forget(uid(proxy));
        self.services.forget(proxy);
        self.workers.end(proxy, DRAIN);
    }

    fn wakes(&self) -> BoxStream<'static, ObjectRef<ContainerNetworkTunnelProxy>> {
        self.wakes.stream(self.client.clone(), &self.runtime, self.settings.directory.clone()).boxed()
    }

    async fn end(&self) {
        if self.settings.on_stop == OnStop::End {
            self.workers.end_all(SHORT_DRAIN).await;
        }
    }

    fn leave(&self) {
        self.services.leave();
        self.workers.leave_all();
    }
}

fn uid(proxy: &ContainerNetworkTunnelProxy) -> &str {
    proxy.metadata.uid.as_deref().unwrap_or_default()
}
