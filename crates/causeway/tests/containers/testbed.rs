//! A control plane and a fake runtime for one test, with an operator that can be started and stopped.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use causeway_api::{
    ContainerNetwork, ContainerNetworkState, ContainerNetworkStatus,
    conditions::{self, ConditionType},
};
use causeway_containers::{Attachment, Choice, ContainerSpec, Kind, Network, NetworkSpec, fake::Fake};
use causeway_controllers::{
    Operator,
    containers::tunnel::host::HostProgram,
    framework::health::{Health, Phase},
    operator::{Config, Containers},
};
use causeway_testkit::{Cluster, eventually};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::BoxError;

/// The id of the operator's data directory.
pub const INSTANCE: &str = "here";
const IMAGE: &str = "web:1";

/// Both runtimes have to behave alike.
pub const BOTH: [Kind; 2] = [Kind::Docker, Kind::Podman];

pub struct Testbed {
    _api: Cluster,
    pub client: Client,
    pub fake: Fake,
    directory: tempfile::TempDir,
    operator: Option<(CancellationToken, JoinHandle<()>)>,
    registry: Registry,
}

/// One of several operators; it ends with this.
pub struct Elected {
    health: Health,
    is_cut: Arc<AtomicBool>,
    _stop: DropGuard,
}

impl Elected {
    /// Takes the API server away from it, or gives it back.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, SeqCst);
    }

    pub async fn leads(&self) {
        eventually("it leads", async || self.health.phase() == Phase::Leading).await;
    }

    pub async fn has_stopped(&self) {
        eventually("it does not lead", async || self.health.phase() != Phase::Leading).await;
    }
}

impl Testbed {
    /// With an operator that runs.
    pub async fn start(kind: Kind) -> Self {
        let mut testbed = Self::without_operator(kind).await;
        testbed.start_operator();
        testbed
    }

    pub async fn without_operator(kind: Kind) -> Self {
        let api = Cluster::start().await;
        let fake = Fake::start(kind);
        fake.add_image(IMAGE);
        let directory = tempfile::tempdir().unwrap();
        Self {
            client: api.client.clone(),
            _api: api,
            fake,
            directory,
            operator: None,
            registry: Registry::default(),
        }
    }

    pub fn start_operator(&mut self) {
        self.start_operator_with(Some(self.fake.choice()));
    }

    pub fn start_operator_with(&mut self, choice: Option<Choice>) {
        let mut config = self.config("test", choice);
        config.leader = None;
        let mut registry = Registry::default();
        let operator = Operator::new(self.client.clone(), config, &mut registry);
        self.registry = registry;
        let stop = CancellationToken::new();
        let shutdown = stop.clone();
        let task = tokio::spawn(async move { operator.run(shutdown).await.unwrap() });
        self.operator = Some((stop, task));
    }

    /// What the operator that was started last counts.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// An operator on the same data directory that takes part in the election, with a quick clock and a line to the API
    /// server that can be cut.
    pub fn elected(&self, identity: &str) -> Elected {
        let is_cut = Arc::new(AtomicBool::new(false));
        let (cut, inner) = (is_cut.clone(), self.client.clone());
        let service = tower::service_fn(move |request| {
            let (inner, is_cut) = (inner.clone(), cut.load(SeqCst));
            async move {
                if is_cut {
                    return Err(BoxError::from("the API server is away"));
                }
                inner.send(request).await.map_err(BoxError::from)
            }
        });
        let mut config = self.config(identity, Some(self.fake.choice()));
        if let Some(leader) = &mut config.leader {
            leader.lease = Duration::from_secs(2);
            leader.renew_deadline = Duration::from_millis(800);
            leader.retry = Duration::from_millis(50);
        }
        let operator = Operator::new(Client::new(service, "default"), config, &mut Registry::default());
        let (health, stop) = (operator.health(), CancellationToken::new());
        let shutdown = stop.clone();
        tokio::spawn(async move { operator.run(shutdown).await.unwrap() });
        Elected { health, is_cut, _stop: stop.drop_guard() }
    }

