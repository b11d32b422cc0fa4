//! Datagrams and their sessions.

use std::net::{Ipv4Addr, SocketAddr};

use causeway_engine::AccessLog;
use causeway_ir::Endpoint;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;

use crate::pki::{Authority, given};
use crate::support::{Backend, PATIENCE, Running, eventually, forward_to, name};

/// A server that sends each datagram back.
async fn echo() -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let Ok((count, from)) = socket.recv_from(&mut buffer).await else { continue };
            socket.send_to(&buffer[..count], from).await.unwrap();
        }
    });
    (address, task)
}

fn plan(endpoint: SocketAddr, idle: &str) -> String {
    format!(
        "listeners: [{{name: in, bind: '127.0.0.1:0', protocol: {{udp: {{name: r, action: {{forward: c}}}}}}}}]\n\
         clusters: [{{name: c, idleTimeout: {idle}, endpoints: [{{address: '{endpoint}'}}]}}]"
    )
}

async fn ask(socket: &UdpSocket, word: &[u8]) -> Vec<u8> {
    socket.send(word).await.unwrap();
    let mut buffer = vec![0; 2048];
    let count = tokio::time::timeout(PATIENCE, socket.recv(&mut buffer)).await.unwrap().unwrap();
    buffer.truncate(count);
    buffer
}

async fn client(running: &Running) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(running.address("in")).await.unwrap();
    socket
}

