//! One accepted connection from its first byte to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use http::StatusCode;
use http::header::AUTHORIZATION;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::room::Place;
use super::{Limits, ServerTls};

/// As many as Kubernetes allows per connection.
const MAX_STREAMS: u32 = 250;
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_HEADERS: u32 = 64 * 1024;

/// What Go's server, and so Kubernetes, answers to plain HTTP.
const PLAIN_HTTP: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The place of a connection in the server's room: who takes a connection over keeps it as long.
#[derive(Debug, Clone)]
pub(crate) struct Hold(#[expect(dead_code, reason = "it is there to be dropped")] Arc<Place>);

pub(super) struct Connection {
    pub router: Router,
    pub tls: Arc<ServerTls>,
    pub limits: Limits,
    pub peer: SocketAddr,
    pub shutdown: CancellationToken,
    pub place: Place,
}

impl Connection {
    pub(super) async fn run(self, stream: TcpStream) {
        // Watch events are small and must not wait for more.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(client.addr = %self.peer, error = &error as &dyn std::error::Error, "can't set nodelay");
        }
        let handshake = timeout(self.limits.handshake, self.handshake(stream));
        let stream = tokio::select! {
            stream = handshake => stream,
            () = self.shutdown.cancelled() => return,
        };
        match stream {
            Ok(Some(stream)) => self.serve(stream).await,
            Ok(None) => {}
            Err(_) => tracing::debug!(client.addr = %self.peer, "no TLS handshake in time"),
        }
    }

    /// The TLS stream, or nothing if the client does not get one.
    async fn handshake(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let mut first = [0u8; 1];
        match stream.peek(&mut first).await {
            Ok(1) if first[0].is_ascii_uppercase() => {
                refuse_plain_http(stream).await;
                return None;
            }
            Ok(1) => {}
            // A port scan or health check that only connects.
            Ok(_) | Err(_) => return None,
        }
        match TlsAcceptor::from(self.tls.config()).accept(stream).await {
            Ok(stream) => Some(stream),
            Err(error) => {
                tracing::debug!(client.addr = %self.peer, error = &error as &dyn std::error::Error, "TLS handshake failed");
                None
            }
        }
    }

    async fn serve(self, stream: TlsStream<TcpStream>) {
        let certificate =
            stream.get_ref().1.peer_certificates().and_then(|chain| self.tls.verify_client(chain));
        let (router, place) = (self.router, Arc::new(self.place));
        if certificate.is_some() {
            place.keep();
        }
        let asked = Arc::new(AtomicBool::new(false));
        let silent = silence(self.limits.header, asked.clone());
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            asked.store(true, Ordering::Relaxed);
            if let Some(certificate) = &certificate {
                request.extensions_mut().insert(certificate.clone());
            }
            request.extensions_mut().insert(Hold(place.clone()));
            let has_token = request.headers().contains_key(AUTHORIZATION);
            let (answer, place) = (router.clone().oneshot(request), place.clone());
            async move {
                let answer = answer.await?;
                if has_token && answer.status() != StatusCode::UNAUTHORIZED {
                    place.keep();
                }
                Ok::<_, Infallible>(answer)
            }
        });

        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.limits.header);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADERS)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = silent => return,
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                timeout(self.limits.drain, connection).await.ok()
            }
        };
        match ended {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::debug!(client.addr = %self.peer, error = &*error, "connection failed");
            }
            None => tracing::debug!(client.addr = %self.peer, "requests cut off at shutdown"),
        }
    }
}

/// Ends when no request has come in time. HTTP/2 has pings for later, but nothing that bounds its beginning.
async fn silence(limit: Duration, asked: Arc<AtomicBool>) {
    tokio::time::sleep(limit).await;
    if asked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

async fn refuse_plain_http(mut stream: TcpStream) {
    // Whether the client is still there to read it does not matter to us.
    let _ = stream.write_all(PLAIN_HTTP).await;
    let _ = stream.shutdown().await;
    // Closing with unread bytes would reset the connection and could take the answer with it.
    let mut rest = [0u8; 4096];
    for _ in 0..64 {
        match timeout(Duration::from_secs(1), stream.read(&mut rest)).await {
            Ok(Ok(n)) if n > 0 => {}
            _ => return,
        }
    }
}
