//! Whatever a workload speaks: bytes, TLS that nobody opens, datagrams, HTTP/2, WebSockets; copies, and health checks.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use causeway_testkit::PATIENCE;
use causeway_testkit::blocking::eventually;
use causeway_testkit::environment;
use causeway_testkit::kubectl::finish;
use causeway_testkit::server::program;

use crate::load::ask;
use crate::speakers::{CALLS, Ended, SERVERS, SOCKET};
use crate::streams::{Socket, keep, serve};
use crate::world::{Laptop, World, died};

const ME: &[&str] = &["x-user: me"];
/// What a laptop that gets copies takes for each of its answers.
const SLOW: Duration = Duration::from_secs(8);

/// Says `word`, and then what it hears, backwards as it were.
fn talk(address: &str, word: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((address, 80))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(word)?;
    let mut heard = vec![0; 256];
    let count = stream.read(&mut heard)?;
    heard.truncate(count);
    Ok(heard)
}

#[test]
fn bytes_of_any_kind_come_here_and_go_back_where_the_machine_does_not_answer() {
    let world = World::start();
    let address = world.address("web");
    let mut laptop = Laptop::connected(&world, "laptop");
    laptop.stop_program();
    // A server that speaks first, in a language of its own.
    serve(("127.0.0.1", laptop.port), |mut stream| {
        let _ = stream.write_all(b"220 laptop\n");
        let mut heard = [0; 64];
        while let Ok(count @ 1..) = stream.read(&mut heard) {
            let _ = stream.write_all(&heard[..count]);
        }
    });
    laptop.intercept("deploy/web", "http", &[]).ok();
    let comes_here = || {
        eventually("the server speaks first", PATIENCE, || {
            let mut stream = TcpStream::connect((address.as_str(), 80)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut heard = [0; 11];
            stream.read_exact(&mut heard).is_ok() && &heard == b"220 laptop\n"
        });
    };
    comes_here();
    died(&laptop, || ask(&address, &[]).is_ok_and(|by| by == "web"));
    laptop.causeway(&["connect", "--name", "laptop"]).ok();
    comes_here();
    laptop.causeway(&["disconnect"]).ok();
    eventually("the original answers", PATIENCE, || ask(&address, &[]).is_ok_and(|by| by == "web"));
}

#[test]
fn what_is_no_request_passes_a_rule_by_header_untouched() {
    let world = World::start();
    let address = world.address("web");
    let laptop = Laptop::connected(&world, "laptop");
    laptop.intercept("deploy/web", "http", &["--header", "x-user=me"]).ok();
    eventually("requests come here", PATIENCE, || ask(&address, ME).is_ok_and(|by| by == "laptop"));
    // The original echoes bytes that are no request.
    let heard = talk(&address, b"\x16\x03\x01 not HTTP at all\n").unwrap();
    assert!(heard.starts_with(b"\x16\x03\x01"), "{}", heard.escape_ascii());
    // A request that is none on a connection that began as one is refused, and nobody else notices.
    let _ = talk(&address, b"GET / HTTP/1.1\r\nbad header\r\n\r\n");
    assert_eq!(ask(&address, &[]).unwrap(), "web");
}

#[test]
fn tls_is_nobody_s_business() {
    let world = World::start();
    let mut laptop = Laptop::connected(&world, "laptop");
    laptop.stop_program();
    let port = laptop.port;
    let mut local = Command::new(program());
    local.args([
        "echo",
        "--name",
        "sealed",
        "--tls-self-signed",
        "web.test",
        "--listen",
        &format!("127.0.0.1:{port}"),
    ]);
    let _local = Ended(local.stdout(Stdio::null()).spawn().unwrap());
    laptop.intercept("deploy/web", "http", &[]).ok();
    let resolve = format!("web.test:80:{}", world.address("web"));
    eventually("TLS ends on the laptop", PATIENCE, || {
        let mut curl = Command::new("curl");
        let ran =
            finish(curl.args(["-sk", "--max-time", "5", "--resolve", &resolve, "https://web.test:80/"]));
        ran.stdout.starts_with("sealed")
    });
}

#[test]
fn datagrams_come_here_and_go_back() {
    let world = World::start();
    let dns = "apiVersion: apps/v1
kind: Deployment
metadata: {name: dns}
spec:
  selector: {matchLabels: {app: dns}}
  template:
    metadata: {labels: {app: dns}}
    spec:
      containers:
      - {name: app, image: 'causeway.dev/causeway:0.1.0', args: [echo, --udp, --listen, '$(POD_IP):5353'],
         ports: [{name: dns, containerPort: 5353, protocol: UDP}],
         env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: dns}
spec: {selector: {app: dns}, ports: [{name: dns, port: 53, protocol: UDP, targetPort: dns}]}
";
    world.kubectl.apply(dns).ok();
    world.kubectl.ok(&["rollout", "status", "deployment/dns", "--timeout=60s"]);
    let address = world.address("dns");
    let heard = |word: &[u8]| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket.send_to(word, (address.as_str(), 53)).unwrap();
        let mut buffer = [0; 64];
        socket.recv(&mut buffer).map(|count| buffer[..count].to_vec()).unwrap_or_default()
    };
    eventually("the original answers", PATIENCE, || heard(b"one") == b"one");
    let laptop = Laptop::connected(&world, "laptop");
    let local = UdpSocket::bind(("127.0.0.1", laptop.port)).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((_, from)) = local.recv_from(&mut buffer) {
            let _ = local.send_to(b"laptop", from);
        }
    });
    laptop.intercept("deploy/dns", "dns", &[]).ok();
    eventually("the laptop answers", PATIENCE, || heard(b"two") == b"laptop");
    died(&laptop, || heard(b"three") == b"three");
    laptop.causeway(&["connect", "--name", "laptop"]).ok();
    eventually("the laptop answers again", PATIENCE, || heard(b"four") == b"laptop");
    laptop.causeway(&["disconnect"]).ok();
    eventually("the original answers again", PATIENCE, || heard(b"five") == b"five");
}

