//! Clients that show certificates.

use std::sync::Arc;

use causeway_engine::AccessLog;
use causeway_ir::Plan;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::client::TlsStream;

use super::backend::{HttpBackend, status};
use super::streams::{StreamClient, get};
use crate::pki::{Authority, Issued, given, provider};
use crate::support::{PATIENCE, Running, eventually};

fn plan(backend: &HttpBackend, mode: &str) -> Plan {
    serde_saphyr::from_str(&format!(
        "listeners:\n- name: in\n  bind: '127.0.0.1:0'\n  protocol:\n    tls:\n      routes:\n\
         \x20     - name: t\n        serverNames: [a.test]\n        action:\n          terminate:\n\
         \x20           certificates: [a]\n            clientCertificates: {{authorities: staff, mode: {mode}}}\n\
         \x20           then: {{http: {{routes: [{{name: all, action: {{forward: c}}}}]}}}}\n\
         - {{name: clear, bind: '127.0.0.1:0', protocol: {{http: {{routes: [{{name: all, action: {{forward: c}}}}]}}}}}}\n\
         clusters: [{{name: c, endpoints: [{{address: '{}'}}]}}]",
        backend.address
    ))
    .unwrap()
}

/// A client that shows a certificate, or none.
fn client(server: &Authority, own: Option<&Issued>) -> tokio_rustls::TlsConnector {
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(server.roots());
    let config = match own {
        Some(own) => builder.with_client_auth_cert(vec![own.der.clone()], own.private_key()).unwrap(),
        None => builder.with_no_client_auth(),
    };
    Arc::new(config).into()
}

