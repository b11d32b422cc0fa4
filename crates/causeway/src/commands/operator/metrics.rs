//! The operator's `/metrics`, `/healthz` and `/readyz`, over plain HTTP or TLS, and who may ask for metrics.

mod tls;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::get;
use axum::serve::Listener;
use causeway_agent::BoundedListener;
use causeway_controllers::framework::health::Health;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use tls::{Certificate, TlsListener};

#[derive(Debug, clap::Args)]
pub(super) struct ObserveArgs {
    /// Where /metrics, /healthz and /readyz are served.
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "ADDR:PORT")]
    observe: SocketAddr,
    /// Serve them by TLS, with a certificate that is made on the spot unless there is one.
    #[arg(long)]
    observe_tls: bool,
    /// A directory with tls.crt and tls.key for that, which are read again when they change.
    #[arg(long, requires = "observe_tls", value_name = "DIR")]
    observe_certificate: Option<PathBuf>,
    /// A file with the token that /metrics asks for, as `Authorization: Bearer TOKEN`; read again each time.
    #[arg(long, requires = "observe_tls", value_name = "FILE")]
    observe_token: Option<PathBuf>,
}

impl ObserveArgs {
    /// Takes the port. `namespace` is the operator's own.
    pub(super) async fn open(self, namespace: &str) -> anyhow::Result<Observed> {
        let address = self.observe;
        let certificate = match &self.observe_certificate {
            Some(directory) => Some(Certificate::of(directory)?),
            None if self.observe_tls => Some(Certificate::made(namespace)?),
            None => None,
        };
        if let Some(file) = &self.observe_token {
            token(file)?;
        }
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("can't serve metrics on {address}; choose another with --observe ADDR:PORT")
        })?;
        Ok(Observed { listener, certificate: certificate.map(Arc::new), token: self.observe_token })
    }
}

/// A port that is ready to be served.
pub(super) struct Observed {
    listener: TcpListener,
    certificate: Option<Arc<Certificate>>,
    token: Option<PathBuf>,
}

fn token(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    let token = text.trim().to_owned();
    if token.is_empty() {
        bail!("{} is empty: it is to be the token that metrics are asked for with", file.display());
    }
    Ok(token)
}

pub(super) async fn serve(
    observed: Observed,
    registry: Registry,
    health: Health,
    shutdown: CancellationToken,
) {
    let Observed { listener, certificate, token } = observed;
    let router = router(Arc::new(registry), health, token.map(Arc::from));
    let Some(certificate) = certificate else {
        return listen(listener, router, shutdown).await;
    };
    let listener = match TlsListener::new(listener, certificate.clone()) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!("metrics and health are not served: {error:#}"),
    };
    tokio::select! {
        () = listen(listener, router, shutdown) => {}
        () = certificate.follow() => {}
    }
}

async fn listen<L: Listener<Addr = SocketAddr>>(listener: L, router: Router, shutdown: CancellationToken) {
    let served = axum::serve(BoundedListener::new(listener), router)
        .with_graceful_shutdown(async move { shutdown.cancelled().await });
    if let Err(error) = served.await {
        tracing::warn!(%error, "metrics and health are no longer served");
    }
}

fn router(registry: Arc<Registry>, health: Health, token: Option<Arc<Path>>) -> Router {
    let live = health.clone();
    Router::new()
        .route(
            "/metrics",
            get(async move |headers: HeaderMap| {
                if token.as_deref().is_some_and(|file| !may_ask(file, &headers)) {
                    return Err(StatusCode::UNAUTHORIZED);
                }
                metrics(&registry)
            }),
        )
        .route("/healthz", get(async move || answer(live.dead())))
        .route("/readyz", get(async move || ready(&health)))
}

/// Whether the token of this file is shown. One that can't be read is nobody's.
fn may_ask(file: &Path, headers: &HeaderMap) -> bool {
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(shown) = shown.and_then(|value| value.strip_prefix("Bearer ")) else { return false };
    token(file).is_ok_and(|wanted| is_same(wanted.as_bytes(), shown.as_bytes()))
}

/// In a time that tells nothing but the length.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

fn metrics(registry: &Registry) -> Result<String, StatusCode> {
    let mut text = String::new();
    encode(&mut text, registry).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(text)
}

/// With what is not done here, for those who wonder.
fn ready(health: &Health) -> (StatusCode, String) {
    let (status, mut text) = answer(health.missing());
    for what in health.off() {
        text.push_str("\noff: ");
        text.push_str(&what);
    }
    (status, text)
}

fn answer(missing: Vec<String>) -> (StatusCode, String) {
    if missing.is_empty() {
        (StatusCode::OK, "ok".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", missing.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;

    use super::*;

    /// The status of an answer.
    async fn asked(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, token: &str) -> String {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let head = format!("{head}Authorization: Bearer {token}\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = Vec::new();
        // How it ends is of no matter here.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn metrics_by_tls_ask_for_the_token_and_health_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(directory.path().join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(directory.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "open sesame\n").unwrap();
        let args = ObserveArgs {
            observe: "127.0.0.1:0".parse().unwrap(),
            observe_tls: true,
            observe_certificate: Some(directory.path().to_owned()),
            observe_token: Some(file.clone()),
        };
        let observed = args.open("here").await.unwrap();
        let address = observed.listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(serve(observed, Registry::default(), Health::default(), shutdown.clone()));

        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let ask = async |path: &str, token: &str| {
            let stream = TcpStream::connect(address).await.unwrap();
            let stream = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
            asked(stream, path, token).await
        };
        assert_eq!(ask("/metrics", "open sesame").await, "HTTP/1.1 200 OK");
        for token in ["", "open sesami", "open"] {
            assert_eq!(ask("/metrics", token).await, "HTTP/1.1 401 Unauthorized", "{token}");
        }
        assert_eq!(ask("/healthz", "").await, "HTTP/1.1 200 OK");
        std::fs::write(&file, "another").unwrap();
        assert_eq!(ask("/metrics", "another").await, "HTTP/1.1 200 OK");
        // What is empty lets nobody in.
        std::fs::write(&file, "").unwrap();
        assert_eq!(ask("/metrics", "").await, "HTTP/1.1 401 Unauthorized");
        let plain = asked(TcpStream::connect(address).await.unwrap(), "/healthz", "").await;
        assert!(!plain.starts_with("HTTP/1.1 200"), "{plain}");
        shutdown.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_token_that_is_not_there_is_told_at_the_start() {
        let args = ObserveArgs {
            observe: "127.0.0.1:0".parse().unwrap(),
            observe_tls: true,
            observe_certificate: None,
            observe_token: Some("/nonexistent/token".into()),
        };
        let refused = args.open("here").await.err().unwrap();
        assert!(format!("{refused:#}").contains("/nonexistent/token"), "{refused:#}");
    }
}
