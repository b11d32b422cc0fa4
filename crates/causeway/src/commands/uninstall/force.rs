//! An installation whose operator is gone: its objects wait for somebody who lets them go, and for ever.

use std::time::Duration;

use anyhow::{anyhow, bail};
use causeway_api::names;
use causeway_base::Backoff;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{delete, name_of, objects};
use crate::parts::installation::is_missing;
use crate::parts::refusal;

/// Between two tries, when somebody has changed an object meanwhile.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
const TRIES: usize = 10;

/// Deletes all objects and takes our finalizers from them; what that leaves behind.
pub(super) async fn let_go(client: &Client, kinds: &[ApiResource]) -> anyhow::Result<Vec<String>> {
    let mut left = Vec::new();
    for kind in kinds {
        for object in objects(client, kind).await? {
            left.extend(let_go_of(client, kind, object).await?);
        }
    }
    Ok(left)
}

/// The same of one object.
pub(super) async fn let_go_of(
    client: &Client,
    kind: &ApiResource,
    object: DynamicObject,
) -> anyhow::Result<Vec<String>> {
    delete(client, kind, &object).await?;
    let name = name_of(kind, &object);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, kind),
        None => Api::all_with(client.clone(), kind),
    };
    let taken = release(&api, object).await;
    let taken = taken.map_err(|error| anyhow!("can't let go of {name}: {error:#}"))?;
    Ok(taken.iter().map(|finalizer| format!("of {name}: {}", what_is_left(finalizer))).collect())
}

/// Takes our finalizers from an object, and no other's, whoever changes it meanwhile; which they were.
async fn release(api: &Api<DynamicObject>, mut object: DynamicObject) -> anyhow::Result<Vec<String>> {
    let name = object.name_any();
    let mut retries = RETRY.retries();
    for _ in 0..TRIES {
        let (ours, others): (Vec<String>, Vec<String>) =
            object.finalizers().iter().cloned().partition(|finalizer| is_ours(finalizer));
        if ours.is_empty() {
            return Ok(ours);
        }
        let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": others}});
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => return Ok(ours),
            Err(error) if is_missing(&error) => return Ok(ours),
            Err(error) if refusal::is_conflict(&error) => {}
            Err(error) => bail!("{}", refusal::words(&error)),
        }
        tokio::time::sleep(retries.next_delay()).await;
        object = match api.get_opt(&name).await {
            Ok(Some(object)) => object,
            Ok(None) => return Ok(ours),
            Err(error) => bail!("{}", refusal::words(&error)),
        };
    }
    bail!("somebody changes it all the time")
}

pub(super) fn is_ours(finalizer: &str) -> bool {
    finalizer.starts_with("causeway.dev/")
}

/// Removes what is left of a kind, however it is held.
pub(super) async fn let_go_of_kind(client: &Client, kind: &ApiResource) -> anyhow::Result<()> {
    let_go(client, std::slice::from_ref(kind)).await.map(drop)
}

fn what_is_left(finalizer: &str) -> &'static str {
    match finalizer {
        names::FINALIZER_INTERCEPT => {
            "its target may still lead to pods that are gone: apply the target's own manifest again (what it was is in its annotation causeway.dev/original)"
        }
        names::FINALIZER_WORKSTATION => "the machine's own `causeway disconnect` removes what it has",
        names::FINALIZER_HOSTNAME => "records and certificates at the providers: remove them there",
        names::FINALIZER_TUNNEL_PROXY | names::FINALIZER_CONTAINER_NETWORK => {
            "containers and networks of a container runtime: `causeway clean` on that machine"
        }
        names::FINALIZER_ROUTES => "routes may say in their status that they are attached",
        _ => "nothing that this does not remove by its labels",
    }
}
