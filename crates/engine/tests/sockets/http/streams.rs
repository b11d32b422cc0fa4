//! Peers that speak HTTP/2: a client, a server, and a client that writes frames by hand.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{PATIENCE, Running};

/// What must not take for ever.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("in time")
}

/// An answer, complete.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) trailers: HeaderMap,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// A client.
pub(crate) struct StreamClient {
    requests: SendRequest<Bytes>,
    pub(crate) driver: tokio::task::JoinHandle<Result<(), h2::Error>>,
}

impl StreamClient {
    pub(crate) async fn connect(running: &Running) -> Self {
        Self::over(running.connect("in").await).await
    }

    pub(crate) async fn over(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let mut builder = h2::client::Builder::new();
        // One stream that is not read stops no other of the client.
        builder.initial_connection_window_size(4 << 20);
        let (requests, connection) = soon(builder.handshake(io)).await.unwrap();
        Self { requests, driver: tokio::spawn(connection) }
    }

    /// Sends a head.
    pub(crate) async fn send(
        &self,
        request: Request<()>,
        ended: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        let mut requests = soon(self.requests.clone().ready()).await?;
        requests.send_request(request, ended)
    }

    /// Asks, with a body if it is not empty.
    pub(crate) async fn ask(&self, request: Request<()>, body: &str) -> Result<Answer, h2::Error> {
        let (coming, mut stream) = self.send(request, body.is_empty()).await?;
        if !body.is_empty() {
            push(&mut stream, Bytes::copy_from_slice(body.as_bytes()), true).await?;
        }
        answer(coming).await
    }

    pub(crate) async fn get(&self, host: &str, path: &str) -> Answer {
        self.ask(get(host, path), "").await.unwrap()
    }

    pub(crate) fn knows_websockets(&self) -> bool {
        self.requests.is_extended_connect_protocol_enabled()
    }
}

pub(crate) fn get(host: &str, path: &str) -> Request<()> {
    Request::get(format!("http://{host}{path}")).body(()).unwrap()
}

pub(crate) fn post(host: &str, path: &str) -> Request<()> {
    Request::post(format!("http://{host}{path}")).body(()).unwrap()
}

/// A request for a WebSocket.
pub(crate) fn websocket(path: &str) -> Request<()> {
    let mut request = Request::connect(format!("http://a.test{path}"))
        .header("sec-websocket-version", "13")
        .body(())
        .unwrap();
    request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
    request
}

/// Sends as the peer has room.
pub(crate) async fn push(
    stream: &mut SendStream<Bytes>,
    mut data: Bytes,
    last: bool,
) -> Result<(), h2::Error> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let room = match soon(std::future::poll_fn(|cx| stream.poll_capacity(cx))).await {
            Some(room) => room?,
            None => return Err(h2::Reason::CANCEL.into()),
        };
        let piece = data.split_to(room.min(data.len()));
        stream.send_data(piece, last && data.is_empty())?;
    }
    Ok(())
}

pub(crate) async fn answer(coming: ResponseFuture) -> Result<Answer, h2::Error> {
    let (parts, mut stream) = soon(coming).await?.into_parts();
    let (body, trailers) = read(&mut stream).await?;
    let status = parts.status.as_u16();
    Ok(Answer { status, headers: parts.headers, body: String::from_utf8(body).unwrap(), trailers })
}

/// Reads a body to its end.
pub(crate) async fn read(stream: &mut RecvStream) -> Result<(Vec<u8>, HeaderMap), h2::Error> {
    let mut body = Vec::new();
    while let Some(data) = soon(stream.data()).await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    Ok((body, soon(stream.trailers()).await?.unwrap_or_default()))
}

/// The next piece of a body, as text.
pub(crate) async fn next(stream: &mut RecvStream) -> String {
    let data = soon(stream.data()).await.expect("data").unwrap();
    stream.flow_control().release_capacity(data.len()).unwrap();
    String::from_utf8(data.to_vec()).unwrap()
}

