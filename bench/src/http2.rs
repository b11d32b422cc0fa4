//! One HTTP/2 connection as Go's clients make it, over TLS or plain.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// Go's transport announces these windows.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;
/// No single request of the bench may take longer; an answer that never comes must end it.
const REQUEST_LIMIT: Duration = Duration::from_mins(1);

/// A whole answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub(crate) body: Bytes,
}

/// One connection; its streams are independent.
#[derive(Clone)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    pub(crate) async fn over(
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (sender, driver) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(io))
            .await
            .context("no HTTP/2 with the server")?;
        // Ends with the connection; a failure shows in the requests.
        tokio::spawn(driver);
        Ok(Self { sender })
    }

    /// Sends a request and returns the answer's head; its body is still to come.
    pub(crate) async fn open(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>> {
        self.sender.ready().await.context("the connection is closed")?;
        let answer = timeout(REQUEST_LIMIT, self.sender.send_request(request)).await;
        answer.context("no answer in time")?.context("the request failed")
    }

    /// Sends a request and returns the whole answer.
    pub(crate) async fn call(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let (parts, body) = self.open(request).await?.into_parts();
        let body = timeout(REQUEST_LIMIT, body.collect()).await.context("the answer did not end in time")?;
        let body = body.context("the answer broke off")?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, trailers, body: body.to_bytes() })
    }
}

impl Answer {
    /// Fails unless the status is the expected one.
    pub(crate) fn expect(self, status: u16) -> anyhow::Result<Self> {
        if self.status != status {
            bail!("expected {status}, got {}: {}", self.status, String::from_utf8_lossy(&self.body));
        }
        Ok(self)
    }
}
