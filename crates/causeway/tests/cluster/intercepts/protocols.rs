//! Whatever a workload speaks, through a real cluster: gRPC and WebSockets with peers that others wrote, copies, bytes, TLS that
//! nobody opens, datagrams, and health checks.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use causeway_testkit::asking;
use causeway_testkit::blocking::eventually;
use causeway_testkit::environment;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::program;
use serde_json::json;

use super::laptop::{Laptop, answers, ask, died};
use super::speakers::{CALLS, Ended, SERVERS, SOCKET};
use crate::world::{IMAGE, PATIENCE, World, cluster, there};

#[test]
fn grpc_and_websockets_find_their_way_by_header() {
    let Some(python) = environment::python("grpc, websocket, autobahn") else { return };
    let Some(world) = World::new("protocols") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let python = python.display().to_string();
    let mut servers = cluster().unwrap().on_node(&python);
    servers.args(["-c", SERVERS, "13041", "13042"]).stdin(Stdio::null()).stdout(Stdio::null());
    let servers = Ended(servers.spawn().unwrap());
    let client = |script: &str| {
        let mut command: Command = cluster().unwrap().on_node(&python);
        finish(command.args(["-c", script, &address]).env_remove("http_proxy").env_remove("HTTP_PROXY"))
    };
    for (port, script, says) in [(13_041, CALLS, "others:"), (13_042, SOCKET, "laptop one\nlaptop two")] {
        let laptop = Laptop::bare(&world, "lap", port);
        laptop.connect("link");
        laptop.intercept_mine("deploy/web").ok();
        eventually("it is reached", PATIENCE, || {
            let ran = client(script);
            if ran.code == Some(0) && ran.stdout.contains(says) { Ok(()) } else { Err(ran.to_string()) }
        });
        answers(&address, None, "web").unwrap();
    }
    drop(servers);
}

#[test]
fn a_laptop_that_gets_copies_slows_nobody() {
    let Some(world) = World::new("copies") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let laptop = Laptop::bare(&world, "lap", 13_051);
    laptop.connect("link");
    // One that hears, and never answers.
    let (heard_tx, heard_rx) = mpsc::channel();
    let listener = there(|| TcpListener::bind(("127.0.0.1", 13_051)).unwrap());
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut bytes = [0; 512];
            if let Ok(count @ 1..) = stream.read(&mut bytes) {
                let _ = heard_tx.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
            }
            let _ = stream.flush();
            open.push(stream);
        }
    });
    laptop.intercept("deploy/web", &["--mirror"]).ok();
    eventually("copies come here", PATIENCE, || {
        assert_eq!(ask(&address, None).unwrap(), "web");
        heard_rx.recv_timeout(Duration::from_millis(200)).is_ok_and(|heard| heard.starts_with("GET /load"))
    });
    let began = Instant::now();
    for _ in 0..100 {
        assert_eq!(ask(&address, Some("lap")).unwrap(), "web");
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "a hundred requests took {took:.1?}");
    laptop.run(&["leave", "--all"]).ok();
}

/// What is heard first after this was said.
fn talk(address: &str, word: &[u8]) -> std::io::Result<Vec<u8>> {
    there(|| {
        let mut stream = TcpStream::connect((address, 80))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(word)?;
        let mut heard = vec![0; 64];
        let count = stream.read(&mut heard)?;
        heard.truncate(count);
        Ok(heard)
    })
}

#[test]
fn what_is_no_request_and_health_checks_pass_a_rule_by_header() {
    let Some(world) = World::new("no-requests") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let laptop = Laptop::new(&world, "lap", 13_071);
    laptop.connect("link");
    laptop.intercept_mine("deploy/web").ok();
    eventually("requests come here", PATIENCE, || answers(&address, Some("lap"), "lap"));
    let check = there(|| asking::ask(&address, 80, &["X-User: lap", "user-agent: kube-probe/1.36"]));
    assert_eq!(check.unwrap(), "web", "a health check, though it fits the rule");
    // The original echoes bytes that are no request.
    let heard = talk(&address, b"\x16\x03\x01 not HTTP at all\n").unwrap();
    assert!(heard.starts_with(b"\x16\x03\x01"), "{}", heard.escape_ascii());
    let _ = talk(&address, b"GET / HTTP/1.1\r\nbad header\r\n\r\n");
    answers(&address, None, "web").unwrap();
    answers(&address, Some("lap"), "lap").unwrap();
}

