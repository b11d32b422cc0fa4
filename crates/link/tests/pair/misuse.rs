//! A peer that breaks the rules harms nobody but itself.

use std::sync::Arc;

use causeway_link::{Authority, Ended, Identity, Listener, Role};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::ends::{End, listener, within};

const HELLO: [u8; 8] = [0, 0, 0, 0, 1, 0, 0, 0];

/// A connection of a peer that writes frames by hand, and the listener's end of it.
async fn by_hand() -> (TlsStream<TcpStream>, End) {
    let authority = Authority::new().expect("keys");
    let mut listener = listener(&authority).await;
    let mut stream = connect(&listener, &authority.issue(Role::Dialer, "rogue").expect("keys")).await;
    stream.write_all(&HELLO).await.expect("writes");
    let end = End::start(within("a connection", listener.accept()).await);
    let mut answer = [0; 8];
    within("the answer", stream.read_exact(&mut answer)).await.expect("reads");
    assert_eq!(answer, HELLO);
    (stream, end)
}

async fn connect(listener: &Listener, identity: &Identity) -> TlsStream<TcpStream> {
    let pem = identity.to_pem();
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().expect("certificates");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificates[1].clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![certificates[0].clone()],
            PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key"),
        )
        .expect("a pair");
    config.alpn_protocols = vec![b"causeway-link/2".to_vec()];
    let socket = TcpStream::connect(listener.address()).await.expect("connects");
    let name = ServerName::try_from("box.link.causeway.internal").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, socket).await.expect("a handshake")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_asks_and_never_reads_is_cut_off() {
    let (mut stream, end) = by_hand().await;
    let mut pings = Vec::new();
    for _ in 0..4096 {
        pings.extend([0, 0, 0, 0, 7, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    let asking = tokio::spawn(async move { while stream.write_all(&pings).await.is_ok() {} });
    assert!(matches!(end.ended().await, Ended::Flooded));
    within("the connection's end", asking).await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_uses_numbers_which_are_not_its_own_is_cut_off() {
    // An even number, 0, and one that is in use.
    let open = |id: u8| [0, 0, 0, id, 2, 0, 0, 1, 1];
    for frames in [vec![open(2)], vec![open(0)], vec![open(1), open(3), open(1)]] {
        let (mut stream, mut end) = by_hand().await;
        stream.write_all(&frames.concat()).await.expect("writes");
        // Streams are kept, so that their numbers are in use.
        let mut kept = Vec::new();
        for _ in 1..frames.len() {
            kept.push(end.next_stream().await);
        }
        assert!(matches!(end.ended().await, Ended::Number(_)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_sends_more_than_it_may_loses_that_stream_only() {
    let (mut stream, mut end) = by_hand().await;
    stream.write_all(&[0, 0, 0, 1, 2, 0, 0, 1, 1]).await.expect("writes");
    let (_, mut greedy) = end.next_stream().await;
    let data = [&[0, 0, 0, 1, 3, 0, 0x40, 0][..], &[7; 0x4000]].concat();
    for _ in 0..17 {
        stream.write_all(&data).await.expect("writes");
    }
    // Once this is answered, all of that was heard.
    stream.write_all(&[0, 0, 0, 0, 7, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]).await.expect("writes");
    let mut frame = [0; 16];
    within("the answer", async {
        while frame[4] != 8 {
            stream.read_exact(&mut frame).await.expect("a ping or the answer");
        }
    })
    .await;
    let error = within("the end", greedy.read(&mut [0; 1])).await.expect_err("too much");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionAborted);
    assert!(end.link.is_usable());
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_instead_of_frames_ends_the_link() {
    let (mut stream, end) = by_hand().await;
    stream.write_all(&[0, 0, 0, 1, 99, 0, 0, 0]).await.expect("writes");
    assert!(matches!(end.ended().await, Ended::Protocol(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_closes_is_answered_in_order() {
    let (mut stream, end) = by_hand().await;
    // A word behind it, which nobody wants to hear any more.
    let frames = [&[0, 0, 0, 0, 10, 0, 0, 3][..], b"bye", &[0, 0, 0, 0, 9, 0, 0, 0]].concat();
    stream.write_all(&frames).await.expect("writes");
    let ended = tokio::spawn(end.ended());
    within("the end", stream.read_to_end(&mut Vec::new())).await.expect("TLS ends in order");
    drop(stream);
    assert!(matches!(ended.await.expect("no panic"), Ended::ClosedThere(reason) if reason == "bye"));
}
