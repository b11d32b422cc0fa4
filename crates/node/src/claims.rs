//! PersistentVolumeClaims as directories that stay: `claims/NAMESPACE/NAME/UID/{data,used-by}`, made when a claim is, gone when
//! it is and no pod uses it any more. The machine has one disk, so every claim is bound, whatever its size and class.

use std::{
    collections::{BTreeMap, HashSet},
    error::Error as StdError,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use causeway_base::file::{PRIVATE, create_private_dir, replace};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    runtime::{
        controller::{Action, Controller},
        reflector::ObjectRef,
        watcher,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    events::Recorder,
    layout,
    retry::Failures,
    workload::{Error as ApiError, is_code},
};

const KIND: &str = "PersistentVolumeClaim";
/// What keeps a claim until its directory is gone; Kubernetes' own word for it.
const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// A failed step; retried with backoff.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("cannot {verb} the directory {path} of a PersistentVolumeClaim")]
    Directory { verb: &'static str, path: PathBuf, source: io::Error },
}

struct Context {
    client: Client,
    recorder: Recorder,
    data_dir: PathBuf,
    failures: Failures<ObjectRef<PersistentVolumeClaim>>,
}

/// Where the files of a claim are.
pub(crate) fn directory(data_dir: &Path, claim: &PersistentVolumeClaim) -> PathBuf {
    place(data_dir, claim).join("data")
}

fn place(data_dir: &Path, claim: &PersistentVolumeClaim) -> PathBuf {
    let parts = [claim.namespace().unwrap_or_default(), claim.name_any(), claim.uid().unwrap_or_default()];
    parts.iter().fold(data_dir.join("claims"), |path, part| path.join(part))
}

/// Who writes into a claim's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Processes of Causeway's own image, which see the machine's files.
    Process,
    /// Containers, which see their own.
    Container,
}

/// Gives a claim's directory to the first kind of user for good: a link that a container puts there would lead a process
/// to any file of the machine.
///
/// # Errors
/// When the other kind has it; what to do.
pub(crate) fn take(directory: &Path, user: User) -> Result<(), String> {
    let mark = directory.with_file_name("used-by");
    let own = match user {
        User::Process => "causeway",
        User::Container => "containers",
    };
    match fs::read_to_string(&mark) {
        Ok(other) if other == own => Ok(()),
        Ok(other) => Err(format!(
            "its PersistentVolumeClaim was used by {other} before, which could have left links to files of this machine \
             there; use another claim"
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            replace(&mark, PRIVATE, own.as_bytes()).map_err(|error| format!("{}: {error}", mark.display()))
        }
        Err(error) => Err(format!("{}: {error}", mark.display())),
    }
}

/// Whether pods may have it.
pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// The claims that a pod uses, by the names of its volumes.
pub(crate) fn of_pod(pod: &Pod) -> BTreeMap<&str, &str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| {
            Some((volume.name.as_str(), volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
        })
        .collect()
}

/// Sees to claims until `shutdown`.
pub(crate) async fn run(client: Client, recorder: Recorder, data_dir: PathBuf, shutdown: CancellationToken) {
    let context =
        Arc::new(Context { client: client.clone(), recorder, data_dir, failures: Failures::default() });
    remove_orphans(&context).await;
    Controller::new(Api::<PersistentVolumeClaim>::all(client.clone()), watcher::Config::default())
        // A claim that is to go waits for the last pod that uses it.
        .watches(Api::<Pod>::all(client), watcher::Config::default(), |pod| {
            let namespace = pod.namespace().unwrap_or_default();
            let used = of_pod(&pod).into_values();
            used.map(|name| ObjectRef::new(name).within(&namespace)).collect::<Vec<_>>()
        })
        .graceful_shutdown_on(async move { shutdown.cancelled().await })
        .run(reconcile, on_error, context)
        .for_each(|_| async {})
        .await;
}

fn on_error(claim: Arc<PersistentVolumeClaim>, error: &Error, context: Arc<Context>) -> Action {
    let key = ObjectRef::from_obj(claim.as_ref());
    tracing::warn!(object.r#ref = %key, error = error as &dyn StdError, "cannot see to a PersistentVolumeClaim");
    Action::requeue(context.failures.failed(key))
}

async fn reconcile(claim: Arc<PersistentVolumeClaim>, context: Arc<Context>) -> Result<Action, Error> {
    let key = ObjectRef::from_obj(claim.as_ref());
    let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), &namespace);
    let failed = |verb| ApiError::api(verb, KIND, &namespace, &name);
    let Some(claim) = claims.get_opt(&name).await.map_err(failed("read"))? else {
        context.failures.succeeded(&key);
        return Ok(Action::await_change());
    };
    if claim.metadata.deletion_timestamp.is_some() {
        if !is_used(&context.client, &namespace, &name).await? {
            let released = release(&context, &claims, &claim).await;
            if let Err(Error::Directory { path, source, .. }) = &released {
                let message = format!(
                    "cannot remove {}: {source}; remove it as the user who owns what is in it, such as root. It is tried again",
                    path.display()
                );
                context.recorder.warning(&claim, "VolumeFailedDelete", &message).await;
            }
            released?;
        }
    } else if claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()) == Some("Block") {
        let message = "volumes of this machine are directories: leave out volumeMode, or write Filesystem";
        context.recorder.warning(&claim, "ProvisioningFailed", message).await;
    } else if !is_bound(&claim) || !has_finalizer(&claim) {
        bind(&context, &claims, &claim).await?;
    }
    context.failures.succeeded(&key);
    Ok(Action::await_change())
}

