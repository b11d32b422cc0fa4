//! Servers behind the proxy, in this process and on free ports. Each has a name, and says it to whoever comes.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::certificates;

/// A server that runs until it is dropped.
pub struct Backend {
    pub address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Backend {
    /// Says its name and then everything it hears, over plain TCP, and ends when the client has ended.
    pub async fn echo(name: &'static str) -> Self {
        Self::echo_at("127.0.0.1:0", name).await
    }

    pub async fn echo_at(address: &str, name: &'static str) -> Self {
        Self::serve(address, move |stream| echo(stream, name)).await
    }

    /// The same as [`Self::echo`] on a Unix socket; until the value is dropped.
    pub fn echo_on_unix(path: &Path, name: &'static str) -> AbortOnDrop {
        let listener = UnixListener::bind(path).unwrap();
        AbortOnDrop(tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(echo(stream, name));
            }
        }))
    }

    /// Answers HTTP requests with its name, and any other line with its name and that line.
    pub async fn http(name: &'static str) -> Self {
        Self::serve("127.0.0.1:0", move |stream| answer(stream, name)).await
    }

    /// The same over TLS, with a certificate of its own for these names.
    pub async fn tls(name: &'static str, names: &[&str]) -> Self {
        let acceptor = TlsAcceptor::from(certificates::server(name, names));
        Self::serve("127.0.0.1:0", move |stream| {
            let acceptor = acceptor.clone();
            async move { answer(acceptor.accept(stream).await?, name).await }
        })
        .await
    }

    async fn serve<F>(address: &str, serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Relaxed);
                tokio::spawn(serve(stream));
            }
        });
        Self { address, accepted, task }
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Relaxed)
    }
}

/// A task that ends with its value.
pub struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn echo(stream: impl AsyncRead + AsyncWrite, name: &'static str) -> std::io::Result<()> {
    let (mut from, mut to) = tokio::io::split(stream);
    to.write_all(name.as_bytes()).await?;
    tokio::io::copy(&mut from, &mut to).await?;
    to.shutdown().await
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, name: &str) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        if line.starts_with("GET ") {
            // The rest of the request, up to the empty line.
            while stream.read_line(&mut line).await? > 2 {}
            let length = name.len();
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all((head + name).as_bytes()).await?;
            break;
        }
        stream.write_all(format!("{name}: {line}").as_bytes()).await?;
        stream.flush().await?;
        line.clear();
    }
    stream.shutdown().await
}

/// Sends each datagram back, with the port that it came from before it, until it is dropped.
pub struct Datagrams {
    pub address: SocketAddr,
    heard: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Datagrams {
    pub async fn echo() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let heard = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&heard);
        let task = tokio::spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            loop {
                // An error here is one of an earlier answer that did not arrive.
                let Ok((count, from)) = socket.recv_from(&mut buffer).await else { continue };
                counter.fetch_add(1, Relaxed);
                let answer = [&from.port().to_be_bytes()[..], &buffer[..count]].concat();
                let _ = socket.send_to(&answer, from).await;
            }
        });
        Self { address, heard, task }
    }

    /// Datagrams so far.
    pub fn heard(&self) -> usize {
        self.heard.load(Relaxed)
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address where nobody listens.
pub struct Nobody {
    pub address: SocketAddr,
    _port: crate::port::Port,
}

impl Nobody {
    pub fn there() -> Self {
        let port = crate::port::Port::reserve(SocketAddr::from(([127, 0, 0, 1], 0)));
        Self { address: port.address, _port: port }
    }
}
