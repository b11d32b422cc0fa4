//! Removes networks that objects which are gone left behind: those of a process that died before it could clean up.

use std::{collections::HashSet, sync::Arc};

use causeway_api::ContainerNetwork;
use causeway_containers::Runtime;
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::{KIND, known::Known};
use crate::report;

/// Knows which objects live, and removes what others left.
pub struct Sweeper {
    client: Client,
    instance: String,
    known: Arc<Known>,
}

impl Sweeper {
    /// One for the things of this instance.
    pub fn new(client: Client, instance: &str, known: Arc<Known>) -> Self {
        Self { client, instance: instance.to_owned(), known }
    }

    /// The UIDs of all objects, in all namespaces.
    pub async fn living(&self) -> Result<HashSet<String>, kube::Error> {
        let all = Api::<ContainerNetwork>::all(self.client.clone()).list(&ListParams::default()).await?;
        Ok(all.into_iter().filter_map(|object| object.uid()).collect())
    }

    /// Removes what is left over; true when another try is due, because of failures or containers that use it.
    pub async fn sweep(&self, runtime: &Runtime) -> bool {
        let living = match self.living().await {
            Ok(living) => living,
            Err(error) => {
                tracing::warn!(error = report::chain(&error), "cannot tell which networks are left over");
                return true;
            }
        };
        // An object made since the list was read is known before its network is made.
        let lives = |uid: &str| living.contains(uid) || self.known.contains(uid);
        match runtime.sweep(&self.instance, KIND, lives).await {
            Ok(swept) => {
                if !swept.networks.is_empty() {
                    tracing::info!(networks = ?swept.networks, "removed what deleted ContainerNetworks left");
                }
                !swept.in_use.is_empty()
            }
            Err(error) => {
                tracing::warn!(error = error.report(), "cannot remove what deleted ContainerNetworks left");
                true
            }
        }
    }
}
