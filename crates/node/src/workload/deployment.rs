//! Deployment → ReplicaSets: rolls from one template to the next, keeps the history for undo, and tells how far it got.

mod conditions;
mod plan;
mod revision;
mod rolling;
mod status;

use std::{error::Error as StdError, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy},
    runtime::{
        controller::{Action as Requeue, Config, Controller},
        reflector::ObjectRef,
        watcher,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::plan::{Action, Plan, plan};
use super::{
    Error,
    claim::{self, controller_uid},
    hash::same_template,
    is_code, message,
    replica_set::plan::is_finished,
};
use crate::{events::Recorder, retry::Failures};

const KIND: &str = "Deployment";

struct Context {
    client: Client,
    recorder: Recorder,
    failures: Failures<ObjectRef<Deployment>>,
}

/// Runs the controller until `shutdown`.
pub(super) async fn run(client: Client, recorder: Recorder, shutdown: CancellationToken) {
    let context = Arc::new(Context { client: client.clone(), recorder, failures: Failures::default() });
    let controller = Controller::new(Api::<Deployment>::all(client.clone()), watcher::Config::default());
    let store = controller.store();
    controller
        .with_config(Config::default().concurrency(4))
        .owns(Api::<ReplicaSet>::all(client.clone()), watcher::Config::default())
        // The strategy Recreate waits for the last old pod to go, which its ReplicaSet's status does not tell.
        .watches(Api::<Pod>::all(client), watcher::Config::default(), move |pod| {
            let finished = pod.metadata.deletion_timestamp.is_some() || is_finished(&pod);
            let waits = move |deployment: &Deployment| {
                finished && rolling::is_recreate(deployment) && deployment.namespace() == pod.namespace()
            };
            let waiting = store.state_filter(waits);
            waiting.iter().map(|deployment| ObjectRef::from_obj(deployment.as_ref())).collect::<Vec<_>>()
        })
        .graceful_shutdown_on(async move { shutdown.cancelled().await })
        .run(reconcile, on_error, context)
        .for_each(|_| async {})
        .await;
}

fn on_error(deployment: Arc<Deployment>, error: &Error, context: Arc<Context>) -> Requeue {
    let key = ObjectRef::from_obj(deployment.as_ref());
    tracing::warn!(object.r#ref = %key, error = error as &dyn StdError, "cannot reconcile a Deployment");
    Requeue::requeue(context.failures.failed(key))
}

async fn reconcile(deployment: Arc<Deployment>, context: Arc<Context>) -> Result<Requeue, Error> {
    let key = ObjectRef::from_obj(deployment.as_ref());
    let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
    let deployments: Api<Deployment> = Api::namespaced(context.client.clone(), &namespace);
    let read = deployments.get_opt(&name).await.map_err(Error::api("read", KIND, &namespace, &name))?;
    let Some(deployment) = read.filter(|read| read.uid() == deployment.uid()) else {
        context.failures.succeeded(&key);
        return Ok(Requeue::await_change());
    };
    let Some(selector) = deployment.spec.as_ref().and_then(|spec| claim::selector(&spec.selector)) else {
        return Ok(Requeue::await_change());
    };
    let sets: Vec<ReplicaSet> =
        claim::claimed(&context.client, &deployment, &selector, "ReplicaSet", |_| true).await?;
    let old_pods = if rolling::is_recreate(&deployment) {
        has_old_pods(&context.client, &deployment, &sets, &namespace).await?
    } else {
        false
    };
    let plan = plan(&deployment, &sets, old_pods, jiff::Timestamp::now());
    act(&context, &deployment, &plan, &namespace).await?;
    write(&deployments, &deployment, &plan, &namespace, &name).await?;
    context.failures.succeeded(&key);
    Ok(plan.check_again.map_or_else(Requeue::await_change, Requeue::requeue))
}

/// True while a pod of an older template still exists.
async fn has_old_pods(
    client: &Client,
    deployment: &Deployment,
    sets: &[ReplicaSet],
    namespace: &str,
) -> Result<bool, Error> {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let old: Vec<String> = sets
        .iter()
        .filter(|set| {
            let own = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
            !matches!((own, template), (Some(own), Some(template)) if same_template(own, template))
        })
        .filter_map(ResourceExt::uid)
        .collect();
    if old.is_empty() {
        return Ok(false);
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let listed =
        pods.list(&ListParams::default()).await.map_err(Error::api("list", "Pods", namespace, ""))?;
    let of_old =
        |pod: &Pod| controller_uid(&pod.metadata).is_some_and(|uid| old.iter().any(|old| old == uid));
    Ok(listed.items.iter().any(|pod| of_old(pod) && !is_finished(pod)))
}

async fn act(context: &Context, deployment: &Deployment, plan: &Plan, namespace: &str) -> Result<(), Error> {
    let sets: Api<ReplicaSet> = Api::namespaced(context.client.clone(), namespace);
    for action in &plan.actions {
        match action {
            Action::Create(set) => create(context, deployment, &sets, set, namespace).await?,
            Action::Patch { name, patch } => {
                match sets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
                    Ok(_) => {}
                    Err(error) if is_code(&error, 404) => {}
                    Err(error) => return Err(Error::api("update", "ReplicaSet", namespace, name)(error)),
                }
            }
            Action::Delete { name } => {
                let params = DeleteParams {
                    propagation_policy: Some(PropagationPolicy::Background),
                    ..DeleteParams::default()
                };
                match sets.delete(name, &params).await {
                    Ok(_) => {}
                    Err(error) if is_code(&error, 404) => {}
                    Err(error) => return Err(Error::api("delete", "ReplicaSet", namespace, name)(error)),
                }
            }
        }
    }
    for message in &plan.scaled {
        context.recorder.normal(deployment, "ScalingReplicaSet", message).await;
    }
    Ok(())
}

async fn create(
    context: &Context,
    deployment: &Deployment,
    sets: &Api<ReplicaSet>,
    set: &ReplicaSet,
    namespace: &str,
) -> Result<(), Error> {
    let name = set.name_any();
    let error = match sets.create(&PostParams::default(), set).await {
        Ok(_) => return Ok(()),
        Err(error) if is_code(&error, 409) => error,
        Err(error) => {
            context
                .recorder
                .warning(
                    deployment,
                    "ReplicaSetCreateError",
                    &format!("Failed to create new replica set {name:?}: {}", message(&error)),
                )
                .await;
            return Err(Error::api("create", "ReplicaSet", namespace, &name)(error));
        }
    };
    // The name is taken by something else: another hash is needed, so the collision is counted.
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0) + 1;
    let deployments: Api<Deployment> = Api::namespaced(context.client.clone(), namespace);
    let patch = Patch::Merge(json!({"status": {"collisionCount": collisions}}));
    let deployment_name = deployment.name_any();
    deployments.patch_status(&deployment_name, &PatchParams::default(), &patch).await.map_err(Error::api(
        "count a collision of",
        KIND,
        namespace,
        &deployment_name,
    ))?;
    Err(Error::api("create", "ReplicaSet", namespace, &name)(error))
}

async fn write(
    deployments: &Api<Deployment>,
    deployment: &Deployment,
    plan: &Plan,
    namespace: &str,
    name: &str,
) -> Result<(), Error> {
    if let Some(revision) = &plan.revision
        && deployment.annotations().get(revision::REVISION) != Some(revision)
    {
        let patch = Patch::Merge(
            json!({"metadata": {"uid": deployment.uid(), "annotations": {revision::REVISION: revision}}}),
        );
        deployments
            .patch(name, &PatchParams::default(), &patch)
            .await
            .map_err(Error::api("annotate", KIND, namespace, name))?;
    }
    if deployment.status.as_ref().is_some_and(|before| status::same(before, &plan.status)) {
        return Ok(());
    }
    let patch =
        Patch::Merge(json!({"metadata": {"uid": deployment.uid()}, "status": status::patch(&plan.status)}));
    match deployments.patch_status(name, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(()),
        Err(error) if is_code(&error, 404) => Ok(()),
        Err(error) => Err(Error::api("write the status of", KIND, namespace, name)(error)),
    }
}
