//! An API server in the test's process, without a socket.

use std::sync::Arc;

use causeway_apiserver::server::{Server, Storage};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use tokio_util::sync::{CancellationToken, DropGuard};

/// An API server with nothing on disk, and a client of its administrator. It ends when this is dropped.
pub struct Cluster {
    pub server: Arc<Server>,
    pub client: Client,
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
        Self { client: server.client(), server, _stop: stop.drop_guard() }
    }

    /// Objects of one kind in the namespace `default`.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }
}
