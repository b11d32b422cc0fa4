//! What tunnel proxies that are gone have left in the data directory: a host end that still runs, or the ports and the
//! journal that were kept for one of the same name.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use causeway_controllers::containers::tunnel;
use causeway_ir::tunnel::files;

use super::Thing;
use super::living::Living;
use crate::parts::data_dir;

/// How long nobody has written to a directory that is removed beside a control plane that runs: it may be about to use it.
const QUIET: Duration = Duration::from_mins(1);

/// Every such directory.
pub(super) fn left(dir: &Path, living: &Living) -> Vec<Thing> {
    let base = data_dir::tunnels(dir);
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let mut left = Vec::new();
    for namespace in entries(&base) {
        for object in entries(&namespace.path()) {
            let (Ok(namespace), Ok(name)) =
                (namespace.file_name().into_string(), object.file_name().into_string())
            else {
                continue;
            };
            let path = object.path();
            if living.tunnels.contains(&(namespace.clone(), name.clone()))
                || living.is_tended && !is_quiet(&path)
            {
                continue;
            }
            let is_claimed = path.join(files::OWNER).exists();
            if !is_claimed {
                left.push(Thing::Files { path, of: format!("{namespace}/{name}") });
            } else if !living.is_tended {
                // A control plane that runs sees to those by itself.
                left.push(Thing::HostEnd { base: base.clone(), namespace, name });
            }
        }
    }
    left
}

fn is_quiet(path: &Path) -> bool {
    let changed = fs::metadata(path).and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|since| since > QUIET))
}

/// Ends the host end, and removes all that is there of it.
pub(super) async fn end(base: &Path, namespace: &str, name: &str) -> anyhow::Result<()> {
    tunnel::end_one(base, namespace, name).await.map_err(anyhow::Error::msg)?;
    remove(&base.join(namespace).join(name))
}

pub(super) fn remove(path: &Path) -> anyhow::Result<()> {
    fs::remove_dir_all(path).with_context(|| format!("can't remove {}", path.display()))?;
    // The namespace's directory, if it was the last.
    if let Some(namespace) = path.parent() {
        let _ = fs::remove_dir(namespace);
    }
    Ok(())
}
