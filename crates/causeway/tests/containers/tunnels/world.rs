//! Tunnel proxies in a testbed whose containers run the real client.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use causeway_api::{
    ContainerNetworkTunnelProxy, ContainerNetworkTunnelProxyStatus, TunnelProxyState, TunnelState,
    TunnelStatus,
    conditions::{self, ConditionType},
};
use causeway_containers::{
    Kind,
    fake::{FakeContainer, Process},
};
use causeway_testkit::eventually;
use causeway_tunnel::{
    Identity,
    client::{self, Client},
};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::servers::{Echo, ask};
use crate::testbed::Testbed;

/// The ContainerNetwork that tunnel proxies use here, and its name in the runtime.
pub const NETWORK: &str = "blue";
const LABEL: &str = "kubernetes.io/service-name";

pub struct World {
    pub bed: Testbed,
    /// Containers start and listen to nobody while this is set.
    pub deaf: Arc<AtomicBool>,
}

/// The process of a container: the real client, in a thread that ends with all its sockets before its drop does.
struct Running {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(container: &FakeContainer) -> Process {
    let (control, data) = (container.ports[&15049], container.ports[&15050]);
    let file = container.files.iter().rev().find(|file| file.path.ends_with("identity.pem")).unwrap();
    let identity = Identity::from_pem(std::str::from_utf8(&file.content).unwrap()).unwrap();
    let options = client::Options { control, data, identity, save_to: None };
    let stop = CancellationToken::new();
    let told = stop.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(told.run_until_cancelled(async {
            Client::bind(options).await.unwrap().run(CancellationToken::new()).await;
        }));
    });
    Box::new(Running { stop, thread: Some(thread) })
}

impl World {
    /// With a network and no tunnel proxy.
    pub async fn start(kind: Kind) -> Self {
        let world = Self::without_network(kind).await;
        world.bed.create(NETWORK, json!({ "networkName": NETWORK })).await;
        world
    }

    pub async fn without_network(kind: Kind) -> Self {
        let mut world = Self::without_operator(kind).await;
        world.bed.start_operator();
        world
    }

    pub async fn without_operator(kind: Kind) -> Self {
        let bed = Testbed::without_operator(kind).await;
        let deaf = Arc::new(AtomicBool::new(false));
        let is_deaf = deaf.clone();
        bed.fake.on_start(move |container| {
            if is_deaf.load(Ordering::SeqCst) || !container.ports.contains_key(&15049) {
                return Box::new(());
            }
            run(container)
        });
        Self { bed, deaf }
    }

    pub async fn end(mut self) {
        self.bed.stop_operator().await;
    }