/// The answer to a request; nothing if there is no connection.
async fn ask(running: &Running, client: &tokio_rustls::TlsConnector) -> Option<u16> {
    let name = ServerName::try_from("a.test").unwrap();
    let asking = async {
        let mut stream: TlsStream<TcpStream> =
            client.connect(name, running.connect("in").await).await.ok()?;
        // Strangers say what they like.
        let request = "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-Client-Cert: Hash=0\r\n\
                       x_forwarded_client_cert: Hash=1\r\nSSL-Client-Verify: SUCCESS\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        // A handshake that fails on the certificate is known only when something is read.
        Some(status(std::str::from_utf8(&answer).ok()?)).filter(|status| *status > 0)
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap()
}

/// What the endpoint heard of the last client.
fn heard(backend: &HttpBackend) -> (Vec<String>, Vec<String>) {
    let asked = backend.asked().pop().unwrap();
    let of = |name: &str| asked.values(name).into_iter().map(str::to_owned).collect();
    assert!(asked.values("x_forwarded_client_cert").is_empty());
    (of("ssl-client-verify"), of("x-forwarded-client-cert"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_let_in_as_the_mode_says_and_endpoints_hear_of_it() {
    let (server, staff, strangers) =
        (Authority::new("server"), Authority::new("staff"), Authority::new("strangers"));
    let issued = server.issue(&["a.test"]);
    let (good, bad) = (staff.issue(&["ann.test", "spiffe://staff/ann"]), strangers.issue(&["eve.test"]));
    let backend = HttpBackend::named("ok").await;
    for (mode, with_good, with_none, with_bad) in [
        ("required", Some(200), None, None),
        ("optional", Some(200), Some(200), None),
        ("insecureFallback", Some(200), Some(200), Some(200)),
    ] {
        let (_certificates_tx, certificates_rx) =
            watch::channel(given(&[("a", &issued)], &[("staff", &staff)]));
        let running = Running::with_certificates(plan(&backend, mode), AccessLog::Off, certificates_rx).await;
        assert_eq!(running.handle.status().missing(), Vec::<String>::new());
        for (own, expected, verify) in
            [(Some(&good), with_good, "SUCCESS"), (None, with_none, "NONE"), (Some(&bad), with_bad, "FAILED")]
        {
            let client = client(&server, own);
            // The second time the session may be resumed, which must change nothing.
            for _ in 0..3 {
                assert_eq!(ask(&running, &client).await, expected, "{mode} {verify}");
                if expected.is_none() {
                    continue;
                }
                let (verified, certificate) = heard(&backend);
                assert_eq!(verified, [verify], "{mode}");
                match verify {
                    "SUCCESS" => {
                        let [text] = &certificate[..] else { panic!("{certificate:?}") };
                        assert!(
                            text.starts_with("Hash=") && text.contains("Subject=\"CN=ann.test\""),
                            "{text}"
                        );
                        assert!(
                            text.contains(";URI=spiffe://staff/ann") && text.contains(";DNS=ann.test"),
                            "{text}"
                        );
                    }
                    _ => assert!(certificate.is_empty(), "{certificate:?}"),
                }
            }
        }
        // Where nothing is asked nothing is told, and what strangers say goes no further.
        let request = b"GET / HTTP/1.1\r\nHost: a\r\nssl_client-verify: SUCCESS\r\n\r\n";
        running.ask("clear", request).await;
        assert_eq!(heard(&backend), (vec![], vec![]));
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_authorities_are_for_the_clients_to_come_and_their_absence_lets_nobody_in() {
    let (server, old, new) = (Authority::new("server"), Authority::new("old"), Authority::new("new"));
    let issued = server.issue(&["a.test"]);
    let (of_old, of_new) = (old.issue(&["ann.test"]), new.issue(&["bob.test"]));
    let (ann, bob) = (client(&server, Some(&of_old)), client(&server, Some(&of_new)));
    let backend = HttpBackend::named("ok").await;
    let (certificates_tx, certificates_rx) = watch::channel(given(&[("a", &issued)], &[("staff", &old)]));
    let running =
        Running::with_certificates(plan(&backend, "required"), AccessLog::Off, certificates_rx).await;
    // More than once, so that there is a session to resume.
    for _ in 0..3 {
        assert_eq!(ask(&running, &ann).await, Some(200));
    }
    assert_eq!(ask(&running, &bob).await, None);
    certificates_tx.send_replace(given(&[("a", &issued)], &[("staff", &new)]));
    causeway_testkit::eventually("the new authorities", async || ask(&running, &bob).await == Some(200))
        .await;
    assert_eq!(ask(&running, &ann).await, None);
    certificates_tx.send_replace(given(&[("a", &issued)], &[]));
    causeway_testkit::eventually("no authorities", async || ask(&running, &bob).await.is_none()).await;
    let missing = ["listener in: there are no authorities staff"];
    eventually("it is told", || running.handle.status().missing() == missing).await;
    running.stop().await;
}

/// The same plan where nothing is asked of clients.
fn without(backend: &HttpBackend) -> Plan {
    let mut plan = plan(backend, "required");
    let causeway_ir::Protocol::Tls(tls) = &mut plan.listeners[0].protocol else { panic!() };
    let causeway_ir::Action::Terminate(terminate) = &mut tls.routes[0].action else { panic!() };
    terminate.client_certificates = None;
    plan
}

/// A connection with its first request answered.
async fn connected(running: &Running, client: &tokio_rustls::TlsConnector) -> TlsStream<TcpStream> {
    let name = ServerName::try_from("a.test").unwrap();
    let mut stream = client.connect(name, running.connect("in").await).await.unwrap();
    assert_eq!(ask_again(&mut stream).await, 200);
    stream
}

/// The status of another answer on the same connection.
async fn ask_again(stream: &mut TlsStream<TcpStream>) -> u16 {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
    let mut buffer = [0; 1000];
    let count = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap().unwrap();
    status(std::str::from_utf8(&buffer[..count]).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_came_before_a_certificate_was_asked_for_has_to_come_again() {
    let (server, staff, others) =
        (Authority::new("server"), Authority::new("staff"), Authority::new("others"));
    let (issued, ann) = (server.issue(&["a.test"]), staff.issue(&["ann.test"]));
    let backend = HttpBackend::named("ok").await;
    let (certificates_tx, certificates_rx) = watch::channel(given(&[("a", &issued)], &[("staff", &staff)]));
    let mut running = Running::with_certificates(without(&backend), AccessLog::Off, certificates_rx).await;
    let mut before = connected(&running, &client(&server, None)).await;
    let mut in_streams = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(server.roots())
        .with_no_client_auth();
    in_streams.alpn_protocols = vec![b"h2".to_vec()];
    let in_streams: tokio_rustls::TlsConnector = Arc::new(in_streams).into();
    let name = ServerName::try_from("a.test").unwrap();
    let stream = in_streams.connect(name, running.connect("in").await).await.unwrap();
    let streams = StreamClient::over(stream).await;
    assert_eq!(streams.ask(get("a.test", "/"), "").await.unwrap().status, 200);

    running.change(|now| *now = plan(&backend, "required")).await;
    let seen = backend.asked().len();
    assert_eq!(ask_again(&mut before).await, 421);
    assert_eq!(before.read(&mut [0; 10]).await.unwrap_or_default(), 0, "and it is closed");
    assert!(streams.ask(get("a.test", "/"), "").await.is_err());
    tokio::time::timeout(PATIENCE, streams.driver).await.unwrap().unwrap().unwrap();
    assert_eq!(backend.asked().len(), seen, "nobody has heard of these");

    // Who has shown one stays through changes of something else, and where less is asked.
    let mut shown = connected(&running, &client(&server, Some(&ann))).await;
    running.change(|plan| plan.clusters[0].retries = 5).await;
    assert_eq!(ask_again(&mut shown).await, 200);
    certificates_tx.send_replace(given(&[("a", &issued)], &[("staff", &staff), ("others", &others)]));
    running.change(|now| *now = plan(&backend, "optional")).await;
    assert_eq!(ask_again(&mut shown).await, 200);
    running.change(|now| *now = without(&backend)).await;
    assert_eq!(ask_again(&mut shown).await, 200);
    // Other authorities have not seen it.
    certificates_tx.send_replace(given(&[("a", &issued)], &[("staff", &others)]));
    running.change(|now| *now = plan(&backend, "required")).await;
    assert_eq!(ask_again(&mut shown).await, 421);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_certificates_leave_alone_what_does_not_name_them() {
    let (server, staff) = (Authority::new("server"), Authority::new("staff"));
    let (issued, ann) = (server.issue(&["a.test"]), staff.issue(&["ann.test"]));
    let backend = HttpBackend::named("ok").await;
    let (certificates_tx, certificates_rx) = watch::channel(given(&[("a", &issued)], &[("staff", &staff)]));
    let mut running =
        Running::with_certificates(plan(&backend, "required"), AccessLog::Off, certificates_rx).await;
    let client = client(&server, Some(&ann));
    let resumes = async |running: &Running| {
        let name = ServerName::try_from("a.test").unwrap();
        let mut stream = client.connect(name, running.connect("in").await).await.unwrap();
        assert_eq!(ask_again(&mut stream).await, 200);
        stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    };
    resumes(&running).await;
    assert!(resumes(&running).await);
    // A certificate that is renewed, and a plan that is another, end no session.
    let renewed = server.issue(&["a.test"]);
    certificates_tx.send_replace(given(&[("a", &renewed)], &[("staff", &staff)]));
    running.change(|plan| plan.clusters[0].retries = 5).await;
    assert!(resumes(&running).await);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_never_runs_before_the_certificates_that_were_given_with_it() {
    let server = Authority::new("server");
    let issued = server.issue(&["a.test"]);
    let backend = HttpBackend::named("ok").await;
    let (certificates_tx, certificates_rx) = watch::channel(given(&[], &[]));
    let mut running = Running::with_certificates(Plan::default(), AccessLog::Off, certificates_rx).await;
    for i in 0..20 {
        let name = format!("a{i}");
        certificates_tx.send_replace(given(&[(name.as_str(), &issued)], &[]));
        running
            .change(|plan| {
                *plan = without(&backend);
                let causeway_ir::Protocol::Tls(tls) = &mut plan.listeners[0].protocol else { panic!() };
                let causeway_ir::Action::Terminate(terminate) = &mut tls.routes[0].action else { panic!() };
                terminate.certificates = vec![causeway_ir::CertificateRef(crate::support::name(&name))];
            })
            .await;
        assert_eq!(running.handle.status().missing(), Vec::<String>::new(), "{i}");
    }
    running.stop().await;
}