fn has_finalizer(claim: &PersistentVolumeClaim) -> bool {
    claim.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

/// Makes the directory, and only then says that there is one.
async fn bind(
    context: &Context,
    claims: &Api<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
) -> Result<(), Error> {
    let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
    let path = directory(&context.data_dir, claim);
    make(&path).map_err(|source| Error::Directory { verb: "make", path, source })?;
    let volume = format!("pvc-{}", claim.uid().unwrap_or_default());
    let mut finalizers = claim.finalizers().to_vec();
    if !has_finalizer(claim) {
        finalizers.push(FINALIZER.to_owned());
    }
    let version = &claim.metadata.resource_version;
    let kept = json!({
        "metadata": {"resourceVersion": version, "finalizers": finalizers}, "spec": {"volumeName": volume},
    });
    claims
        .patch(&name, &PatchParams::default(), &Patch::Merge(kept))
        .await
        .map_err(ApiError::api("keep", KIND, &namespace, &name))?;
    let spec = claim.spec.clone().unwrap_or_default();
    let capacity = spec.resources.and_then(|resources| resources.requests);
    let status =
        json!({"status": {"phase": "Bound", "accessModes": spec.access_modes, "capacity": capacity}});
    claims
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .map_err(ApiError::api("bind", KIND, &namespace, &name))?;
    let message = format!("Successfully provisioned volume {volume}");
    context.recorder.normal(claim, "ProvisioningSucceeded", &message).await;
    Ok(())
}

fn make(path: &Path) -> io::Result<()> {
    create_private_dir(path)?;
    // For containers with users of their own; the directories above keep everybody else out.
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

/// Removes the directory, and then lets the claim go.
async fn release(
    context: &Context,
    claims: &Api<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
) -> Result<(), Error> {
    if !has_finalizer(claim) {
        return Ok(());
    }
    let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
    let path = place(&context.data_dir, claim);
    layout::remove_with_empty_parents(&path).map_err(|source| Error::Directory {
        verb: "remove",
        path,
        source,
    })?;
    let mut finalizers = claim.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    let version = &claim.metadata.resource_version;
    let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    match claims.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(error) if !is_code(&error, 404) => {
            Err(ApiError::api("release", KIND, &namespace, &name)(error).into())
        }
        _ => Ok(()),
    }
}

/// Whether a pod that is not over uses the claim.
async fn is_used(client: &Client, namespace: &str, name: &str) -> Result<bool, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let all = pods.list(&ListParams::default()).await.map_err(ApiError::api(
        "list pods of",
        KIND,
        namespace,
        name,
    ))?;
    let is_over = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    };
    Ok(all.items.iter().any(|pod| !is_over(pod) && of_pod(pod).into_values().any(|used| used == name)))
}

/// Removes directories of claims that went by force, or with a control plane that kept nothing.
async fn remove_orphans(context: &Context) {
    let all = Api::<PersistentVolumeClaim>::all(context.client.clone()).list(&ListParams::default()).await;
    let live: HashSet<PathBuf> = match all {
        Ok(all) => all.items.iter().map(|claim| place(&context.data_dir, claim)).collect(),
        Err(error) => {
            tracing::debug!(error = &error as &dyn StdError, "cannot look for files of claims that are gone");
            return;
        }
    };
    let claims = context.data_dir.join("claims");
    for parts in layout::by_uid(&claims).unwrap_or_default() {
        let path = parts.iter().fold(claims.clone(), |path, part| path.join(part));
        if !live.contains(&path) {
            tracing::info!(path = %path.display(), "removing the files of a PersistentVolumeClaim that is gone");
            if let Err(error) = layout::remove_with_empty_parents(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove files of a claim that is gone");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_for_processes_or_for_containers() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        make(&data).unwrap();
        take(&data, User::Container).unwrap();
        take(&data, User::Container).unwrap();
        assert!(take(&data, User::Process).unwrap_err().contains("used by containers"));
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "nobody sees the mark");
    }
}
