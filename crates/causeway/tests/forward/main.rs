//! Port-forward as kube-rs speaks it (`v4.channel.k8s.io`), against the built program. What listens in the pod beside its
//! own process are listeners of the test on the pod's address.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::Ipv4Addr;

use causeway_testkit::eventually;
use causeway_testkit::server::Server;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A control plane with one pod, which answers HTTP on 8080.
struct World {
    server: Server,
    pods: Api<Pod>,
    address: Ipv4Addr,
}

impl World {
    async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let server = Server::start(&["--no-operator"]);
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let pods: Api<Pod> = Api::default_namespaced(Client::try_from(config).unwrap());
        let container = json!({
            "name": "echo", "image": "causeway.dev/causeway:1",
            "args": ["echo", "--listen", "$(POD_IP):8080", "--name", "the-pod"],
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        });
        let pod = json!({
            "metadata": {"name": "web"},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let address = eventually("the pod is ready", async || {
            let status = pods.get("web").await.unwrap().status.unwrap_or_default();
            let is_ready =
                status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
            status.pod_ip.filter(|_| is_ready).and_then(|ip| ip.parse().ok()).ok_or("not ready")
        })
        .await;
        Self { server, pods, address }
    }

    /// Listens in the pod.
    async fn listen(&self) -> (TcpListener, u16) {
        let listener = TcpListener::bind((self.address, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// Descriptors of the control plane.
    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.server.pid())).unwrap().count()
    }
}

async fn copy_back(stream: TcpStream) {
    let (mut from, mut to) = stream.into_split();
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ports_carry_a_lot_both_ways() {
    let world = World::start().await;
    let (listener, port) = world.listen().await;
    tokio::spawn(async move { copy_back(listener.accept().await.unwrap().0).await });
    let mut forward = world.pods.portforward("web", &[8080, port]).await.unwrap();

    let mut http = forward.take_stream(8080).unwrap();
    http.write_all(b"GET / HTTP/1.1\r\nhost: web\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("the-pod") {
        assert_ne!(http.read_buf(&mut answer).await.unwrap(), 0, "{}", String::from_utf8_lossy(&answer));
    }

    const ALL: usize = 16 * 1024 * 1024;
    let pattern: Vec<u8> = (0..ALL).map(|at| (at / 977) as u8).collect();
    let (mut reader, mut writer) = tokio::io::split(forward.take_stream(port).unwrap());
    let mut back = vec![0; ALL];
    let (written, read) = tokio::join!(writer.write_all(&pattern), reader.read_exact(&mut back));
    written.unwrap();
    read.unwrap();
    assert!(back == pattern);
    drop((http, reader, writer));
    forward.join().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_pods_side_is_the_end_of_the_stream() {
    let world = World::start().await;
    let (listener, port) = world.listen().await;
    let mut forward = world.pods.portforward("web", &[port]).await.unwrap();
    let (mut pod, _) = listener.accept().await.unwrap();
    pod.write_all(b"that is all").await.unwrap();
    drop(pod);
    let mut said = String::new();
    forward.take_stream(port).unwrap().read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "that is all");

    // The other way: what was written before the client left arrives.
    let mut forward = world.pods.portforward("web", &[port]).await.unwrap();
    let (mut pod, _) = listener.accept().await.unwrap();
    let mut stream = forward.take_stream(port).unwrap();
    stream.write_all(&vec![7; 500_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    drop(stream);
    let mut received = Vec::new();
    pod.read_to_end(&mut received).await.unwrap();
    assert_eq!(received.len(), 500_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_forwarded_is_said() {
    let world = World::start().await;
    let (listener, port) = world.listen().await;
    drop(listener);
    let mut forward = world.pods.portforward("web", &[port]).await.unwrap();
    let why = forward.take_error(port).unwrap().await.unwrap();
    let expected = format!("cannot connect to {}:{port}: Connection refused", world.address);
    assert!(why.starts_with(&format!("error forwarding port {port} to pod web, uid ")), "{why}");
    assert!(why.contains(&expected), "{why}");

    let missing = world.pods.portforward("none", &[80]).await.err().expect("there is no such pod");
    assert!(missing.to_string().contains("404"), "{missing}");
    let waiting = json!({"metadata": {"name": "waiting"}, "spec": {"containers": [{"name": "c", "image": "causeway.dev/causeway:1", "args": ["up"]}]}});
    world.pods.create(&PostParams::default(), &serde_json::from_value(waiting).unwrap()).await.unwrap();
    let waiting = world.pods.portforward("waiting", &[80]).await.err().expect("it does not run");
    assert!(waiting.to_string().contains("400"), "{waiting}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_leave_nothing_behind() {
    let world = World::start().await;
    let (listener, port) = world.listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(copy_back(stream));
        }
    });
    let before = world.descriptors();
    for round in 0..40 {
        let mut forward = world.pods.portforward("web", &[port]).await.unwrap();
        let mut stream = forward.take_stream(port).unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut back = [0; 5];
        stream.read_exact(&mut back).await.unwrap();
        // Some leave in order, some just go.
        if round % 2 == 0 {
            drop(stream);
            forward.join().await.unwrap();
        } else {
            forward.abort();
        }
    }
    eventually("all descriptors are given back", async || {
        let now = world.descriptors();
        if now <= before + 3 { Ok(()) } else { Err(format!("{before} before, {now} now")) }
    })
    .await;
    world.pods.delete("web", &DeleteParams::default()).await.unwrap();
}
