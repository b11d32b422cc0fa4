//! Ends the host ends of tunnel proxies that are gone, since they were deleted for good while no operator ran, or of all.

use std::path::Path;
use std::time::Duration;

use causeway_api::ContainerNetworkTunnelProxy;
use causeway_base::lock::lock;

use super::directory::{Directory, forget_old, owned};
use super::host;
use super::wakes::Served;
use crate::containers::leftovers::Sweeper;
use crate::framework::report;

/// How long their streams may go on.
const DRAIN: Duration = Duration::from_secs(2);

/// Ends and removes what is left over; true when another try is due.
pub(super) async fn sweep_host_ends(
    sweeper: &Sweeper<ContainerNetworkTunnelProxy>,
    base: &Path,
    served: &Served,
) -> bool {
    forget_old(base);
    let owned = owned(base);
    if owned.is_empty() {
        return false;
    }
    let living = match sweeper.living().await {
        Ok(living) => living,
        Err(error) => {
            tracing::warn!(error = report::chain(&error), "cannot tell which host ends deleted objects left");
            return true;
        }
    };
    let mut is_due = false;
    for (namespace, name, uid) in owned {
        // An object of the same name sees to its directory by itself.
        let is_served = lock(served).values().any(|known| *known == (namespace.clone(), name.clone()));
        if living.contains(&uid) || is_served {
            continue;
        }
        match clear(base, &namespace, &name, &uid).await {
            Ok(()) => tracing::info!(namespace, name, "ended the host end of a deleted object"),
            Err(error) => {
                tracing::warn!(namespace, name, error, "cannot end the host end of a deleted object");
                is_due = true;
            }
        }
    }
    is_due
}

/// Ends every host end below `base`, whoever it is for; their names, as NAMESPACE/NAME. Objects that are still there get
/// another from the next operator.
///
/// # Errors
/// When one of them can't be ended; the others are tried all the same.
pub async fn end_all(base: &Path) -> Result<Vec<String>, String> {
    let (mut ended, mut failures) = (Vec::new(), Vec::new());
    for (namespace, name, _) in owned(base) {
        match end_one(base, &namespace, &name).await {
            Ok(()) => ended.push(format!("{namespace}/{name}")),
            Err(error) => failures.push(format!("{namespace}/{name}: {error}")),
        }
    }
    if failures.is_empty() { Ok(ended) } else { Err(failures.join("; ")) }
}

/// Ends the host end of the object of this name, if one runs.
///
/// # Errors
/// When it can't be ended.
pub async fn end_one(base: &Path, namespace: &str, name: &str) -> Result<(), String> {
    host::end(&base.join(namespace).join(name), DRAIN).await.map_err(|error| error.to_string())
}

async fn clear(base: &Path, namespace: &str, name: &str, uid: &str) -> Result<(), String> {
    let mut directory = Directory::open(base, namespace, name).map_err(|error| report::chain(&error))?;
    host::end(directory.path(), DRAIN).await.map_err(|error| error.to_string())?;
    // Somebody may have made it their own meanwhile.
    if directory.owner().is_ok_and(|owner| owner.as_deref() == Some(uid)) {
        directory.journal.say("the object is gone: ended");
        directory.leave().map_err(|error| report::chain(&error))?;
    }
    Ok(())
}
