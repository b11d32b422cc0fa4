//! A client outside: dials the proxy's address, asks for a name, and trusts only the demo's authority.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const PATIENCE: Duration = Duration::from_secs(5);

pub struct Visitor {
    proxy: SocketAddr,
    connector: TlsConnector,
}

/// A connection that stays open.
pub struct Open {
    stream: TlsStream<TcpStream>,
}

impl Visitor {
    pub fn new(proxy: SocketAddr, authority: CertificateDer<'static>) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Self { proxy, connector: TlsConnector::from(Arc::new(config)) })
    }

    /// Who answers an HTTP request for this host.
    pub async fn ask(&self, host: &str) -> anyhow::Result<String> {
        let asked = async {
            let mut stream = self.connect(host).await.with_context(|| format!("no TLS with {host}"))?;
            stream.write_all(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
            ensure!(head.starts_with("HTTP/1.1 200"), "the answer is {head}");
            Ok(body.lines().next().unwrap_or_default().to_owned())
        };
        timeout(PATIENCE, asked).await.with_context(|| format!("{host} did not answer"))?
    }

    /// How a name that nobody has is refused.
    pub async fn refusal(&self, host: &str) -> anyhow::Result<String> {
        match timeout(PATIENCE, self.connect(host)).await.context("the connection hangs")? {
            Ok(_) => bail!("{host} was let in"),
            Err(error) => Ok(error.to_string()),
        }
    }

    pub async fn open(&self, host: &str) -> anyhow::Result<Open> {
        Ok(Open { stream: self.connect(host).await? })
    }

    async fn connect(&self, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.connector.connect(name, TcpStream::connect(self.proxy).await?).await
    }
}

impl Open {
    /// Sends a line and checks that it comes back.
    pub async fn echo(&mut self, text: &[u8]) -> anyhow::Result<()> {
        let mut back = vec![0; text.len()];
        timeout(PATIENCE, async {
            self.stream.write_all(text).await?;
            self.stream.read_exact(&mut back).await
        })
        .await
        .context("no echo")??;
        ensure!(back == text, "what came back differs from what was sent");
        Ok(())
    }
}
