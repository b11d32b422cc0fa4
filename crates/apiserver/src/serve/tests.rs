//! The whole front on port 0, with a rustls client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::get;
use http::StatusCode;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::access::PeerCertificate;
use crate::access::tests::{robot_token, server as access_of_robot};
use crate::pki::{PemPair, Pki};

const ROBOT: &str = "system:serviceaccount:apps:robot";
const HOUR: Duration = Duration::from_hours(1);
const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    pki: Arc<Pki>,
    tls: Arc<ServerTls>,
    addr: SocketAddr,
    /// Of a ServiceAccount.
    token: String,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

/// Answers with the user's name, and has one path that never ends.
async fn start(limits: Limits) -> Server {
    let pki = Arc::new(Pki::ephemeral().unwrap());
    let (_, access) = access_of_robot();
    let token = robot_token(&access, json!({}));
    let access = Arc::new(access);
    let whoami = move |request: Request| async move {
        let peer = request.extensions().get::<PeerCertificate>();
        match access.authenticate(request.headers(), peer, request.uri().path()) {
            Ok(user) => json!({ "name": user.name, "groups": user.groups }).to_string().into_response(),
            Err(error) => error.into_response(),
        }
    };
    let forever = || async {
        let first = futures::stream::once(async { Ok::<_, io::Error>("first\n") });
        axum::body::Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()))
    };
    let router = Router::new().route("/whoami", get(whoami)).route("/forever", get(forever));
    let tls = Arc::new(ServerTls::new(pki.clone(), &["203.0.113.7".to_owned()]).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve_with_limits(listener, router, tls.clone(), limits, shutdown.clone()));
    Server { pki, tls, addr, token, shutdown, task }
}

