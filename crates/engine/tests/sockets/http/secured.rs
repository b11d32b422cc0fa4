//! Requests in TLS that ends here.

use std::sync::Arc;

use causeway_engine::{AccessLog, Certificate, Certificates};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;

use super::backend::{HttpBackend, get, ok, status};
use super::streams::{StreamClient, post};
use crate::support::{Backend, PATIENCE, Running, hello, name};

struct Made {
    pem: String,
    certificate: Arc<Certificate>,
    der: CertificateDer<'static>,
}

fn made(names: &[&str]) -> Made {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let certificate = Certificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    Made { pem: chain, certificate: Arc::new(certificate), der: made.cert.der().clone() }
}

fn given(pairs: &[(&str, &Made)]) -> Arc<Certificates> {
    Arc::new(pairs.iter().map(|(text, made)| (name(text), Arc::clone(&made.certificate))).collect())
}

/// A client that trusts these certificates and nothing else.
async fn connect(
    running: &Running,
    server: &str,
    trusted: &[&Made],
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_for(running, server, trusted, &[b"http/1.1"]).await
}

/// The same with a choice of protocols.
async fn connect_for(
    running: &Running,
    server: &str,
    trusted: &[&Made],
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_by(running, server, &config(trusted, protocols, rustls::DEFAULT_VERSIONS)).await
}

