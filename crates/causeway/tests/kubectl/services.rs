//! The addresses of Services, and programs of this machine in place of images.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::{Kubectl, finish};
use causeway_testkit::server::Server;

use crate::peer::{need_kubectl, shared};

/// Pods that all listen on 8080, each on its own address, and say their names; they leave slowly enough to be noticed.
fn deployment(replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: echo
        image: causeway.dev/causeway:1
        args: [echo, --listen, '$(POD_IP):8080', --name, $(POD_NAME)]
        env:
        - {{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}
        - {{name: POD_NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
        ports: [{{name: http, containerPort: 8080}}]
        readinessProbe: {{tcpSocket: {{port: http}}, periodSeconds: 1}}
        lifecycle: {{preStop: {{sleep: {{seconds: 3}}}}}}
"
    )
}

fn service(name: &str, port: u16, more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{name: http, port: {port}, targetPort: http}}]{more}}}\n"
    )
}

/// A port that nothing on this machine has at this moment.
fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

fn address(kubectl: &Kubectl, service: &str, port: u16) -> SocketAddr {
    let ip = kubectl.value(&format!("service/{service}"), ".spec.clusterIP");
    SocketAddr::new(ip.parse().unwrap(), port)
}

/// The name of the pod that answers.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: web\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?.1;
    Ok(body.lines().next().unwrap_or_default().to_owned())
}

/// Waits until this many pods answer in turn, and no other.
fn answered_by(address: SocketAddr, count: usize) {
    eventually(&format!("{count} pods answer in turn"), PATIENCE, || {
        let names: BTreeSet<String> = (0..count * 2).filter_map(|_| ask(address).ok()).collect();
        names.len() == count
    });
}

#[test]
fn a_service_balances_over_its_pods_and_follows_them() {
    let kubectl = shared().namespace("services-balance");
    let port = free_port();
    kubectl.apply(&format!("{}---\n{}", deployment(2), service("web", port, ", selector: {app: web}"))).ok();
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let pods = kubectl.ok(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"]);
    let pods: BTreeSet<&str> = pods.split_whitespace().collect();
    assert_eq!(pods.len(), 2, "each has an address of its own: {pods:?}");
    let web = address(&kubectl, "web", port);
    answered_by(web, 2);
    let curl = finish(Command::new("curl").args(["-sS", "--max-time", "20", &format!("http://{web}/hello")]));
    assert!(curl.ok().contains("GET /hello HTTP/1.1"));

    let (stop, failed) = (AtomicBool::new(false), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if let Err(error) = ask(web) {
                    failed.lock().unwrap().push(error.to_string());
                }
            }
        });
        kubectl.ok(&["scale", "deployment/web", "--replicas=3"]);
        answered_by(web, 3);
        kubectl.ok(&["scale", "deployment/web", "--replicas=1"]);
        eventually("two pods are gone", PATIENCE, || {
            kubectl.ok(&["get", "pods", "-o", "name"]).lines().count() == 1
        });
        answered_by(web, 1);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(*failed.lock().unwrap(), Vec::<String>::new(), "requests while scaling");

    kubectl.ok(&["delete", "service", "web"]);
    eventually("its address is closed", PATIENCE, || TcpStream::connect(web).is_err());
}

