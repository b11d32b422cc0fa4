//! `kubectl port-forward`, in the two protocols that it has spoken: SPDY inside of a WebSocket, and SPDY alone, which older ones
//! speak and newer ones fall back to. What listens in a pod is often a listener of the test on the pod's address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::kubectl::Kubectl;
use causeway_testkit::server::Server;

use crate::peer::{need_kubectl, shared};
use crate::tenants::Tenant;

const PROTOCOLS: [&str; 2] = ["true", "false"];

/// A pod that answers HTTP on 8080, and says its name.
const WEB: &str = "apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: echo
    image: causeway.dev/causeway:1
    args: [echo, --listen, '$(POD_IP):8080', --name, the-pod]
    env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {tcpSocket: {port: http}, periodSeconds: 1}
";

/// Makes that pod; its address.
fn make_pod(kubectl: &Kubectl) -> Ipv4Addr {
    kubectl.apply(WEB).ok();
    kubectl.ok(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]);
    kubectl.value("pod/web", ".status.podIP").parse().unwrap()
}

/// Listens in the pod; its port.
fn listen(pod: Ipv4Addr, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((pod, 0)).unwrap();
    let (port, serve) = (listener.local_addr().unwrap().port(), Arc::new(serve));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    port
}

/// Reads everything, and only then says it again.
fn answer_at_the_end(mut stream: TcpStream) {
    let mut said = Vec::new();
    if stream.read_to_end(&mut said).is_ok() {
        let _ = stream.write_all(&said);
    }
}

/// A running `kubectl port-forward`.
struct Forward {
    child: Child,
    /// The ports of this machine, in the order of the arguments.
    ports: Vec<u16>,
    said: Arc<Mutex<String>>,
}

impl Forward {
    fn start(kubectl: &Kubectl, websockets: &str, args: &[&str]) -> Self {
        let all = [&["port-forward", "--address=127.0.0.1"], args].concat();
        let mut child = kubectl
            .command(&all)
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said: Arc<Mutex<String>> = Arc::default();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let complaints = said.clone();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                complaints.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ports = Vec::new();
        while ports.len() < args.len() - 1 {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended: {}", said.lock().unwrap());
            let from = line.strip_prefix("Forwarding from ").and_then(|line| line.split(' ').next());
            ports.extend(from.map(|from| from.parse::<SocketAddr>().unwrap().port()));
        }
        // It says a line for every connection, and must not wait for somebody to read it.
        thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Self { child, ports, said }
    }

    fn connect(&self, index: usize) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.ports[index])).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What HTTP says through the port at this place.
