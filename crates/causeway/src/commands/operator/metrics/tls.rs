//! TLS for the operator's metrics and health: the certificate of a directory, which is read again when it changes, or one that is
//! made on the spot.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use anyhow::{Context, anyhow};
use axum::serve::Listener;
use causeway_base::lock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Between two looks whether the files have changed.
const LOOK: Duration = Duration::from_secs(10);
/// How long a client may take to introduce itself.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Clients that do so at a time: one more, and who has taken longest has to go, so that a crowd of silent ones keeps no probe out.
const MOST: usize = 64;

/// What clients are shown.
pub(super) struct Certificate {
    directory: Option<PathBuf>,
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<CertifiedKey>>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Certificate {
    /// One of its own making, for the names of the operator's Service in this namespace.
    pub(super) fn made(namespace: &str) -> anyhow::Result<Self> {
        let service = format!("causeway-operator-metrics.{namespace}");
        let names = [format!("{service}.svc"), service, "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).context("no certificate can be made")?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let pair = CertifiedKey::from_der(vec![made.cert.der().clone()], key.into(), &provider)
            .context("the certificate that was made is of no use")?;
        Ok(Self { directory: None, provider, current: RwLock::new(Arc::new(pair)) })
    }

    /// That of `tls.crt` and `tls.key` in a directory.
    pub(super) fn of(directory: &Path) -> anyhow::Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let current = RwLock::new(Arc::new(read(directory, &provider)?));
        Ok(Self { directory: Some(directory.to_owned()), provider, current })
    }

    /// Takes what the files say now; whether that is another one.
    fn refresh(&self) -> anyhow::Result<bool> {
        let Some(directory) = &self.directory else { return Ok(false) };
        let now = read(directory, &self.provider)?;
        if now.cert == lock::read(&self.current).cert {
            return Ok(false);
        }
        *lock::write(&self.current) = Arc::new(now);
        Ok(true)
    }

    /// Follows the files for as long as it is polled. What can't be read leaves the one that there is.
    pub(super) async fn follow(&self) {
        loop {
            sleep(LOOK).await;
            match self.refresh() {
                Ok(true) => tracing::info!("metrics are served with another certificate"),
                Ok(false) => {}
                Err(error) => tracing::warn!("the certificate for metrics stays: {error:#}"),
            }
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(lock::read(&self.current).clone())
    }
}

fn read(directory: &Path, provider: &CryptoProvider) -> anyhow::Result<CertifiedKey> {
    let (certificate, key) = (directory.join("tls.crt"), directory.join("tls.key"));
    let chain = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("can't read certificates from {}", certificate.display()))?;
    let private = PrivateKeyDer::from_pem_file(&key)
        .with_context(|| format!("can't read a private key from {}", key.display()))?;
    if chain.is_empty() {
        return Err(anyhow!("there is no certificate in {}", certificate.display()));
    }
    CertifiedKey::from_der(chain, private, provider)
        .with_context(|| format!("{} and {} do not fit together", certificate.display(), key.display()))
}

/// Connections whose clients have introduced themselves.
pub(super) struct TlsListener {
    ready_rx: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>, // ← handshakes
    address: SocketAddr,
}

impl TlsListener {
    /// Takes connections from now on, until it is dropped.
    pub(super) fn new(listener: TcpListener, certificate: Arc<Certificate>) -> anyhow::Result<Self> {
        let config = ServerConfig::builder_with_provider(certificate.provider.clone())
            .with_safe_default_protocol_versions()
            .context("the versions of TLS can't be served")?
            .with_no_client_auth()
            .with_cert_resolver(certificate);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let address = listener.local_addr().context("the listener has no address")?;
        let (ready_tx, ready_rx) = mpsc::channel(MOST);
        tokio::spawn(take(listener, acceptor, ready_tx));
        Ok(Self { ready_rx, address })
    }
}

async fn take(
    mut listener: TcpListener,
    acceptor: TlsAcceptor,
    ready_tx: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>, // → axum
) {
    // The oldest first.
    let mut greeting: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        // Through axum's trait, which bears failures to accept.
        let (stream, address) = tokio::select! {
            accepted = Listener::accept(&mut listener) => accepted,
            () = ready_tx.closed() => return,
        };
        greeting.retain(|handshake| !handshake.is_finished());
        if greeting.len() == MOST
            && let Some(oldest) = greeting.pop_front()
        {
            oldest.abort();
        }
        let (acceptor, ready_tx) = (acceptor.clone(), ready_tx.clone());
        let handshake = tokio::spawn(async move {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await {
                // Nobody takes it when this ends.
                let _ = ready_tx.send((stream, address)).await;
            }
        });
        greeting.push_back(handshake.abort_handle());
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready_rx.recv().await {
            Some(ready) => ready,
            // Those who take connections never end before this.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::AsyncReadExt as _;
    use tokio_rustls::TlsConnector;

    use super::*;

    #[tokio::test]
    async fn a_crowd_of_silent_clients_keeps_nobody_out() {
        let certificate = Arc::new(Certificate::made("here").unwrap());
        let mut roots = RootCertStore::empty();
        roots.add(lock::read(&certificate.current).cert[0].clone()).unwrap();
        let config = ClientConfig::builder_with_provider(certificate.provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut listener = TlsListener::new(listener, certificate).unwrap();
        let address = listener.address;
        let mut silent = Vec::new();
        for _ in 0..3 * MOST {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let probe = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let name = "localhost".try_into().unwrap();
            TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
        };
        // Sooner than the silent ones are given up.
        let (probe, (_, client)) =
            timeout(HANDSHAKE / 2, async { tokio::join!(probe, listener.accept()) }).await.unwrap();
        assert_eq!(client, probe.get_ref().0.local_addr().unwrap());
        // The first of the crowd had to go.
        assert!(matches!(silent[0].read(&mut [0]).await, Ok(0) | Err(_)));
    }

    #[test]
    fn another_certificate_is_taken_and_a_broken_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
            std::fs::write(directory.path().join("tls.crt"), made.cert.pem()).unwrap();
            std::fs::write(directory.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
            made.cert.der().clone()
        };
        assert!(Certificate::of(directory.path()).is_err());
        let first = write("a.test");
        let certificate = Certificate::of(directory.path()).unwrap();
        let shown = || lock::read(&certificate.current).cert[0].clone();
        assert!(!certificate.refresh().unwrap());
        assert_eq!(shown(), first);
        let second = write("b.test");
        assert!(certificate.refresh().unwrap());
        assert_eq!(shown(), second);
        // Half of a change: a certificate without its key.
        let other = rcgen::generate_simple_self_signed(["c.test".to_owned()]).unwrap();
        std::fs::write(directory.path().join("tls.crt"), other.cert.pem()).unwrap();
        assert!(format!("{:#}", certificate.refresh().unwrap_err()).contains("do not fit together"));
        assert_eq!(shown(), second);
    }
}
