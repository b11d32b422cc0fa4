//! A control plane that uses a daemon of the tests, and a namespace in it. Writes go through kubectl, as a person's
//! do; what is only looked at is read directly, which is quicker.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_api::conditions::{self, ConditionType};
use causeway_api::{
    ContainerNetwork, ContainerNetworkTunnelProxy, ContainerNetworkTunnelProxyStatus, TunnelState,
    TunnelStatus,
};
use causeway_containers::Container;
use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::daemon::Daemon;
use causeway_testkit::kubectl::{Kubectl, Ran, finish};
use causeway_testkit::server::{Server, program};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use tempfile::TempDir;

use crate::bed::{Bed, unique};

pub struct World {
    pub bed: Arc<Bed>,
    pub server: Server,
    pub kubectl: Kubectl,
    client: Client,
    namespace: String,
    root: TempDir,
}

impl World {
    /// A control plane on the daemon that tests share; none where there is no such daemon.
    pub fn start(daemon: Daemon) -> Option<Self> {
        Some(Self::on(Bed::shared(daemon)?))
    }

    /// A control plane on this daemon.
    pub fn on(bed: Arc<Bed>) -> Self {
        Self::with(bed, &[])
    }

    /// The same, with more arguments.
    pub fn with(bed: Arc<Bed>, args: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let server = up(Path::new(program()), &root, &bed, args);
        let namespace = format!("tunnels-{}", unique());
        let kubectl = server.namespace(&namespace);
        let client = bed.block_on(client(&server));
        Self { bed, server, kubectl, client, namespace, root }
    }

    /// Ends the control plane as a crash would.
    pub fn crash(&mut self) {
        self.server.kill();
    }

    /// Asks the control plane to stop, and waits until it has.
    pub fn stop(&mut self) {
        assert!(self.server.stop().success());
    }

    /// Starts it again on what it left.
    pub fn start_again(&mut self) {
        self.start_again_as(Path::new(program()));
    }

    /// The same, with another program.
    pub fn start_again_as(&mut self, program: &Path) {
        self.server = up(program, &self.root, &self.bed, &[]);
        self.kubectl = self.server.namespace(&self.namespace);
        self.client = self.bed.block_on(client(&self.server));
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Asks again and again; a failure shows the object and its log.
    pub fn until(&self, what: &str, holds: impl FnMut() -> bool) {
        self.within(PATIENCE, what, holds);
    }

    pub fn within(&self, limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
        let state = std::fmt::from_fn(|f| f.write_str(&self.all()));
        eventually(what, limit, || if holds() { Ok(()) } else { Err(&state) });
    }

    /// Everything there is to know, for a test that failed.
    fn all(&self) -> String {
        let kinds = "containernetworks,containernetworktunnelproxies,endpointslices";
        self.kubectl.run(&["get", kinds, "-o", "yaml"]).to_string()
    }

    /// Makes a ContainerNetwork and waits for it; the runtime's name for it.
    pub fn network(&self, name: &str, spec: &str) -> String {
        self.kubectl.apply(&network(name, spec)).ok();
        self.until("the network is ready", || {
            let found = self.network_object(name);
            let conditions = found.status.as_ref().map_or(&[][..], |status| &status.conditions);
            conditions::is_true(
                conditions,
                ConditionType::Ready,
                found.metadata.generation.unwrap_or_default(),
            )
        });
        self.network_object(name).status.and_then(|status| status.network_name).unwrap()
    }

    pub fn network_object(&self, name: &str) -> ContainerNetwork {
        self.bed.block_on(self.api::<ContainerNetwork>().get(name)).unwrap()
    }

    pub fn proxy(&self, name: &str) -> ContainerNetworkTunnelProxy {
        self.bed.block_on(self.api::<ContainerNetworkTunnelProxy>().get(name)).unwrap()
    }

    pub fn status(&self, name: &str) -> ContainerNetworkTunnelProxyStatus {
        self.proxy(name).status.unwrap_or_default()
    }

    /// Whether a condition is true for what was applied last.
    pub fn holds(&self, name: &str, kind: ConditionType) -> bool {
        let proxy = self.proxy(name);
        let conditions = proxy.status.as_ref().map_or(&[][..], |status| &status.conditions);
        conditions::is_true(conditions, kind, proxy.metadata.generation.unwrap_or_default())
    }

    /// Reason and message of a condition.
    pub fn why(&self, name: &str, kind: ConditionType) -> String {
        let status = self.status(name);
        let found = conditions::find(&status.conditions, kind);
        found.map_or_else(String::new, |one| format!("{}: {}", one.reason, one.message))
    }

    /// Applies a proxy and waits until it is ready.
    pub fn make(&self, yaml: &str, name: &str) {
        self.kubectl.apply(yaml).ok();
        self.until_ready(name);
    }

    pub fn until_ready(&self, name: &str) {
        self.until("the proxy is ready", || self.holds(name, ConditionType::Ready));
    }

    pub fn tunnel(&self, proxy: &str, name: &str) -> TunnelStatus {
        let statuses = self.status(proxy).tunnel_statuses;
        statuses.into_iter().find(|one| one.name == name).unwrap_or_default()
    }

    pub fn until_tunnel(&self, proxy: &str, name: &str, state: TunnelState) -> TunnelStatus {
        self.until(&format!("tunnel {name} is {state:?}"), || self.tunnel(proxy, name).state == Some(state));
        self.tunnel(proxy, name)
    }

    /// Where a tunnel is on its network.
    pub fn address(&self, proxy: &str, tunnel: &str) -> SocketAddr {
        let status = self.tunnel(proxy, tunnel);
        let ip: IpAddr = status.client_proxy_addresses.first().expect("an address").parse().unwrap();
        SocketAddr::new(ip, u16::try_from(status.client_proxy_port.expect("a port")).unwrap())
    }

    /// The proxy's container.
    pub fn container(&self, proxy: &str) -> Option<Container> {
        self.bed.containers_of(&self.proxy(proxy).uid().unwrap()).into_iter().next()
    }

    /// Addresses and ports of the EndpointSlices of a Service.
    pub fn endpoints(&self, service: &str) -> Vec<(String, i32)> {
        let of = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        let slices = self.bed.block_on(self.api::<EndpointSlice>().list(&of)).unwrap();
        let mut found = Vec::new();
        for slice in slices {
            let port = slice.ports.iter().flatten().find_map(|port| port.port).unwrap_or_default();
            for endpoint in &slice.endpoints {
                if endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false) {
                    found.extend(endpoint.addresses.iter().map(|address| (address.clone(), port)));
                }
            }
        }
        found
    }

