//! Endpoints that are reached with TLS, or not at all.

use std::sync::Arc;

use causeway_engine::{AccessLog, Certificates};
use causeway_ir::Plan;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::backend::{Client, HttpBackend, get, status};
use super::streams::{self, StreamClient};
use crate::pki::{Authority, given};
use crate::support::{PATIENCE, Running, read_all};

/// Everything to one cluster whose endpoint has TLS, of which these fields tell.
fn plan(backend: &HttpBackend, tls: &str) -> Plan {
    let text = format!(
        "listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol: {{http: {{routes: [{{name: all, action: {{forward: c}}}}]}}}}\n\
         clusters: [{{name: c, retries: 0, transport: {{tls: {tls}}}, endpoints: [{{address: '{}'}}]}}]",
        backend.address
    );
    serde_saphyr::from_str(&text).unwrap()
}

async fn start(plan: Plan, certificates: Arc<Certificates>) -> (Running, watch::Sender<Arc<Certificates>>) {
    let (certificates_tx, certificates_rx) = watch::channel(certificates);
    (Running::with_certificates(plan, AccessLog::Off, certificates_rx).await, certificates_tx)
}

async fn ask(running: &Running, host: &str) -> (u16, String) {
    let (head, body) = Client::connect(running).await.ask(get(host, "/")).await;
    (status(&head), body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_must_prove_who_it_is() {
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let issued = authority.issue(&["a.test", "*.b.test", "spiffe://cluster/shop"]);
    let backend = HttpBackend::secured("secret", issued.server(None)).await;
    let certificates = given(&[], &[("one", &authority), ("other", &other)]);
    for (tls, host, expected) in [
        ("{serverName: a.test, authorities: one}", "x.test", 200),
        ("{serverName: x.b.test, authorities: one}", "x.test", 200),
        ("{authorities: one}", "a.test:8080", 200),
        ("{authorities: one}", "x.test", 502),
        ("{serverName: c.test, authorities: one}", "a.test", 502),
        ("{serverName: a.test, authorities: other}", "a.test", 502),
        ("{serverName: a.test, authorities: missing}", "a.test", 502),
        ("{serverName: a.test}", "a.test", 502),
        ("{serverName: a.test, authorities: one, certificate: missing}", "a.test", 502),
        ("{serverName: c.test, authorities: one, subjectNames: [{host: a.test}]}", "a.test", 200),
        ("{serverName: a.test, authorities: one, subjectNames: [{host: c.test}]}", "a.test", 502),
        (
            "{serverName: c.test, authorities: one, subjectNames: [{uri: 'spiffe://cluster/shop'}, {host: d.test}]}",
            "a.test",
            200,
        ),
        (
            "{serverName: c.test, authorities: one, subjectNames: [{uri: 'spiffe://cluster/bank'}]}",
            "a.test",
            502,
        ),
        // A name is no proof without an authority.
        ("{serverName: c.test, authorities: other, subjectNames: [{host: a.test}]}", "a.test", 502),
    ] {
        let before = backend.asked().len();
        let (running, _certificates_tx) = start(plan(&backend, tls), Arc::clone(&certificates)).await;
        let (status, body) = ask(&running, host).await;
        assert_eq!((status, body == "secret"), (expected, expected == 200), "{tls} {host}");
        assert_eq!(backend.asked().len() - before, usize::from(expected == 200), "{tls}");
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_endpoints_see_of_the_handshake() {
    let authority = Authority::new("one");
    let issued = authority.issue(&["a.test", "b.test"]);
    let own = authority.issue(&["engine.test"]);
    let backend = HttpBackend::secured("ok", issued.server(Some(&authority))).await;
    let certificates = given(&[("own", &own)], &[("one", &authority)]);
    let tls = "{authorities: one, certificate: own}";
    let (running, _certificates_tx) = start(plan(&backend, tls), certificates).await;
    let mut client = Client::connect(&running).await;
    // A connection is used again for the name that the endpoint has shown, and for no other.
    for host in ["a.test", "a.test", "b.test", "a.test", "B.test"] {
        let (head, _) = client.ask(get(host, "/")).await;
        assert_eq!(status(&head), 200, "{head}");
    }
    let greeted = backend.greeted();
    assert_eq!(greeted.len(), 2, "{greeted:?}");
    for (greeted, name) in greeted.iter().zip(["a.test", "b.test"]) {
        assert_eq!(greeted.server_name.as_deref(), Some(name));
        assert_eq!(greeted.protocol.as_deref(), Some("http/1.1"));
        assert_eq!(greeted.certificates, 1);
    }
    drop(client);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_resumed() {
    let authority = Authority::new("one");
    // Each request needs another connection.
    let last = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let config = authority.issue(&["a.test"]).server(None);
    let backend = HttpBackend::start(Some(config.into()), move |_| last.as_bytes().to_vec()).await;
    let tls = "{serverName: a.test, authorities: one}";
    let (running, _certificates_tx) = start(plan(&backend, tls), given(&[], &[("one", &authority)])).await;
    for _ in 0..3 {
        assert_eq!(ask(&running, "a.test").await, (200, "ok".to_owned()));
    }
    let resumed: Vec<bool> = backend.greeted().iter().map(|greeted| greeted.resumed).collect();
    assert_eq!(resumed, [false, true, true]);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_and_tls_itself_change_while_it_runs() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let backend = HttpBackend::secured("ok", new.issue(&["a.test"]).server(None)).await;
    let tls = "{serverName: a.test, authorities: trusted}";
    let (mut running, certificates_tx) = start(plan(&backend, tls), given(&[], &[])).await;
    assert_eq!(ask(&running, "a.test").await.0, 502);
    // A cluster that can't be trusted is told, and keeps no one from being served.
    let status = running.handle.status();
    assert_eq!(status.missing(), Vec::<String>::new());
    assert_eq!(status.missing_certificates[0].to_string(), "cluster c: there are no authorities trusted");
    certificates_tx.send_replace(given(&[], &[("trusted", &new)]));
    causeway_testkit::eventually("the right authorities", async || ask(&running, "a.test").await.0 == 200)
        .await;
    // A connection that was trusted before is not used once it is not.
    certificates_tx.send_replace(given(&[], &[("trusted", &old)]));
    causeway_testkit::eventually("the wrong authorities", async || ask(&running, "a.test").await.0 == 502)
        .await;
    running.change(|plan| plan.clusters[0].transport = causeway_ir::Transport::Direct).await;
    // The server hears no TLS, and says so by closing.
    assert_eq!(ask(&running, "a.test").await.0, 502);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_forwarded_in_tls_or_not_at_all() {
    let authority = Authority::new("one");
    let acceptor = tokio_rustls::TlsAcceptor::from(authority.issue(&["a.test", "127.0.0.1"]).server(None));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                let mut heard = Vec::new();
                stream.read_to_end(&mut heard).await?;
                heard.reverse();
                stream.write_all(&heard).await?;
                stream.shutdown().await
            });
        }
    });
    let plan = |tls: &str| -> Plan {
        serde_saphyr::from_str(&format!(
            "listeners: [{{name: in, bind: '127.0.0.1:0', protocol: {{tcp: {{name: r, action: {{forward: c}}}}}}}}]\n\
             clusters: [{{name: c, retries: 0, transport: {{tls: {tls}}}, endpoints: [{{address: '{address}'}}]}}]"
        ))
        .unwrap()
    };
    let certificates = given(&[], &[("one", &authority)]);
    // Without a name it is the address that the certificate has to have.
    for tls in ["{serverName: a.test, authorities: one}", "{authorities: one}"] {
        let (running, _certificates_tx) = start(plan(tls), Arc::clone(&certificates)).await;
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
        let mut stream = running.connect("in").await;
        let (mut from, mut to) = stream.split();
        let sending = async {
            to.write_all(&bytes).await.unwrap();
            to.shutdown().await.unwrap();
        };
        let mut heard = Vec::new();
        let both = async { tokio::join!(sending, from.read_to_end(&mut heard)) };
        tokio::time::timeout(PATIENCE, both).await.unwrap().1.unwrap();
        heard.reverse();
        assert!(heard == bytes, "{tls}: {} of {}", heard.len(), bytes.len());
        running.closed("finished", 1).await;
        running.stop().await;
    }
    let (running, _certificates_tx) =
        start(plan("{serverName: c.test, authorities: one}"), certificates).await;
    let mut stream = running.connect("in").await;
    assert_eq!(read_all(&mut stream).await, b"");
    running.closed("endpointTlsFailed", 1).await;
    running.stop().await;
    serving.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_somebody_cut_is_not_taken_for_whole() {
    let authority = Authority::new("one");
    let issued = authority.issue(&["a.test"]);
    let acceptor = tokio_rustls::TlsAcceptor::from(issued.server(None));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        for says_so in [true, false] {
            let mut stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
            let _ = stream.read(&mut [0; 1000]).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nto the end").await.unwrap();
            stream.flush().await.unwrap();
            if says_so {
                stream.shutdown().await.unwrap();
            }
        }
    });
    let text = format!(
        "listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol: {{http: {{routes: [{{name: all, action: {{forward: c}}}}]}}}}\n\
         clusters: [{{name: c, transport: {{tls: {{serverName: a.test, authorities: one}}}}, endpoints: [{{address: '{address}'}}]}}]"
    );
    let (running, _certificates_tx) =
        start(serde_saphyr::from_str(&text).unwrap(), given(&[], &[("one", &authority)])).await;
    assert_eq!(ask(&running, "a.test").await, (200, "to the end".to_owned()));
    let mut client = Client::connect(&running).await;
    client.send(get("a.test", "/")).await;
    assert!(!client.rest().await.contains("0\r\n\r\n"));
    running.closed("endpointReset", 1).await;
    serving.await.unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_lost_its_patience_fails_no_other() {
    let authority = Authority::new("one");
    let issued = authority.issue(&["a.test"]);
    let acceptor = tokio_rustls::TlsAcceptor::from(issued.server(None));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        // The first connection gets nowhere.
        let silent = listener.accept().await.unwrap();
        let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        respond.send_response(http::Response::new(()), true).unwrap();
        let _ = connection.accept().await;
        drop(silent);
    });
    let text = format!(
        "listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol:\n    http:\n      routes:\n\
         \x20     - {{name: hasty, matches: [{{path: {{prefix: /hasty}}}}], timeouts: {{request: 300ms}}, action: {{forward: c}}}}\n\
         \x20     - {{name: patient, action: {{forward: c}}}}\n\
         clusters: [{{name: c, retries: 0, httpVersion: '2', transport: {{tls: {{serverName: a.test, authorities: one}}}}, endpoints: [{{address: '{address}'}}]}}]"
    );
    let (running, _certificates_tx) =
        start(serde_saphyr::from_str(&text).unwrap(), given(&[], &[("one", &authority)])).await;
    // On one connection, so that one core has both.
    let client = StreamClient::connect(&running).await;
    let (hasty, _) = client.send(streams::get("a.test", "/hasty"), true).await.unwrap();
    let (patient, _) = client.send(streams::get("a.test", "/patient"), true).await.unwrap();
    assert_eq!(streams::answer(hasty).await.unwrap().status, 504);
    assert_eq!(streams::answer(patient).await.unwrap().status, 200);
    drop(client);
    running.stop().await;
    serving.abort();
}