fn get(forward: &Forward, index: usize) -> String {
    let mut stream = forward.connect(index);
    stream.write_all(b"GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Says something, says that it is all, and hears the answer.
fn talk(forward: &Forward, index: usize, bytes: &[u8]) -> Vec<u8> {
    let mut stream = forward.connect(index);
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn several_ports_and_many_connections_at_once() {
    let kubectl = shared().namespace("forward-many");
    let raw = listen(make_pod(&kubectl), answer_at_the_end);
    for websockets in PROTOCOLS {
        let forward = Forward::start(&kubectl, websockets, &["pod/web", ":http", &format!(":{raw}")]);
        assert!(get(&forward, 0).contains("the-pod"), "{websockets}");
        assert_eq!(talk(&forward, 1, b""), b"");
        thread::scope(|scope| {
            for number in 0..24_u8 {
                let forward = &forward;
                scope.spawn(move || {
                    let long: Vec<u8> = (0..200_000_u32).map(|byte| (byte as u8) ^ number).collect();
                    assert!(talk(forward, 1, &long) == long, "{number}");
                    assert!(get(forward, 0).contains("the-pod"), "{number}");
                });
            }
        });
        assert_eq!(forward.said(), "", "{websockets}");
    }
}

#[test]
fn a_lot_goes_both_ways_at_once() {
    let kubectl = shared().namespace("forward-much");
    let echo = listen(make_pod(&kubectl), |mut stream| {
        let mut other = stream.try_clone().unwrap();
        let _ = std::io::copy(&mut stream, &mut other);
    });
    const ALL: usize = 32 * 1024 * 1024;
    for websockets in PROTOCOLS {
        let forward = Forward::start(&kubectl, websockets, &["pod/web", &format!(":{echo}")]);
        let mut stream = forward.connect(0);
        let mut writer = stream.try_clone().unwrap();
        let pattern: Vec<u8> = (0..ALL).map(|at| (at / 977) as u8).collect();
        thread::scope(|scope| {
            scope.spawn(|| {
                writer.write_all(&pattern).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            let mut back = Vec::with_capacity(ALL);
            stream.read_to_end(&mut back).unwrap();
            assert!(back == pattern, "{websockets}: {} bytes came back", back.len());
        });
    }
}

#[test]
fn a_closed_port_is_said_and_a_connection_that_breaks_costs_itself_alone() {
    let kubectl = shared().namespace("forward-closed");
    let pod = make_pod(&kubectl);
    let closed = TcpListener::bind((pod, 0)).unwrap().local_addr().unwrap().port();
    // Whoever sends more than it reads is reset at the end.
    let rude = listen(pod, |mut stream| {
        let _ = stream.read(&mut [0; 1]);
    });
    for websockets in PROTOCOLS {
        let forward = Forward::start(
            &kubectl,
            websockets,
            &["pod/web", &format!(":{rude}"), ":8080", &format!(":{closed}")],
        );
        for _ in 0..3 {
            let mut stream = forward.connect(0);
            stream.write_all(b"more than one byte").unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
            assert!(get(&forward, 1).contains("the-pod"));
        }
        assert_eq!(forward.said(), "", "{websockets}");
        let mut stream = forward.connect(2);
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
        let uid = kubectl.value("pod/web", ".metadata.uid");
        let why = format!(
            "error forwarding port {closed} to pod web, uid {uid}: cannot connect to {pod}:{closed}: Connection refused"
        );
        eventually("kubectl says why", PATIENCE, || {
            if forward.said().contains(&why) { Ok(()) } else { Err(forward.said()) }
        });
    }
}

#[test]
fn a_service_and_a_deployment_lead_to_their_pods() {
    let kubectl = shared().namespace("forward-service");
    make_pod(&kubectl);
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: front}\nspec: {selector: {app: web}, ports: [{name: web, port: 80, targetPort: http}]}\n";
    kubectl.apply(service).ok();
    for (target, port) in [("service/front", ":80"), ("service/front", ":web"), ("web", ":http")] {
        let forward = Forward::start(&kubectl, "true", &[target, port]);
        assert!(get(&forward, 0).contains("the-pod"), "{target} {port}");
    }
}

#[test]
fn a_pod_that_does_not_run_has_no_ports() {
    let kubectl = shared().namespace("forward-waiting");
    let waiting = "apiVersion: v1\nkind: Pod\nmetadata: {name: waiting}\nspec: {containers: [{name: c, image: 'causeway.dev/causeway:1', args: [up]}]}\n";
    kubectl.apply(waiting).ok();
    let ask = |path: &str| kubectl.fails(&["get", "--raw", path]);
    eventually("it is on the node", PATIENCE, || !kubectl.value("pod/waiting", ".spec.nodeName").is_empty());
    let path = |pod: &str| format!("/api/v1/namespaces/forward-waiting/pods/{pod}/portforward?ports=80");
    assert!(ask(&path("none")).contains("pods \"none\" not found"));
    assert!(ask(&path("waiting")).contains("Upgrade request required"));
    let said = kubectl.fails(&["port-forward", "pod/waiting", ":80"]);
    assert!(said.contains("pod is not running. Current status=Pending"), "{said}");
}

#[test]
fn forwarding_needs_a_right_of_its_own() {
    let tenant = Tenant::new("forward-rights");
    make_pod(&tenant.kubectl);
    for websockets in PROTOCOLS {
        let forward = Forward::start(&tenant.kubectl, websockets, &["pod/web", ":8080"]);
        assert!(get(&forward, 0).contains("the-pod"), "who may edit may forward: {websockets}");
    }
    let admin = &tenant.admin;
    admin.ok(&["delete", "rolebinding", "mallory"]);
    let account = "--serviceaccount=forward-rights:mallory";
    admin.ok(&["create", "rolebinding", "viewer", "--clusterrole=view", account]);
    let said = tenant.kubectl.fails(&["port-forward", "pod/web", ":8080"]);
    assert!(said.contains("cannot create resource \"pods/portforward\""), "{said}");

    admin.ok(&["create", "role", "look", "--verb=get", "--resource=pods/portforward"]);
    admin.ok(&["create", "rolebinding", "look", "--role=look", account]);
    let said = tenant.kubectl.fails(&["port-forward", "pod/web", ":8080"]);
    assert!(
        said.contains("cannot create resource \"pods/portforward\""),
        "to look is not to forward: {said}"
    );

    admin.ok(&["delete", "rolebinding", "look"]);
    admin.ok(&["create", "role", "forward", "--verb=create", "--resource=pods/portforward"]);
    admin.ok(&["create", "rolebinding", "forward", "--role=forward", account]);
    let forward = Forward::start(&tenant.kubectl, "false", &["pod/web", ":8080"]);
    assert!(get(&forward, 0).contains("the-pod"), "a POST is a create");
}

#[test]
fn a_pod_that_goes_and_a_server_that_stops_end_what_is_open() {
    need_kubectl();
    let mut server = Server::start(&["--no-operator"]);
    let kubectl = server.kubectl();
    for websockets in PROTOCOLS {
        let silent = listen(make_pod(&kubectl), |mut stream| {
            let _ = stream.read(&mut [0; 1]);
        });
        let forward = Forward::start(&kubectl, websockets, &["pod/web", &format!(":{silent}"), ":8080"]);
        let mut idle = forward.connect(0);
        assert!(get(&forward, 1).contains("the-pod"));
        kubectl.ok(&["delete", "pod", "web"]);
        let _ = forward.connect(1).read(&mut [0; 1]);
        eventually("kubectl says that the pod is gone", PATIENCE, || {
            let said = forward.said();
            if said.contains("error forwarding port 8080 to pod web") { Ok(()) } else { Err(said) }
        });
        assert_eq!(idle.read(&mut [0; 1]).unwrap_or(0), 0);
    }
    make_pod(&kubectl);
    let mut forwards: Vec<_> =
        PROTOCOLS.iter().map(|protocol| Forward::start(&kubectl, protocol, &["pod/web", ":8080"])).collect();
    assert!(server.stop().success(), "{}", server.log());
    for forward in &mut forwards {
        eventually("kubectl ends", PATIENCE, || forward.child.try_wait().unwrap());
        assert!(forward.said().contains("lost connection to pod"), "{}", forward.said());
    }
}