    /// Deletes an object and waits until it is gone.
    pub fn delete(&self, object: &str) {
        self.kubectl.ok(&["delete", object, "--timeout=60s"]);
    }

    /// The program under test as a person runs it against this control plane.
    pub fn causeway(&self, args: &[&str]) -> Ran {
        let mut command = std::process::Command::new(program());
        finish(command.args(args).env("KUBECONFIG", self.server.kubeconfig()).env_remove("CAUSEWAY_LOG"))
    }

    pub fn logs(&self, proxy: &str) -> String {
        self.causeway(&["logs", &format!("cntp/{proxy}"), "-n", &self.namespace]).ok()
    }

    /// What is removed with this value.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The process of a proxy's host end.
    pub fn host_end(&self, proxy: &str) -> u32 {
        let process = self.status(proxy).server_proxy_process_id.expect("a host end");
        u32::try_from(process).unwrap()
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Where the controller keeps what it remembers of a proxy.
    pub fn directory(&self, proxy: &str) -> std::path::PathBuf {
        self.server.data_dir().join("tunnels").join(&self.namespace).join(proxy)
    }
}

impl Drop for World {
    /// What a test leaves in the daemon would be in the way of others; the image stays.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {}", self.all());
            return;
        }
        self.kubectl.run(&["delete", "containernetworktunnelproxies", "--all", "--timeout=60s"]);
        self.kubectl.run(&["delete", "containernetworks", "--all", "--timeout=60s"]);
    }
}

fn up(program: &Path, root: &TempDir, bed: &Bed, args: &[&str]) -> Server {
    let runtime = ["--container-runtime", bed.socket.to_str().unwrap()];
    Server::start_program_in(program, root.path(), &[&runtime, args].concat())
}

async fn client(server: &Server) -> Client {
    // The first one stays; others say no.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

pub fn network(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: causeway.dev/v1alpha1\nkind: ContainerNetwork\nmetadata: {{name: {name}}}\nspec: {spec}\n---\n"
    )
}

/// A Service of the host: with a slice that leads to this address.
pub fn server_service(name: &str, address: SocketAddr, protocol: &str) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{ports: [{{port: {port}, protocol: {protocol}}}]}}
---
{}",
        slice(name, address, protocol),
        port = address.port()
    )
}

pub fn slice(service: &str, address: SocketAddr, protocol: &str) -> String {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    format!(
        "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {service}, labels: {{kubernetes.io/service-name: {service}}}}}
addressType: {family}
ports: [{{port: {port}, protocol: {protocol}}}]
endpoints: [{{addresses: ['{ip}'], conditions: {{ready: true}}}}]
---
",
        port = address.port(),
        ip = address.ip()
    )
}

/// A Service for the container network: without a selector.
pub fn client_service(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: 80}}]}}\n---\n"
    )
}

/// One entry of `spec.tunnels`: to the Service `server`, for the Service `NAME-client`.
pub fn tunnel(name: &str, server: &str, more: &str) -> String {
    format!("{{name: {name}, serverServiceName: {server}, clientServiceName: {name}-client{more}}}")
}

/// A proxy, with a client Service for each tunnel.
pub fn proxy(name: &str, network: &str, more: &str, tunnels: &[(&str, &str, &str)]) -> String {
    let services: String =
        tunnels.iter().map(|(name, ..)| client_service(&format!("{name}-client"))).collect();
    let tunnels: Vec<_> = tunnels.iter().map(|(name, server, more)| tunnel(name, server, more)).collect();
    format!(
        "{services}apiVersion: causeway.dev/v1alpha1
kind: ContainerNetworkTunnelProxy
metadata: {{name: {name}}}
spec: {{containerNetworkName: {network}, tunnels: [{}]{more}}}
---
",
        tunnels.join(", ")
    )
}

/// Whether a process runs; one that ended may still be waiting for its parent to take note.
pub fn is_running(pid: i64) -> bool {
    let process = i32::try_from(pid).ok().and_then(|pid| causeway_containers::Identity::of(pid).ok());
    process.is_some_and(|process| process.is_alive())
}
