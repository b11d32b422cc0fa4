//! Requests to an Envoy's admin interface, by TCP or by a socket in the file system.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use causeway_translate::proxy::bootstrap::Address;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// For the whole of a request.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// Statistics of some thousand clusters are far below it.
const BODY_LIMIT: usize = 16 << 20;

/// The body of the answer.
///
/// # Errors
/// When there is no answer in time, or it is not 200.
pub(super) async fn ask(at: &Address, method: Method, path: &str) -> anyhow::Result<String> {
    let exchange = async {
        match at {
            Address::Tcp(at) => exchange(TcpStream::connect(at).await?, method, path).await,
            Address::Unix(socket) => exchange(UnixStream::connect(socket).await?, method, path).await,
        }
    };
    timeout(TIME_LIMIT, exchange).await.context("Envoy's admin interface does not answer")?
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    method: Method,
    path: &str,
) -> anyhow::Result<String> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder().method(method).uri(path).header("host", "envoy");
    let answer = async move {
        let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), BODY_LIMIT).collect().await;
        let body = body.map_err(anyhow::Error::from_boxed)?.to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        anyhow::ensure!(status == StatusCode::OK, "Envoy's admin interface says {status}: {}", text.trim());
        Ok(text)
    };
    // The connection ends with the answer: its sender goes then.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn answered(answer: &'static str) -> anyhow::Result<String> {
        let (near, mut far) = tokio::io::duplex(4096);
        let server = tokio::spawn(async move {
            let mut request = vec![0; 4096];
            let length = far.read(&mut request).await.unwrap();
            far.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let found = exchange(near, Method::POST, "/drain_listeners").await;
        assert!(server.await.unwrap().starts_with("POST /drain_listeners HTTP/1.1\r\n"));
        found
    }

    #[tokio::test]
    async fn joins_chunks_and_tells_refusals() {
        let chunked =
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nOK \r\n5\r\nreset\r\n0\r\n\r\n";
        assert_eq!(answered(chunked).await.unwrap(), "OK reset");
        let refused = "HTTP/1.1 404 Not Found\r\ncontent-length: 8\r\n\r\nno such\n";
        let error = answered(refused).await.unwrap_err().to_string();
        assert!(error.contains("404") && error.ends_with("no such"), "{error}");
    }
}
