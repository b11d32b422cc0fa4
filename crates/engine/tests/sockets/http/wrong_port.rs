//! One port for several kinds of TLS, and clients that took the wrong one.

use causeway_engine::AccessLog;
use causeway_ir::Plan;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::backend::{Client, HttpBackend, get, status};
use crate::pki::{Authority, given, provider};
use crate::support::{Backend, PATIENCE, Running, hello, read_all};

fn plan(backend: &HttpBackend, bytes: &Backend) -> Plan {
    serde_saphyr::from_str(&format!(
        "listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol:\n    tls:\n      routes:\n\
         \x20     - {{name: web, serverNames: [a.test], action: {{terminate: {{certificates: [a], then: {{http: {{routes: [{{name: all, action: {{forward: web}}}}]}}}}}}}}}}\n\
         \x20     - {{name: mail, serverNames: [m.test], action: {{terminate: {{certificates: [a], then: {{tcp: {{name: all, connectionLimit: 1, action: {{forward: bytes}}}}}}}}}}}}\n\
         \x20     - {{name: passed, serverNames: [p.test], action: {{forward: bytes}}}}\n\
         - {{name: clear, bind: '127.0.0.1:0', protocol: {{http: {{routes: [{{name: all, action: {{forward: web}}}}]}}}}}}\n\
         clusters:\n- {{name: web, endpoints: [{{address: '{}'}}]}}\n- {{name: bytes, endpoints: [{{address: '{}'}}]}}",
        backend.address, bytes.address
    ))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_bytes_and_what_is_passed_on_share_a_port() {
    let authority = Authority::new("one");
    let (backend, bytes) = (HttpBackend::named("web").await, Backend::named("bytes:").await);
    let issued = authority.issue(&["a.test", "m.test"]);
    let (_certificates_tx, certificates_rx) = watch::channel(given(&[("a", &issued)], &[]));
    let running = Running::with_certificates(plan(&backend, &bytes), AccessLog::Off, certificates_rx).await;
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(authority.roots())
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let connect = async |name: &'static str| {
        connector.connect(name.try_into().unwrap(), running.connect("in").await).await
    };
    let mut web = connect("a.test").await.unwrap();
    web.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    web.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("web"), "{answer}");

    // The server speaks first, and bytes go both ways until both have ended.
    let mut mail = connect("m.test").await.unwrap();
    let mut first = [0; 6];
    tokio::time::timeout(PATIENCE, mail.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"bytes:");
    // The route inside has its own limit.
    let mut second = connect("m.test").await.unwrap();
    assert_eq!(second.read(&mut [0; 10]).await.unwrap_or(0), 0);
    running.closed("routeLimit", 1).await;
    mail.write_all(b"hello").await.unwrap();
    mail.shutdown().await.unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, mail.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert_eq!(rest, b"hello");
    let of_mail = ["causeway_connections_closed_total", "route=\"mail/all\"", "reason=\"finished\""];
    crate::support::eventually("its end", || running.metric(&of_mail) == 1).await;

    let hello = hello("p.test");
    assert_eq!(running.ask("in", &hello).await, [b"bytes:", hello.as_slice()].concat());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_took_the_wrong_port_is_told_or_cut_off_cleanly() {
    let authority = Authority::new("one");
    let (backend, bytes) = (HttpBackend::named("web").await, Backend::named("bytes:").await);
    let issued = authority.issue(&["a.test"]);
    let (_certificates_tx, certificates_rx) = watch::channel(given(&[("a", &issued)], &[]));
    let running = Running::with_certificates(plan(&backend, &bytes), AccessLog::Off, certificates_rx).await;

    let answer = String::from_utf8(running.ask("in", get("a.test", "/").as_bytes()).await).unwrap();
    assert!(status(&answer) == 400 && answer.ends_with("https:// here.\n"), "{answer}");
    // What is no request gets no answer in HTTP.
    assert_eq!(running.ask("in", b"EHLO\r\n").await, b"");
    running.closed("plaintext", 2).await;

    let mut stream = running.connect("clear").await;
    stream.write_all(&hello("a.test")).await.unwrap();
    assert_eq!(read_all(&mut stream).await, b"");
    running.closed("unexpectedTls", 1).await;
    assert!(backend.asked().is_empty());
    let mut client = Client { stream: running.connect("clear").await, bytes: Vec::new() };
    assert_eq!(status(&client.ask(get("a.test", "/")).await.0), 200);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_say_how_long_they_last() {
    let authority = Authority::new("one");
    let (backend, bytes) = (HttpBackend::named("web").await, Backend::named("bytes:").await);
    let issued = authority.issue(&["a.test"]);
    let (_certificates_tx, certificates_rx) = watch::channel(given(&[("a", &issued)], &[]));
    let running = Running::with_certificates(plan(&backend, &bytes), AccessLog::Off, certificates_rx).await;
    let left = running.metric(&["causeway_certificate_expires_seconds", "certificate=\"a\""]);
    // The library that issues them here lets them last for long.
    assert!(left > 365 * 24 * 3600, "{left}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_goes_its_own_way_if_it_has_one() {
    let (web, bytes) = (HttpBackend::named("web").await, Backend::named("bytes:").await);
    let plan = format!(
        "listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol:\n    http:\n\
         \x20     routes: [{{name: all, action: {{forward: web}}}}]\n\
         \x20     otherwise: {{name: rest, action: {{forward: bytes}}}}\n\
         clusters:\n- {{name: web, endpoints: [{{address: '{}'}}]}}\n- {{name: bytes, endpoints: [{{address: '{}'}}]}}",
        web.address, bytes.address
    );
    let running = Running::start(&plan).await;
    let mut client = Client::connect(&running).await;
    assert_eq!(client.ask(get("a.test", "/")).await.1, "web");
    let hello = hello("a.test");
    assert_eq!(running.ask("in", &hello).await, [b"bytes:", hello.as_slice()].concat());
    assert_eq!(running.ask("in", b"EHLO me\r\n").await, b"bytes:EHLO me\r\n");
    // A server that speaks first is heard by a client that waits for it.
    let mut silent = running.connect("in").await;
    let mut first = [0; 6];
    tokio::time::timeout(PATIENCE, silent.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"bytes:");
    assert_eq!(web.asked().len(), 1);
    drop((client, silent));
    running.stop().await;
}
