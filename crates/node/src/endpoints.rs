//! Services with selectors → EndpointSlices and the older Endpoints, from the pods that they select.

mod slice;

use std::{error::Error as StdError, sync::Arc};

use causeway_base::well_known::SERVICE_NAME_LABEL;
use futures::StreamExt;
use k8s_openapi::api::{
    core::v1::{Endpoints, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::{Selector, SelectorExt},
    runtime::{
        controller::{Action, Config, Controller},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    retry::Failures,
    workload::{Error, is_code},
};

struct Context {
    client: Client,
    failures: Failures<ObjectRef<Service>>,
}

/// Runs the controller until `shutdown`.
pub(crate) async fn run(client: Client, shutdown: CancellationToken) {
    let context = Arc::new(Context { client: client.clone(), failures: Failures::default() });
    let controller = Controller::new(Api::<Service>::all(client.clone()), watcher::Config::default());
    let store = controller.store();
    controller
        .with_config(Config::default().concurrency(4))
        .owns(Api::<EndpointSlice>::all(client.clone()), watcher::Config::default())
        .watches(Api::<Pod>::all(client), watcher::Config::default(), move |pod| selecting(&store, &pod))
        .graceful_shutdown_on(async move { shutdown.cancelled().await })
        .run(reconcile, on_error, context)
        .for_each(|_| async {})
        .await;
}

/// The Services that a pod belongs to, or may have belonged to before its labels changed.
fn selecting(store: &Store<Service>, pod: &Pod) -> Vec<ObjectRef<Service>> {
    let services = store.state_filter(|service| {
        service.namespace() == pod.namespace()
            && service.spec.as_ref().is_some_and(|spec| spec.selector.is_some())
    });
    services.iter().map(|service| ObjectRef::from_obj(service.as_ref())).collect()
}

fn on_error(service: Arc<Service>, error: &Error, context: Arc<Context>) -> Action {
    let key = ObjectRef::from_obj(service.as_ref());
    tracing::warn!(object.r#ref = %key, error = error as &dyn StdError, "cannot write the endpoints of a Service");
    Action::requeue(context.failures.failed(key))
}

async fn reconcile(service: Arc<Service>, context: Arc<Context>) -> Result<Action, Error> {
    let key = ObjectRef::from_obj(service.as_ref());
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let services: Api<Service> = Api::namespaced(context.client.clone(), &namespace);
    let read = services.get_opt(&name).await.map_err(Error::api("read", "Service", &namespace, &name))?;
    // What belongs to a deleted Service goes with it, by its owner reference.
    let Some(service) = read.filter(|service| service.metadata.deletion_timestamp.is_none()) else {
        context.failures.succeeded(&key);
        return Ok(Action::await_change());
    };
    let selector =
        service.spec.as_ref().and_then(|spec| spec.selector.clone()).filter(|selector| !selector.is_empty());
    let external = service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    let Some(selector) = selector.filter(|_| !external) else {
        // Without a selector another program keeps the endpoints; only those made here are removed.
        write_slices(&context.client, &namespace, &name, &[]).await?;
        context.failures.succeeded(&key);
        return Ok(Action::await_change());
    };
    let selector = Selector::from_iter(selector);
    let pods: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
    let pods = pods.list(&ListParams::default()).await.map_err(Error::api("list", "Pods", &namespace, ""))?;
    let selected: Vec<Pod> = pods.items.into_iter().filter(|pod| selector.matches(pod.labels())).collect();
    write_slices(&context.client, &namespace, &name, &slice::build_slices(&service, &selected)).await?;
    write_endpoints(&context.client, &namespace, &name, &slice::build_endpoints(&service, &selected)).await?;
    context.failures.succeeded(&key);
    Ok(Action::await_change())
}

async fn write_slices(
    client: &Client,
    namespace: &str,
    service: &str,
    wanted: &[EndpointSlice],
) -> Result<(), Error> {
    let api: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let labels = format!("{SERVICE_NAME_LABEL}={service},{}={}", slice::MANAGED_BY, slice::MANAGER);
    let listed = api.list(&ListParams::default().labels(&labels)).await.map_err(Error::api(
        "list",
        "EndpointSlices",
        namespace,
        service,
    ))?;
    for slice in wanted {
        let name = slice.name_any();
        let failed = |error| Error::api("write", "EndpointSlice", namespace, &name)(error);
        match listed.items.iter().find(|known| known.name_any() == name) {
            Some(known) if slice::same(known, slice) => {}
            Some(known) => {
                let mut slice = slice.clone();
                slice.metadata.resource_version.clone_from(&known.metadata.resource_version);
                api.replace(&name, &PostParams::default(), &slice).await.map_err(failed)?;
            }
            None => match api.create(&PostParams::default(), slice).await {
                Ok(_) => {}
                Err(error) => return Err(failed(error)),
            },
        }
    }
    for known in
        listed.items.iter().filter(|known| !wanted.iter().any(|slice| slice.name_any() == known.name_any()))
    {
        match api.delete(&known.name_any(), &DeleteParams::default()).await {
            Ok(_) => {}
            Err(error) if is_code(&error, 404) => {}
            Err(error) => {
                return Err(Error::api("delete", "EndpointSlice", namespace, &known.name_any())(error));
            }
        }
    }
    Ok(())
}

async fn write_endpoints(
    client: &Client,
    namespace: &str,
    name: &str,
    wanted: &Endpoints,
) -> Result<(), Error> {
    let api: Api<Endpoints> = Api::namespaced(client.clone(), namespace);
    let failed = |error| Error::api("write", "Endpoints", namespace, name)(error);
    match api.get_opt(name).await.map_err(failed)? {
        Some(known)
            if known.subsets.clone().unwrap_or_default() == wanted.subsets.clone().unwrap_or_default() =>
        {
            Ok(())
        }
        Some(_) => {
            let patch = Patch::Merge(
                json!({"metadata": {"labels": wanted.metadata.labels}, "subsets": wanted.subsets}),
            );
            api.patch(name, &PatchParams::default(), &patch).await.map(drop).map_err(failed)
        }
        None => match api.create(&PostParams::default(), wanted).await {
            Ok(_) => Ok(()),
            Err(error) if is_code(&error, 409) => Ok(()),
            Err(error) => Err(failed(error)),
        },
    }
}