type Serving = Pin<Box<dyn Future<Output = Result<(), h2::Error>> + Send>>;
type Handler = Arc<dyn Fn(Request<RecvStream>, SendResponse<Bytes>) -> Serving + Send + Sync>;

/// A server.
pub(crate) struct StreamBackend {
    pub(crate) address: SocketAddr,
    /// The heads of what it was asked.
    asked: Arc<Mutex<Vec<http::request::Parts>>>,
    connections: Arc<Mutex<usize>>,
    task: tokio::task::JoinHandle<()>,
}

impl StreamBackend {
    /// Says what it hears: the body, and its trailers beside `grpc-status: 0`.
    pub(crate) async fn echoing() -> Self {
        Self::with(&h2::server::Builder::new(), |request, respond| Box::pin(echo(request, respond))).await
    }

    pub(crate) async fn with(
        builder: &h2::server::Builder,
        handler: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> Serving + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handler: Handler = Arc::new(handler);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let (kept, counted, builder) = (Arc::clone(&asked), Arc::clone(&connections), builder.clone());
        let task = tokio::spawn(async move {
            let mut serving = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *counted.lock().unwrap() += 1;
                let (kept, handler, builder) = (Arc::clone(&kept), Arc::clone(&handler), builder.clone());
                serving.spawn(async move {
                    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let (parts, body) = request.into_parts();
                        kept.lock().unwrap().push(parts.clone());
                        tokio::spawn(handler(Request::from_parts(parts, body), respond));
                    }
                });
            }
        });
        Self { address, asked, connections, task }
    }

    pub(crate) fn asked(&self) -> Vec<http::request::Parts> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

impl Drop for StreamBackend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn echo(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let mut body = request.into_body();
    let mut stream = respond.send_response(Response::new(()), false)?;
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        push(&mut stream, data, false).await?;
    }
    let mut trailers = body.trailers().await?.unwrap_or_default();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The error in a RST_STREAM, or a GOAWAY.
    pub(crate) fn error(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Fields as HPACK has them that nobody remembers.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            let length = text.len();
            if length < 127 {
                block.push(length as u8);
            } else {
                block.push(127);
                let mut rest = length - 127;
                while rest >= 128 {
                    block.push((rest % 128 + 128) as u8);
                    rest /= 128;
                }
                block.push(rest as u8);
            }
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// The pseudo-fields of a GET.
pub(crate) const ASKS: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a.test")];

/// A request with more fields than a GET has.
pub(crate) fn asking(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(&[&ASKS[..], more].concat()))
}

/// A client that writes frames by hand.
pub(crate) struct RawClient {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl RawClient {
    /// Connects and says what has to be said first.
    pub(crate) async fn connect(running: &Running) -> Self {
        let mut client = Self::over(running.connect("in").await);
        client.send(&[PREFACE, &frame(SETTINGS, 0, 0, b"")].concat()).await;
        client
    }

    /// Has said nothing yet.
    pub(crate) fn over(stream: TcpStream) -> Self {
        Self { stream, bytes: Vec::new() }
    }

    /// Says no more.
    pub(crate) async fn end(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.unwrap();
    }

    /// Sends though the peer may have closed.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> bool {
        soon(self.stream.write_all(bytes)).await.is_ok()
    }

    /// The next frame; nothing at the end.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(head) = self.bytes.get(..9) {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if self.bytes.len() >= 9 + length {
                    let payload = self.bytes[9..9 + length].to_vec();
                    let (kind, flags) = (head[3], head[4]);
                    let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
                    self.bytes.drain(..9 + length);
                    return Some(Frame { kind, flags, stream, payload });
                }
            }
            let mut buffer = [0; 4096];
            let count = soon(self.stream.read(&mut buffer)).await.unwrap_or(0);
            if count == 0 {
                return None;
            }
            self.bytes.extend_from_slice(&buffer[..count]);
        }
    }

    /// The next frame of a kind; what comes before it is not looked at.
    pub(crate) async fn find(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().await.expect("a frame of this kind");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// Everything up to the end.
    pub(crate) async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next().await {
            frames.push(frame);
        }
        frames
    }
}
