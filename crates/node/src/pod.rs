//! Pods: watches those of this node, places those of none, and gives each its worker.
//! On the first full list, processes and directories whose pod is gone are removed.

mod addresses;
mod backoff;
mod confine;
mod env;
mod fields;
mod image;
mod launch;
mod mounts;
mod orphans;
mod probe;
mod runtime;
mod runtime_container;
mod sources;
mod status;
mod stop;
mod token;
mod tracked;
mod trust;
pub mod view;
mod volume;
mod worker;

use std::{
    collections::{HashMap, HashSet},
    error::Error,
    fmt::Debug,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use causeway_base::backoff::spread;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::PostParams,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{
    sync::{broadcast, watch},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

pub use self::orphans::{LeftPod, end_pods, left_pods};
pub(crate) use self::{
    addresses::Addresses, runtime::Containers, runtime_container::CONTAINER as CONTAINER_LABEL,
};
use self::{
    fields::Host,
    sources::{Kind, SourceRef},
    worker::{Update, Worker},
};
use crate::{config::Config, events::Recorder, workload::is_code};

/// Between two tries to set up a pod.
const SETUP_RETRY: Duration = Duration::from_secs(5);

/// Where the API server is, as pods reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiServer {
    pub url: String,
    pub host: String,
    pub port: u16,
}

/// What all workers share.
pub(crate) struct Shared {
    pub config: Config,
    pub client: Client,
    pub recorder: Recorder,
    pub api: Option<ApiServer>,
    /// As pods with a network namespace of their own reach it.
    pub attached_api: Option<ApiServer>,
    pub addresses: Addresses,
    pub containers: Containers,
    /// CPUs and bytes of memory of this machine.
    pub machine: (u64, u64),
}

impl Shared {
    /// The machine as a pod with this address sees it.
    fn host(&self, pod_address: IpAddr) -> Host<'_> {
        let (cpus, memory) = self.machine;
        Host { node: &self.config.name, address: self.config.address, pod_address, cpus, memory }
    }
}

/// Runs pods until `shutdown`; returns when all workers have come to rest.
pub(crate) async fn run(shared: Arc<Shared>, shutdown: CancellationToken) {
    let (change_tx, _) = broadcast::channel(1024);
    let mut pods = Pods {
        shared: shared.clone(),
        change_tx: change_tx.clone(),
        shutdown: shutdown.clone(),
        known: HashMap::new(),
        tasks: JoinSet::new(),
    };
    let watches = async {
        tokio::join!(
            watch_sources::<ConfigMap>(shared.client.clone(), Kind::ConfigMap, change_tx.clone()),
            watch_sources::<Secret>(shared.client.clone(), Kind::Secret, change_tx),
            pods.watch(),
        );
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = watches => {}
    }
    while pods.tasks.join_next().await.is_some() {}
}

/// Tells workers which ConfigMaps or Secrets changed; contents are read when they are needed.
async fn watch_sources<K>(client: Client, kind: Kind, change_tx: broadcast::Sender<SourceRef>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let stream =
        watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff().touched_objects();
    let mut objects = std::pin::pin!(stream);
    while let Some(object) = objects.next().await {
        match object {
            Ok(object) => {
                let source = SourceRef {
                    kind,
                    namespace: object.namespace().unwrap_or_default(),
                    name: object.name_any(),
                };
                // Nobody listening is fine: there may be no pods.
                let _ = change_tx.send(source);
            }
            Err(error) => tracing::debug!(error = &error as &dyn Error, "watch failed"),
        }
    }
}

struct Pods {
    shared: Arc<Shared>,
    change_tx: broadcast::Sender<SourceRef>,
    shutdown: CancellationToken,
    /// Workers by the uid of their pod.
    known: HashMap<String, watch::Sender<Update>>,
    tasks: JoinSet<()>,
}

