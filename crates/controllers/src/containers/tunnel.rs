//! The controller of tunnel proxies (`ContainerNetworkTunnelProxy`). What takes its time, images, containers and the
//! process of the host end, is done by a worker per object: the reconciler tells it what is desired, and writes what it
//! tells into EndpointSlices and the status. Neither carries a byte: both may stop while streams go on.

mod desired;
mod directory;
mod history;
pub mod host;
pub mod journal;
mod ledger;
mod state;
mod status;
mod sweep;
mod wakes;
mod worker;

pub use self::sweep::end_all;

use std::{
    collections::{HashMap, VecDeque},
    hash::Hasher as _,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use causeway_api::{ContainerNetworkTunnelProxy, ContainerNetworkTunnelProxyStatus, names};
use causeway_base::lock::lock;
use futures::{StreamExt, future::join_all, stream::BoxStream};
use jiff::Timestamp;
use kube::{Client, ResourceExt, api::DynamicObject, runtime::reflector::ObjectRef};

use self::{
    desired::slices::slices,
    host::HostProgram,
    state::{Phase, State},
    wakes::Wakes,
    worker::{Order, Surroundings, Worker, container},
};
use crate::{
    containers::runtime::ContainerRuntime,
    framework::{
        apply::{self, Applier, Wanted},
        children::{ChildKind, Children},
        error::Error,
        events::Recorder,
        finalizer::Finalizer,
        kinds::{CONTAINER_NETWORK, ENDPOINT_SLICE, SERVICE},
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

/// Objects that went and are remembered; more than reconciles can be under way.
const MOST_DEPARTED: usize = 256;

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
    workers: Mutex<HashMap<String, Worker>>,
    /// Uids of the objects that went last: a reconcile that began before must not start a worker again.
    departed: Mutex<VecDeque<String>>,
}

impl Controller {
    /// A controller that reports Events as the replica `identity`.
    pub(crate) fn new(client: Client, runtime: ContainerRuntime, settings: Settings, identity: &str) -> Self {
        Self {
            settings,
            runtime,
            applier: Applier::new(client.clone(), FIELD_MANAGER),
            finalizer: Finalizer::new(client.clone(), names::FINALIZER_TUNNEL_PROXY),
            status: Writer::new(client.clone(), FIELD_MANAGER),
            events: Recorder::new(client.clone(), "causeway.dev/tunnel", identity),
            wakes: Arc::default(),
            workers: Mutex::default(),
            departed: Mutex::default(),
            client,
        }
    }

    /// Gives the object's worker an order, and says how things stand with it. One that is not there yet is started.
    fn order(&self, proxy: &ContainerNetworkTunnelProxy, order: Order) -> State {
        let mut workers = lock(&self.workers);
        if let Some(worker) = workers.get(uid(proxy)) {
            worker.order(order);
            return worker.state();
        }
        if lock(&self.departed).iter().any(|departed| departed == uid(proxy)) {
            return State { phase: Phase::Gone, ..State::default() };
        }
        let owner = container::Owner {
            uid: uid(proxy).to_owned(),
            namespace: proxy.namespace().unwrap_or_default(),
            name: proxy.name_any(),
            instance: self.runtime.instance().to_owned(),
        };
        let surroundings = Surroundings {
            runtime: self.runtime.clone(),
            directory: self.settings.directory.clone(),
            program: self.settings.program.clone(),
        };
        let memory = (self.status.latest(proxy).unwrap_or_default(), proxy.spec.tunnels.clone());
        self.wakes.begin(uid(proxy), &owner.namespace, &owner.name);
        let (wakes, reference) = (self.wakes.clone(), ObjectRef::from_obj(proxy));
        let wake = Arc::new(move || wakes.wake(reference.clone()));
        let worker = Worker::start(surroundings, owner, order, memory, wake);
        let state = worker.state();
        workers.insert(uid(proxy).to_owned(), worker);
        state
    }

    /// Nothing is left of the object; its worker, if one is still there, is given back.
    fn depart(&self, proxy: &ContainerNetworkTunnelProxy) -> Option<Worker> {
        let mut workers = lock(&self.workers);
        let mut departed = lock(&self.departed);
        departed.push_back(uid(proxy).to_owned());
        if departed.len() > MOST_DEPARTED {
            departed.pop_front();
        }
        self.wakes.end(uid(proxy));
        workers.remove(uid(proxy))
    }

    /// First nobody is sent to the tunnels any more, then they are closed, then the object may go.
    async fn clean_up(
        &self,
        proxy: &ContainerNetworkTunnelProxy,
        owner: &apply::Owner,
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
            drop(self.depart(proxy));
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
    const CHILDREN: &'static [ChildKind] = &[];
    /// EndpointSlices are made too; those of servers are not ours, so all of them are watched.
    const READS: &'static [ChildKind] = &[SERVICE, ENDPOINT_SLICE, CONTAINER_NETWORK, REFERENCE_GRANT];

    async fn reconcile(
        &self,
        proxy: Arc<ContainerNetworkTunnelProxy>,
        children: Children,
    ) -> Result<(), Error> {
        let Some(owner) = apply::Owner::of(&*proxy) else {
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
        let desired = desired::desired(&proxy, &children, grants.as_ref());
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
            output: directory.join(host::files::OUTPUT).display().to_string(),
        };
        let next = status::next(&previous, &input, Timestamp::now());
        self.write(&proxy, &previous, &next).await?;
        report.into_result()
    }

    fn wakes_on(proxy: &ContainerNetworkTunnelProxy) -> Option<u64> {
        Some(life(proxy).finish())
    }

    fn is_concerned(proxy: &ContainerNetworkTunnelProxy, read: &DynamicObject) -> bool {
        let own = proxy.namespace().unwrap_or_default();
        let there = read.namespace().unwrap_or_default();
        let name = read.name_any();
        let is_service = |name: &str| {
            proxy.spec.tunnels.iter().any(|tunnel| {
                let service = (there.as_str(), name);
                desired::server_of(&own, tunnel) == service || desired::client_of(&own, tunnel) == service
            })
        };
        let network = desired::network_path(&own, &proxy.spec.container_network_name);
        match read.types.as_ref().map(|types| types.kind.as_str()) {
            Some("Service") => is_service(&name),
            Some("EndpointSlice") => {
                read.labels().get(desired::SERVICE_NAME).is_some_and(|name| is_service(name))
            }
            Some("ContainerNetwork") => network == (there.as_str(), name.as_str()),
            Some("ReferenceGrant") => {
                let uses = |tunnel| {
                    desired::server_of(&own, tunnel).0 == there || desired::client_of(&own, tunnel).0 == there
                };
                there != own && (network.0 == there || proxy.spec.tunnels.iter().any(uses))
            }
            _ => false,
        }
    }

    /// Usually nothing is left by then; a finalizer that somebody removed by hand leaves the worker.
    fn forget(&self, proxy: &ContainerNetworkTunnelProxy) {
        self.status.forget(uid(proxy));
        if let Some(worker) = self.depart(proxy) {
            tokio::spawn(worker.end(DRAIN));
        }
    }

    fn wakes(&self) -> BoxStream<'static, ObjectRef<ContainerNetworkTunnelProxy>> {
        self.wakes.stream(self.client.clone(), &self.runtime, self.settings.directory.clone()).boxed()
    }

    async fn end(&self) {
        let workers = std::mem::take(&mut *lock(&self.workers));
        match self.settings.on_stop {
            OnStop::Leave => drop(workers),
            OnStop::End => {
                join_all(workers.into_values().map(|worker| worker.end(SHORT_DRAIN))).await;
            }
        }
    }
}

fn uid(proxy: &ContainerNetworkTunnelProxy) -> &str {
    proxy.metadata.uid.as_deref().unwrap_or_default()
}
