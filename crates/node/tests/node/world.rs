//! An API server and a node in one process, with containers that are small shell scripts.

use std::{fmt::Debug, path::PathBuf, time::Duration};

use causeway_containers::Choice;
use causeway_node::{CommandPolicy, Config, LogOptions, LogReader, Node, OnShutdown, ShimCommand};
use causeway_testkit::{Cluster, eventually};
use futures::StreamExt;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Namespace, Pod},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) struct World {
    pub client: Client,
    pub dir: TempDir,
    pub containers: Option<Choice>,
    cluster: Cluster,
    node: Option<(JoinHandle<()>, CancellationToken)>,
}

impl World {
    /// A fresh server with a node that runs processes only.
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// A fresh server with a node that runs other images in this runtime.
    pub(crate) async fn start_with(containers: Option<Choice>) -> Self {
        let cluster = Cluster::start().await;
        let mut world = Self {
            client: cluster.client.clone(),
            dir: tempfile::tempdir().expect("a temporary directory"),
            containers,
            cluster,
            node: None,
        };
        if world.containers.is_some() {
            world.trust().await;
        }
        world.start_node();
        world
    }

    /// Trusts the namespace of the tests with this machine.
    async fn trust(&self) {
        self.label(json!("privileged")).await;
    }

    /// Takes that back.
    pub(crate) async fn distrust(&self) {
        self.label(Value::Null).await;
    }

    async fn label(&self, level: Value) {
        let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces
            .patch("default", &PatchParams::default(), &Patch::Merge(labels))
            .await
            .expect("a namespace can be labelled");
    }

    pub(crate) fn start_node(&mut self) {
        let mut config = Config::new("test-node", self.data_dir(), "/bin/sh");
        config.own_image = "example.test/own".into();
        config.commands = CommandPolicy::Any;
        config.shim = ShimCommand { program: env!("CARGO_BIN_EXE_pod-shim").into(), args: Vec::new() };
        config.containers.clone_from(&self.containers);
        config.backoff_base = Duration::from_millis(400);
        config.on_shutdown = OnShutdown::StopPods;
        let (client, shutdown) = (self.client.clone(), CancellationToken::new());
        let node = Node::new(config).expect("the node's directory is usable");
        let stop = shutdown.clone();
        let task = tokio::spawn(async move { node.run(client, stop).await.expect("the node runs") });
        self.node = Some((task, shutdown));
    }

    /// Ends the node without letting it clean up, as `kill -9` would.
    pub(crate) async fn crash_node(&mut self) {
        let (task, _) = self.node.take().expect("a node runs");
        task.abort();
        let _ = task.await;
    }

    pub(crate) async fn stop_node(&mut self) {
        let (task, shutdown) = self.node.take().expect("a node runs");
        shutdown.cancel();
        task.await.expect("the node ends cleanly");
    }

    /// Ends everything, with all processes.
    pub(crate) async fn finish(mut self) {
        if self.node.is_some() {
            self.stop_node().await;
        }
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("node")
    }

    /// The directory of one attempt of a container; made up until there is one.
    pub(crate) fn attempt(&self, pod: &str, container: &str, number: u32) -> PathBuf {
        let pods = self.data_dir().join("pods/default").join(pod);
        let uid = std::fs::read_dir(&pods).ok().and_then(|mut uids| Some(uids.next()?.ok()?.path()));
        uid.unwrap_or(pods).join("containers").join(container).join(number.to_string())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.cluster.api()
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Serialize
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let object: K = serde_json::from_value(object).expect("a well-formed object");
        self.api::<K>().create(&PostParams::default(), &object).await.expect("the object is accepted")
    }

    pub(crate) async fn delete_pod(&self, name: &str, grace: u32) {
        let params = DeleteParams { grace_period_seconds: Some(grace), ..DeleteParams::default() };
        self.api::<Pod>().delete(name, &params).await.expect("the pod can be deleted");
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&kube::api::ListParams::default()).await.expect("pods can be listed").items
    }

    /// Waits until the pod is as `wanted` says.
    pub(crate) async fn pod(&self, name: &str, what: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
        eventually(what, async || {
            let pod = self.api::<Pod>().get_opt(name).await.expect("the pod can be read");
            match pod {
                Some(pod) if wanted(&pod) => Ok(pod),
                other => Err(format!("{:?}", other.and_then(|pod| pod.status))),
            }
        })
        .await
    }

    pub(crate) async fn logs(&self, pod: &str, options: LogOptions) -> String {
        let reader = LogReader::new(self.data_dir());
        let stream = reader.open("default", pod, "main", options).await.expect("the log can be read");
        let chunks: Vec<_> = stream.collect().await;
        chunks
            .into_iter()
            .map(|chunk| String::from_utf8_lossy(&chunk.expect("a chunk")).into_owned())
            .collect()
    }
}

/// A pod whose only container runs a script; `extra` goes into the container.
pub(crate) fn pod(name: &str, script: &str, extra: Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 5, "containers": [container(script, extra)]},
    })
}

pub(crate) fn container(script: &str, extra: Value) -> Value {
    let mut container =
        json!({"name": "main", "image": "example.test/own:1", "command": ["/bin/sh", "-c", script]});
    container.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
    container
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|(status, _)| status == "True")
}

pub(crate) fn condition(pod: &Pod, type_: &str) -> Option<(String, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.clone(), found.message.clone().unwrap_or_default()))
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The reason why the first container waits.
pub(crate) fn waiting(pod: &Pod) -> Option<(String, String)> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    Some((waiting.reason.clone()?, waiting.message.clone().unwrap_or_default()))
}

pub(crate) fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.and_then(|statuses| statuses.first()).map_or(0, |status| status.restart_count)
}
