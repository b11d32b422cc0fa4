//! What every demo does with its cluster: apply resources, and wait for what becomes of them.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::parts::output;

/// For pods to start and conditions to change; nothing waits this long when all is well.
pub(super) const TIMEOUT: Duration = Duration::from_mins(1);

/// Applies resources in order; with `show`, prints each one before.
pub(super) async fn apply_all(client: &Client, objects: &[Value], show: bool) -> anyhow::Result<()> {
    for object in objects {
        if show {
            output::line(serde_saphyr::to_string(object)?);
        }
        let parsed: DynamicObject = serde_json::from_value(object.clone())?;
        let types = parsed.types.clone().context("a manifest has no kind")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
        let api: Api<DynamicObject> = match parsed.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let name = parsed.name_any();
        api.patch(&name, &PatchParams::apply("demo").force(), &Patch::Apply(object))
            .await
            .with_context(|| format!("can't apply {} {name}", types.kind))?;
    }
    Ok(())
}

/// Looks again and again until something is found.
pub(super) async fn poll<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "waited {} s for {what}", TIMEOUT.as_secs());
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
