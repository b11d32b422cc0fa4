//! What every demo does with its control plane: apply resources, and wait for what becomes of them.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::Value;

/// For pods to start and conditions to turn; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Applies resources in order, and prints them before if they are to be seen.
pub async fn apply_all(client: &Client, objects: &[Value], show: bool) -> anyhow::Result<()> {
    for object in objects {
        if show {
            println!("{}", serde_saphyr::to_string(object).unwrap_or_default());
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
pub async fn poll<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "waited {} s for {what}", PATIENCE.as_secs());
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
