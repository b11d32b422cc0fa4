//! A client outside of the cluster: dials the proxy's address, asks for a server name, and trusts only the demo's CA.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const TIMEOUT: Duration = Duration::from_secs(5);

pub(in crate::commands::demo) struct TlsClient {
    proxy: SocketAddr,
    connector: TlsConnector,
}

/// A connection that stays open.
pub(super) struct OpenConnection {
    stream: TlsStream<TcpStream>,
}

impl TlsClient {
    pub(in crate::commands::demo) fn new(
        proxy: SocketAddr,
        authority: CertificateDer<'static>,
    ) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        // Each connection is that of a client who comes for the first time, and is shown a certificate.
        config.resumption = Resumption::disabled();
        Ok(Self { proxy, connector: TlsConnector::from(Arc::new(config)) })
    }

    /// The name of the service that answers an HTTP request for this host.
    pub(in crate::commands::demo) async fn ask(&self, host: &str) -> anyhow::Result<String> {
        let asked = async {
            let mut stream = self.connect(host).await.with_context(|| format!("no TLS with {host}"))?;
            request(&mut stream, host).await
        };
        timeout(TIMEOUT, asked).await.with_context(|| format!("{host} did not answer"))?
    }

    /// The certificate that is shown to who asks for this host.
    pub(in crate::commands::demo) async fn certificate(&self, host: &str) -> anyhow::Result<Vec<u8>> {
        let stream = timeout(TIMEOUT, self.connect(host)).await.context("the connection hangs")??;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        Ok(shown.context("no certificate was shown")?.to_vec())
    }

    /// The error with which a name is refused; an error if it is not.
    pub(super) async fn refusal(&self, host: &str) -> anyhow::Result<String> {
        match timeout(TIMEOUT, self.connect(host)).await.context("the connection hangs")? {
            Ok(_) => bail!("{host} was not refused"),
            Err(error) => Ok(error.to_string()),
        }
    }

    pub(super) async fn open(&self, host: &str) -> anyhow::Result<OpenConnection> {
        Ok(OpenConnection { stream: self.connect(host).await? })
    }

    async fn connect(&self, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.connector.connect(name, TcpStream::connect(self.proxy).await?).await
    }
}

/// Asks for a host on a connection of its own; the name of the service that answers.
pub(in crate::commands::demo) async fn request(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    host: &str,
) -> anyhow::Result<String> {
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "the answer is {head}");
    Ok(body.lines().next().unwrap_or_default().to_owned())
}

impl OpenConnection {
    /// Sends a line and checks that it comes back.
    pub(super) async fn echo(&mut self, text: &[u8]) -> anyhow::Result<()> {
        let mut back = vec![0; text.len()];
        timeout(TIMEOUT, async {
            self.stream.write_all(text).await?;
            self.stream.read_exact(&mut back).await
        })
        .await
        .context("no echo")??;
        ensure!(back == text, "what came back differs from what was sent");
        Ok(())
    }
}
