//! Follows the object and the Services behind it, and gives the engine a new plan whenever the meaning changes. What can't
//! be read at the moment stays as it was last known.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::{Backend, LogLevel, ProxyServer};
use causeway_controllers::grants::ReferenceGrant;
use causeway_controllers::vlan::proxy::translate::{Targets, Translation, cluster_name, translate};
use causeway_controllers::vlan::proxy::validate::validate;
use causeway_ir::{Endpoint, Plan, Problem};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::Args;
use super::addresses::{self, Addresses};
use super::feed::Feed;
use super::report::Said;
use super::saved::{Place, Saved};
use crate::parts::logging;

/// How long the API server may take before the saved state is used, and a namespace before it is done without.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often this machine's addresses are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long one watch lasts before it is asked for again.
const WATCH_SECONDS: u32 = 60;
/// Changes that come together are taken together.
const GATHER: Duration = Duration::from_millis(10);

/// Makes plans.
pub struct Pilot {
    client: Client,
    name: String,
    server_ip: Option<IpAddr>,
    pod_ip: IpAddr,
    place: Option<Place>,
    require_grants: bool,
    bell: Arc<Notify>,
    object: Feed<ProxyServer>,
    namespaces: BTreeMap<String, Namespace>,
    /// The newest object that was read, from the API server or from disk.
    proxy: Option<Arc<ProxyServer>>,
    /// Endpoints last known, by cluster.
    endpoints: BTreeMap<String, Vec<Endpoint>>,
    saved: Option<Saved>,
    started: Instant,
    disk_tried: bool,
    /// The level of the log that the object last asked for.
    log_level: Option<LogLevel>,
    plan_tx: watch::Sender<Option<Arc<Plan>>>,
    said_tx: watch::Sender<Arc<Said>>,
}

/// The watches of a target namespace.
struct Namespace {
    services: Feed<Service>,
    slices: Feed<EndpointSlice>,
    /// What it lets others use; none where that is not asked.
    grants: Option<Feed<ReferenceGrant>>,
    started: Instant,
}

impl Namespace {
    fn is_complete(&self) -> bool {
        let granted = self.grants.as_ref().is_none_or(Feed::is_complete);
        self.is_closed() || (granted && self.services.is_complete() && self.slices.is_complete())
    }

    /// Whether it is certain that nothing is granted: the operator gives a proxy no right to look without a grant.
    fn is_closed(&self) -> bool {
        self.grants.as_ref().is_some_and(Feed::is_denied)
    }

    fn grants(&self) -> Vec<Arc<ReferenceGrant>> {
        let feed = self.grants.as_ref().filter(|feed| !feed.is_denied());
        feed.map(Feed::objects).unwrap_or_default()
    }

    fn trouble(&self) -> String {
        let of = |kind: &str, trouble: Option<String>| trouble.map(|t| format!("{kind} can't be read: {t}"));
        of("Services", self.services.trouble())
            .or_else(|| of("EndpointSlices", self.slices.trouble()))
            .or_else(|| of("ReferenceGrants", self.grants.as_ref().and_then(Feed::trouble)))
            .unwrap_or_else(|| "the API server does not answer".to_owned())
    }
}

impl Pilot {
    pub fn new(
        client: Client,
        args: &Args,
        plan_tx: watch::Sender<Option<Arc<Plan>>>,
        said_tx: watch::Sender<Arc<Said>>,
    ) -> Self {
        let bell = Arc::new(Notify::new());
        let config = watcher::Config::default()
            .fields(&format!("metadata.name={}", args.proxy_name))
            .timeout(WATCH_SECONDS);
        let object = Feed::start(Api::namespaced(client.clone(), &args.namespace), config, Arc::clone(&bell));
        Self {
            client,
            name: args.proxy_name.clone(),
            server_ip: args.server_ip,
            pod_ip: args.pod_ip,
            place: args.state_dir.as_ref().map(|dir| Place::new(dir, &args.namespace, &args.proxy_name)),
            require_grants: args.grants.require_grants,
            bell,
            object,
            namespaces: BTreeMap::new(),
            proxy: None,
            endpoints: BTreeMap::new(),
            saved: None,
            started: Instant::now(),
            disk_tried: false,
            log_level: None,
            plan_tx,
            said_tx,
        }
    }

