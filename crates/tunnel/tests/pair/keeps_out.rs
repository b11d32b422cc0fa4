//! Whoever is not the pair can do nothing on its ports.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use causeway_ir::tunnel::LinkState;
use causeway_tunnel::host::{Host, Options};
use causeway_tunnel::{Authority, Identity, client_identity, host_identity};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::pair::{Pair, dial_soon, echo, echoes, tunnel, until, within};

/// A TLS client that trusts the pair's authority and shows what it is given.
fn stranger(authority: &Authority, shows: Option<&Identity>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let pem = authority.to_pem();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")).expect("a root");
    let builder =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
    let mut config = match shows {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let pem = identity.to_pem();
            let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")];
            let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key");
            builder.with_client_auth_cert(chain, key).expect("a pair")
        }
    };
    config.alpn_protocols = vec![b"causeway-link/2".to_vec()];
    TlsConnector::from(Arc::new(config))
}

fn name() -> ServerName<'static> {
    ServerName::try_from("container.link.causeway.internal").expect("a name")
}

/// Whether the container says anything to this one.
async fn is_heard(connector: &TlsConnector, address: SocketAddr) -> bool {
    let said = async {
        let socket = TcpStream::connect(address).await?;
        let mut stream = connector.connect(name(), socket).await?;
        // With TLS 1.3 the refusal of a certificate comes after the client's own part of the handshake.
        stream.write_all(&[0, 0, 0, 0, 1, 0, 0, 0]).await?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).await?;
        io::Result::Ok(())
    };
    within("an answer or the end", said).await.is_ok()
}

/// What the container shows at the moment.
pub async fn certificate_of(pair: &Pair) -> Vec<u8> {
    let shown = host_identity(&pair.authority).expect("keys");
    let socket = TcpStream::connect(pair.container.data).await.expect("connects");
    let stream = stranger(&pair.authority, Some(&shown))
        .connect(name(), socket)
        .await
        .expect("the pair's own certificate");
    let (_, tls) = stream.get_ref();
    tls.peer_certificates().expect("certificates")[0].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_pairs_host_is_heard() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let other = Authority::new().expect("keys");
    let nobody = stranger(&pair.authority, None);
    let foreign = stranger(&pair.authority, Some(&host_identity(&other).expect("keys")));
    // The container's own key must not do for the host's.
    let disguised = stranger(&pair.authority, Some(&client_identity(&pair.authority).expect("keys")));
    for address in [pair.container.control, pair.container.data] {
        assert!(!is_heard(&nobody, address).await, "no certificate");
        assert!(!is_heard(&foreign, address).await, "another authority's certificate");
        assert!(!is_heard(&disguised, address).await, "the container's certificate");
    }
    echoes(&mut dial_soon(port).await, "the pair goes on").await;
    // The same greeting with the right certificate is heard: the test can fail.
    let right = stranger(&pair.authority, Some(&host_identity(&pair.authority).expect("keys")));
    assert!(is_heard(&right, pair.container.control).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_does_not_talk_to_another_container() {
    let pair = Pair::start().await;
    let other = Authority::new().expect("keys");
    let host = Host::start(Options::new(pair.container.control, pair.container.data, other));
    let status =
        until(&host, |status| matches!(&status.link, LinkState::Connecting { error: Some(_), .. })).await;
    assert!(format!("{:?}", status.link).contains("handshake"), "{:?}", status.link);
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_and_silence_on_both_ports_harm_nobody() {
    let pair = Pair::start().await;
    let port = pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let mut silent = Vec::new();
    for address in [pair.container.control, pair.container.data] {
        for _ in 0..40 {
            silent.push(TcpStream::connect(address).await.expect("connects"));
            let mut rubbish = TcpStream::connect(address).await.expect("connects");
            rubbish.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("writes");
            let mut answer = Vec::new();
            within("the end", rubbish.read_to_end(&mut answer)).await.ok();
        }
    }
    echoes(&mut dial_soon(port).await, "alive").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_connection_needs_the_current_session() {
    let pair = Pair::start().await;
    pair.carry(vec![tunnel(1, &[echo("").await])]).await;
    let shown = host_identity(&pair.authority).expect("keys");
    let socket = TcpStream::connect(pair.container.data).await.expect("connects");
    let mut stream =
        stranger(&pair.authority, Some(&shown)).connect(name(), socket).await.expect("a handshake");
    // Hello with a session that is over: stream 0, kind 1, 32 bytes.
    stream.write_all(&[0, 0, 0, 0, 1, 0, 0, 32]).await.expect("writes");
    stream.write_all(&[b'0'; 32]).await.expect("writes");
    let mut answer = Vec::new();
    within("the end", stream.read_to_end(&mut answer)).await.ok();
    let said = String::from_utf8_lossy(&answer[8..]);
    assert_eq!((answer[4], &*said), (10, "this is not a data connection of the session in charge"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_of_another_version_is_told_so() {
    let pair = Pair::start().await;
    let shown = host_identity(&pair.authority).expect("keys");
    for offered in [&b"causeway-link/1"[..], b"causeway-link/3", b""] {
        let connector = stranger(&pair.authority, Some(&shown));
        let mut config = (**connector.config()).clone();
        config.alpn_protocols = if offered.is_empty() { Vec::new() } else { vec![offered.to_vec()] };
        let heard = is_heard(&TlsConnector::from(Arc::new(config)), pair.container.control).await;
        assert!(!heard, "{}", String::from_utf8_lossy(offered));
    }
}

/// A container from before links had a version, which agrees to none.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_another_version_is_named_as_the_reason() {
    let authority = Authority::new().expect("keys");
    let pem = client_identity(&authority).expect("keys").to_pem();
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key");
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a pair");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind(crate::pair::any()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let mut stream = acceptor.accept(socket).await.expect("a handshake");
            stream.read_to_end(&mut Vec::new()).await.ok();
        }
    });
    let host = Host::start(Options::new(address, address, authority));
    let status =
        until(&host, |status| matches!(&status.link, LinkState::Connecting { error: Some(_), .. })).await;
    let said = format!("{:?}", status.link);
    assert!(
        said.contains("does not speak causeway-link/2") && said.contains("replace the older one"),
        "{said}"
    );
}
