//! `causeway doctor` of tunnel proxies, container networks and Infras: a test for each way in which one is not well.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;

use causeway_containers::fake::Fake;
use causeway_containers::{ContainerSpec, Kind, NetworkSpec, labels};
use causeway_testkit::kubectl::{Kubectl, Ran, finish};
use causeway_testkit::server::{Server, program};
use serde_json::{Value, json};

/// A control plane without controllers, so that everything can be as a test wants it, and a runtime.
struct World {
    server: Server,
    kubectl: Kubectl,
    fake: Fake,
    /// What the tunnel's server is.
    program: TcpListener,
}

impl World {
    fn start() -> Self {
        let server = Server::start(&["--no-node", "--no-operator"]);
        let kubectl = server.namespace("default");
        let program = TcpListener::bind("127.0.0.1:0").unwrap();
        Self { server, kubectl, fake: Fake::start(Kind::Docker), program }
    }

    fn doctor(&self, object: &str) -> Ran {
        let mut command = Command::new(program());
        command.args(["doctor", object, "--container-runtime"]).arg(self.fake.socket());
        finish(command.env("KUBECONFIG", self.server.kubeconfig()))
    }

    fn apply(&self, object: &Value) {
        self.kubectl.apply(&object.to_string()).ok();
    }

    fn status(&self, object: &str, status: &Value) {
        let patch = json!({"status": status}).to_string();
        self.kubectl.ok(&["patch", object, "--subresource=status", "--type", "merge", "-p", &patch]);
    }

    /// A ContainerNetwork that is ready, and the network in the runtime.
    async fn network(&self) {
        self.apply(&json!({"apiVersion": "causeway.dev/v1alpha1", "kind": "ContainerNetwork",
            "metadata": {"name": "app"}, "spec": {}}));
        let ready = condition("Ready", "True", "there");
        let status = json!({"observedGeneration": 1, "networkName": "app-1", "conditions": [ready]});
        self.status("containernetwork/app", &status);
        let spec = NetworkSpec { name: "app-1".into(), ..NetworkSpec::default() };
        self.fake.connect().await.create_network(&spec).await.unwrap();
    }

    /// A tunnel proxy that is ready, but for what a test does to it.
    fn tunnel(&self) {
        let port = self.program.local_addr().unwrap().port();
        for name in ["on-host", "for-containers"] {
            self.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                "spec": {"ports": [{"port": port}]}}));
        }
        self.slice("on-host", "127.0.0.1");
        self.slice("for-containers", "172.20.0.2");
        self.apply(&json!({
            "apiVersion": "causeway.dev/v1alpha1", "kind": "ContainerNetworkTunnelProxy", "metadata": {"name": "to-host"},
            "spec": {"containerNetworkName": "app", "tunnels": [
                {"name": "api", "serverServiceName": "on-host", "clientServiceName": "for-containers"}]},
        }));
        let conditions =
            [condition("LinkUp", "True", "both ends talk"), condition("Ready", "True", "1 of 1")];
        let tunnel = json!({"name": "api", "state": "Ready", "clientProxyAddresses": ["172.20.0.2"],
            "clientProxyPort": port});
        self.status(
            "cntp/to-host",
            &json!({"observedGeneration": 1, "conditions": conditions, "tunnelStatuses": [tunnel]}),
        );
    }

    fn slice(&self, service: &str, address: &str) {
        let port = self.program.local_addr().unwrap().port();
        self.apply(&json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
            "ports": [{"port": port}], "endpoints": [{"addresses": [address]}],
        }));
    }

    /// The client's container.
    async fn container(&self) -> String {
        self.fake.add_image("client");
        let uid = self.kubectl.value("cntp/to-host", ".metadata.uid");
        let labels = BTreeMap::from([(labels::OWNER.to_owned(), uid)]);
        let spec = ContainerSpec {
            name: "client-1".into(),
            image: "client".into(),
            labels,
            ..ContainerSpec::default()
        };
        let runtime = self.fake.connect().await;
        let id = runtime.create(&spec).await.unwrap();
        runtime.start(&id).await.unwrap();
        id
    }
}

fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "Told", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// What is wrong is this and nothing else, and the last line says what to do about it.
fn blames(ran: &Ran, what: &str, cure: &str) {
    let wrong: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with('✗')).collect();
    assert_eq!(wrong.len(), 1, "{ran}");
    assert!(wrong[0].contains(what), "{what}: {ran}");
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("1 thing is wrong; begin with this: ") && last.contains(cure), "{cure}: {ran}");
    assert_eq!(ran.code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_proxy() {
    let world = World::start();
    blames(
        &world.doctor("cntp/to-host"),
        "there is no ContainerNetworkTunnelProxy default/to-host",
        "create it",
    );
    world.tunnel();
    blames(&world.doctor("cntp/to-host"), "there is no ContainerNetwork default/app", "create it");
    world.network().await;
    blames(&world.doctor("cntp/to-host"), "its container is not there", "causeway logs cntp/to-host");
    let id = world.container().await;
    let well = world.doctor("cntp/to-host");
    assert_eq!(well.code, Some(0), "{well}");
    for line in [
        "✓ Docker answers on",
        "✓ ContainerNetwork default/app is ready",
        "✓ Docker has the network app-1",
        "✓ container client-1 runs",
        "✓ the link is up: both ends talk",
        "✓ tunnel api: something listens on 127.0.0.1:",
        "✓ tunnel api: Service default/for-containers leads to 172.20.0.2",
        "✓ tunnel api carries traffic from 172.20.0.2",
        "nothing is wrong with ContainerNetworkTunnelProxy default/to-host",
    ] {
        assert!(well.stdout.contains(line), "lacks {line}: {well}");
    }

    world.fake.exit(&id, 1);
    blames(&world.doctor("cntp/to-host"), "container client-1 is Exited", "docker logs client-1");
    world.fake.connect().await.start(&id).await.unwrap();
    world.fake.drop_network("app-1");
    blames(&world.doctor("cntp/to-host"), "Docker has no network app-1", "the control plane makes it again");
    let spec = NetworkSpec { name: "app-1".into(), ..NetworkSpec::default() };
    world.fake.connect().await.create_network(&spec).await.unwrap();

    let unavailable = condition("RuntimeAvailable", "False", "no container runtime answers: start Docker");
    world.status("cntp/to-host", &json!({"conditions": [unavailable]}));
    blames(&world.doctor("cntp/to-host"), "no container runtime answers the control plane", "start Docker");
    world.status("cntp/to-host", &json!({"conditions": [condition("LinkUp", "False", "no beat for 5 s")]}));
    blames(&world.doctor("cntp/to-host"), "the link is not up (Told)", "no beat for 5 s");
    world.status("cntp/to-host", &json!({"conditions": [condition("LinkUp", "True", "both ends talk")]}));

    world.slice("on-host", "127.0.0.9");
    blames(&world.doctor("cntp/to-host"), "nothing listens on 127.0.0.9:", "start the program there");
    world.kubectl.ok(&["delete", "endpointslice", "on-host"]);
    let cure = "write an EndpointSlice with the label kubernetes.io/service-name: on-host";
    blames(&world.doctor("cntp/to-host"), "Service default/on-host has no ready endpoint", cure);
    world.slice("on-host", "127.0.0.1");
    world.kubectl.ok(&["delete", "endpointslice", "for-containers"]);
    blames(
        &world.doctor("cntp/to-host"),
        "for-containers does not lead to 172.20.0.2",
        "writes its EndpointSlice",
    );
    world.kubectl.ok(&["delete", "service", "for-containers"]);
    blames(&world.doctor("cntp/to-host"), "there is no Service default/for-containers", "without a selector");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_network() {
    let world = World::start();
    blames(&world.doctor("containernetwork/app"), "there is no ContainerNetwork default/app", "create it");
    world.network().await;
    let well = world.doctor("containernetwork/app");
    assert!(well.stdout.contains("✓ Docker has the network app-1"), "{well}");
    assert_eq!(well.code, Some(0), "{well}");
    world.fake.drop_network("app-1");
    blames(&world.doctor("containernetwork/app"), "Docker has no network app-1", "makes it again");
}

#[test]
fn an_infra_says_which_parts_are_not_there_yet() {
    let server = Server::start(&["--no-node"]);
    let kubectl = server.namespace("clusters");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/samples/infra-minimal.yaml");
    kubectl.ok(&["apply", "-f", sample]);
    for child in ["proxyserver/my-cluster-proxy", "dnsserver/my-cluster-dns", "dhcpserver/my-cluster-dhcp"] {
        let said = format!("{child} has conditions");
        causeway_testkit::blocking::eventually(&said, causeway_testkit::PATIENCE, || {
            kubectl.run(&["get", child, "-o", "yaml"]).stdout.contains("type: Ready")
        });
    }
    let mut command = Command::new(program());
    command.args(["doctor", "infra/my-cluster", "-n", "clusters"]).env("KUBECONFIG", server.kubeconfig());
    let ran = finish(&mut command);
    assert_eq!(ran.code, Some(1), "{ran}");
    for line in [
        "✓ the spec is valid, with 6 backends",
        "- DNSServer my-cluster-dns is not ready",
        "- DHCPServer my-cluster-dhcp is not ready",
        "there is no NetworkAttachmentDefinition clusters/vlan-100: create it",
    ] {
        assert!(ran.stdout.contains(line), "lacks {line}: {ran}");
    }
}
