//! Workstations and intercepts. One reconciler looks at all of them together: a Service has one carrier whoever asks for its
//! traffic, the cluster's end is one for all, and what a request means depends on those before it. What they mean is one picture,
//! computed by a pure function ([`causeway_translate::intercept`]).

mod authority;
mod carrier;
mod neighbourhood;
mod observe;
mod pass;
mod room;
mod seal;
mod services;
mod settings;
mod status;
mod stowaway;
mod workloads;
mod workstations;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use causeway_api::{InterceptRequest, InterceptRequestStatus, Workstation, WorkstationStatus, names};
use kube::{Client, ResourceExt as _, api::DynamicObject};

pub use self::settings::{Bounds, Entry, Settings};
use self::{
    authority::Keys, carrier::Maker, neighbourhood::Neighbourhood, pass::Pass, services::Services,
    stowaway::trouble_of, workloads::Workloads, workstations::Judge,
};
use crate::{
    framework::{
        apply::Applier,
        children::{ChildKind, Children, is_kind},
        error::Error,
        events::Recorder,
        finalizer::Finalizer,
        finding::Finding,
        kinds::{
            DEPLOYMENT, GATEWAY_PLAN, INTERCEPT_REQUEST, NAMESPACE, NETWORK_POLICY, NODE, POD,
            POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT, SERVICE_CIDR,
            SUPPLY, WORKSTATION,
        },
        overseer::{Changes, Failed, Overseer},
        report::chain,
        status::{Writer, now},
    },
    grants::REFERENCE_GRANT,
    vlan::proxy,
};

const NAME: &str = "intercepts";
const FIELD_MANAGER: &str = "causeway-intercepts";
/// When it is looked again at what others decide and no watch may show.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// When it is looked again at what is under way.
const SOON: Duration = Duration::from_millis(200);

/// Reconciles workstations and intercepts.
pub(crate) struct Controller {
    client: Client,
    settings: Settings,
    pods: proxy::Settings,
    applier: Applier,
    neighbourhood: Neighbourhood,
    judge: Judge,
    carriers: Maker,
    services: Services,
    workloads: Workloads,
    requests: Writer<InterceptRequestStatus>,
    workstations: Writer<WorkstationStatus>,
    request_finalizer: Finalizer<InterceptRequest>,
    /// The uids of requests whose finalizer was added and the caches may not show yet.
    held: Mutex<BTreeSet<String>>,
    workstation_finalizer: Finalizer<Workstation>,
    events: Recorder,
}

impl Controller {
    /// A controller that makes pods by these settings, and reports Events as the replica `identity`.
    pub(crate) fn new(client: Client, settings: Settings, pods: proxy::Settings, identity: &str) -> Self {
        Self {
            applier: Applier::new(client.clone(), FIELD_MANAGER),
            neighbourhood: Neighbourhood::default(),
            judge: Judge::default(),
            carriers: Maker::new(client.clone(), FIELD_MANAGER, settings.clone(), pods.clone()),
            services: Services::new(client.clone(), FIELD_MANAGER),
            workloads: Workloads::new(client.clone(), FIELD_MANAGER),
            requests: Writer::new(client.clone(), FIELD_MANAGER),
            workstations: Writer::new(client.clone(), FIELD_MANAGER),
            request_finalizer: Finalizer::new(client.clone(), names::FINALIZER_INTERCEPT),
            held: Mutex::default(),
            workstation_finalizer: Finalizer::new(client.clone(), names::FINALIZER_WORKSTATION),
            events: Recorder::new(client.clone(), "causeway.dev/intercepts", identity),
            settings,
            pods,
            client,
        }
    }

    /// What is said where there are no keys, so that nothing else can be done.
    async fn blocked(&self, workstations: &[Arc<Workstation>], trouble: &Finding) -> Result<(), Error> {
        for object in workstations {
            let previous = self.workstations.previous(&**object);
            let next = workstations::blocked(object, &previous, trouble, &now());
            self.workstations.report(&**object, &previous, &next, &self.events, workstations::notes).await?;
        }
        Ok(())
    }
}

impl Overseer for Controller {
    const NAME: &'static str = NAME;
    const CHILDREN: &'static [ChildKind] = &[
        SERVICE_ACCOUNT,
        ROLE,
        ROLE_BINDING,
        SECRET,
        SUPPLY,
        GATEWAY_PLAN,
        SERVICE,
        DEPLOYMENT,
        POD,
        POD_DISRUPTION_BUDGET,
        NETWORK_POLICY,
    ];
    const READS: &'static [ChildKind] =
        &[INTERCEPT_REQUEST, WORKSTATION, NAMESPACE, REFERENCE_GRANT, NODE, SERVICE_CIDR];

    fn changes(&self, _: &Client) -> Vec<Changes> {
        vec![self.neighbourhood.changes()]
    }

    /// The pods, plans and accounts of other kinds are none of ours.
    fn is_concerned(&self, object: &DynamicObject) -> bool {
        let is_child = Self::CHILDREN.iter().any(|kind| is_kind(object, *kind));
        let owner = object.labels().get(names::LABEL_OWNER_KIND).map(String::as_str);
        let is_ours =
            matches!(owner, Some(stowaway::OWNER_KIND | causeway_translate::intercept::front::OWNER_KIND));
        // The parts of plans say nothing that is not known here.
        !is_child || is_ours
    }

    async fn reconcile(&self, children: &Children) -> Result<Option<Duration>, Failed> {
        let requests = observe::requests(children);
        let workstations = observe::workstations(children);
        let roots = Maker::roots(children);
        let namespaces: BTreeSet<String> = requests
            .keys()
            .map(|at| at.namespace.clone())
            .chain(roots.iter().map(carrier::Root::namespace))
            .collect();
        self.neighbourhood.follow(&self.client, &namespaces);
        let is_needed = !(requests.is_empty() && workstations.is_empty() && roots.is_empty());
        let keys = match Keys::get(&self.applier, &self.settings.namespace, is_needed, children).await {
            Ok(Some(keys)) => keys,
            Ok(None) => return Ok(is_needed.then_some(SOON)),
            Err(error) => {
                let trouble = match &error {
                    authority::Error::Apply(error) => trouble_of(error),
                    other => Finding::no(causeway_api::conditions::Reason::AnotherInstance, chain(other)),
                };
                self.blocked(&workstations, &trouble).await?;
                tracing::warn!("workstations have no keys: {}", trouble.message);
                return Ok(Some(LOOK_AGAIN));
            }
        };
        if !is_needed {
            // The last has gone, and everything with it.
            keys.remove(&self.applier).await.map_err(|source| Error::Objects {
                failed: 1,
                total: 1,
                source: Box::new(source),
            })?;
            return Ok(None);
        }
        Pass::new(self, children, keys, requests, workstations, roots).run().await.map(Some)
    }
}
