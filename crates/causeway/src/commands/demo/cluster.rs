//! What every demo does with its cluster: apply resources, and wait for what becomes of them.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use causeway_base::well_known::SERVICE_NAME_LABEL;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::stage::Stage;
use super::steps::Steps;
use crate::parts::output;

/// For pods to start and conditions to change; nothing waits this long when all is well.
pub(super) const TIMEOUT: Duration = Duration::from_mins(1);

/// Starts the stage's control plane as a step of the demo; `args` follow `up`.
pub(super) async fn start_control_plane(
    steps: &mut Steps,
    stage: &mut Stage,
    args: &[String],
) -> anyhow::Result<Client> {
    let step = async {
        let client = stage.start(args).await?;
        Ok((client, vec![format!("KUBECONFIG={}", stage.kubeconfig().display())]))
    };
    steps.run("A control plane on this machine: Kubernetes API, operator, node", step).await
}

/// Applies resources in order; with `show`, prints each one before.
pub(super) async fn apply_all(client: &Client, objects: &[Value], show: bool) -> anyhow::Result<()> {
    for object in objects {
        if show {
            output::line(serde_saphyr::to_string(object)?);
        }
        let parsed: DynamicObject = serde_json::from_value(object.clone())?;
        let types = parsed.types.clone().context("a manifest has no kind")?;
        let kind = GroupVersionKind::try_from(&types)?;
        let resource = match types.kind.as_str() {
            // Its plural has hyphens.
            "NetworkAttachmentDefinition" => {
                ApiResource::from_gvk_with_plural(&kind, "network-attachment-definitions")
            }
            _ => ApiResource::from_gvk(&kind),
        };
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

/// Waits until a Service has an endpoint that is ready.
pub(super) async fn wait_for_endpoint(client: &Client, namespace: &str, service: &str) -> anyhow::Result<()> {
    let gvk = GroupVersionKind::gvk("discovery.k8s.io", "v1", "EndpointSlice");
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&gvk));
    let params = ListParams::default().labels(&format!("{SERVICE_NAME_LABEL}={service}"));
    poll(&format!("an endpoint of {service}"), async || {
        let slices = api.list(&params).await?;
        let ready = slices.iter().any(|slice| {
            slice.data["endpoints"]
                .as_array()
                .is_some_and(|all| all.iter().any(|e| e["conditions"]["ready"] == Value::Bool(true)))
        });
        Ok(ready.then_some(()))
    })
    .await
}