impl Pods {
    async fn watch(&mut self) {
        let stream = watcher(Api::<Pod>::all(self.shared.client.clone()), watcher::Config::default())
            .default_backoff();
        let mut events = std::pin::pin!(stream);
        let mut listed: Option<HashSet<String>> = None;
        let mut first = true;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => listed = Some(HashSet::new()),
                Ok(watcher::Event::InitApply(pod)) => {
                    if let Some(listed) = &mut listed {
                        listed.extend(pod.uid());
                    }
                    self.deliver(pod);
                }
                Ok(watcher::Event::InitDone) => {
                    let listed = listed.take().unwrap_or_default();
                    for (uid, update_tx) in &self.known {
                        if !listed.contains(uid) {
                            update_tx.send_replace(Update::Gone);
                        }
                    }
                    if std::mem::take(&mut first) {
                        let orphans = orphans::find(&self.shared.config.data_dir, &listed);
                        self.tasks.spawn(orphans::remove(self.shared.clone(), orphans));
                    }
                }
                Ok(watcher::Event::Apply(pod)) => self.deliver(pod),
                Ok(watcher::Event::Delete(pod)) => {
                    if let Some(update_tx) = self.known.remove(&pod.uid().unwrap_or_default()) {
                        update_tx.send_replace(Update::Gone);
                    }
                }
                Err(error) => tracing::debug!(error = &error as &dyn Error, "the watch of pods failed"),
            }
        }
    }

    /// Hands a pod to its worker, or to the placement.
    fn deliver(&mut self, pod: Pod) {
        let uid = pod.uid().unwrap_or_default();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).filter(|node| !node.is_empty());
        let pod = Arc::new(pod);
        match node {
            Some(node) if node != self.shared.config.name => return,
            None if pod.metadata.deletion_timestamp.is_none() => {
                let gated = pod
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.scheduling_gates.as_ref())
                    .is_some_and(|gates| !gates.is_empty());
                if !gated {
                    self.tasks.spawn(place(self.shared.clone(), pod, self.shutdown.clone()));
                }
                return;
            }
            _ => {}
        }
        if let Some(update_tx) = self.known.get(&uid)
            && !update_tx.is_closed()
        {
            update_tx.send_replace(Update::Present(pod));
            return;
        }
        let (update_tx, update_rx) = watch::channel(Update::Present(pod));
        self.known.insert(uid, update_tx);
        self.tasks.spawn(look_after(
            self.shared.clone(),
            update_rx,
            self.change_tx.subscribe(),
            self.shutdown.clone(),
        ));
        // Finished tasks are collected as new ones come.
        while self.tasks.try_join_next().is_some() {}
    }
}

/// Runs a pod's worker, as soon as the pod has a directory and an address; what is missing is told in Events.
async fn look_after(
    shared: Arc<Shared>,
    mut update_rx: watch::Receiver<Update>,
    changes: broadcast::Receiver<SourceRef>,
    shutdown: CancellationToken,
) {
    loop {
        let Update::Present(pod) = update_rx.borrow_and_update().clone() else { return };
        let error = match Worker::load(shared.clone(), pod.clone()) {
            Ok(worker) => return Box::pin(worker.run(update_rx, changes, shutdown)).await,
            Err(error) => error,
        };
        let directory = shared.config.data_dir.display();
        let message = format!("the pod can't be set up in {directory}: {error}");
        tracing::error!(pod = pod.name_any(), namespace = pod.namespace(), message);
        shared.recorder.warning(pod.as_ref(), "FailedCreatePodSandBox", &message).await;
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(spread(SETUP_RETRY)) => {}
            changed = update_rx.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// Puts a pod on this node, the only one there is.
async fn place(shared: Arc<Shared>, pod: Arc<Pod>, shutdown: CancellationToken) {
    let (namespace, name, node) =
        (pod.namespace().unwrap_or_default(), pod.name_any(), shared.config.name.clone());
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &namespace);
    loop {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let params = PostParams::default();
        match pods.create_subresource::<Value, Value>("binding", &name, &params, &binding).await {
            Ok(_) => {
                let message = format!("Successfully assigned {namespace}/{name} to {node}");
                shared.recorder.normal(pod.as_ref(), "Scheduled", &message).await;
                return;
            }
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => return,
            Err(error) => {
                tracing::warn!(pod = name, namespace, error = &error as &dyn Error, "cannot place a pod");
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(spread(Duration::from_secs(2))) => {}
        }
    }
}