impl Server {
    async fn connect(&self, identity: Option<&PemPair>, alpn: &[&[u8]]) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.pki.ca_der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => config.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
        let stream = TcpStream::connect(self.addr).await.unwrap();
        let name = ServerName::try_from("kubernetes.default.svc").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Status and body of `GET /whoami`, over HTTP/2 if the server speaks it.
    async fn whoami(
        &self,
        identity: Option<&PemPair>,
        token: Option<&str>,
    ) -> (StatusCode, serde_json::Value) {
        let stream = self.connect(identity, &[b"h2", b"http/1.1"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = http::Request::get(format!("https://{}/whoami", self.addr));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response =
            sender.send_request(request.body(Empty::<bytes::Bytes>::new()).unwrap()).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }
}

#[tokio::test]
async fn certificates_and_tokens_authenticate_over_http2() {
    let server = start(Limits::default()).await;
    let alice = server.pki.client_certificate("alice", &["devs", "ops"], HOUR).unwrap();
    let (status, body) = server.whoami(Some(&alice), None).await;
    assert_eq!((status, &body["name"]), (StatusCode::OK, &json!("alice")));
    assert_eq!(body["groups"], json!(["devs", "ops", "system:authenticated"]));
    let (status, body) = server.whoami(None, Some(&server.token)).await;
    assert_eq!((status, &body["name"]), (StatusCode::OK, &json!(ROBOT)));
    let (status, body) = server.whoami(None, None).await;
    assert_eq!((status, &body["reason"]), (StatusCode::UNAUTHORIZED, &json!("Unauthorized")));
}

#[tokio::test]
async fn a_strangers_certificate_neither_helps_nor_breaks_the_handshake() {
    let server = start(Limits::default()).await;
    let stranger = Pki::ephemeral().unwrap().client_certificate("root", &["system:masters"], HOUR).unwrap();
    let (status, _) = server.whoami(Some(&stranger), None).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let (status, body) = server.whoami(Some(&stranger), Some(&server.token)).await;
    assert_eq!((status, &body["name"]), (StatusCode::OK, &json!(ROBOT)));
}

#[tokio::test]
async fn a_serving_certificate_proves_no_client() {
    let server = start(Limits::default()).await;
    let serving = server.pki.serving_certificate(&["system:masters".to_owned()], HOUR).unwrap();
    assert!(server.tls.verify_client(&[serving.certificate]).is_none());
}

#[tokio::test]
async fn speaks_http1_and_is_known_by_its_names() {
    let server = start(Limits::default()).await;
    let mut stream = server.connect(None, &[b"http/1.1"]).await;
    let token = &server.token;
    let request = format!(
        "GET /whoami HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(ROBOT), "{answer}");
}

#[tokio::test]
async fn a_renewed_certificate_is_used_by_new_connections() {
    let server = start(Limits::default()).await;
    let leaf = |stream: &TlsStream<TcpStream>| stream.get_ref().1.peer_certificates().unwrap()[0].clone();
    let before = server.connect(None, &[]).await;
    server.tls.renew().unwrap();
    let after = server.connect(None, &[]).await;
    assert_ne!(leaf(&before), leaf(&after));
}

#[tokio::test]
async fn plain_http_is_told_to_use_https() {
    let server = start(Limits::default()).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    stream.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
}

#[tokio::test]
async fn a_silent_client_is_disconnected() {
    let limits = Limits { handshake: Duration::from_millis(50), ..Limits::default() };
    let server = start(limits).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let read = timeout(PATIENCE, stream.read(&mut [0u8; 1])).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_client_that_asks_nothing_is_disconnected() {
    let limits = Limits { header: Duration::from_millis(50), ..Limits::default() };
    let server = start(limits).await;
    for alpn in [&b"h2"[..], b"http/1.1"] {
        let mut stream = server.connect(None, &[alpn]).await;
        let mut rest = Vec::new();
        // However it is told, it must come to an end.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("still connected");
    }
}

#[tokio::test]
async fn strangers_take_the_place_of_strangers_and_of_nobody_else() {
    let limits = Limits { strangers: 8, ..Limits::default() };
    let server = start(limits).await;
    let mut watch = server.connect(None, &[b"http/1.1"]).await;
    let request =
        format!("GET /forever HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", server.token);
    watch.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"first\n\r\n") {
        assert!(watch.read_buf(&mut answer).await.unwrap() > 0, "closed before the first chunk");
    }
    let mut strangers = Vec::new();
    for _ in 0..32 {
        strangers.push(TcpStream::connect(server.addr).await.unwrap());
    }
    let read = timeout(PATIENCE, strangers[0].read(&mut [0u8; 1])).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "the oldest makes room");
    assert_eq!(server.whoami(None, Some(&server.token)).await.0, StatusCode::OK);
    let more = timeout(Duration::from_millis(50), watch.read_buf(&mut answer)).await;
    assert!(more.is_err(), "who has shown who it is stays: {more:?}");
}

#[tokio::test]
async fn shutdown_cuts_endless_responses_at_the_deadline() {
    let limits = Limits { drain: Duration::from_millis(50), ..Limits::default() };
    let server = start(limits).await;
    let mut stream = server.connect(None, &[b"http/1.1"]).await;
    stream.write_all(b"GET /forever HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"first\n\r\n") {
        let mut buffer = [0u8; 1024];
        let n = timeout(PATIENCE, stream.read(&mut buffer)).await.unwrap().unwrap();
        assert!(n > 0, "closed before the first chunk");
        answer.extend_from_slice(&buffer[..n]);
    }
    // One that has not begun its handshake must not delay the end either.
    let _idle = TcpStream::connect(server.addr).await.unwrap();
    server.shutdown.cancel();
    timeout(PATIENCE, server.task).await.unwrap().unwrap();
    assert!(TcpStream::connect(server.addr).await.is_err(), "still listening");
}

#[test]
fn pauses_grow_and_stay_bounded() {
    let pauses: Vec<_> = (1..=12).map(|failures| ACCEPT.ceiling(failures).as_millis()).collect();
    assert_eq!(pauses[..4], [5, 10, 20, 40]);
    assert_eq!(pauses[11], 1000);
}
