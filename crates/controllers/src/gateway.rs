//! Class `causeway` of Gateway API. One reconciler looks at all objects together: what they mean is one picture, computed by
//! a pure function ([`causeway_translate::gateway`]), so that no two statuses contradict each other, and whatever something
//! refers to, its change is seen. Each Gateway becomes pods with the plan of the picture, and a Service.

mod child;
mod class;
mod contents;
mod desired;
mod make;
mod observe;
mod settings;
mod standing;
mod status;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Mutex,
    time::Duration,
};

use causeway_api::names;
use causeway_base::lock::lock;
use causeway_translate::{
    endpoints,
    gateway::{Picture, World, kinds::ObjectRef, world::Observed},
    services::ServiceRef,
};
use jiff::Timestamp;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Client, ResourceExt as _, api::DynamicObject};

pub use self::settings::Settings;
use self::{
    class::Classes,
    contents::{Contents, Unread},
    make::Maker,
    observe::Readings,
    standing::Standing,
    status::Statuses,
};
use crate::{
    framework::{
        apply::{Owner, Report},
        children::{ChildKind, Children, is_kind, typed},
        error::Error,
        kinds::{
            BACKEND_TLS_POLICY, DEPLOYMENT, ENDPOINT_SLICE, GATEWAY, GATEWAY_CLASS, GATEWAY_PARAMETERS,
            GATEWAY_PLAN, GRPC_ROUTE, HOSTNAME_GRANT, HTTP_ROUTE, LISTENER_SET, NAMESPACE, POD,
            POD_DISRUPTION_BUDGET, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT, SUPPLY, TCP_ROUTE,
            TLS_ROUTE, TRAFFIC_POLICY, UDP_ROUTE,
        },
        overseer::{Changes, Failed, Overseer},
    },
    grants::REFERENCE_GRANT,
    vlan::{fleet::reports::Reports, proxy},
};

const FIELD_MANAGER: &str = "causeway-gateway";
/// How often a picture is made again for what it refers to: what is read may refer to more.
const MOST_ROUNDS: usize = 3;
/// When it is looked again at what others decide and no watch may show.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Reconciles everything of class `causeway`.
pub(crate) struct Controller {
    client: Client,
    updates_at_once: usize,
    readings: Mutex<Readings>,
    contents: Contents,
    maker: Maker,
    reports: Reports,
    statuses: Statuses,
    /// Services that the last picture was made of.
    uses: Mutex<BTreeSet<ServiceRef>>,
    classes: Classes,
}

impl Controller {
    /// A controller that makes pods by these settings.
    pub(crate) fn new(client: Client, settings: Settings, pods: proxy::Settings) -> Self {
        Self {
            updates_at_once: pods.updates_at_once,
            readings: Mutex::default(),
            contents: Contents::default(),
            maker: Maker::new(client.clone(), FIELD_MANAGER, settings, pods),
            reports: Reports::new(client.clone(), names::gateway_report_manager),
            statuses: Statuses::new(client.clone()),
            uses: Mutex::default(),
            classes: Classes::new(client.clone(), FIELD_MANAGER),
            client,
        }
    }

    /// The world, and the picture of it with all that it refers to, but for what can't be read.
    async fn picture(&self, children: &Children, standings: &Standings) -> Result<(Picture, Unread), Error> {
        let mut world = lock(&self.readings).world(children);
        world.observed = standings
            .iter()
            .map(|(at, (_, standing))| {
                let observed = standing.observed(&self.maker.unusable(at));
                (at.clone(), Observed { stuck: self.maker.stuck(at), ..observed })
            })
            .collect();
        self.contents.fill(&mut world).await;
        let mut picture = picture(&world);
        let mut unread = Unread::default();
        for _ in 0..MOST_ROUNDS {
            let followed = self.contents.follow(&self.client, &picture.references).await?;
            unread = followed.unread;
            if !followed.differs {
                break;
            }
            self.contents.fill(&mut world).await;
            picture = self::picture(&world);
        }
        lock(&self.uses).clone_from(&picture.references.services);
        Ok((picture, unread))
    }

    /// Makes the objects of every Gateway of ours, and removes those of Gateways that are others'. What runs for one that is
    /// not accepted, or that is nobody's, stays as it is: whoever uses it does not know why its author's change is wrong.
    async fn make(
        &self,
        picture: &Picture,
        children: &Children,
        standings: &Standings,
        unread: &Unread,
    ) -> Vec<Report> {
        let Some(resource) = children.served(GATEWAY) else { return Vec::new() };
        let made: HashSet<String> = [GATEWAY_PLAN, DEPLOYMENT, SERVICE]
            .into_iter()
            .flat_map(|kind| children.all(kind))
            .filter_map(|object| object.labels().get(names::LABEL_INVENTORY).cloned())
            .collect();
        let mut updating = standings.values().filter(|(_, standing)| standing.is_updating()).count();
        let mut reports = Vec::new();
        for (at, (object, standing)) in standings {
            let Some(owner) = Owner::of_dynamic(object, &resource) else { continue };
            // What it has goes with it.
            if object.metadata.deletion_timestamp.is_some() {
                continue;
            }
            match picture.gateways.get(at) {
                // What it serves with is nowhere else: it stays until that can be read again.
                Some(_) if unread.is_in(|| standing.given(children)) => {}
                Some(gateway) if gateway.accepted => {
                    let may_update = standing.is_rolling() || updating < self.updates_at_once;
                    let is_next = !standing.is_rolling() && self.maker.wants_update(gateway, standing);
                    updating += usize::from(may_update && is_next);
                    reports.push(self.maker.make(at, gateway, &owner, standing, children, may_update).await);
                }
                None if made.contains(owner.uid()) && !picture.nobodys.contains(at) => {
                    reports.push(self.maker.remove(&owner, children).await);
                }
                Some(_) | None => {}
            }
        }
        self.maker.retain(|at| picture.gateways.contains_key(at));
        reports
    }