    fn config(&self, identity: &str, choice: Option<Choice>) -> Config {
        let mut config = Config::new("default", identity);
        config.containers = Containers {
            choice,
            directory: self.directory().to_owned(),
            instance: INSTANCE.to_owned(),
            program: HostProgram {
                program: env!("CARGO_BIN_EXE_causeway").into(),
                args: vec!["tunnel".to_owned()],
            },
            ..Containers::default()
        };
        config
    }

    pub async fn stop_operator(&mut self) {
        let (stop, task) = self.operator.take().unwrap();
        stop.cancel();
        task.await.unwrap();
    }

    /// Where tunnels keep what they remember.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn api(&self) -> Api<ContainerNetwork> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub async fn create(&self, name: &str, spec: Value) -> ContainerNetwork {
        let object: ContainerNetwork = serde_json::from_value(json!({
            "apiVersion": "causeway.dev/v1alpha1",
            "kind": "ContainerNetwork",
            "metadata": { "name": name },
            "spec": spec,
        }))
        .unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn delete(&self, name: &str) {
        self.api().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn gone(&self, name: &str) {
        eventually(&format!("{name} is gone"), async || self.api().get_opt(name).await.unwrap().is_none())
            .await;
    }

    /// Waits until the status is as it should be.
    pub async fn status(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&ContainerNetworkStatus) -> bool,
    ) -> ContainerNetworkStatus {
        eventually(&format!("{name}: {what}"), async || {
            let object = self.api().get_opt(name).await.unwrap()?;
            object.status.filter(|status| is_so(status))
        })
        .await
    }

    /// Waits for a state.
    pub async fn state(&self, name: &str, state: ContainerNetworkState) -> ContainerNetworkStatus {
        self.status(name, &format!("{state:?}"), |status| status.state == Some(state)).await
    }

    /// Waits until the network runs and nothing is wrong with it.
    pub async fn ready(&self, name: &str) -> ContainerNetworkStatus {
        self.condition(name, ConditionType::Ready, "True", "Ready").await;
        self.state(name, ContainerNetworkState::Running).await
    }

    /// Waits for a condition; gives its message.
    pub async fn condition(&self, name: &str, kind: ConditionType, status: &str, reason: &str) -> String {
        let is_so = |found: &ContainerNetworkStatus| {
            conditions::find(&found.conditions, kind)
                .is_some_and(|found| found.status == status && found.reason == reason)
        };
        let found = self.status(name, &format!("{kind} {status} {reason}"), is_so).await;
        conditions::find(&found.conditions, kind).unwrap().message.clone()
    }

    /// Waits for an Event of this reason; gives its text.
    pub async fn told(&self, name: &str, reason: &str) -> String {
        let events = Api::<Event>::namespaced(self.client.clone(), "default");
        eventually(&format!("an Event {reason} about {name}"), async || {
            let list = events.list(&ListParams::default()).await.unwrap();
            list.into_iter()
                .find(|event| {
                    let about = event.regarding.as_ref().and_then(|about| about.name.as_deref());
                    event.reason.as_deref() == Some(reason) && about == Some(name)
                })
                .and_then(|event| event.note)
        })
        .await
    }

    /// A network as the runtime has it.
    pub async fn network(&self, name: &str) -> Option<Network> {
        self.fake.connect().await.network(name).await.ok()
    }

    /// Makes a network as some program would.
    pub async fn make_network(&self, name: &str, labels: &[(&str, &str)]) -> Network {
        let labels: BTreeMap<_, _> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let spec = NetworkSpec { name: name.to_owned(), labels, ..NetworkSpec::default() };
        self.fake.connect().await.create_network(&spec).await.unwrap()
    }

    /// Runs a container on a network; gives its id.
    pub async fn run(&self, name: &str, network: &str) -> String {
        let runtime = self.fake.connect().await;
        let spec = ContainerSpec {
            name: name.to_owned(),
            image: IMAGE.to_owned(),
            networks: vec![Attachment { network: network.to_owned(), aliases: Vec::new() }],
            ..ContainerSpec::default()
        };
        runtime.create(&spec).await.unwrap();
        runtime.start(name).await.unwrap();
        self.fake.container(name).unwrap().id
    }
}
