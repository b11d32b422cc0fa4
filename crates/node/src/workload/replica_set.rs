//! ReplicaSet → Pods: keeps as many pods of a template as asked for, and counts them.

pub(super) mod plan;

use std::{error::Error as StdError, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Pod, PodTemplateSpec},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::{
        controller::{Action, Config, Controller},
        reflector::ObjectRef,
        watcher,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Error, claim, controller_reference, is_code, message};
use crate::{events::Recorder, retry::Failures};

const KIND: &str = "ReplicaSet";
/// As many pods are created or deleted at once; the rest follows in the same reconcile.
const CONCURRENCY: usize = 8;

struct Context {
    client: Client,
    recorder: Recorder,
    failures: Failures<ObjectRef<ReplicaSet>>,
}

/// Runs the controller until `shutdown`.
pub(super) async fn run(client: Client, recorder: Recorder, shutdown: CancellationToken) {
    let context = Arc::new(Context { client: client.clone(), recorder, failures: Failures::default() });
    let controller = Controller::new(Api::<ReplicaSet>::all(client.clone()), watcher::Config::default());
    let store = controller.store();
    controller
        .with_config(Config::default().concurrency(4))
        .owns(Api::<Pod>::all(client.clone()), watcher::Config::default())
        // An orphan names no owner, so every ReplicaSet that selects it is looked at.
        .watches(Api::<Pod>::all(client), watcher::Config::default(), move |pod| {
            claim::selecting(&store, &pod, |set| set.spec.as_ref().map(|spec| &spec.selector))
        })
        .graceful_shutdown_on(async move { shutdown.cancelled().await })
        .run(reconcile, on_error, context)
        .for_each(|_| async {})
        .await;
}

fn on_error(set: Arc<ReplicaSet>, error: &Error, context: Arc<Context>) -> Action {
    let key = ObjectRef::from_obj(set.as_ref());
    tracing::warn!(object.r#ref = %key, error = error as &dyn StdError, "cannot reconcile a ReplicaSet");
    Action::requeue(context.failures.failed(key))
}

async fn reconcile(set: Arc<ReplicaSet>, context: Arc<Context>) -> Result<Action, Error> {
    let key = ObjectRef::from_obj(set.as_ref());
    let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
    let sets: Api<ReplicaSet> = Api::namespaced(context.client.clone(), &namespace);
    let read = sets.get_opt(&name).await.map_err(Error::api("read", KIND, &namespace, &name))?;
    let Some(set) = read.filter(|read| read.uid() == set.uid()) else {
        context.failures.succeeded(&key);
        return Ok(Action::await_change());
    };
    let Some(selector) = set.spec.as_ref().and_then(|spec| claim::selector(&spec.selector)) else {
        return Ok(Action::await_change());
    };
    let pods: Vec<Pod> = claim::claimed(&context.client, &set, &selector, "Pod", |_| true).await?;
    let plan = plan::plan(&set, &pods, jiff::Timestamp::now());
    let failure = act(&context, &set, &namespace, &plan).await.err();
    write_status(&sets, &set, &plan, failure.as_ref(), &namespace, &name).await?;
    if let Some(error) = failure {
        return Err(error);
    }
    context.failures.succeeded(&key);
    Ok(plan.check_again.map_or_else(Action::await_change, Action::requeue))
}

async fn act(context: &Context, set: &ReplicaSet, namespace: &str, plan: &plan::Plan) -> Result<(), Error> {
    let api: &Api<Pod> = &Api::namespaced(context.client.clone(), namespace);
    let template = build_pod(set);
    let template = &template;
    let creates = (0..plan.create).map(|_| async move {
        match api.create(&PostParams::default(), template).await {
            Ok(pod) => {
                let message = format!("Created pod: {}", pod.name_any());
                context.recorder.normal(set, "SuccessfulCreate", &message).await;
                Ok(())
            }
            // The namespace goes away, and the pods with it: nothing to retry.
            Err(error) if matches!(&error, kube::Error::Api(status) if status.code == 403 && status.message.contains("being terminated")) => Ok(()),
            Err(error) => {
                context.recorder.warning(set, "FailedCreate", &format!("Error creating: {}", message(&error))).await;
                Err(Error::api("create a pod of", KIND, namespace, &set.name_any())(error))
            }
        }
    });
    let deletes = plan.delete.clone().into_iter().map(|pod| async move {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: pod.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        match api.delete(&pod.name, &params).await {
            Ok(_) => {
                context.recorder.normal(set, "SuccessfulDelete", &format!("Deleted pod: {}", pod.name)).await;
                Ok(())
            }
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(()),
            Err(error) => Err(Error::api("delete", "Pod", namespace, &pod.name)(error)),
        }
    });
    let created: Vec<Result<(), Error>> = stream::iter(creates).buffer_unordered(CONCURRENCY).collect().await;
    let deleted: Vec<Result<(), Error>> = stream::iter(deletes).buffer_unordered(CONCURRENCY).collect().await;
    created.into_iter().chain(deleted).collect()
}

/// The pod that a ReplicaSet asks for.
fn build_pod(set: &ReplicaSet) -> Pod {
    let PodTemplateSpec { metadata, spec } =
        set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let template = metadata.unwrap_or_default();
    let mut pod = Pod { spec, ..Pod::default() };
    pod.metadata.generate_name = Some(format!("{}-", set.name_any()));
    pod.metadata.namespace = set.namespace();
    pod.metadata.labels = template.labels;
    pod.metadata.annotations = template.annotations;
    pod.metadata.finalizers = template.finalizers;
    pod.metadata.owner_references = Some(vec![controller_reference(set)]);
    pod
}

async fn write_status(
    sets: &Api<ReplicaSet>,
    set: &ReplicaSet,
    plan: &plan::Plan,
    failure: Option<&Error>,
    namespace: &str,
    name: &str,
) -> Result<(), Error> {
    let status =
        plan::with_failure(plan.status.clone(), set, failure.map(Error::message), jiff::Timestamp::now());
    if set.status.as_ref().is_some_and(|before| plan::same_status(before, &status)) {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"metadata": {"uid": set.uid()}, "status": plan::status_patch(&status)}));
    match sets.patch_status(name, &PatchParams::default(), &patch).await {
        Ok(_) => Ok(()),
        Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(()),
        Err(error) => Err(Error::api("write the status of", KIND, namespace, name)(error)),
    }
}

/// Upper bound for a wait, so that a clock that jumps is noticed.
pub(super) const LONGEST_WAIT: Duration = Duration::from_hours(1);