/// Whoever makes sources up has as many as he likes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_from_everywhere_leaves_room_for_connections() {
    let (endpoint, server) = echo().await;
    let backend = Backend::named("hi").await;
    let both = plan(endpoint, "60s")
        .replace(
            "}]\n",
            "}, {name: tcp, bind: '127.0.0.1:0', protocol: {tcp: {name: t, action: {forward: d}}}}]\n",
        )
        .replace(
            "clusters: [",
            &format!("clusters: [{{name: d, endpoints: [{{address: '{}'}}]}}, ", backend.address),
        );
    let running = Running::start(&(both + "\nlimits: {connections: 20}\n")).await;
    for last in 2..42u8 {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, last), 0)).await.unwrap();
        socket.send_to(b"flood", running.address("in")).await.unwrap();
    }
    running.closed("connectionLimit", 30).await;
    let mut greeting = [0; 2];
    let mut stream = running.connect("tcp").await;
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut greeting)).await.unwrap().unwrap();
    assert_eq!(greeting, *b"hi");
    drop(stream);
    server.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_has_one_session_until_it_idles() {
    let (endpoint, server) = echo().await;
    let running = Running::start(&plan(endpoint, "300ms")).await;
    let (one, two) = (client(&running).await, client(&running).await);
    for i in 0..10u8 {
        assert_eq!(ask(&one, &[i; 100]).await, [i; 100]);
        assert_eq!(ask(&two, &[i, 1]).await, [i, 1]);
    }
    assert_eq!(running.metric(&["envoy_cluster_upstream_cx_total{"]), 2);
    assert_eq!(running.handle.connections().await.len(), 2);
    running.closed("idleTimeout", 2).await;
    assert!(running.handle.connections().await.is_empty());
    assert_eq!(ask(&one, b"again").await, b"again");
    server.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_end_with_their_listener() {
    let (endpoint, server) = echo().await;
    let mut running = Running::start(&plan(endpoint, "1h")).await;
    let one = client(&running).await;
    assert_eq!(ask(&one, b"hello").await, b"hello");
    running.change(|plan| plan.listeners.clear()).await;
    running.closed("drained", 1).await;
    server.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_not_there_ends_the_session() {
    let gone = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let running = Running::start(&plan(gone, "1h")).await;
    let one = client(&running).await;
    one.writable().await.unwrap();
    eventually("found missing", || {
        // The first one draws the complaint of the host, a later one meets it.
        let _ = one.try_send(b"anybody?");
        running.metric(&["causeway_connections_closed_total", "endpointReset"]) > 0
    })
    .await;
    assert!(running.metric(&["causeway_connect_failures_total"]) > 0);
    running.stop().await;
}

/// A server that answers each datagram with a word, on an address where no other test has a port.
async fn says(word: &'static [u8]) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.8:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let Ok((_, from)) = socket.recv_from(&mut buffer).await else { continue };
            socket.send_to(word, from).await.unwrap();
        }
    });
    (address, task)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_leaves_an_endpoint_that_left_the_plan() {
    let ((one, first), (two, second)) = (says(b"one").await, says(b"two").await);
    let mut running = Running::start(&plan(one, "1h")).await;
    let client = client(&running).await;
    assert_eq!(ask(&client, b"who?").await, b"one");
    running.change(|plan| plan.clusters[0].endpoints.push(Endpoint::new(two))).await;
    assert_eq!(ask(&client, b"who?").await, b"one", "it stays while its endpoint does");
    running.change(|plan| drop(plan.clusters[0].endpoints.remove(0))).await;
    assert_eq!(ask(&client, b"who?").await, b"two");
    running.closed("drained", 1).await;
    assert_eq!(running.handle.connections().await.len(), 1);
    first.abort();
    second.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_leaves_a_cluster_that_its_route_left() {
    let ((one, first), (two, second)) = (says(b"one").await, says(b"two").await);
    let mut running = Running::start(&plan(one, "1h")).await;
    let client = client(&running).await;
    assert_eq!(ask(&client, b"who?").await, b"one");
    // The route keeps its name, and the old cluster has its time to drain.
    running
        .change(|plan| {
            plan.clusters[0].name = name("other");
            plan.clusters[0].endpoints = vec![Endpoint::new(two)];
            forward_to(plan, "other");
        })
        .await;
    assert_eq!(ask(&client, b"who?").await, b"two");
    first.abort();
    second.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_leaves_an_endpoint_that_is_found_unhealthy_unless_all_are() {
    let ((one, first), (two, second)) = (says(b"one").await, says(b"two").await);
    let check = "healthCheck: {kind: tcp, interval: 20ms, unhealthyAfter: 1, healthyAfter: 1}, endpoints:";
    let mut running = Running::start(&plan(one, "1h").replace("endpoints:", check)).await;
    let healthy = |running: &Running, i: usize| running.handle.clusters()[0].endpoints[i].healthy;
    // The check asks over TCP, where nobody listens yet.
    eventually("found down", || !healthy(&running, 0)).await;
    let client = client(&running).await;
    for _ in 0..3 {
        assert_eq!(ask(&client, b"who?").await, b"one");
    }
    assert_eq!(running.metric(&["envoy_cluster_upstream_cx_total{"]), 1, "the only one is kept");
    let _answers = TcpListener::bind(two).await.unwrap();
    running.change(|plan| plan.clusters[0].endpoints.push(Endpoint::new(two))).await;
    eventually("found up", || healthy(&running, 1)).await;
    assert_eq!(ask(&client, b"who?").await, b"two");
    first.abort();
    second.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_gets_every_datagram_while_the_predecessor_still_runs() {
    let (endpoint, server) = echo().await;
    let old = Running::start(&plan(endpoint, "5s")).await;
    let clients = [client(&old).await, client(&old).await, client(&old).await];
    for client in &clients {
        assert_eq!(ask(client, b"before").await, b"before");
    }
    let handed = old.handle.sockets().await;
    let purposes: Vec<_> = handed.iter().map(|handed| handed.purpose.clone()).collect();
    let new = Running::heir(old.plan.clone(), AccessLog::Off, handed).await;
    old.handle.leave_datagrams(&purposes);
    let begun = || old.metric(&["envoy_cluster_upstream_cx_total{"]);
    // Answered behind the command, so that the old one hears no more.
    drop(old.handle.sockets().await);
    for round in 0..20u8 {
        for client in &clients {
            assert_eq!(ask(client, &[round]).await, [round]);
        }
    }
    assert_eq!(begun(), 3, "no session was begun there again");
    assert_eq!(new.metric(&["envoy_cluster_upstream_cx_total{"]), 3);
    server.abort();
    old.stop().await;
    new.stop().await;
}

/// Datagrams to an endpoint with TLS go in a stream, each behind its length; while nobody can be reached there, the next
/// priority gets them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_reach_an_endpoint_with_tls_in_a_stream() {
    let (authority, (plain, server)) = (Authority::new("one"), echo().await);
    let issued = authority.issue(&["far.test"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let far = listener.local_addr().unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(issued.server(None));
    let echoes = tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(tcp).await else { continue };
            while let Ok(length) = stream.read_u16().await {
                let mut datagram = vec![0; length.into()];
                stream.read_exact(&mut datagram).await.unwrap();
                datagram.insert(0, b'>');
                stream.write_u16(length + 1).await.unwrap();
                stream.write_all(&datagram).await.unwrap();
            }
        }
    });
    let plan = format!(
        "listeners: [{{name: in, bind: '127.0.0.1:0', protocol: {{udp: {{name: r, action: {{forward: \
         [{{cluster: a}}, {{cluster: b, priority: 1}}]}}}}}}}}]\n\
         clusters: [{{name: a, retries: 0, transport: {{tls: {{serverName: far.test, authorities: one}}}}, endpoints: [{{address: '{far}'}}]}},\n\
         {{name: b, endpoints: [{{address: '{plain}'}}]}}]"
    );
    let (_certificates_tx, certificates_rx) = watch::channel(given(&[], &[("one", &authority)]));
    let plan = serde_saphyr::from_str(&plan).unwrap();
    let running = Running::with_certificates(plan, AccessLog::Off, certificates_rx).await;
    let first = client(&running).await;
    for word in [&b"one"[..], b"", &[7; 1400]] {
        assert_eq!(ask(&first, word).await, [b">", word].concat());
    }
    // Its stream ends with the endpoint, and the next datagrams go elsewhere.
    echoes.abort();
    let _ = echoes.await;
    eventually("the session is over", || running.metric(&["causeway_connections_closed_total"]) == 1).await;
    assert_eq!(ask(&first, b"two").await, b"two");
    assert_eq!(ask(&client(&running).await, b"three").await, b"three");
    server.abort();
    running.stop().await;
}
