//! A real TLS client and server with the engine between them.

use std::sync::Arc;

use rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::support::{Running, post_quantum, tls_plan};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_goes_through_untouched_with_classic_and_post_quantum_hellos() {
    let issued = rcgen::generate_simple_self_signed(["app.test".to_owned()]).unwrap();
    let certificate = issued.cert.der().clone();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                let mut word = [0; 4];
                stream.read_exact(&mut word).await?;
                stream.write_all(&word).await?;
                stream.shutdown().await
            });
        }
    });
    let check = "  healthCheck: {kind: tls, interval: 20ms, unhealthyAfter: 1}\n";
    let running = Running::start(&tls_plan("'*.test'", &[address], check)).await;

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    for provider in [provider, Arc::new(post_quantum())] {
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(client));
        let stream = running.connect("in").await;
        let name = ServerName::try_from("app.test").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        stream.write_all(b"ping").await.unwrap();
        let mut echoed = Vec::new();
        stream.read_to_end(&mut echoed).await.unwrap();
        assert_eq!(echoed, b"ping");
    }
    // The check's own hello is one that a real server answers.
    let healthy = || running.handle.clusters()[0].endpoints[0].healthy;
    assert!(healthy());
    serving.abort();
    crate::support::eventually("found down", || !healthy()).await;
    running.stop().await;
}