#[test]
fn bytes_and_tls_that_nobody_opens_come_here() {
    let Some(world) = World::new("bytes") else { return };
    world.http_server("web");
    let address = world.kubectl.value("service/web", ".spec.clusterIP");
    let laptop = Laptop::bare(&world, "lap", 13_072);
    // A server that speaks first, in a language of its own.
    let listener = there(|| TcpListener::bind(("127.0.0.1", 13_072)).unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"220 laptop\n");
            let _ = stream.read(&mut [0; 64]);
        }
    });
    laptop.connect("link");
    laptop.intercept("deploy/web", &[]).ok();
    let comes_here = || {
        eventually("the server speaks first", PATIENCE, || {
            let heard = talk(&address, b"").unwrap_or_default();
            if heard == b"220 laptop\n" { Ok(()) } else { Err(heard.escape_ascii().to_string()) }
        });
    };
    comes_here();
    died(&laptop, || answers(&address, None, "web"));
    laptop.connect("link");
    comes_here();
    laptop.run(&["disconnect"]).ok();
    eventually("the original answers", PATIENCE, || answers(&address, None, "web"));

    let laptop = Laptop::bare(&world, "sealed", 13_073);
    let mut server = cluster().unwrap().on_node(program());
    server.args(["echo", "--name", "sealed", "--tls-self-signed", "web.test", "--listen", "127.0.0.1:13073"]);
    let _server = Ended(server.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    laptop.connect("link");
    laptop.intercept("deploy/web", &[]).ok();
    let resolve = format!("web.test:80:{address}");
    eventually("TLS ends on the laptop", PATIENCE, || {
        let mut curl = cluster().unwrap().on_node("curl");
        curl.args(["-sk", "--max-time", "5", "--noproxy", "*", "--resolve", &resolve]);
        let ran = finish(curl.arg("https://web.test:80/"));
        if ran.stdout.starts_with("sealed") { Ok(()) } else { Err(ran.to_string()) }
    });
}

#[test]
fn datagrams_come_here_and_go_back() {
    let Some(world) = World::new("datagrams") else { return };
    let container = json!({
        "name": "dns", "image": IMAGE, "imagePullPolicy": "Never", "args": ["echo", "--udp", "--listen", "0.0.0.0:5353"],
        "ports": [{"name": "dns", "containerPort": 5353, "protocol": "UDP"}],
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "dns"},
        "spec": {
            "selector": {"matchLabels": {"app": "dns"}},
            "template": {"metadata": {"labels": {"app": "dns"}}, "spec": {"containers": [container]}},
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "dns"},
        "spec": {"selector": {"app": "dns"}, "ports": [{"port": 53, "protocol": "UDP", "targetPort": "dns"}]},
    });
    for object in [deployment, service] {
        world.kubectl.apply(&object.to_string()).ok();
    }
    world.kubectl.ok(&["rollout", "status", "deployment/dns", "--timeout=60s"]);
    let address = world.kubectl.value("service/dns", ".spec.clusterIP");
    let heard = |word: &[u8]| {
        there(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let mut buffer = [0; 64];
            // A Service without endpoints yet refuses already the sending.
            let sent = socket.send_to(word, (address.as_str(), 53));
            sent.and_then(|_| socket.recv(&mut buffer))
                .map(|count| buffer[..count].to_vec())
                .unwrap_or_default()
        })
    };
    eventually("the original answers", PATIENCE, || heard(b"one") == b"one");
    let laptop = Laptop::bare(&world, "lap", 13_074);
    let local = there(|| UdpSocket::bind(("127.0.0.1", 13_074)).unwrap());
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, from)) = local.recv_from(&mut buffer) {
            let _ = local.send_to(b"laptop", from);
        }
    });
    laptop.connect("link");
    laptop.run(&["intercept", "deploy/dns", "--port", "13074:dns"]).ok();
    eventually("the laptop answers", PATIENCE, || heard(b"two") == b"laptop");
    died(&laptop, || {
        let heard = heard(b"three");
        if heard == b"three" { Ok(()) } else { Err(heard.escape_ascii().to_string()) }
    });
    laptop.connect("link");
    eventually("the laptop answers again", PATIENCE, || heard(b"four") == b"laptop");
    laptop.run(&["disconnect"]).ok();
    eventually("the original answers again", PATIENCE, || heard(b"five") == b"five");
}
