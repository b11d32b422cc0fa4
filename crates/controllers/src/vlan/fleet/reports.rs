//! The reports of pods that are gone, which nobody else would remove.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::PodState;
use crate::framework::{
    error::Error,
    scope::{Kind, api_of},
};

/// Removes what pods that no longer exist have reported.
pub(crate) struct Reports {
    client: Client,
    /// The field manager of a pod, by its name.
    manager: fn(&str) -> String,
}

impl Reports {
    /// One that reads and writes with `client`.
    pub(crate) fn new(client: Client, manager: fn(&str) -> String) -> Self {
        Self { client, manager }
    }

    /// Removes the reports, by the names of their pods, of those that neither the caches nor the API server know.
    pub(crate) async fn remove_stale<K>(
        &self,
        object: &K,
        reported: impl Iterator<Item = &str>,
        pods: &[PodState],
    ) -> Result<(), Error>
    where
        K: Kind + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let namespace = object.namespace().unwrap_or_default();
        for report in reported {
            if pods.iter().any(|pod| pod.name == report) {
                continue;
            }
            // The caches may be behind a pod that has just begun to report.
            let api = Api::<Pod>::namespaced(self.client.clone(), &namespace);
            let name = format!("{namespace}/{report}");
            let pod = api.get_metadata_opt(report).await;
            if pod.map_err(|source| Error::LookUpPod { name, source })?.is_none() {
                self.remove(object, report).await?;
            }
        }
        Ok(())
    }

    /// Gives up, in the pod's place, everything that it had written.
    async fn remove<K>(&self, object: &K, pod: &str) -> Result<(), Error>
    where
        K: Kind + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let name = object.name_any();
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": { "name": name },
            "status": {},
        });
        let params = PatchParams::apply(&(self.manager)(pod)).force();
        match api_of(self.client.clone(), object).patch_status(&name, &params, &Patch::Apply(&body)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(source) => Err(Error::WriteStatus { source }),
        }
    }
}
