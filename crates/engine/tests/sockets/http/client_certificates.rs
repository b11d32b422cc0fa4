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
use crate::pki::{Authority, Issued, given, provider};
use crate::support::{PATIENCE, Running};

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
    assert_eq!(running.handle.status().missing(), ["listener in: there are no authorities staff"]);
    running.stop().await;
}
