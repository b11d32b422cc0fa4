//! One end of a bare pair of relays: takes connections, opens one to the other end for each, and copies both ways,
//! with or without TLS 1.3 in between. The strongest simple thing, to hold a tunnel against: large reads, everything
//! that is there at once, one cipher; no multiplexing, no limits, no timeouts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use anyhow::Context;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Of one read; grows from the first to the second while reads fill it.
const LEAST: usize = 16 << 10;
const MOST: usize = 256 << 10;
/// rustls asks for 4 KiB at a time; the kernel is asked for this.
const SEALED: usize = 128 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to take connections.
    listen: SocketAddr,
    /// Where to lead them.
    connect: SocketAddr,
    /// Take connections with TLS: this certificate, and its key.
    #[arg(long, requires = "key")]
    identity: Option<PathBuf>,
    #[arg(long)]
    key: Option<PathBuf>,
    /// Lead them on with TLS, to who has this certificate.
    #[arg(long)]
    trust: Option<PathBuf>,
}

/// Relays until the process is ended.
pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let acceptor = match (&args.identity, &args.key) {
        (Some(identity), Some(key)) => Some(acceptor(identity, key)?),
        _ => None,
    };
    let connector = args.trust.as_ref().map(connector).transpose()?;
    let listener = TcpListener::bind(args.listen).await.context("can't listen")?;
    loop {
        let (near, _) = listener.accept().await?;
        let (acceptor, connector, to) = (acceptor.clone(), connector.clone(), args.connect);
        tokio::spawn(async move {
            // A broken stream is the affair of those who speak through it.
            let _ = relay(near, to, acceptor, connector).await;
        });
    }
}

async fn relay(
    near: TcpStream,
    to: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    connector: Option<TlsConnector>,
) -> std::io::Result<()> {
    let far = TcpStream::connect(to).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    match (acceptor, connector) {
        (Some(acceptor), _) => {
            let mut near = acceptor.accept(BufReader::with_capacity(SEALED, near)).await?;
            near.get_mut().1.set_buffer_limit(None);
            copy_both(near, far).await
        }
        (None, Some(connector)) => {
            let name = ServerName::try_from("localhost").expect("a name");
            let mut far = connector.connect(name, BufReader::with_capacity(SEALED, far)).await?;
            far.get_mut().1.set_buffer_limit(None);
            copy_both(near, far).await
        }
        (None, None) => copy_both(near, far).await,
    }
}

async fn copy_both(
    near: impl AsyncRead + AsyncWrite,
    far: impl AsyncRead + AsyncWrite,
) -> std::io::Result<()> {
    let (near, far) = (tokio::io::split(near), tokio::io::split(far));
    tokio::try_join!(copy(near.0, far.1), copy(far.0, near.1)).map(drop)
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> std::io::Result<()> {
    let mut buffer = vec![0; LEAST];
    loop {
        let first = from.read(&mut buffer).await?;
        if first == 0 {
            return to.shutdown().await;
        }
        let count = first + drain(&mut from, &mut buffer[first..]).await?;
        to.write_all(&buffer[..count]).await?;
        // Without a limit of its own, what TLS holds is bounded here.
        to.flush().await?;
        if count == buffer.len() && count < MOST {
            buffer.resize(MOST, 0);
        }
    }
}

/// Takes what is there already, without waiting for more. An end shows again at the next read.
async fn drain(from: &mut (impl AsyncRead + Unpin), into: &mut [u8]) -> std::io::Result<usize> {
    let mut into = ReadBuf::new(into);
    std::future::poll_fn(|cx| {
        while into.remaining() > 0 {
            let before = into.filled().len();
            match Pin::new(&mut *from).poll_read(cx, &mut into) {
                Poll::Ready(Ok(())) if into.filled().len() > before => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) | Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(into.filled().len()))
    })
    .await
}

/// TLS 1.3 with AES-256-GCM and nothing else.
fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    let cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384];
    Arc::new(rustls::crypto::CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

fn acceptor(identity: &PathBuf, key: &PathBuf) -> anyhow::Result<TlsAcceptor> {
    let certificate = CertificateDer::from_pem_file(identity).context("can't read the certificate")?;
    let key = PrivateKeyDer::from_pem_file(key).context("can't read the key")?;
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn connector(trust: &PathBuf) -> anyhow::Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trust).context("can't read the certificate")?)?;
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_is_copied_and_the_end_of_one_side_is_no_end_of_the_other() {
        let (mut user, near) = tokio::io::duplex(1 << 10);
        let (far, mut backend) = tokio::io::duplex(1 << 10);
        tokio::spawn(copy_both(near, far));
        let sent: Vec<u8> = (0..1 << 20).map(|i: u32| (i >> 5) as u8).collect();
        let expected = sent.clone();
        let upload = tokio::spawn(async move {
            user.write_all(&sent).await.unwrap();
            user.shutdown().await.unwrap();
            let mut answer = String::new();
            user.read_to_string(&mut answer).await.unwrap();
            answer
        });
        let mut got = Vec::new();
        backend.read_to_end(&mut got).await.unwrap();
        assert!(got == expected);
        backend.write_all(b"thanks").await.unwrap();
        drop(backend);
        assert_eq!(upload.await.unwrap(), "thanks");
    }
}
