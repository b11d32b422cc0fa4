//! Pods of other images through the outer door: `causeway up` with real Docker and real Podman, and kubectl.
//! The image is Causeway's own program under another name, built without a registry.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;

use causeway_containers::{Choice, Container, NetworkSpec, Runtime, client_image, labels};
use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::daemon::{Daemon, Testbed};
use causeway_testkit::kubectl::Kubectl;
use causeway_testkit::server::Server;
use causeway_testkit::server::program;
use tokio::runtime::Builder;

const NETWORK: &str = "pods";

/// A daemon with an image and a network in it.
struct Bed {
    testbed: Testbed,
    tokio: tokio::runtime::Runtime,
    runtime: Runtime,
    image: String,
}

impl Bed {
    fn start(daemon: Daemon) -> Option<Self> {
        let testbed = Testbed::start(daemon)?;
        let tokio = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (runtime, image) = tokio.block_on(async {
            // A daemon that has just started may take its time on a busy machine.
            let choice = Choice::Socket(testbed.socket());
            let runtime = causeway_testkit::eventually("the runtime answers", async || {
                Runtime::connect(&choice).await.ok()
            })
            .await;
            let network = NetworkSpec { name: NETWORK.to_owned(), ..NetworkSpec::default() };
            runtime.create_network(&network).await.unwrap();
            let options = client_image::Options {
                binary: PathBuf::from(program()),
                ..client_image::Options::default()
            };
            let image = client_image::ensure(&runtime, &options, |_| {}).await.unwrap();
            (runtime, image)
        });
        Some(Self { testbed, tokio, runtime, image })
    }

    /// `causeway up` that uses this daemon.
    fn up(&self) -> Server {
        Server::start(&["--container-runtime", self.testbed.socket().to_str().unwrap()])
    }

    fn containers(&self) -> Vec<Container> {
        self.tokio.block_on(self.runtime.containers(&[(labels::KIND, "Pod")])).unwrap()
    }