#[test]
fn http_2_and_websockets_find_their_way_by_header() {
    let world = World::start();
    let address = world.address("web");
    let mut laptop = Laptop::connected(&world, "laptop");
    laptop.stop_program();
    // One that speaks both: HTTP/2 by its preface, and a protocol that a request asks for.
    serve(("127.0.0.1", laptop.port), |stream| {
        let mut first = [0; 3];
        while stream.peek(&mut first).is_ok_and(|count| count < 3) {}
        if &first == b"PRI" { two(stream) } else { keep(stream, "laptop") }
    });
    laptop.intercept("deploy/web", "http", &["--header", "x-user=me"]).ok();
    let url = format!("http://{address}/pkg.Service/Call");
    eventually("HTTP/2 comes here", PATIENCE, || {
        let mut curl = Command::new("curl");
        let ran = finish(curl.args([
            "-s",
            "--max-time",
            "5",
            "--http2-prior-knowledge",
            "-H",
            ME[0],
            "-d",
            "x",
            &url,
        ]));
        ran.stdout == "two"
    });
    let mut socket = Socket::open(&address, ME);
    for word in [&b"hello"[..], b"again"] {
        socket.echoes(word).unwrap();
    }
}

#[test]
fn grpc_and_websockets_of_others_find_their_way_by_header() {
    let Some(python) = environment::python("grpc, websocket, autobahn") else { return };
    let world = World::start();
    let address = world.address("web");
    let (mut grpc, mut sockets) = (Laptop::new(&world, "grpc"), Laptop::new(&world, "sockets"));
    grpc.stop_program();
    sockets.stop_program();
    let mut servers = Command::new(&python);
    servers.args(["-c", SERVERS, &grpc.port.to_string(), &sockets.port.to_string()]);
    let servers = Ended(servers.stdout(Stdio::null()).spawn().unwrap());
    for (laptop, script, says) in [(grpc, CALLS, "others:"), (sockets, SOCKET, "laptop one\nlaptop two")] {
        laptop.causeway(&["connect"]).ok();
        laptop.intercept("deploy/web", "http", &["--header", "x-user=lap"]).ok();
        eventually("it is reached", PATIENCE, || {
            let mut client = Command::new(&python);
            client.args(["-c", script, &address]).env_remove("http_proxy").env_remove("HTTP_PROXY");
            let ran = finish(&mut client);
            if ran.code == Some(0) && ran.stdout.contains(says) { Ok(()) } else { Err(ran.to_string()) }
        });
        assert_eq!(ask(&address, &[]).unwrap(), "web");
        laptop.causeway(&["disconnect"]).ok();
    }
    drop(servers);
}

/// Answers every request in HTTP/2.
fn two(stream: TcpStream) {
    stream.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            if let Ok(mut body) = respond.send_response(http::Response::new(()), false) {
                let _ = body.send_data(bytes::Bytes::from_static(b"two"), true);
            }
        }
    });
}

#[test]
fn a_copy_is_a_copy_and_health_checks_stay_at_home() {
    let world = World::start();
    let address = world.address("web");
    let mut laptop = Laptop::connected(&world, "laptop");
    laptop.stop_program();
    let (seen_tx, seen_rx) = std::sync::mpsc::channel();
    let seen_tx = std::sync::Arc::new(std::sync::Mutex::new(seen_tx));
    // One that hears, and takes its time to answer.
    serve(("127.0.0.1", laptop.port), move |mut stream| {
        let mut heard = [0; 512];
        if let Ok(count @ 1..) = stream.read(&mut heard) {
            let line = String::from_utf8_lossy(&heard[..count]).lines().next().unwrap_or_default().to_owned();
            let _ = seen_tx.lock().unwrap().send(line);
        }
        std::thread::sleep(SLOW);
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nlaptop\n");
    });
    laptop.intercept("deploy/web", "http", &["--mirror"]).ok();
    let copied = || {
        ask(&address, &[]).is_ok_and(|by| by == "web")
            && seen_rx.recv_timeout(Duration::from_millis(200)).is_ok()
    };
    eventually("copies come here", PATIENCE, copied);
    while seen_rx.try_recv().is_ok() {}
    let began = Instant::now();
    for _ in 0..100 {
        assert_eq!(ask(&address, &[]).unwrap(), "web");
    }
    let took = began.elapsed();
    assert!(took < SLOW, "a hundred requests took {took:.1?}, and one answer to a copy takes {SLOW:?}");
    eventually("copies of these came here", PATIENCE, || seen_rx.try_recv().is_ok());
    laptop.causeway(&["leave", "--all"]).ok();
    while seen_rx.try_recv().is_ok() {}

    laptop.stop_program();
    let other = Laptop::connected(&world, "other");
    other.intercept("deploy/web", "http", &["--header", "x-user=me"]).ok();
    eventually("requests come here", PATIENCE, || ask(&address, ME).is_ok_and(|by| by == "other"));
    let check = ask(&address, &[ME[0], "user-agent: kube-probe/1.36"]).unwrap();
    assert_eq!(check, "web", "a health check, though it fits the rule");
}