    /// Follows until cancelled.
    pub async fn run(&mut self) {
        let mut look = tokio::time::interval(LOOK);
        let mut last_addresses = None;
        loop {
            tokio::select! {
                () = self.bell.notified() => tokio::time::sleep(GATHER).await,
                _ = look.tick() => {
                    let now = self.proxy.as_ref().map(|proxy| self.addresses(proxy));
                    if now == last_addresses && !self.is_waiting() {
                        continue;
                    }
                    last_addresses = now;
                }
            }
            self.read_object();
            self.follow_log_level();
            self.follow_namespaces();
            self.plan().await;
        }
    }

    /// Something that will be decided by time alone.
    fn is_waiting(&self) -> bool {
        self.proxy.is_none() || self.namespaces.values().any(|n| !n.is_complete())
    }

    fn addresses(&self, proxy: &ProxyServer) -> Addresses {
        addresses::choose(&proxy.spec, self.server_ip, self.pod_ip, addresses::is_here)
    }

    /// Takes the object as the API server has it; from disk if the server does not answer at the start.
    fn read_object(&mut self) {
        if self.object.is_complete() {
            match self.object.objects().first() {
                Some(object) => self.proxy = Some(Arc::clone(object)),
                None if self.proxy.is_some() => {
                    self.say(|said| {
                        said.trouble = Some("the ProxyServer was deleted; its last state runs on".into());
                    });
                }
                None => self.say(|said| {
                    said.trouble = Some("there is no such ProxyServer yet; waiting for it".into());
                }),
            }
            return;
        }
        if self.proxy.is_none() && !self.disk_tried && self.started.elapsed() >= PATIENCE {
            self.disk_tried = true;
            match self.place.as_ref().map(Place::load) {
                Some(Ok(Some(saved))) => {
                    tracing::warn!(
                        "the API server does not answer ({}); going on with the last state on disk",
                        self.object.trouble().unwrap_or_default()
                    );
                    self.proxy = Some(Arc::new(saved.proxy.clone()));
                    self.endpoints = saved.endpoints.clone();
                    self.saved = Some(saved);
                }
                Some(Err(error)) => tracing::warn!("the last state can't be used: {error:#}"),
                Some(Ok(None)) | None => tracing::warn!(
                    "the API server does not answer ({}) and there is no last state; waiting",
                    self.object.trouble().unwrap_or_default()
                ),
            }
        }
    }

    /// A level that was set by hand stays until the object asks for another one.
    fn follow_log_level(&mut self) {
        let asked = self.proxy.as_ref().map(|proxy| proxy.spec.log_level);
        if let Some(level) = asked.filter(|_| asked != self.log_level) {
            self.log_level = asked;
            logging::follow(level);
        }
    }

    /// Watches the namespaces that backends name, and no others.
    fn follow_namespaces(&mut self) {
        let Some(proxy) = &self.proxy else { return };
        let wanted: BTreeSet<&str> =
            proxy.spec.backends.iter().map(|b| b.target_namespace.as_str()).collect();
        self.namespaces.retain(|name, _| wanted.contains(name.as_str()));
        for name in wanted {
            if !self.namespaces.contains_key(name) {
                let all = watcher::Config::default().timeout(WATCH_SECONDS);
                let services = Api::namespaced(self.client.clone(), name);
                let slices = Api::namespaced(self.client.clone(), name);
                let asks = self.require_grants && proxy.metadata.namespace.as_deref() != Some(name);
                let grants = asks.then(|| {
                    let grants = Api::namespaced(self.client.clone(), name);
                    Feed::start(grants, all.clone(), Arc::clone(&self.bell))
                });
                let namespace = Namespace {
                    services: Feed::start(services, all.clone(), Arc::clone(&self.bell)),
                    slices: Feed::start(slices, all, Arc::clone(&self.bell)),
                    grants,
                    started: Instant::now(),
                };
                self.namespaces.insert(name.to_owned(), namespace);
            }
        }
    }

