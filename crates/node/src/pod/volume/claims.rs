//! The PersistentVolumeClaims that a pod refers to: where the directory of each is, or why it can't be had.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Api, Client, ResourceExt};

use crate::claims;

/// Why a claim can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pod) enum Unusable {
    Missing,
    Deleted,
    Unbound,
}

impl Unusable {
    pub(super) fn told(self, claim: &str) -> String {
        match self {
            Self::Missing => format!("persistentvolumeclaim {claim:?} not found"),
            Self::Deleted => format!("persistentvolumeclaim {claim:?} is being deleted"),
            Self::Unbound => format!("persistentvolumeclaim {claim:?} is not bound yet"),
        }
    }
}

/// By the claims' names.
#[derive(Clone, Debug, Default)]
pub(in crate::pod) struct Claims(BTreeMap<String, Result<PathBuf, Unusable>>);

impl Claims {
    /// Reads every claim that the pod refers to.
    pub(in crate::pod) async fn fetch(client: &Client, pod: &Pod, data_dir: &Path) -> kube::Result<Self> {
        let api: Api<PersistentVolumeClaim> =
            Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let mut found = BTreeMap::new();
        for name in claims::of_pod(pod).into_values() {
            let place = match api.get_opt(name).await? {
                None => Err(Unusable::Missing),
                Some(claim) if claim.metadata.deletion_timestamp.is_some() => Err(Unusable::Deleted),
                Some(claim) if claims::is_bound(&claim) => Ok(claims::directory(data_dir, &claim)),
                Some(_) => Err(Unusable::Unbound),
            };
            found.insert(name.to_owned(), place);
        }
        Ok(Self(found))
    }

    /// The directory of a claim.
    pub(super) fn get(&self, name: &str) -> Result<&Path, Unusable> {
        match self.0.get(name) {
            Some(Ok(path)) => Ok(path),
            Some(Err(why)) => Err(*why),
            None => Err(Unusable::Missing),
        }
    }

    #[cfg(test)]
    pub(super) fn with(mut self, name: &str, place: Result<PathBuf, Unusable>) -> Self {
        self.0.insert(name.to_owned(), place);
        self
    }
}