/// What a client is made of that speaks these versions of TLS.
fn config(
    trusted: &[&Made],
    protocols: &[&[u8]],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    for made in trusted {
        roots.add(made.der.clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

/// A connection of a client: those of the same one resume its sessions.
async fn connect_by(
    running: &Running,
    server: &str,
    client: &Arc<rustls::ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let connector = tokio_rustls::TlsConnector::from(Arc::clone(client));
    let server = ServerName::try_from(server.to_owned()).unwrap();
    connector.connect(server, running.connect("in").await).await
}

/// Reads until these bytes have come.
async fn until(stream: &mut TlsStream<TcpStream>, end: &str) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while !bytes.windows(end.len()).any(|window| window == end.as_bytes()) {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&buffer[..count]);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn ask(stream: &mut TlsStream<TcpStream>, request: &str, end: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    until(stream, end).await
}

fn plan(http: std::net::SocketAddr, passed: std::net::SocketAddr) -> causeway_ir::Plan {
    let text = format!(
        "listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol:\n    tls:\n      routes:\n\
         \x20     - {{name: passed, serverNames: [passed.test], action: {{forward: passed}}}}\n\
         \x20     - name: web\n        serverNames: [a.test, '*.b.test']\n        action:\n          terminate:\n\
         \x20           certificates: [a, b]\n            then: {{http: {{routes: [{{name: all, action: {{forward: c}}}}]}}}}\n\
         clusters:\n- {{name: c, endpoints: [{{address: '{http}'}}]}}\n- {{name: passed, endpoints: [{{address: '{passed}'}}]}}\n"
    );
    serde_saphyr::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_ends_here_by_server_name_beside_tls_that_is_passed_on() {
    let backend = HttpBackend::answering(|asked| {
        ok(&"x".repeat(if asked.line().contains("large") { 500_000 } else { 2 }))
    })
    .await;
    let passed = Backend::named("passed").await;
    let [a, b, renewed] = [made(&["a.test"]), made(&["*.b.test"]), made(&["a.test"])];
    let (certificates_tx, certificates_rx) = watch::channel(given(&[("a", &a), ("b", &b)]));
    let running =
        Running::with_certificates(plan(backend.address, passed.address), AccessLog::Off, certificates_rx)
            .await;

    let mut old = connect(&running, "a.test", &[&a]).await.unwrap();
    assert_eq!(old.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(ask(&mut old, &get("a.test", "/1"), "xx").await.starts_with("HTTP/1.1 200"));
    let mut other = connect(&running, "x.b.test", &[&b]).await.unwrap();
    assert!(ask(&mut other, &get("x.b.test", "/2"), "xx").await.starts_with("HTTP/1.1 200"));
    assert_eq!(backend.asked()[0].values("x-forwarded-proto"), ["https"]);
    let large = ask(&mut other, &get("x.b.test", "/large"), &"x".repeat(500_000)).await;
    assert_eq!(status(&large), 200);

    // What is passed on is not touched, and who is not known is told.
    let first = hello("passed.test");
    assert_eq!(running.ask("in", &first).await, [b"passed", first.as_slice()].concat());
    assert!(connect(&running, "c.test", &[&a]).await.is_err());
    assert_eq!(running.ask("in", b"\r\n").await, b"");

    // Another certificate: new clients see it, and those that are there notice nothing.
    certificates_tx.send_replace(given(&[("a", &renewed), ("b", &b)]));
    causeway_testkit::eventually("the new certificate", async || {
        connect(&running, "a.test", &[&renewed]).await.is_ok()
    })
    .await;
    assert!(connect(&running, "a.test", &[&a]).await.is_err());
    assert!(ask(&mut old, &get("a.test", "/3"), "xx").await.starts_with("HTTP/1.1 200"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_nobody_gave_is_told_and_fails_no_other() {
    let backend = HttpBackend::named("ok").await;
    let b = made(&["*.b.test"]);
    let (certificates_tx, certificates_rx) = watch::channel(given(&[("b", &b)]));
    let running =
        Running::with_certificates(plan(backend.address, backend.address), AccessLog::Off, certificates_rx)
            .await;
    assert_eq!(running.handle.status().missing(), ["listener in: there is no certificate a"]);
    let mut client = connect(&running, "x.b.test", &[&b]).await.unwrap();
    assert!(ask(&mut client, &get("x.b.test", "/"), "ok").await.starts_with("HTTP/1.1 200"));
    certificates_tx.send_replace(given(&[]));
    causeway_testkit::eventually("no certificate", async || {
        connect(&running, "x.b.test", &[&b]).await.is_err()
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_choose_http_2_in_their_handshake() {
    let backend = HttpBackend::answering(|asked| ok(&String::from_utf8_lossy(&asked.body))).await;
    let a = made(&["a.test"]);
    let (_certificates_tx, certificates_rx) = watch::channel(given(&[("a", &a), ("b", &a)]));
    let plan = plan(backend.address, backend.address);
    let running = Running::with_certificates(plan, AccessLog::Off, certificates_rx).await;
    let stream = connect_for(&running, "a.test", &[&a], &[b"h2", b"http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let client = StreamClient::over(stream).await;
    let large = "x".repeat(500_000);
    for body in ["hello", &large] {
        let answer = client.ask(post("a.test", "/"), body).await.unwrap();
        assert_eq!((answer.status, answer.body == body), (200, true));
    }
    assert_eq!(backend.asked()[0].values("x-forwarded-proto"), ["https"]);
    // Without a word of theirs it is HTTP/1.1, and who asks for something else is told.
    let mut old = connect_for(&running, "a.test", &[&a], &[]).await.unwrap();
    assert_eq!(old.get_ref().1.alpn_protocol(), None);
    assert!(ask(&mut old, &get("a.test", "/"), "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    assert!(connect_for(&running, "a.test", &[&a], &[b"spdy/3"]).await.is_err());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_either_version_of_tls_are_served_and_resume_their_sessions() {
    use rustls::HandshakeKind::{Full, Resumed};
    use rustls::version::{TLS12, TLS13};

    let backend = HttpBackend::answering(|asked| ok(&String::from_utf8_lossy(&asked.body))).await;
    let [a, renewed] = [made(&["a.test"]), made(&["a.test"])];
    let (certificates_tx, certificates_rx) = watch::channel(given(&[("a", &a), ("b", &a)]));
    let plan = plan(backend.address, backend.address);
    let running = Running::with_certificates(plan, AccessLog::Off, certificates_rx).await;
    let ask_one = async |client: &Arc<rustls::ClientConfig>| {
        let mut stream = connect_by(&running, "a.test", client).await.unwrap();
        // What a session is resumed by comes with the answer.
        assert!(ask(&mut stream, &get("a.test", "/"), "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
        let tls = stream.get_ref().1;
        (tls.protocol_version().unwrap(), tls.handshake_kind().unwrap())
    };
    let versions = [&TLS12, &TLS13];
    let clients = versions.map(|version| config(&[&a], &[b"http/1.1"], &[version]));
    for (version, client) in versions.iter().zip(&clients) {
        assert_eq!(ask_one(client).await, (version.version, Full));
        assert_eq!(ask_one(client).await, (version.version, Resumed));
        let both = config(&[&a], &[b"h2"], &[version]);
        let stream = connect_by(&running, "a.test", &both).await.unwrap();
        let answer = StreamClient::over(stream).await.ask(post("a.test", "/"), "hello").await.unwrap();
        assert_eq!((answer.status, answer.body == "hello"), (200, true));
    }
    // Another certificate ends no session.
    certificates_tx.send_replace(given(&[("a", &renewed), ("b", &a)]));
    causeway_testkit::eventually("the new certificate", async || {
        connect(&running, "a.test", &[&renewed]).await.is_ok()
    })
    .await;
    for client in &clients {
        assert_eq!(ask_one(client).await.1, Resumed);
    }
    running.stop().await;
}

/// What curl says, if there is one that speaks HTTP/2.
async fn curl(args: Vec<String>) -> Option<String> {
    let run = |args: Vec<String>| {
        let output = std::process::Command::new("curl").args(args).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    tokio::task::spawn_blocking(move || {
        run(vec!["--version".into()]).filter(|version| version.contains("HTTP2")).and_then(|_| run(args))
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_speaks_http_2_in_tls_and_in_clear_text() {
    let backend = HttpBackend::answering(|asked| ok(&asked.body.len().to_string())).await;
    let a = made(&["a.test"]);
    let (_certificates_tx, certificates_rx) = watch::channel(given(&[("a", &a), ("b", &a)]));
    let mut both = plan(backend.address, backend.address);
    let clear: causeway_ir::Plan =
        serde_saphyr::from_str(&super::backend::all_to(&[backend.address])).unwrap();
    let mut clear = clear.listeners.into_iter().next().unwrap();
    clear.name = name("clear");
    both.listeners.push(clear);
    let running = Running::with_certificates(both, AccessLog::Off, certificates_rx).await;
    let directory = tempfile::tempdir().unwrap();
    let (trusted, large) = (directory.path().join("ca.pem"), directory.path().join("large"));
    std::fs::write(&trusted, &a.pem).unwrap();
    std::fs::write(&large, "x".repeat(3_000_000)).unwrap();
    let args = |url: &str, listener: &str, more: &[&str]| -> Vec<String> {
        let mut args = vec!["--silent", "--show-error", "--max-time", "20", "--noproxy", "*", "--connect-to"];
        let to = format!("::{}", running.address(listener));
        let (trusted, large) = (trusted.display().to_string(), format!("@{}", large.display()));
        args.extend([
            &*to,
            "--cacert",
            &trusted,
            "--data-binary",
            &large,
            "--write-out",
            " %{http_version} %{http_code}",
        ]);
        args.extend(more);
        args.push(url);
        args.into_iter().map(str::to_owned).collect()
    };
    let Some(said) = curl(args("https://a.test/", "in", &["--http2"])).await else {
        eprintln!("skipped: there is no curl with HTTP/2");
        return running.stop().await;
    };
    assert_eq!(said, "3000000 2 200");
    let said = curl(args("http://a.test/", "clear", &["--http2-prior-knowledge"])).await;
    assert_eq!(said.as_deref(), Some("3000000 2 200"));
    let said = curl(args("https://a.test/", "in", &["--http1.1"])).await;
    assert_eq!(said.as_deref(), Some("3000000 1.1 200"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protocol_is_changed_inside_of_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let a = made(&["a.test"]);
    let (_certificates_tx, certificates_rx) = watch::channel(given(&[("a", &a), ("b", &a)]));
    let address = listener.local_addr().unwrap();
    let running = Running::with_certificates(plan(address, address), AccessLog::Off, certificates_rx).await;
    let mut client = connect(&running, "a.test", &[&a]).await.unwrap();
    let upgrade = "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.write_all(upgrade.as_bytes()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let _ = server.read(&mut [0; 1000]).await.unwrap();
    server
        .write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello",
        )
        .await
        .unwrap();
    assert_eq!(status(&until(&mut client, "hello").await), 101);
    client.write_all(b"ping").await.unwrap();
    let mut heard = [0; 4];
    tokio::time::timeout(PATIENCE, server.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(&heard, b"ping");
    server.write_all(b"pong").await.unwrap();
    until(&mut client, "pong").await;
    drop(server);
    assert_eq!(client.read(&mut [0; 10]).await.unwrap(), 0);
    drop(client);
    running.closed("finished", 1).await;
    running.stop().await;
}
