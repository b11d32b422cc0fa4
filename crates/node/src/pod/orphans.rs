//! What an earlier life of the node left behind for pods that are gone: processes are ended, directories removed.

use std::{collections::HashSet, error::Error, io, path::PathBuf, time::Duration};

use tokio::time::{sleep, timeout};

use crate::{
    layout::PodDir,
    process::{Instance, attempt::Attempt},
};

const GRACE: Duration = Duration::from_secs(5);

/// Removes everything that belongs to none of the `live` pods.
pub async fn remove(data_dir: PathBuf, live: HashSet<String>) {
    let dirs = match PodDir::all(&data_dir) {
        Ok(dirs) => dirs,
        Err(error) => {
            tracing::error!(path = %data_dir.display(), error = &error as &dyn Error, "cannot look for processes of pods that are gone");
            return;
        }
    };
    let orphans = dirs.into_iter().filter(|dir| !live.contains(&dir.uid)).map(|dir| async move {
        tracing::info!(pod = dir.name, namespace = dir.namespace, uid = dir.uid, "removing what a deleted pod left behind");
        if let Err(error) = remove_one(&dir).await {
            tracing::warn!(path = %dir.path().display(), error = &error as &dyn Error, "cannot remove what a deleted pod left behind");
        }
    });
    futures::future::join_all(orphans).await;
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
