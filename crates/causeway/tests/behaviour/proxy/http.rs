//! Asks a proxy about itself, over HTTP on a Unix socket or a TCP port.

use std::net::SocketAddr;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// The body of the answer; `None` unless it is 200.
pub async fn get_unix(socket: &Path, path: &str) -> Option<String> {
    get(UnixStream::connect(socket).await.ok()?, path).await
}

/// The same over TCP.
pub async fn get_tcp(address: SocketAddr, path: &str) -> Option<String> {
    get(TcpStream::connect(address).await.ok()?, path).await
}

async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> Option<String> {
    // The answer ends with the connection.
    let request = format!("GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).filter(|status| *status == "200")?;
    Some(body.to_owned())
}
