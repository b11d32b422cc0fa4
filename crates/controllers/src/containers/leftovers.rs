//! Removes from the container runtime what objects that are gone left behind: those of a process that died before it could
//! clean up, or that went while the runtime was away.

use std::{collections::HashSet, fmt, marker::PhantomData, sync::Arc};

use causeway_containers::Runtime;
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;

use crate::framework::report;

/// Knows which objects of one kind live, and removes what others left.
pub(crate) struct Sweeper<K> {
    client: Client,
    instance: String,
    /// Whether this process works for the object of this uid: one made since the API server was asked is not gone.
    serves: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Sweeper<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
{
    /// One for the things of this instance.
    pub(crate) fn new(
        client: Client,
        instance: &str,
        serves: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { client, instance: instance.to_owned(), serves: Arc::new(serves), kind: PhantomData }
    }

    /// The uids of all objects, in all namespaces.
    pub(crate) async fn living(&self) -> Result<HashSet<String>, kube::Error> {
        let all = Api::<K>::all(self.client.clone()).list(&ListParams::default()).await?;
        Ok(all.into_iter().filter_map(|object| object.uid()).collect())
    }

    /// Removes what is left over; true when another try is due, because of failures or containers that use it.
    pub(crate) async fn sweep(&self, runtime: &Runtime) -> bool {
        let kind = K::kind(&());
        let living = match self.living().await {
            Ok(living) => living,
            Err(error) => {
                tracing::warn!(%kind, error = report::chain(&error), "cannot tell what deleted objects left");
                return true;
            }
        };
        let lives = |uid: &str| living.contains(uid) || (self.serves)(uid);
        match runtime.sweep(&self.instance, &kind, lives).await {
            Ok(swept) => {
                if !(swept.networks.is_empty() && swept.containers.is_empty()) {
                    tracing::info!(%kind, ?swept, "removed what deleted objects left");
                }
                !swept.in_use.is_empty()
            }
            Err(error) => {
                tracing::warn!(%kind, error = error.report(), "cannot remove what deleted objects left");
                true
            }
        }
    }
}
