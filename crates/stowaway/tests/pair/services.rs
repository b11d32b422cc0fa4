//! Services to talk to.

use std::net::{Ipv4Addr, SocketAddr};

use causeway_testkit::soon;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

pub fn any() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A service that says its name and then sends back what it gets, until the client's half has ended.
pub async fn echo(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(any()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                write.write_all(name.as_bytes()).await.ok();
                tokio::io::copy(&mut read, &mut write).await.ok();
                write.shutdown().await.ok();
            });
        }
    });
    address
}

/// A service that sends back every datagram.
pub async fn udp_echo() -> SocketAddr {
    let socket = UdpSocket::bind(any()).await.expect("a port");
    let address = socket.local_addr().expect("an address");
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        while let Ok((count, from)) = socket.recv_from(&mut buffer).await {
            socket.send_to(&buffer[..count], from).await.ok();
        }
    });
    address
}

/// A port where nobody listens.
pub async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind(any()).await.expect("a port");
    listener.local_addr().expect("an address")
}

/// Sends a text through and expects it back.
pub async fn echoes(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), text: &str) {
    stream.write_all(text.as_bytes()).await.expect("writes");
    stream.flush().await.expect("flushes");
    hears(stream, text).await;
}

/// Expects a text.
pub async fn hears(stream: &mut (impl AsyncRead + Unpin), text: &str) {
    let mut heard = vec![0; text.len()];
    soon("a word", stream.read_exact(&mut heard)).await.expect("reads");
    assert_eq!(String::from_utf8_lossy(&heard), text);
}
