//! An installation whose operator is gone: its objects wait for somebody who lets them go, and for ever.

use anyhow::bail;
use causeway_api::names;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{delete, name_of, objects};
use crate::parts::refusal;

/// Deletes all objects and takes our finalizers from them; what that leaves behind.
pub(super) async fn let_go(client: &Client, kinds: &[ApiResource]) -> anyhow::Result<Vec<String>> {
    let mut left = Vec::new();
    for kind in kinds {
        for object in objects(client, kind).await? {
            delete(client, kind, &object).await?;
            let (ours, others): (Vec<&String>, Vec<&String>) =
                object.finalizers().iter().partition(|finalizer| finalizer.starts_with("causeway.dev/"));
            if ours.is_empty() {
                continue;
            }
            let name = name_of(kind, &object);
            left.extend(ours.iter().map(|finalizer| format!("of {name}: {}", what_is_left(finalizer))));
            let api: Api<DynamicObject> = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, kind),
                None => Api::all_with(client.clone(), kind),
            };
            let patch = json!({"metadata": {"finalizers": others}});
            let patched = api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await;
            match patched {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                Err(error) => bail!("can't let go of {name}: {}", refusal::words(&error)),
            }
        }
    }
    Ok(left)
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
