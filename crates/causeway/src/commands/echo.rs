//! `causeway echo`: a server to aim a crossing at. It sends back every byte it gets; to an HTTP request it says what
//! arrived and from where. With a certificate it does so in TLS. With `--check` it is the other side, and checks one.

mod check;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_rustls::TlsAcceptor;

use crate::parts::answer::FormatArg;
use crate::parts::output;
use crate::parts::termination::Termination;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Said in every HTTP answer, to tell several apart.
    #[arg(long, env = "CAUSEWAY_ECHO_NAME", default_value = "echo", value_name = "NAME")]
    name: String,
    /// Speak TLS with this certificate chain (PEM).
    #[arg(long, requires = "tls_key", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, requires = "tls_cert", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Speak TLS with a certificate for this name that is made on the spot and signed by nobody else.
    #[arg(long, conflicts_with = "tls_cert", value_name = "NAME")]
    tls_self_signed: Option<String>,
    /// Datagrams in place of connections.
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key", "tls_self_signed"])]
    udp: bool,
    /// Dial this echo server and check what comes back, in place of being one.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["listen", "tls_cert", "tls_key", "tls_self_signed"])]
    check: Option<String>,
    /// Go on checking, and answer HTTP here with what was found.
    #[arg(long, requires = "check", value_name = "ADDR:PORT")]
    report: Option<SocketAddr>,
    #[command(flatten)]
    format: FormatArg,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    match (args.check.clone(), args.report) {
        (Some(target), None) => check::once(&target, args.udp, args.format).await?,
        (Some(target), Some(report)) => check::keep(target, args.udp, report).await?,
        (None, _) if args.udp => serve_datagrams(&args).await?,
        (None, _) => serve(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends every datagram back to where it came from.
async fn serve_datagrams(args: &Args) -> anyhow::Result<()> {
    let socket = UdpSocket::bind(args.listen).await.with_context(|| busy(args.listen))?;
    output::line(format_args!("{} listening on {}", args.name, socket.local_addr()?));
    let mut termination = Termination::listen()?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buffer) => {
                let (length, peer) = received?;
                if let Err(error) = socket.send_to(&buffer[..length], peer).await {
                    output::line(format_args!("{peer} can't be answered: {error}"));
                }
            }
            () = termination.asked() => break,
        }
    }
    output::line(format_args!("{} stopped", args.name));
    Ok(())
}

fn busy(listen: SocketAddr) -> String {
    format!("can't listen on {listen}; choose another with --listen ADDR:PORT")
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let tls = match (&args.tls_cert, &args.tls_key, &args.tls_self_signed) {
        (Some(certificate), Some(key), _) => Some(acceptor(certificate, key)?),
        (_, _, Some(name)) => Some(self_signed(name)?),
        _ => None,
    };
    let listener = TcpListener::bind(args.listen).await.with_context(|| busy(args.listen))?;
    output::line(format_args!("{} listening on {}", args.name, listener.local_addr()?));
    let mut termination = Termination::listen()?;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, peer) = accepted?;
                let (name, tls) = (args.name.clone(), tls.clone());
                tokio::spawn(async move {
                    let answered = match tls {
                        Some(tls) => answer_tls(&tls, stream, peer, &name).await,
                        None => answer(stream, peer, &name).await,
                    };
                    if let Err(error) = answered {
                        output::line(format_args!("{peer} ended: {error}"));
                    }
                });
            }
            () = termination.asked() => break,
        }
    }
    output::line(format_args!("{} stopped", args.name));
    Ok(())
}

fn acceptor(certificate: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("can't read certificates from {}", certificate.display()))?;
    let private = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("can't read a private key from {}", key.display()))?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| format!("{} and {} do not fit together", certificate.display(), key.display()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn self_signed(name: &str) -> anyhow::Result<TlsAcceptor> {
    let made = rcgen::generate_simple_self_signed([name.to_owned()])
        .with_context(|| format!("no certificate can be made for {name:?}: write a DNS name"))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .context("the certificate made on the spot is of no use")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn answer_tls(
    tls: &TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
    name: &str,
) -> std::io::Result<()> {
    answer(tls.accept(stream).await?, peer, name).await
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    name: &str,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    let first = stream.read(&mut buffer).await?;
    if let Some(line) = request_line(&buffer[..first]) {
        output::line(format_args!("{peer} {line}"));
        let text = format!("{name}\n{line}\nfrom {peer}\n");
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            text.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(text.as_bytes()).await?;
        return stream.shutdown().await;
    }
    stream.write_all(&buffer[..first]).await?;
    let (mut from, mut to) = tokio::io::split(stream);
    let bytes = tokio::io::copy(&mut from, &mut to).await? + first as u64;
    output::line(format_args!("{peer} echoed {bytes} bytes"));
    to.shutdown().await
}

/// The first line, if these bytes begin an HTTP/1 request.
fn request_line(bytes: &[u8]) -> Option<String> {
    let line = bytes.split(|b| *b == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let version = line.rsplit(' ').next()?;
    version.starts_with("HTTP/1.").then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_requests_have_a_request_line() {
        assert_eq!(request_line(b"GET /x HTTP/1.1\r\nhost: a\r\n").as_deref(), Some("GET /x HTTP/1.1"));
        assert_eq!(request_line(b"hello\r\n"), None);
        assert_eq!(request_line(b"\x16\x03\x01"), None);
        assert_eq!(request_line(b""), None);
    }
}