    fn pod(&self, name: &str, more: &str) -> String {
        format!(
            "apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{app: {name}}}
  annotations: {{causeway.dev/networks: {NETWORK}}}
spec:
  terminationGracePeriodSeconds: 5
  volumes:
  - {{name: settings, configMap: {{name: settings}}}}
  - {{name: scratch, emptyDir: {{}}}}
  containers:
  - name: web
    image: {image}
    imagePullPolicy: Never
    args: [echo, --listen, '$(POD_IP):8080', --name, $(WHO)]
    env:
    - {{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}
    - {{name: WHO, valueFrom: {{configMapKeyRef: {{name: settings, key: who}}}}}}
    volumeMounts:
    - {{name: settings, mountPath: /etc/settings, readOnly: true}}
    - {{name: scratch, mountPath: /scratch}}
    ports: [{{name: http, containerPort: 8080}}]
    readinessProbe: {{tcpSocket: {{port: http}}, periodSeconds: 1}}
    livenessProbe: {{exec: {{command: [/causeway, --version]}}, periodSeconds: 1}}
{more}",
            image = self.image
        )
    }
}

const SETTINGS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {who: boxed}\n";

fn ready(kubectl: &Kubectl, pod: &str) {
    eventually("the pod is ready", PATIENCE, || {
        kubectl.value(&format!("pod/{pod}"), ".status.conditions[?(@.type=='Ready')].status") == "True"
    });
}

fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: web\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn a_pod_of_a_local_image_runs_and_is_reached(daemon: Daemon) {
    let Some(bed) = Bed::start(daemon) else { return };
    let server = bed.up();
    let kubectl = server.trusted_namespace("images");
    kubectl.apply(SETTINGS).ok();
    kubectl.apply(&bed.pod("web", "")).ok();
    kubectl
        .apply("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}\n")
        .ok();
    ready(&kubectl, "web");
    let containers = bed.containers();
    assert_eq!(containers.len(), 1);
    let ip = containers[0].networks[NETWORK].ipv4.unwrap().to_string();
    assert_eq!(kubectl.value("pod/web", ".status.podIP"), ip);
    assert!(kubectl.ok(&["logs", "web"]).contains("boxed listening on"));

    let service: SocketAddr =
        format!("{}:80", kubectl.value("service/web", ".spec.clusterIP")).parse().unwrap();
    eventually("the Service leads into the container", PATIENCE, || {
        ask(service).is_ok_and(|answer| answer.contains("boxed"))
    });

    let mut forward = kubectl.command(&["port-forward", "--address=127.0.0.1", "pod/web", ":http"]);
    let mut forward = forward.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(forward.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let local = line.strip_prefix("Forwarding from ").and_then(|line| line.split(' ').next()).unwrap();
    let answered = ask(local.parse().unwrap());
    forward.kill().unwrap();
    forward.wait().unwrap();
    assert!(answered.unwrap().contains("boxed"), "ports of the container are forwarded");

    // The process ends as its stop signal asks, and the pod is started again.
    bed.tokio.block_on(bed.runtime.kill(&containers[0].id, "SIGTERM")).unwrap();
    eventually("the container was started again", PATIENCE, || {
        kubectl.value("pod/web", ".status.containerStatuses[0].restartCount") == "1"
    });
    let code = ".status.containerStatuses[0].lastState.terminated.exitCode";
    assert_eq!(kubectl.value("pod/web", code), "0");
    assert!(kubectl.ok(&["logs", "web", "--previous"]).contains("boxed listening on"));
    ready(&kubectl, "web");

    kubectl.ok(&["delete", "pod", "web", "--timeout=60s"]);
    assert_eq!(bed.containers(), [], "the container went with its pod");
}

fn a_missing_image_and_a_missing_network_say_so(daemon: Daemon) {
    let Some(bed) = Bed::start(daemon) else { return };
    let server = bed.up();
    let kubectl = server.trusted_namespace("missing");
    kubectl.apply(SETTINGS).ok();
    kubectl.apply(&bed.pod("image", "").replace(&bed.image, "causeway-no-such-image:1")).ok();
    kubectl.apply(&bed.pod("network", "").replace(NETWORK, "no-such-network")).ok();
    let waits = |pod: &str, reason: &str, words: &str| {
        eventually(&format!("{pod} waits because of {reason}"), PATIENCE, || {
            let state = kubectl.value(&format!("pod/{pod}"), ".status.containerStatuses[0].state.waiting");
            state.contains(reason) && state.contains(words)
        });
    };
    waits("image", "ErrImageNeverPull", "causeway-no-such-image:1");
    waits("network", "RunContainerError", "no-such-network");
    assert_eq!(bed.containers(), [], "what could not start is not left behind");
    kubectl.ok(&["delete", "pod", "image", "network", "--timeout=60s"]);
}

fn a_pod_comes_back_after_the_runtime_was_restarted(daemon: Daemon) {
    let Some(mut bed) = Bed::start(daemon) else { return };
    let server = bed.up();
    let kubectl = server.trusted_namespace("restart");
    kubectl.apply(SETTINGS).ok();
    kubectl.apply(&bed.pod("web", "")).ok();
    ready(&kubectl, "web");
    bed.testbed.restart();
    eventually("the pod is ready and its container runs", PATIENCE, || {
        let running = bed.containers().iter().filter(|container| container.is_running()).count();
        let status = kubectl.value("pod/web", ".status.conditions[?(@.type=='Ready')].status");
        running == 1 && status == "True"
    });
    let ip = kubectl.value("pod/web", ".status.podIP");
    eventually("it answers at the address that its status tells", PATIENCE, || {
        let ip = kubectl.value("pod/web", ".status.podIP");
        ask(format!("{ip}:8080").parse().unwrap()).is_ok_and(|answer| answer.contains("boxed"))
    });
    assert!(!ip.is_empty());
    kubectl.ok(&["delete", "pod", "web", "--timeout=60s"]);
    assert_eq!(bed.containers(), []);
}

macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod docker {$(
            #[test]
            fn $name() {
                super::$name(super::Daemon::Docker);
            }
        )+}

        mod podman {$(
            #[test]
            fn $name() {
                super::$name(super::Daemon::Podman);
            }
        )+}
    };
}

on_both!(
    a_pod_of_a_local_image_runs_and_is_reached,
    a_missing_image_and_a_missing_network_say_so,
    a_pod_comes_back_after_the_runtime_was_restarted,
);
