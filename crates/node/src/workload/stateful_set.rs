//! StatefulSet → Pods with names that stay, one after the other, each with claims of its own; rolls from one template to the
//! next, from the last pod to the first, and keeps the history for undo in ControllerRevisions.

mod member;
mod plan;
mod retention;
mod revision;
mod status;

use std::{collections::BTreeMap, error::Error as StdError, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    runtime::{
        controller::{Action as Requeue, Config, Controller},
        reflector::ObjectRef,
        watcher,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::{
    plan::{Action, Observed, Plan, plan},
    revision::Update,
};
use super::{Error, claim, is_code, message};
use crate::{events::Recorder, retry::Failures};

const KIND: &str = "StatefulSet";

struct Context {
    client: Client,
    recorder: Recorder,
    failures: Failures<ObjectRef<StatefulSet>>,
}

/// Runs the controller until `shutdown`.
pub(super) async fn run(client: Client, recorder: Recorder, shutdown: CancellationToken) {
    let context = Arc::new(Context { client: client.clone(), recorder, failures: Failures::default() });
    let controller = Controller::new(Api::<StatefulSet>::all(client.clone()), watcher::Config::default());
    let (store, with_claims) = (controller.store(), controller.store());
    controller
        .with_config(Config::default().concurrency(4))
        .owns(Api::<Pod>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ControllerRevision>::all(client.clone()), watcher::Config::default())
        // An orphan names no owner, so every set that selects it is looked at.
        .watches(Api::<Pod>::all(client.clone()), watcher::Config::default(), move |pod| {
            claim::selecting(&store, &pod, |set| set.spec.as_ref().map(|spec| &spec.selector))
        })
        // A claim is known by its name alone.
        .watches(Api::<PersistentVolumeClaim>::all(client), watcher::Config::default(), move |claim| {
            let (namespace, name) = (claim.namespace(), claim.name_any());
            let sets =
                with_claims.state_filter(|set| set.namespace() == namespace && member::has_claim(set, &name));
            sets.iter().map(|set| ObjectRef::from_obj(set.as_ref())).collect::<Vec<_>>()
        })
        .graceful_shutdown_on(async move { shutdown.cancelled().await })
        .run(reconcile, on_error, context)
        .for_each(|_| async {})
        .await;
}

fn on_error(set: Arc<StatefulSet>, error: &Error, context: Arc<Context>) -> Requeue {
    let key = ObjectRef::from_obj(set.as_ref());
    tracing::warn!(object.r#ref = %key, error = error as &dyn StdError, "cannot reconcile a StatefulSet");
    Requeue::requeue(context.failures.failed(key))
}

async fn reconcile(set: Arc<StatefulSet>, context: Arc<Context>) -> Result<Requeue, Error> {
    let key = ObjectRef::from_obj(set.as_ref());
    let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
    let sets: Api<StatefulSet> = Api::namespaced(context.client.clone(), &namespace);
    let read = sets.get_opt(&name).await.map_err(Error::api("read", KIND, &namespace, &name))?;
    let Some(mut set) = read.filter(|read| read.uid() == set.uid()) else {
        context.failures.succeeded(&key);
        return Ok(Requeue::await_change());
    };
    let Some(selector) = set.spec.as_ref().and_then(|spec| claim::selector(&spec.selector)) else {
        return Ok(Requeue::await_change());
    };
    let client = &context.client;
    let pods: Vec<Pod> = claim::claimed(client, &set, &selector, "Pod", |pod: &Pod| {
        member::ordinal(&name, &pod.name_any()).is_some()
    })
    .await?;
    let mut revisions: Vec<ControllerRevision> =
        claim::claimed(client, &set, &selector, "ControllerRevision", |_| true).await?;
    revisions.sort_by_key(|revision| (revision.revision, revision.name_any()));
    let update = update_revision(&context, &mut set, &revisions).await?;
    let current = revision::current(&set, &revisions).unwrap_or_else(|| update.clone());
    let claims = claims(client, &set).await?;
    let observed = Observed { set: &set, pods: &pods, claims: &claims, current: &current, update: &update };
    let plan = plan(&observed, jiff::Timestamp::now());
    let acted = act(&context, &set, &plan, &namespace).await;
    write_status(&sets, &set, &plan, &namespace, &name).await?;
    acted?;
    forget_revisions(&context, &observed, &revisions).await?;
    context.failures.succeeded(&key);
    Ok(plan.check_again.map_or_else(Requeue::await_change, Requeue::requeue))
}

/// The claims in the set's namespace by name, if it has any.
async fn claims(
    client: &Client,
    set: &StatefulSet,
) -> Result<BTreeMap<String, PersistentVolumeClaim>, Error> {
    if member::claim_templates(set).is_empty() {
        return Ok(BTreeMap::new());
    }
    let namespace = set.namespace().unwrap_or_default();
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    let listed = api.list(&ListParams::default()).await.map_err(Error::api(
        "list",
        "PersistentVolumeClaim",
        &namespace,
        "*",
    ))?;
    Ok(listed.items.into_iter().map(|claim| (claim.name_any(), claim)).collect())
}

/// The revision of the set's template, which is made if there is none.
async fn update_revision(
    context: &Context,
    set: &mut StatefulSet,
    revisions: &[ControllerRevision],
) -> Result<ControllerRevision, Error> {
    let namespace = set.namespace().unwrap_or_default();
    let api: Api<ControllerRevision> = Api::namespaced(context.client.clone(), &namespace);
    match revision::update(set, revisions) {
        Update::Same(revision) => Ok(revision.clone()),
        Update::Again(revision, number) => {
            let name = revision.name_any();
            let patch = Patch::Merge(json!({"metadata": {"uid": revision.uid()}, "revision": number}));
            let patched = api.patch(&name, &PatchParams::default(), &patch).await;
            patched.map_err(Error::api("renumber", "ControllerRevision", &namespace, &name))
        }
        Update::New(new) => {
            let name = new.name_any();
            let error = match api.create(&PostParams::default(), &new).await {
                Ok(made) => return Ok(made),
                Err(error) => error,
            };
            if is_code(&error, 409) {
                // Another template has the same hash: the next one is made with a count of that.
                let status = set.status.get_or_insert_default();
                status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
                let count = json!({"metadata": {"uid": set.metadata.uid}, "status": {"collisionCount": status.collision_count}});
                let (sets, own): (Api<StatefulSet>, _) =
                    (Api::namespaced(context.client.clone(), &namespace), set.name_any());
                sets.patch_status(&own, &PatchParams::default(), &Patch::Merge(count))
                    .await
                    .map_err(Error::api("count a collision of", KIND, &namespace, &own))?;
            }
            Err(Error::api("create", "ControllerRevision", &namespace, &name)(error))
        }
    }
}

async fn act(context: &Context, set: &StatefulSet, plan: &Plan, namespace: &str) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), namespace);
    for action in &plan.actions {
        match action {
            Action::CreateClaim { pod, claim } => create_claim(context, set, &claims, pod, claim).await?,
            Action::CreatePod(pod) => create_pod(context, set, &pods, pod).await?,
            Action::DeletePod { name, uid } => delete_pod(context, set, &pods, name, uid.clone()).await?,
            Action::LabelPod { name, patch } => {
                match pods.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
                    Err(error) if !is_gone(&error) => {
                        return Err(Error::api("label", "Pod", namespace, name)(error));
                    }
                    _ => {}
                }
            }
            Action::OwnClaim { name, patch } => {
                match claims.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
                    Err(error) if !is_gone(&error) => {
                        return Err(Error::api("own", "PersistentVolumeClaim", namespace, name)(error));
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

/// Gone or replaced meanwhile: its own event comes.
fn is_gone(error: &kube::Error) -> bool {
    is_code(error, 404) || is_code(error, 409)
}

async fn create_claim(
    context: &Context,
    set: &StatefulSet,
    claims: &Api<PersistentVolumeClaim>,
    pod: &str,
    claim: &PersistentVolumeClaim,
) -> Result<(), Error> {
    let (namespace, name, own) = (set.namespace().unwrap_or_default(), claim.name_any(), set.name_any());
    match claims.create(&PostParams::default(), claim).await {
        Ok(_) => {
            let text = format!("create Claim {name} Pod {pod} in StatefulSet {own} success");
            context.recorder.normal(set, "SuccessfulCreate", &text).await;
            Ok(())
        }
        Err(error) if is_code(&error, 409) => Ok(()),
        Err(error) => {
            let why = message(&error);
            let text = format!("create Claim {name} for Pod {pod} in StatefulSet {own} failed error: {why}");
            context.recorder.warning(set, "FailedCreate", &text).await;
            Err(Error::api("create", "PersistentVolumeClaim", &namespace, &name)(error))
        }
    }
}

async fn create_pod(context: &Context, set: &StatefulSet, pods: &Api<Pod>, pod: &Pod) -> Result<(), Error> {
    let (namespace, name, own) = (set.namespace().unwrap_or_default(), pod.name_any(), set.name_any());
    match pods.create(&PostParams::default(), pod).await {
        Ok(_) => {
            let text = format!("create Pod {name} in StatefulSet {own} successful");
            context.recorder.normal(set, "SuccessfulCreate", &text).await;
            Ok(())
        }
        // The namespace goes away, and the pods with it: nothing to retry.
        Err(kube::Error::Api(status))
            if status.code == 403 && status.message.contains("being terminated") =>
        {
            Ok(())
        }
        Err(error) => {
            let text = format!("create Pod {name} in StatefulSet {own} failed error: {}", message(&error));
            context.recorder.warning(set, "FailedCreate", &text).await;
            Err(Error::api("create", "Pod", &namespace, &name)(error))
        }
    }
}

async fn delete_pod(
    context: &Context,
    set: &StatefulSet,
    pods: &Api<Pod>,
    name: &str,
    uid: Option<String>,
) -> Result<(), Error> {
    let preconditions = Some(Preconditions { uid, resource_version: None });
    match pods.delete(name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Ok(_) => {
            let text = format!("delete Pod {name} in StatefulSet {} successful", set.name_any());
            context.recorder.normal(set, "SuccessfulDelete", &text).await;
            Ok(())
        }
        Err(error) if is_gone(&error) => Ok(()),
        Err(error) => Err(Error::api("delete", "Pod", &set.namespace().unwrap_or_default(), name)(error)),
    }
}

async fn write_status(
    sets: &Api<StatefulSet>,
    set: &StatefulSet,
    plan: &Plan,
    namespace: &str,
    name: &str,
) -> Result<(), Error> {
    if set.status.as_ref().is_some_and(|before| status::same(before, &plan.status)) {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": set.uid()}, "status": status::patch(&plan.status)});
    match sets.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(error) if !is_gone(&error) => {
            Err(Error::api("write the status of", KIND, namespace, name)(error))
        }
        _ => Ok(()),
    }
}

/// Removes revisions that the history limit leaves no room for.
async fn forget_revisions(
    context: &Context,
    observed: &Observed<'_>,
    revisions: &[ControllerRevision],
) -> Result<(), Error> {
    let namespace = observed.set.namespace().unwrap_or_default();
    let api: Api<ControllerRevision> = Api::namespaced(context.client.clone(), &namespace);
    for revision in revision::beyond_history(observed, revisions) {
        let name = revision.name_any();
        match api.delete(&name, &DeleteParams::default()).await {
            Err(error) if !is_gone(&error) => {
                return Err(Error::api("delete", "ControllerRevision", &namespace, &name)(error));
            }
            _ => {}
        }
    }
    Ok(())
}
