//! Failing, changing and checked endpoints.

use std::net::SocketAddr;
use std::sync::Arc;

use causeway_engine::AccessLog;
use causeway_ir::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::pki::{Authority, given};
use crate::support::{Backend, PATIENCE, Running, eventually, nobody, plain_plan};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_is_tried_elsewhere_and_the_failing_endpoint_rested() {
    let backend = Backend::named("alive").await;
    let dead = nobody().await;
    let ejection = "  ejection: {consecutiveFailures: 2, time: 1h}\n";
    let running = Running::start(&plain_plan(&[dead, backend.address], ejection)).await;
    for _ in 0..20 {
        assert_eq!(running.ask("in", b"").await, b"alive");
    }
    assert_eq!(running.metric(&["causeway_connect_failures_total"]), 2);
    assert_eq!(running.metric(&["causeway_ejections_total"]), 1);
    let clusters = running.handle.clusters();
    assert!(clusters[0].endpoints[0].ejected && !clusters[0].endpoints[1].ejected);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_to_connect_to_is_told_apart_from_nothing_that_answers() {
    let mut running = Running::start(&plain_plan(&[nobody().await], "")).await;
    assert_eq!(running.ask("in", b"").await, b"");
    running.closed("connectFailed", 1).await;
    running.change(|plan| plan.clusters[0].endpoints.clear()).await;
    assert_eq!(running.ask("in", b"").await, b"");
    running.closed("noEndpoint", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_connections_follow_the_endpoints() {
    let (one, two) = (Backend::named("one").await, Backend::named("two").await);
    let mut running = Running::start(&plain_plan(&[one.address], "")).await;
    assert_eq!(running.ask("in", b"").await, b"one");
    running.change(|plan| plan.clusters[0].endpoints.push(Endpoint::new(two.address))).await;
    let mut answers = vec![running.ask("in", b"").await, running.ask("in", b"").await];
    answers.sort();
    assert_eq!(answers, [b"one", b"two"]);
    running
        .change(|plan| {
            plan.clusters[0].endpoints[0].ready = false;
            plan.clusters[0].endpoints[0].terminating = true;
        })
        .await;
    assert_eq!(running.ask("in", b"").await, b"two");
    running.change(|plan| drop(plan.clusters[0].endpoints.pop())).await;
    assert_eq!(running.ask("in", b"").await, b"one");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_finds_endpoints_down_and_up_again() {
    let alive = Backend::named("alive").await;
    let moody = nobody().await;
    let check = "  healthCheck: {kind: tcp, interval: 20ms, unhealthyAfter: 2, healthyAfter: 2}\n";
    let running = Running::start(&plain_plan(&[alive.address, moody], check)).await;
    let healthy = || running.handle.clusters()[0].endpoints[1].healthy;
    eventually("found down", || !healthy()).await;
    for _ in 0..4 {
        assert_eq!(running.ask("in", b"").await, b"alive");
    }
    assert_eq!(running.metric(&["causeway_connect_failures_total"]), 0);
    let _moody = Backend::at(&moody.to_string(), "moody").await;
    eventually("found up", healthy).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tls_check_wants_tls() {
    // It accepts, but what it says is not TLS.
    let plain = Backend::named("plain").await;
    let check = "  healthCheck: {kind: tls, interval: 20ms, unhealthyAfter: 1}\n";
    let running = Running::start(&plain_plan(&[plain.address], check)).await;
    eventually("found down", || !running.handle.clusters()[0].endpoints[0].healthy).await;
    running.stop().await;
}

/// A server that has a certificate for one name, and none for who asks for no name or another.
async fn strict(name: &str) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let issued = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certified =
        rustls::sign::CertifiedKey::from_der(vec![issued.cert.der().clone()], key, &provider).unwrap();
    let mut certificates = rustls::server::ResolvesServerCertUsingSni::new();
    certificates.add(name, certified).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificates));
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move { acceptor.accept(stream).await.map(drop) });
        }
    });
    (address, serving)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tls_check_asks_a_strict_server_for_its_name() {
    let (address, serving) = strict("app.test").await;
    let check = "  healthCheck: {kind: tls, serverName: app.test, interval: 20ms, unhealthyAfter: 1, healthyAfter: 1}\n";
    let mut running = Running::start(&plain_plan(&[address], check)).await;
    let healthy = |running: &Running| running.handle.clusters()[0].endpoints[0].healthy;
    running.change(|plan| plan.clusters[0].health_check.as_mut().unwrap().server_name = None).await;
    eventually("found down without a name", || !healthy(&running)).await;
    let name = Some(crate::support::name("app.test"));
    running.change(|plan| plan.clusters[0].health_check.as_mut().unwrap().server_name = name).await;
    eventually("found up with it", || healthy(&running)).await;
    serving.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_comes_back_without_its_check_is_tried_again() {
    let check = "  healthCheck: {kind: tcp, interval: 20ms, unhealthyAfter: 1}\ndrainTimeout: 1h\n";
    let mut running = Running::start(&plain_plan(&[nobody().await], check)).await;
    let healthy = |running: &Running| running.handle.clusters()[0].endpoints[0].healthy;
    eventually("found down", || !healthy(&running)).await;
    let whole = running.plan.clone();
    running
        .change(|plan| *plan = causeway_ir::Plan { drain_timeout: plan.drain_timeout, ..Default::default() })
        .await;
    running
        .change(|plan| {
            *plan = whole;
            plan.clusters[0].health_check = None;
        })
        .await;
    assert!(healthy(&running), "nothing would ever find it healthy again");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_never_answers_the_connect_times_out() {
    // A full backlog: the kernel drops the handshakes that follow.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full: TcpListener = socket.listen(0).unwrap();
    let address = full.local_addr().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let connecting = tokio::net::TcpStream::connect(address);
        waiting.push(tokio::time::timeout(std::time::Duration::from_millis(100), connecting).await);
    }
    let running = Running::start(&plain_plan(&[address], "  connectTimeout: 100ms\n")).await;
    assert_eq!(running.ask("in", b"").await, b"");
    running.closed("connectFailed", 1).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_may_be_unix_sockets_and_are_checked_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("endpoint.sock");
    let check = "  healthCheck: {kind: tcp, interval: 20ms, unhealthyAfter: 1, healthyAfter: 1}\n";
    let address = format!("unix:{}", path.display());
    let plan = plain_plan(&[nobody().await], check);
    let mut plan: causeway_ir::Plan = serde_saphyr::from_str(&plan).unwrap();
    plan.clusters[0].endpoints[0].address = address.parse().unwrap();
    let running = Running::of(plan, AccessLog::Off).await;
    let healthy = || running.handle.clusters()[0].endpoints[0].healthy;
    eventually("found down", || !healthy()).await;
    assert_eq!(running.ask("in", b"").await, b"");
    running.closed("connectFailed", 1).await;

    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    eventually("found up", healthy).await;
    // Enough to be bulk, and more than a socket takes at once.
    let bulk: Vec<u8> = (0..4 << 20).map(|i: u32| (i ^ i >> 9) as u8).collect();
    let stream = running.connect("in").await;
    let (mut from, mut to) = stream.into_split();
    let sent = bulk.clone();
    let sending = tokio::spawn(async move {
        to.write_all(&sent).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let mut heard = Vec::new();
    tokio::time::timeout(PATIENCE, from.read_to_end(&mut heard)).await.unwrap().unwrap();
    assert!(heard == bulk, "{} of {}", heard.len(), bulk.len());
    sending.await.unwrap();
    assert_eq!(running.handle.clusters()[0].endpoints[0].address.to_string(), address);
    serving.abort();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_can_not_be_made_goes_on_to_the_next_priority() {
    let (first, second) = (Backend::named("first").await, Backend::named("second").await);
    let plan = format!(
        "listeners:\n- {{name: in, bind: '127.0.0.1:0', protocol: {{tcp: {{name: all, action: {{forward: [\
         {{cluster: a}}, {{cluster: b, priority: 1}}]}}}}}}}}\n\
         clusters:\n- {{name: a, retries: 0, endpoints: [{{address: '{}'}}]}}\n- {{name: b, endpoints: [{{address: '{}'}}]}}\n",
        first.address, second.address
    );
    let mut running = Running::start(&plan).await;
    for _ in 0..3 {
        assert_eq!(running.ask("in", b"").await, b"first");
    }
    let gone = nobody().await;
    running.change(|plan| plan.clusters[0].endpoints[0].address = gone.into()).await;
    assert_eq!(running.ask("in", b"hello").await, b"secondhello");
    running.change(|plan| plan.clusters[0].endpoints.clear()).await;
    assert_eq!(running.ask("in", b"").await, b"second");
    running.change(|plan| plan.clusters[0].endpoints.push(Endpoint::new(first.address))).await;
    assert_eq!(running.ask("in", b"").await, b"first");
    running.stop().await;
}

/// An endpoint that stands in front of another says when that is reached. One that ends before has reached nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_does_not_confirm_is_passed_over() {
    let (authority, second) = (Authority::new("one"), Backend::named("second").await);
    let acceptor = tokio_rustls::TlsAcceptor::from(authority.issue(&["far.test"]).server(None));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let far = listener.local_addr().unwrap();
    let (reaches_tx, reaches_rx) = watch::channel(true);
    let serving = tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(tcp).await else { continue };
            if *reaches_rx.borrow() {
                stream.write_all(b"\0first").await.unwrap();
            }
            let _ = stream.shutdown().await;
        }
    });
    let plan = format!(
        "listeners:\n- {{name: in, bind: '127.0.0.1:0', protocol: {{tcp: {{name: all, action: {{forward: [\
         {{cluster: a}}, {{cluster: b, priority: 1}}]}}}}}}}}\n\
         clusters:\n- {{name: a, retries: 0, transport: {{tls: {{serverName: far.test, authorities: one, confirms: true}}}}, \
         endpoints: [{{address: '{far}'}}]}}\n- {{name: b, endpoints: [{{address: '{}'}}]}}\n",
        second.address
    );
    let (_certificates_tx, certificates_rx) = watch::channel(given(&[], &[("one", &authority)]));
    let plan = serde_saphyr::from_str(&plan).unwrap();
    let running = Running::with_certificates(plan, AccessLog::Off, certificates_rx).await;
    assert_eq!(running.ask("in", b"").await, b"first");
    reaches_tx.send_replace(false);
    assert_eq!(running.ask("in", b"hello").await, b"secondhello");
    reaches_tx.send_replace(true);
    serving.abort();
    running.stop().await;
}
