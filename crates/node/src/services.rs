//! Services on one machine: follows Services and EndpointSlices, publishes the plan that makes their addresses work,
//! and says in Events on a Service what keeps one of its addresses from working. The engine that runs the plan reports
//! back.

mod address_events;
mod balancer;
mod resolvers;
mod translate;

use std::{error::Error, fmt::Debug, net::IpAddr, sync::Arc, time::Duration};

use causeway_ir::Plan;
use futures::StreamExt;
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{self, Store},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub use self::address_events::Listeners;
use self::translate::translate;
use crate::events::Recorder;

/// Changes come in groups (a Service, its slice, its pods): they are taken together.
const DEBOUNCE: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_secs(10);

/// Publishes plans until `shutdown`, and records Events for the listeners that are reported to fail. While the API cannot
/// be asked the last plan stays. Services of type LoadBalancer are also on `listen_on`, if there is such an address.
///
/// # Cancellation
/// Nothing is left behind when it is dropped.
pub async fn run(
    client: Client,
    node: &str,
    listen_on: Option<IpAddr>,
    plan_tx: watch::Sender<Option<Arc<Plan>>>,
    listeners_rx: watch::Receiver<Listeners>,
    shutdown: CancellationToken,
) {
    let changed = Notify::new();
    let (services, services_writer) = reflector::store::<Service>();
    let (slices, slices_writer) = reflector::store::<EndpointSlice>();
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = follow(client.clone(), services_writer, &changed) => {}
        () = follow(client.clone(), slices_writer, &changed) => {}
        () = publish(&services, &slices, listen_on, &changed, &plan_tx) => {}
        () = balancer::run(&client, &services, listen_on) => {}
        () = address_events::run(Recorder::new(client.clone(), "services", node), &services, listeners_rx) => {}
    }
}

/// Keeps a store of all objects of a kind up to date.
async fn follow<K>(client: Client, writer: reflector::store::Writer<K>, changed: &Notify)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let stream = watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(reflector::reflector(writer, stream));
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::InitDone | watcher::Event::Apply(_) | watcher::Event::Delete(_)) => {
                changed.notify_one();
            }
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
            Err(error) => tracing::debug!(error = &error as &dyn Error, "a watch for Services failed"),
        }
    }
}

/// Publishes the plan of what the stores hold whenever it differs from the last.
async fn publish(
    services: &Store<Service>,
    slices: &Store<EndpointSlice>,
    listen_on: Option<IpAddr>,
    changed: &Notify,
    plan_tx: &watch::Sender<Option<Arc<Plan>>>,
) {
    // A plan from half of the objects would cut off the other half.
    if services.wait_until_ready().await.is_err() || slices.wait_until_ready().await.is_err() {
        return;
    }
    loop {
        let mut plan = translate(&services.state(), &slices.state(), listen_on);
        resolvers::add(&mut plan);
        plan_tx.send_if_modified(|last| {
            if last.as_deref() == Some(&plan) {
                return false;
            }
            *last = Some(Arc::new(plan));
            true
        });
        // The machine's resolvers change without a word.
        let _ = timeout(LOOK, changed.notified()).await;
        sleep(DEBOUNCE).await;
    }
}