#[test]
fn a_service_without_selector_leads_to_hand_made_endpoints_by_tcp_and_udp() {
    let kubectl = shared().namespace("services-by-hand");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    let port = free_port();
    kubectl
        .apply(&format!(
            "apiVersion: v1
kind: Service
metadata: {{name: host}}
spec:
  type: NodePort
  ports: [{{name: tcp, port: {port}}}, {{name: udp, port: {port}, protocol: UDP}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: host-1, labels: {{kubernetes.io/service-name: host}}}}
addressType: IPv4
ports: [{{name: tcp, port: {tcp_port}}}, {{name: udp, port: {udp_port}, protocol: UDP}}]
endpoints: [{{addresses: [127.0.0.1]}}]
"
        ))
        .ok();
    std::thread::spawn(move || {
        for stream in tcp.incoming() {
            let _ = stream.unwrap().write_all(b"from the host");
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = udp.recv_from(&mut buffer) {
            let _ = udp.send_to(&buffer[..length], from);
        }
    });
    let host = address(&kubectl, "host", port);
    let node_port: u16 = kubectl.value("service/host", ".spec.ports[0].nodePort").parse().unwrap();
    for address in [host, SocketAddr::from(([127, 0, 0, 1], node_port))] {
        eventually("the host's server answers", PATIENCE, || {
            let mut said = String::new();
            let read = TcpStream::connect(address).and_then(|mut stream| stream.read_to_string(&mut said));
            read.is_ok() && said == "from the host"
        });
    }
    let udp_port: u16 = kubectl.value("service/host", ".spec.ports[1].nodePort").parse().unwrap();
    for address in [host, SocketAddr::from(([127, 0, 0, 1], udp_port))] {
        answers_datagrams(address);
    }
}

/// Waits until a datagram comes back from where it was sent to.
fn answers_datagrams(address: SocketAddr) {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    eventually(&format!("datagrams come back from {address}"), PATIENCE, || {
        let mut buffer = [0; 16];
        client.send_to(b"ping", address).is_ok()
            && client.recv_from(&mut buffer).is_ok_and(|(n, from)| buffer[..n] == *b"ping" && from == address)
    });
}

#[test]
fn node_ports_are_beyond_loopback_when_asked_for() {
    need_kubectl();
    // An address that stands for one of the machine's network cards.
    let outside = "127.77.2.5";
    let server = Server::start(&["--no-operator", "--listen-on", outside]);
    let kubectl = server.kubectl();
    kubectl.apply(&deployment(1)).ok();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_port = udp.local_addr().unwrap().port();
    let port = free_port();
    // Those that are given out are also another control plane's on this machine.
    let (web_port, datagram_port) = (32_301, 32_302);
    let ports = format!("[{{name: http, port: {port}, targetPort: http, nodePort: {web_port}}}]");
    kubectl
        .apply(&format!(
            "apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{type: NodePort, selector: {{app: web}}, ports: {ports}}}
---
apiVersion: v1
kind: Service
metadata: {{name: datagrams}}
spec: {{type: NodePort, ports: [{{port: {port}, protocol: UDP, nodePort: {datagram_port}}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: datagrams-1, labels: {{kubernetes.io/service-name: datagrams}}}}
addressType: IPv4
ports: [{{name: '', port: {udp_port}, protocol: UDP}}]
endpoints: [{{addresses: [127.0.0.1]}}]
"
        ))
        .ok();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = udp.recv_from(&mut buffer) {
            let _ = udp.send_to(&buffer[..length], from);
        }
    });
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    for host in [outside, "127.0.0.1"] {
        answered_by(format!("{host}:{web_port}").parse().unwrap(), 1);
        answers_datagrams(format!("{host}:{datagram_port}").parse().unwrap());
    }
}

#[test]
fn an_address_that_is_taken_is_told_on_the_service_and_used_once_it_is_free() {
    let kubectl = shared().namespace("services-taken");
    let taken = TcpListener::bind("127.96.211.7:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    kubectl.apply(&service("web", port, ", clusterIP: 127.96.211.7")).ok();
    let events = || kubectl.ok(&["events", "--for", "service/web"]);
    eventually("an Event says what is wrong", PATIENCE, || events().contains("AddressNotAvailable"));
    let said = events();
    assert!(
        said.contains(&format!("can't listen on 127.96.211.7:{port}: another process listens there")),
        "{said}"
    );
    drop(taken);
    eventually("an Event says that it works", PATIENCE, || events().contains("AddressAvailable"));
    TcpStream::connect(("127.96.211.7", port)).unwrap();
}

#[test]
fn the_kubernetes_service_leads_to_the_api_server() {
    let kubectl = shared().kubectl();
    eventually("it answers, or says why its port can't be had", PATIENCE, || {
        let asked =
            finish(Command::new("curl").args(["-sSk", "--max-time", "20", "https://127.96.0.1:443/livez"]));
        // Without privileges, or beside another control plane, nobody can have it.
        asked.stdout == "ok"
            || kubectl
                .ok(&["events", "--for", "service/kubernetes"])
                .contains("can't listen on 127.96.0.1:443")
    });
}

#[test]
fn an_image_runs_as_a_program_of_this_machine() {
    need_kubectl();
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("tool");
    std::fs::write(
        &program,
        "#!/bin/sh\necho \"$1 $3\"; cat \"$2\"; touch \"$4/state\" && echo kept; exec sleep 600\n",
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(&[
        "--in-memory",
        "--no-operator",
        "--program",
        &format!("example.test/tool={}", program.display()),
    ]);
    let kubectl = server.kubectl();
    kubectl
        .apply(
            "apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {bootstrap.json: '{\"hello\": 1}'}
---
apiVersion: v1
kind: Pod
metadata: {name: tool}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: '0'}]}
  containers:
  - name: tool
    image: example.test/tool:v1
    command: [/usr/local/bin/tool]
    args: [-c, /etc/tool/bootstrap.json, --state-dir, /var/lib/tool]
    securityContext: {capabilities: {add: [NET_BIND_SERVICE], drop: [ALL]}, runAsNonRoot: true, runAsUser: 65532}
    volumeMounts: [{name: config, mountPath: /etc/tool}, {name: state, mountPath: /var/lib/tool}]
  volumes: [{name: config, configMap: {name: config}}, {name: state, emptyDir: {}}]
",
        )
        .ok();
    let waiting = ".status.containerStatuses[0].state.waiting.message";
    eventually("an untrusted namespace gets no program of the machine", PATIENCE, || {
        let said = kubectl.value("pod/tool", waiting);
        said.contains("is a program of this machine") && said.contains("kubectl label namespace default")
    });
    kubectl.trust();
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/tool", "--timeout=60s"]);
    eventually("it read its arguments, its file and wrote its state", PATIENCE, || {
        kubectl.ok(&["logs", "tool"]) == "-c --state-dir\n{\"hello\": 1}kept\n"
    });
    assert!(server.log().contains("services  on (127.96.0.0/16)"), "{}", server.log());
}
