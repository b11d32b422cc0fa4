//! Workloads that this node does not run say so in an Event, instead of staying silent forever.

use futures::StreamExt;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{
    Api, Client, Resource,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::events::Recorder;

/// Watches the kinds that are stored but not run.
pub(super) async fn run(client: Client, recorder: Recorder, shutdown: CancellationToken) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = watch::<DaemonSet>(client, &recorder) => {}
    }
}

async fn watch<K>(client: Client, recorder: &Recorder)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let kind = K::kind(&()).into_owned();
    let message = format!(
        "This node runs Deployments, ReplicaSets, StatefulSets and Pods; a {kind} is stored but gets no pods. Use a Deployment."
    );
    let mut objects = std::pin::pin!(
        watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff().touched_objects()
    );
    while let Some(object) = objects.next().await {
        match object {
            Ok(object) if object.meta().deletion_timestamp.is_none() => {
                recorder.warning(&object, "NotSupported", &message).await;
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(kind, error = &error as &dyn std::error::Error, "watch failed"),
        }
    }
}