    /// Removes the words of pods that are gone.
    async fn forget_pods(&self, standings: &Standings) -> Result<(), Error> {
        for (_, standing) in standings.values() {
            if let Some(plan) = &standing.plan {
                let reported = standing.reports().iter().map(|report| report.name.as_str());
                self.reports.remove_stale(plan, reported, &standing.pods()).await?;
            }
        }
        Ok(())
    }
}

/// Every Gateway, ours or not, and how what was made for it stands.
type Standings = BTreeMap<ObjectRef, (std::sync::Arc<DynamicObject>, Standing)>;

fn standings(children: &Children) -> Standings {
    let gateways = children.all(GATEWAY).into_iter();
    gateways
        .map(|object| {
            let at = ObjectRef::new(object.namespace().unwrap_or_default(), object.name_any());
            let standing = Standing::read(children, &at);
            (at, (object, standing))
        })
        .collect()
}

fn picture(world: &World) -> Picture {
    causeway_translate::gateway::picture(world, Timestamp::now())
}

impl Overseer for Controller {
    const NAME: &'static str = "gateway";
    const CHILDREN: &'static [ChildKind] = &[
        SERVICE_ACCOUNT,
        ROLE,
        ROLE_BINDING,
        SECRET,
        SUPPLY,
        GATEWAY_PLAN,
        DEPLOYMENT,
        POD,
        POD_DISRUPTION_BUDGET,
    ];
    const READS: &'static [ChildKind] = &[
        GATEWAY_CLASS,
        GATEWAY,
        LISTENER_SET,
        HTTP_ROUTE,
        GRPC_ROUTE,
        TLS_ROUTE,
        TCP_ROUTE,
        UDP_ROUTE,
        REFERENCE_GRANT,
        BACKEND_TLS_POLICY,
        TRAFFIC_POLICY,
        GATEWAY_PARAMETERS,
        HOSTNAME_GRANT,
        SERVICE,
        ENDPOINT_SLICE,
        NAMESPACE,
    ];

    fn changes(&self, client: &Client) -> Vec<Changes> {
        self.contents.watch(client)
    }

    /// Of the Services of a cluster few are behind a Gateway.
    fn is_concerned(&self, object: &DynamicObject) -> bool {
        let is_used = |namespace: &str, name: &str| {
            let at = ServiceRef { namespace: namespace.to_owned(), name: name.to_owned() };
            lock(&self.uses).contains(&at)
        };
        if is_kind(object, SERVICE) {
            let is_made = object.labels().contains_key(names::LABEL_GATEWAY_NAME);
            return is_made || is_used(&object.namespace().unwrap_or_default(), &object.name_any());
        }
        if is_kind(object, ENDPOINT_SLICE) {
            let slice: Option<EndpointSlice> = typed(object);
            return slice
                .as_ref()
                .and_then(endpoints::service_of)
                .is_some_and(|(at, name)| is_used(at, name));
        }
        // The pods, accounts and supplies of other kinds are none of ours.
        let of_proxies = [
            SERVICE_ACCOUNT,
            ROLE,
            ROLE_BINDING,
            SECRET,
            SUPPLY,
            GATEWAY_PLAN,
            DEPLOYMENT,
            POD,
            POD_DISRUPTION_BUDGET,
        ];
        let is_child = of_proxies.iter().any(|kind| is_kind(object, *kind));
        let owner = object.labels().get(names::LABEL_OWNER_KIND).map(String::as_str);
        !is_child || matches!(owner, Some("Gateway" | "GatewayPlan"))
    }

    async fn reconcile(&self, children: &Children) -> Result<Option<Duration>, Failed> {
        let made = self.classes.make(children).await;
        let standings = standings(children);
        let (picture, unread) = self.picture(children, &standings).await?;
        let reports = self.make(&picture, children, &standings, &unread).await;
        let forgotten = self.forget_pods(&standings).await;
        // Whatever became of the objects: what is true of routes does not wait for them, and nothing of it for anything else.
        let written = self.statuses.write(&picture, children).await;
        let held = self.classes.hold(&picture, children).await;
        written.and(held).and(forgotten).and(made)?;
        for report in reports {
            report.into_result()?;
        }
        unread.into_result()?;
        let again = if self.maker.take_news() { Duration::ZERO } else { LOOK_AGAIN };
        Ok((!picture.gateways.is_empty()).then_some(again))
    }
}
