//! What an earlier life of the node left behind for pods that are gone: processes are ended, directories removed.

use std::{collections::HashSet, error::Error, io, path::Path, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::Shared;
use crate::{
    layout::PodDir,
    network,
    process::{Instance, attempt::Attempt},
};

const GRACE: Duration = Duration::from_secs(5);

/// What is on disk for none of the `live` pods. Asked before a newer pod can have a directory.
pub(super) fn find(data_dir: &Path, live: &HashSet<String>) -> Vec<PodDir> {
    match PodDir::all(data_dir) {
        Ok(dirs) => dirs.into_iter().filter(|dir| !live.contains(&dir.uid)).collect(),
        Err(error) => {
            tracing::error!(path = %data_dir.display(), error = &error as &dyn Error, "cannot look for processes of pods that are gone");
            Vec::new()
        }
    }
}

/// Ends the processes of pods that are gone and removes their directories.
pub(super) async fn remove(shared: Arc<Shared>, orphans: Vec<PodDir>) {
    let shared = &shared;
    let removals = orphans.into_iter().map(|dir| async move {
        tracing::info!(pod = dir.name, namespace = dir.namespace, uid = dir.uid, "removing what a deleted pod left behind");
        if let Err(error) = remove_one(&dir).await {
            tracing::warn!(path = %dir.path().display(), error = &error as &dyn Error, "cannot remove what a deleted pod left behind");
            return;
        }
        shared.addresses.release(&dir.uid);
    });
    futures::future::join_all(removals).await;
}

/// What is left of a pod that is gone: processes, a network namespace, files.
#[derive(Clone, Debug)]
pub struct LeftPod(PodDir);

impl LeftPod {
    /// Namespace and name of the pod.
    pub fn name(&self) -> String {
        format!("{}/{}", self.0.namespace, self.0.name)
    }

    /// Ends what runs, and removes the rest.
    ///
    /// # Errors
    /// When something can't be removed.
    pub async fn remove(self) -> io::Result<()> {
        remove_one(&self.0).await
    }
}

/// What pods that are gone have left below the directory of a node that does not run; one that runs sees to it by itself.
///
/// # Errors
/// When the directory can't be read.
pub fn left_pods(data_dir: &Path, is_alive: impl Fn(&str) -> bool) -> io::Result<Vec<LeftPod>> {
    let pods = PodDir::all(data_dir)?;
    Ok(pods.into_iter().filter(|dir| !is_alive(&dir.uid)).map(LeftPod).collect())
}

/// Ends the processes of every pod below a node's directory and removes what is there of them, for a node that does not
/// run any more and will not come back.
///
/// # Errors
/// When a directory can't be read or removed; the others are seen to all the same.
pub async fn end_pods(data_dir: &Path) -> io::Result<()> {
    let pods = PodDir::all(data_dir)?;
    let ended = futures::future::join_all(pods.iter().map(remove_one)).await;
    ended.into_iter().collect()
}

async fn remove_one(dir: &PodDir) -> io::Result<()> {
    for container in dir.containers()? {
        let Some((_, attempt)) = Attempt::newest(&dir.container(&container))? else {
            continue;
        };
        let Some(instance) = Instance::load(attempt)? else {
            continue;
        };
        if instance.exit().is_some() {
            continue;
        }
        instance.terminate();
        if timeout(GRACE, instance.wait()).await.is_err() {
            instance.kill();
            if timeout(GRACE, instance.wait()).await.is_err() {
                instance.kill_shim();
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    network::tear_down(&dir.uid).map_err(io::Error::other)?;
    dir.remove()
}
