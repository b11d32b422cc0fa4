//! A server for one test, and short ways to say what tests say often.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway_apiserver::{Server, Storage};
use causeway_testkit::{eventually, soon};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use futures::{Stream, StreamExt};

pub(crate) struct Cluster {
    pub server: Arc<Server>,
    pub client: Client,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let server = Server::start(Storage::Memory, CancellationToken::new()).await.unwrap();
        let client = server.client();
        let cluster = Self { server, client };
        eventually("every namespace is furnished", || cluster.is_furnished()).await;
        cluster
    }

    /// Whether the server has written what it writes by itself after a start.
    async fn is_furnished(&self) -> bool {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        for namespace in namespaces.list(&ListParams::default()).await.unwrap() {
            let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace.name_any());
            if api.get_opt("kube-root-ca.crt").await.unwrap().is_none() {
                return false;
            }
        }
        true
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// The revision of the newest write.
    pub(crate) async fn revision(&self) -> u64 {
        let list = self.config_maps().list(&ListParams::default().limit(1)).await.unwrap();
        list.metadata.resource_version.unwrap().parse().unwrap()
    }
}

/// Something of a built-in kind, from JSON.
pub(crate) fn typed<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn config_map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data: BTreeMap<_, _> = data.iter().copied().collect();
    typed(json!({"metadata": {"name": name}, "data": data}))
}

pub(crate) fn labelled(name: &str, key: &str, value: &str) -> ConfigMap {
    typed(json!({"metadata": {"name": name, "labels": {key: value}}}))
}

pub(crate) async fn create(api: &Api<ConfigMap>, object: ConfigMap) -> ConfigMap {
    api.create(&PostParams::default(), &object).await.unwrap()
}

/// The `Status` of a request that must be refused.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("should be refused: {other:?}"),
    }
}

pub(crate) fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_ref().unwrap().parse().unwrap()
}

/// The next item of a stream, which must come.
pub(crate) async fn next<S: Stream + Unpin>(stream: &mut S) -> S::Item {
    soon("the next item", stream.next()).await.expect("no end yet")
}

/// One watch event in short: its type and the object's name.
pub(crate) fn short<K: Resource>(event: &WatchEvent<K>) -> (&'static str, String) {
    let name = |object: &K| object.meta().name.clone().unwrap_or_default();
    match event {
        WatchEvent::Added(object) => ("ADDED", name(object)),
        WatchEvent::Modified(object) => ("MODIFIED", name(object)),
        WatchEvent::Deleted(object) => ("DELETED", name(object)),
        WatchEvent::Bookmark(_) => ("BOOKMARK", String::new()),
        WatchEvent::Error(status) => ("ERROR", status.message.clone()),
    }
}

/// The next `count` events of a watch in short, without bookmarks.
pub(crate) async fn events<K>(
    api: &Api<K>,
    params: &WatchParams,
    from: u64,
    count: usize,
) -> Vec<(&'static str, String)>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + 'static,
{
    let stream = api.watch(params, &from.to_string()).await.unwrap();
    let mut stream = std::pin::pin!(stream);
    let mut seen = Vec::new();
    while seen.len() < count {
        let event = short(&next(&mut stream).await.unwrap());
        if event.0 != "BOOKMARK" {
            seen.push(event);
        }
    }
    seen
}
