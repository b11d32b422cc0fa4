//! What an earlier life of the node left behind for pods that are gone: processes are ended, directories removed.

use std::{collections::HashSet, error::Error, io, path::Path, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::Shared;
use crate::{
    layout::PodDir,
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
    dir.remove()
}