    pub fn proxies(&self) -> Api<ContainerNetworkTunnelProxy> {
        Api::namespaced(self.bed.client.clone(), "default")
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.bed.client.clone(), "default")
    }

    fn slices(&self) -> Api<EndpointSlice> {
        Api::namespaced(self.bed.client.clone(), "default")
    }

    async fn apply<K>(&self, api: &Api<K>, name: &str, object: Value)
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&object)).await.unwrap();
    }

    /// A Service without selector and without endpoints.
    pub async fn service(&self, name: &str, port: u16) {
        let object = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "ports": [{ "port": port, "protocol": "TCP" }] },
        });
        self.apply(&self.services(), name, object).await;
    }

    pub async fn delete_service(&self, name: &str) {
        self.services().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Says where a Service's server listens, or that it does not.
    pub async fn endpoint(&self, service: &str, port: Option<u16>) {
        let endpoints = match port {
            Some(_) => json!([{ "addresses": ["127.0.0.1"], "conditions": { "ready": true } }]),
            None => json!([{ "addresses": ["127.0.0.1"], "conditions": { "ready": false } }]),
        };
        let object = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": format!("{service}-host"), "labels": { LABEL: service } },
            "addressType": "IPv4", "endpoints": endpoints, "ports": [{ "port": port.unwrap_or(1), "protocol": "TCP" }],
        });
        self.apply(&self.slices(), &format!("{service}-host"), object).await;
    }

    /// A server on the host with its Service, and the Service that containers use: `NAME` and `NAME-in`. The Service's
    /// port is one that a tunnel can have, which the server's own is not on the same machine.
    pub async fn server(&self, name: &str) -> Echo {
        let echo = Echo::start(name).await;
        let port = causeway_testkit::port::free();
        self.service(name, port).await;
        self.endpoint(name, Some(echo.port)).await;
        self.service(&format!("{name}-in"), port).await;
        echo
    }

    pub async fn create_proxy(&self, name: &str, tunnels: &[Value]) -> ContainerNetworkTunnelProxy {
        self.create_proxy_with(name, tunnels, json!({})).await
    }

    pub async fn create_proxy_with(
        &self,
        name: &str,
        tunnels: &[Value],
        more: Value,
    ) -> ContainerNetworkTunnelProxy {
        let mut object = json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "ContainerNetworkTunnelProxy",
            "metadata": { "name": name },
            "spec": { "containerNetworkName": NETWORK, "tunnels": tunnels },
        });
        for (key, value) in more.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        let object = serde_json::from_value(object).unwrap();
        self.proxies().create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn set_tunnels(&self, name: &str, tunnels: &[Value]) {
        let patch = json!({ "spec": { "tunnels": tunnels } });
        self.proxies().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub async fn delete_proxy(&self, name: &str) {
        self.proxies().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn proxy_gone(&self, name: &str) {
        eventually(&format!("{name} is gone"), async || {
            self.proxies().get_opt(name).await.unwrap().is_none()
        })
        .await;
    }

    /// Waits until the status is as it should be.
    pub async fn status(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&ContainerNetworkTunnelProxyStatus) -> bool,
    ) -> ContainerNetworkTunnelProxyStatus {
        eventually(&format!("{name}: {what}"), async || {
            let object = self.proxies().get_opt(name).await.unwrap()?;
            object.status.filter(|status| is_so(status))
        })
        .await
    }

    pub async fn running(&self, name: &str) -> ContainerNetworkTunnelProxyStatus {
        self.status(name, "Running", |now| now.state == Some(TunnelProxyState::Running)).await
    }

    /// Waits until every tunnel carries traffic for the newest spec.
    pub async fn ready(&self, name: &str) -> ContainerNetworkTunnelProxyStatus {
        eventually(&format!("{name}: Ready"), async || {
            let object = self.proxies().get_opt(name).await.unwrap()?;
            let generation = object.metadata.generation.unwrap_or_default();
            let status = object.status?;
            conditions::is_true(&status.conditions, ConditionType::Ready, generation).then_some(status)
        })
        .await
    }

    /// Waits for a condition; gives its message.
    pub async fn condition(&self, name: &str, kind: ConditionType, status: &str, reason: &str) -> String {
        let is_so = |found: &ContainerNetworkTunnelProxyStatus| {
            conditions::find(&found.conditions, kind)
                .is_some_and(|found| found.status == status && found.reason == reason)
        };
        let found = self.status(name, &format!("{kind} {status} {reason}"), is_so).await;
        conditions::find(&found.conditions, kind).unwrap().message.clone()
    }

    /// Waits for a tunnel to have this state.
    pub async fn tunnel(&self, proxy: &str, name: &str, state: TunnelState) -> TunnelStatus {
        let is_so = |now: &ContainerNetworkTunnelProxyStatus| {
            now.tunnel_statuses.iter().any(|one| one.name == name && one.state == Some(state))
        };
        let status = self.status(proxy, &format!("{name} {state:?}"), is_so).await;
        tunnel(&status, name)
    }

    /// The EndpointSlices that lead containers of a Service to tunnels.
    pub async fn slices_of(&self, service: &str) -> Vec<EndpointSlice> {
        let ours = |slice: &EndpointSlice| !slice.name_any().ends_with("-host");
        let list =
            self.slices().list(&ListParams::default().labels(&format!("{LABEL}={service}"))).await.unwrap();
        list.into_iter().filter(ours).collect()
    }

    /// Waits until nobody is sent to a tunnel any more.
    pub async fn no_slices_of(&self, service: &str) {
        eventually(&format!("{service} leads nowhere"), async || self.slices_of(service).await.is_empty())
            .await;
    }

    /// The client's container of a proxy.
    pub fn container(&self, proxy: &ContainerNetworkTunnelProxy) -> Option<FakeContainer> {
        let uid = proxy.uid().unwrap();
        self.bed.fake.container(&format!("causeway-{}-{}", proxy.name_any(), &uid[..8]))
    }
}

/// One tunnel of a status.
pub fn tunnel(status: &ContainerNetworkTunnelProxyStatus, name: &str) -> TunnelStatus {
    status.tunnel_statuses.iter().find(|one| one.name == name).unwrap().clone()
}

/// The port on the container network.
pub fn port(tunnel: &TunnelStatus) -> u16 {
    u16::try_from(tunnel.client_proxy_port.unwrap()).unwrap()
}

/// A tunnel from `NAME-in` to `NAME`.
pub fn to(name: &str) -> Value {
    named(name, name)
}

/// A tunnel of its own name from `SERVER-in` to `SERVER`.
pub fn named(name: &str, server: &str) -> Value {
    json!({ "name": name, "serverServiceName": server, "clientServiceName": format!("{server}-in") })
}

/// Asks until the server of this name answers: what was there before may still be on its way out.
pub async fn answers(port: u16, name: &str) {
    eventually(&format!("{name} on port {port}"), async || ask(port).await.is_ok_and(|found| found == name))
        .await;
}

/// Asks until nobody answers.
pub async fn is_silent(port: u16) {
    eventually(&format!("silence on port {port}"), async || ask(port).await.is_err()).await;
}

/// Whether a process runs.
pub fn is_running(pid: i64) -> bool {
    i32::try_from(pid)
        .is_ok_and(|pid| causeway_containers::Identity::of(pid).is_ok_and(|process| process.is_alive()))
}

/// Ends a process as a crash would.
pub fn kill(pid: i64) {
    signal(pid, Signal::KILL);
}

pub fn signal(process: i64, signal: Signal) {
    rustix::process::kill_process(pid(process), signal).unwrap();
}

fn pid(process: i64) -> Pid {
    Pid::from_raw(i32::try_from(process).unwrap()).unwrap()
}

/// How many descriptors a process has.
pub fn descriptors(process: i64) -> u64 {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count() as u64
}

/// From now on a process may have no more descriptors than this.
pub fn limit_descriptors(process: i64, most: u64) {
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    prlimit(Some(pid(process)), Resource::Nofile, limit).unwrap();
}
