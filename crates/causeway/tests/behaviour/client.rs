//! Clients: plain ones and one with rustls here, other people's programs in the modules below.

pub mod curl;
pub mod gnutls;
pub mod openssl;
mod program;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use causeway_testkit::soon;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Closed,
    Reset,
}

/// Everything that still comes, and how it ends.
pub async fn rest(stream: &mut TcpStream) -> (Vec<u8>, End) {
    let mut bytes = Vec::new();
    match soon("the end of a connection", stream.read_to_end(&mut bytes)).await {
        Ok(_) => (bytes, End::Closed),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => (bytes, End::Reset),
        Err(error) => panic!("reading: {error}"),
    }
}

/// Everything that still comes until the connection ends in good order.
pub async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let (bytes, end) = rest(stream).await;
    assert_eq!(end, End::Closed, "after {} bytes", bytes.len());
    bytes
}

/// Reads so many bytes.
pub async fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    soon("bytes", stream.read_exact(&mut bytes)).await.unwrap();
    bytes
}

/// Says a word to a server that echoes and hears it again.
pub async fn say(stream: &mut TcpStream, word: &[u8]) {
    stream.write_all(word).await.unwrap();
    assert_eq!(read(stream, word.len()).await, word);
}

/// Whether a new connection is ended without a byte: not accepted, closed, or reset.
pub async fn is_refused(address: SocketAddr) -> bool {
    match soon("connect", TcpStream::connect(address)).await {
        Ok(mut stream) => rest(&mut stream).await.0.is_empty(),
        Err(_) => true,
    }
}

/// Whether nobody listens there.
pub async fn is_shut(address: SocketAddr) -> bool {
    soon("connect", TcpStream::connect(address)).await.is_err()
}

/// Sends bytes, ends when the answer begins, and gives all that comes back. To end earlier is another matter: see
/// `streams::a_client_that_ends_with_its_hello_is_answered`.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(bytes).await?;
    let mut answer = Vec::new();
    if stream.read_buf(&mut answer).await? > 0 {
        stream.shutdown().await?;
        stream.read_to_end(&mut answer).await?;
    }
    Ok(answer)
}

/// A connection whose opening words came back from a server that echoes; `None` if it was refused.
pub async fn greeted(address: SocketAddr, opening: &[u8]) -> Option<TcpStream> {
    soon("an answer or a refusal", async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(opening).await.ok()?;
        let mut echo = vec![0; opening.len().max(1)];
        stream.read_exact(&mut echo).await.ok()?;
        Some(stream)
    })
    .await
}

/// A rustls client that offers a classic key exchange first.
pub fn classic() -> Arc<ClientConfig> {
    Arc::new(with_groups(&[aws_lc_rs::kx_group::X25519, aws_lc_rs::kx_group::SECP256R1]))
}

/// A rustls client that offers, as browsers do, the post-quantum key exchange X25519MLKEM768 and a classic one.
pub fn post_quantum() -> Arc<ClientConfig> {
    let mut config = with_groups(&[aws_lc_rs::kx_group::X25519MLKEM768, aws_lc_rs::kx_group::X25519]);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

fn with_groups(groups: &[&'static dyn SupportedKxGroup]) -> ClientConfig {
    let provider = CryptoProvider { kx_groups: groups.to_vec(), ..aws_lc_rs::default_provider() };
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(certificates::roots())
        .with_no_client_auth()
}

/// The hello that rustls sends.
pub fn first_flight(config: Arc<ClientConfig>, name: &str) -> Vec<u8> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(config, name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Which backend answers a TLS request for this name; its certificate is checked for the name.
pub async fn get(address: SocketAddr, name: &str) -> io::Result<String> {
    soon("an answer over TLS", async {
        let mut stream = tls(post_quantum(), TcpStream::connect(address).await?, name).await?;
        stream.write_all(format!("GET / HTTP/1.1\r\nhost: {name}\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned())
    })
    .await
}

/// A TLS connection over this stream.
pub async fn tls(
    config: Arc<ClientConfig>,
    stream: TcpStream,
    name: &str,
) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(config).connect(name, stream).await
}

/// Sends a line to a backend that answers lines, and gives the answer.
pub async fn ask_line(stream: &mut TlsStream<TcpStream>, line: &str) -> io::Result<String> {
    stream.write_all(format!("{line}\n").as_bytes()).await?;
    let mut answer = Vec::new();
    while answer.last() != Some(&b'\n') {
        answer.push(soon("an answer to a line", stream.read_u8()).await?);
    }
    Ok(String::from_utf8(answer).unwrap().trim_end().to_owned())
}
