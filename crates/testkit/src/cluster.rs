//! An API server in the test's process, without a socket.

use causeway_apiserver::{Server, Storage};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use tokio_util::sync::{CancellationToken, DropGuard};

/// An API server with nothing on disk, and clients of its administrator and of the operator, which has the rights that
/// it has on a cluster. It ends when this is dropped.
pub struct Cluster {
    pub client: Client,
    pub operator: Client,
    _stop: DropGuard,
}

impl Cluster {
    /// Starts an empty one.
    ///
    /// # Panics
    /// When it can't be started.
    pub async fn start() -> Self {
        let stop = CancellationToken::new();
        let server = Server::start(Storage::Memory, stop.clone()).await.expect("the API server starts");
        Self { client: server.client(), operator: server.operator_client(), _stop: stop.drop_guard() }
    }

    /// Objects of one kind in the namespace `default`.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// The revision of the newest write of any object.
    ///
    /// # Panics
    /// When the server does not say.
    pub async fn revision(&self) -> u64 {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let list =
            api.list_metadata(&ListParams::default().limit(1)).await.expect("namespaces can be listed");
        list.metadata.resource_version.and_then(|text| text.parse().ok()).expect("a list has a revision")
    }
}