    async fn plan(&mut self) {
        let Some(proxy) = self.proxy.clone() else { return };
        let problems = validate(&proxy.spec);
        if !problems.is_empty() {
            return self.refuse(&proxy, &problems);
        }
        // A new namespace gets a moment, so that a backend never goes by way of having no endpoints; but none that
        // can't be read keeps the others waiting.
        let pending = |n: &Namespace| {
            !n.is_complete() && n.started.elapsed() < PATIENCE && n.services.trouble().is_none()
        };
        if self.namespaces.values().any(pending) && !self.disk_tried {
            return;
        }
        let addresses = self.addresses(&proxy);
        let services = self.namespaces.values().flat_map(|n| n.services.objects());
        let slices = self.namespaces.values().flat_map(|n| n.slices.objects());
        let mut targets = Targets::new(services, slices);
        if self.require_grants {
            targets = targets.granted_by(self.namespaces.values().flat_map(Namespace::grants).collect());
        }
        let mut made = translate(&proxy, &addresses.bind, &targets);
        self.recall(&proxy.spec.backends, &mut made);
        let runs = self.plan_tx.borrow().clone();
        let problems = match &runs {
            Some(runs) => made.plan.validate_after(runs),
            None => made.plan.validate(),
        };
        if !problems.is_empty() {
            return self.refuse(&proxy, &problems);
        }
        self.endpoints = made.plan.clusters.iter().map(|c| (c.name.clone(), c.endpoints.clone())).collect();
        let plan = match runs {
            Some(runs) if *runs == made.plan => runs,
            _ => {
                let plan = Arc::new(made.plan);
                self.plan_tx.send_replace(Some(Arc::clone(&plan)));
                plan
            }
        };
        let deleted = self.object.is_complete() && self.object.objects().is_empty();
        let trouble = deleted.then(|| "the ProxyServer was deleted; its last state runs on".to_owned());
        self.say(move |said| {
            *said = Said {
                generation: proxy.metadata.generation,
                plan: Some(plan),
                refused: None,
                attached: addresses.attached,
                trouble,
                backends: made.backends,
            };
        });
        self.save().await;
    }

    /// Puts the last known endpoints where a namespace can't be read.
    fn recall(&self, backends: &[Backend], made: &mut Translation) {
        for (i, backend) in backends.iter().enumerate() {
            let Some(namespace) = self.namespaces.get(&backend.target_namespace).filter(|n| !n.is_complete())
            else {
                continue;
            };
            let last = self.endpoints.get(&cluster_name(&self.name, &backend.name));
            let (Some(cluster), Some(state)) = (made.plan.clusters.get_mut(i), made.backends.get_mut(i))
            else {
                continue;
            };
            cluster.endpoints = last.cloned().unwrap_or_default();
            state.ready_endpoints = cluster.endpoints.iter().filter(|e| e.ready).count();
            let which =
                if cluster.endpoints.is_empty() { "none are known" } else { "the last known are used" };
            state.message = Some(format!(
                "endpoints in namespace {}: {which}; {}",
                backend.target_namespace,
                namespace.trouble()
            ));
        }
    }

    /// Stays with the plan that runs and says why.
    fn refuse(&self, proxy: &ProxyServer, problems: &[Problem]) {
        let text = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let attached = self.addresses(proxy).attached;
        self.say(|said| {
            if said.refused.as_ref() != Some(&text) {
                tracing::warn!("the spec is refused and the last good one runs on: {text}");
            }
            said.generation = proxy.metadata.generation;
            said.refused = Some(text);
            said.attached = attached;
        });
    }

    fn say(&self, change: impl FnOnce(&mut Said)) {
        let mut next = Said::clone(&self.said_tx.borrow());
        change(&mut next);
        if let Some(trouble) =
            next.trouble.as_ref().filter(|t| self.said_tx.borrow().trouble.as_ref() != Some(t))
        {
            tracing::warn!("{trouble}");
        }
        self.said_tx.send_if_modified(|said| {
            let changed = **said != next;
            *said = Arc::new(next);
            changed
        });
    }

    /// Keeps what is known for the next start, if it is new.
    async fn save(&mut self) {
        let (Some(place), Some(proxy)) = (self.place.clone(), &self.proxy) else { return };
        let mut proxy = ProxyServer::clone(proxy);
        proxy.status = None;
        proxy.metadata.managed_fields = None;
        proxy.metadata.resource_version = None;
        let next = Saved { proxy, endpoints: self.endpoints.clone() };
        if self.saved.as_ref() == Some(&next) {
            return;
        }
        let copy = next.clone();
        match tokio::task::spawn_blocking(move || place.store(&copy)).await {
            Ok(Ok(())) => self.saved = Some(next),
            Ok(Err(error)) => tracing::warn!("{error:#}; a start without the API server would not know it"),
            Err(error) => tracing::warn!(%error, "the state was not saved"),
        }
    }
}
