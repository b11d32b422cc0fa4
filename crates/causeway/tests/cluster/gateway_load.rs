//! Traffic of every kind on a Gateway: requests on kept and on new connections, in clear text, in TLS and in HTTP/2,
//! WebSockets, a stream of events, and a call as gRPC has them. Clients and the servers behind are in this process, in the
//! network of a node.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use causeway_testkit::blocking::eventually;
use futures::stream;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::world::{PATIENCE, cluster, enter};

pub const HOST: &str = "shop.example.com";
/// Between two requests of a client, and two messages of a stream.
const PACE: Duration = Duration::from_millis(10);
/// What no answer takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Says at the end of a call how it went.
const GRPC_STATUS: &str = "grpc-status";

/// Threads in the network of the first node.
pub fn on_node() -> (Runtime, Ipv4Addr) {
    let (_, address) = cluster().unwrap().node_network();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    (builder.worker_threads(2).enable_all().on_thread_start(enter).build().unwrap(), address)
}

/// A server that says its name, echoes what comes on `/socket` after an upgrade, and counts on `/events`; its port.
pub fn server(runtime: &Runtime, name: &'static str) -> u16 {
    let router = Router::new()
        .route("/socket", get(echo))
        .route("/events", get(async || count()))
        .fallback(async move || name);
    listen(runtime, |listener| async { axum::serve(listener, router).await.unwrap() })
}

/// Gives a listener to somebody who serves there; its port.
fn listen<F: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    serve: impl FnOnce(TcpListener) -> F + Send + 'static,
) -> u16 {
    let (port_tx, port_rx) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        port_tx.send(listener.local_addr().unwrap().port()).unwrap();
        serve(listener).await;
    });
    port_rx.recv().unwrap()
}

/// A server of calls as gRPC has them, in HTTP/2 by prior knowledge: it says again what comes, and how it went at the end;
/// its port.
pub fn calls(runtime: &Runtime) -> u16 {
    listen(runtime, |listener| async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(tcp).await?;
                while let Some(call) = connection.accept().await {
                    let (request, answer) = call?;
                    tokio::spawn(answer_call(request.into_body(), answer));
                }
                anyhow::Ok(())
            });
        }
    })
}

async fn answer_call(
    mut from: h2::RecvStream,
    mut answer: h2::server::SendResponse<Bytes>,
) -> anyhow::Result<()> {
    let mut to = answer.send_response(Response::new(()), false)?;
    while let Some(data) = from.data().await {
        let data = data?;
        from.flow_control().release_capacity(data.len())?;
        to.send_data(data, false)?;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
    Ok(to.send_trailers(trailers)?)
}

async fn echo(mut request: Request) -> Response {
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded.await?));
        tokio::io::copy(&mut from, &mut to).await?;
        anyhow::Ok(())
    });
    let upgrade = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "websocket")];
    (StatusCode::SWITCHING_PROTOCOLS, upgrade).into_response()
}

fn count() -> Response {
    let events = stream::unfold(0_u64, async |number| {
        sleep(PACE * 5).await;
        Some((Ok::<_, std::io::Error>(format!("data: {number}\n\n")), number + 1))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

/// Where a client finds the Gateway.
#[derive(Clone)]
pub struct Target {
    address: Ipv4Addr,
    /// In clear text, and with TLS.
    ports: [u16; 2],
    tls: Arc<ClientConfig>,
    tls2: Arc<ClientConfig>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// What a connection speaks.
#[derive(Clone, Copy, Debug)]
enum Speech {
    Plain,
    Tls,
    Http2,
}

impl Target {
    /// A Gateway with ports 80 and 443 and certificates by this authority.
    pub fn new(address: &str, authority: &str) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
        let mut tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        // Who resumes a session is shown no certificate.
        tls.resumption = Resumption::disabled();
        let mut tls2 = tls.clone();
        tls2.alpn_protocols = vec![b"h2".to_vec()];
        let (address, ports) = (address.parse().unwrap(), [80, 443]);
        Self { address, ports, tls: Arc::new(tls), tls2: Arc::new(tls2) }
    }

    /// The same Gateway at other ports.
    pub fn at(&self, ports: [u16; 2]) -> Self {
        Self { ports, ..self.clone() }
    }

    async fn dial(&self, speech: Speech) -> anyhow::Result<Box<dyn Stream>> {
        let [clear, sealed] = self.ports;
        let (port, config) = match speech {
            Speech::Plain => (clear, None),
            Speech::Tls => (sealed, Some(&self.tls)),
            Speech::Http2 => (sealed, Some(&self.tls2)),
        };
        let tcp =
            TcpStream::connect(SocketAddr::from((self.address, port))).await.context("no connection")?;
        let Some(config) = config else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(HOST)?;
        Ok(Box::new(TlsConnector::from(Arc::clone(config)).connect(name, tcp).await.context("no TLS")?))
    }

    async fn connect(&self, speech: Speech) -> anyhow::Result<Connection> {
        let io = TokioIo::new(self.dial(speech).await?);
        if let Speech::Http2 = speech {
            let (sender, driver) = http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(driver);
            return Ok(Connection::Two(sender));
        }
        let (sender, driver) = http1::handshake(io).await?;
        tokio::spawn(driver);
        Ok(Connection::One(sender))
    }
}

/// An open connection for requests.
enum Connection {
    One(http1::SendRequest<Empty<Bytes>>),
    Two(http2::SendRequest<Empty<Bytes>>),
}

impl Connection {
    /// Whether it still takes requests: the server may have said that it ends.
    async fn is_open(&mut self) -> bool {
        match self {
            Self::One(sender) => sender.ready().await.is_ok(),
            Self::Two(sender) => sender.ready().await.is_ok(),
        }
    }

    async fn ask(&mut self, host: &str, path: &str) -> anyhow::Result<Response<hyper::body::Incoming>> {
        let request = Request::builder();
        let request = match self {
            Self::One(_) => request.uri(path).header(header::HOST, host),
            Self::Two(_) => request.uri(format!("https://{host}{path}")),
        };
        let request = request.body(Empty::new())?;
        let answer = match self {
            Self::One(sender) => sender.send_request(request).await,
            Self::Two(sender) => sender.send_request(request).await,
        };
        let answer = answer.context("no answer")?;
        ensure!(answer.status() == StatusCode::OK, "answered with {}", answer.status());
        Ok(answer)
    }
}

/// What the answer to a request for a host has in this header, by a connection of its own.
pub fn header_of(runtime: &Runtime, target: &Target, host: String, name: &'static str) -> Option<String> {
    let target = target.clone();
    let asked = async move {
        let answer = target.connect(Speech::Plain).await.ok()?.ask(&host, "/").await.ok()?;
        Some(answer.headers().get(name)?.to_str().ok()?.to_owned())
    };
    runtime.block_on(runtime.spawn(asked)).unwrap()
}

/// Whether a new connection is answered.
pub fn is_served(runtime: &Runtime, target: &Target) -> bool {
    const SOON: Duration = Duration::from_secs(2);
    let target = target.clone();
    let asked = async move {
        let asked = async { target.connect(Speech::Plain).await?.ask(HOST, "/").await };
        timeout(SOON, asked).await.is_ok_and(|asked| asked.is_ok())
    };
    runtime.block_on(runtime.spawn(asked)).unwrap()
}

/// The certificate that is shown to a new client.
pub fn certificate(runtime: &Runtime, target: &Target) -> Option<Vec<u8>> {
    let target = target.clone();
    let asked = async move {
        let tcp = TcpStream::connect((target.address, target.ports[1])).await.ok()?;
        let stream =
            TlsConnector::from(target.tls).connect(ServerName::try_from(HOST).ok()?, tcp).await.ok()?;
        Some(stream.get_ref().1.peer_certificates()?.first()?.to_vec())
    };
    runtime.block_on(runtime.spawn(asked)).unwrap()
}

#[derive(Default)]
struct Tally {
    stop: AtomicBool,
    answered: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

/// Clients that ask one request after the other.
pub struct Load {
    tally: Arc<Tally>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn start(runtime: &Runtime, target: &Target) -> Self {
        let tally = Arc::new(Tally::default());
        let kinds = [
            (Speech::Plain, true),
            (Speech::Plain, false),
            (Speech::Tls, true),
            (Speech::Tls, false),
            (Speech::Http2, true),
        ];
        let client = |(speech, keeps)| runtime.spawn(ask(target.clone(), speech, keeps, Arc::clone(&tally)));
        let clients = kinds.into_iter().chain(kinds).map(client).collect();
        Self { tally, clients }
    }

    pub fn answered(&self) -> usize {
        self.tally.answered.load(Relaxed)
    }

    /// Ends; what failed.
    pub fn stop(self, runtime: &Runtime) -> Vec<String> {
        self.tally.stop.store(true, Relaxed);
        for client in self.clients {
            runtime.block_on(client).unwrap();
        }
        std::mem::take(&mut self.tally.failures.lock().unwrap())
    }
}

async fn ask(target: Target, speech: Speech, keeps: bool, tally: Arc<Tally>) {
    let mut kept = None;
    while !tally.stop.load(Relaxed) {
        let asked = async {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => target.connect(speech).await?,
            };
            // What was ended while nothing was asked is no failure. What was asked is asked again only where the server
            // said that it never looked at it, as every client of HTTP/2 does.
            if !connection.is_open().await {
                return Ok(false);
            }
            let answer = match connection.ask(HOST, "/").await {
                Err(error) if was_not_looked_at(&error) => return Ok(false),
                answer => answer?,
            };
            let body = answer.into_body().collect().await?.to_bytes();
            ensure!(&body[..] == b"shop" || &body[..] == b"cart", "answered by {body:?}");
            if keeps {
                kept = Some(connection);
            }
            anyhow::Ok(true)
        };
        match timeout(TIMEOUT, asked).await {
            Ok(Ok(is_answer)) => tally.answered.fetch_add(usize::from(is_answer), Relaxed),
            Ok(Err(error)) => tally.fail(format!("{speech:?}, kept: {keeps}: {error:#}")),
            Err(_) => tally.fail(format!("{speech:?}, kept: {keeps}: no answer within {TIMEOUT:?}")),
        };
        sleep(PACE).await;
    }
}

/// Whether the server went away with a word on which streams it has looked at, and this was not among them: a request may
/// be on its way while the server says that the connection ends (RFC 9113, section 6.8).
fn was_not_looked_at(error: &anyhow::Error) -> bool {
    let framing = error.chain().find_map(|cause| cause.downcast_ref::<h2::Error>());
    framing.is_some_and(|error| {
        error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
    })
}

impl Tally {
    fn fail(&self, why: String) -> usize {
        let mut failures = self.failures.lock().unwrap();
        failures.push(why);
        failures.len()
    }
}

/// WebSockets that echo, streams of events and calls, all open.
pub struct Streams {
    end: Arc<AtomicBool>,
    open: Vec<(Arc<AtomicUsize>, JoinHandle<anyhow::Result<()>>)>,
}

impl Streams {
    /// Six WebSockets, one stream of events and one call.
    pub fn open(runtime: &Runtime, target: &Target) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let mut open = Vec::new();
        for speech in [Speech::Plain, Speech::Tls].into_iter().cycle().take(6) {
            let beats = Arc::new(AtomicUsize::new(0));
            let socket = socket(target.clone(), speech, Arc::clone(&beats), Arc::clone(&end));
            open.push((beats, runtime.spawn(socket)));
        }
        let beats = Arc::new(AtomicUsize::new(0));
        let events = events(target.clone(), Arc::clone(&beats), Arc::clone(&end));
        open.push((beats, runtime.spawn(events)));
        let beats = Arc::new(AtomicUsize::new(0));
        let call = call(target.clone(), Arc::clone(&beats), Arc::clone(&end));
        open.push((beats, runtime.spawn(call)));
        Self { end, open }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// Waits until each has carried more.
    pub fn go_on(&self) {
        let now = || self.open.iter().map(|(beats, _)| beats.load(Relaxed));
        let before: Vec<usize> = now().collect();
        eventually("every stream goes on", PATIENCE, || {
            let cut = self.open.iter().any(|(_, task)| task.is_finished());
            let grown = now().zip(&before).all(|(now, before)| now > before + 5);
            if cut || grown { Ok(()) } else { Err(format!("{:?}", now().collect::<Vec<_>>())) }
        });
    }

    /// Ends them; how many messages came, and which streams were cut before.
    pub fn close(self, runtime: &Runtime) -> (usize, Vec<String>) {
        self.end.store(true, Relaxed);
        let carried = self.open.iter().map(|(beats, _)| beats.load(Relaxed)).sum();
        let ended = self.open.into_iter().map(|(_, task)| runtime.block_on(task).unwrap());
        (carried, ended.filter_map(|ended| Some(format!("{:#}", ended.err()?))).collect())
    }
}

async fn socket(
    target: Target,
    speech: Speech,
    beats: Arc<AtomicUsize>,
    end: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let mut stream = target.dial(speech).await?;
    let ask = format!(
        "GET /socket HTTP/1.1\r\nhost: {HOST}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    if !head.starts_with(b"HTTP/1.1 101 ") {
        bail!("no WebSocket: {}", String::from_utf8_lossy(&head));
    }
    while !end.load(Relaxed) {
        let number = beats.load(Relaxed) as u64;
        let echoed = async {
            stream.write_u64(number).await?;
            stream.read_u64().await
        };
        let back = timeout(TIMEOUT, echoed).await.context("no echo")?.context("a WebSocket was cut")?;
        ensure!(back == number, "{number} came back as {back}");
        beats.fetch_add(1, Relaxed);
        sleep(PACE).await;
    }
    Ok(())
}

async fn events(target: Target, beats: Arc<AtomicUsize>, end: Arc<AtomicBool>) -> anyhow::Result<()> {
    let mut connection = target.connect(Speech::Tls).await?;
    let mut body = connection.ask(HOST, "/events").await?.into_body();
    let mut text = String::new();
    while !end.load(Relaxed) {
        let frame = timeout(TIMEOUT, body.frame()).await.context("no event")?;
        let frame = frame.context("the stream of events ended")?.context("the stream of events was cut")?;
        text.push_str(std::str::from_utf8(frame.data_ref().context("no data")?)?);
        while let Some((event, rest)) = text.split_once("\n\n") {
            let number = beats.fetch_add(1, Relaxed);
            ensure!(event == format!("data: {number}"), "{event:?} came in place of {number}");
            text = rest.to_owned();
        }
    }
    Ok(())
}

/// Messages both ways in one stream of HTTP/2, and a status in trailers when there are no more.
async fn call(target: Target, beats: Arc<AtomicUsize>, end: Arc<AtomicBool>) -> anyhow::Result<()> {
    let (client, connection) = h2::client::handshake(target.dial(Speech::Http2).await?).await?;
    tokio::spawn(connection);
    let request = Request::post(format!("https://{HOST}/calls"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(())?;
    let (answer, mut to) = client.ready().await?.send_request(request, false)?;
    let answer = timeout(TIMEOUT, answer).await.context("no answer to a call")?.context("no call")?;
    ensure!(answer.status() == StatusCode::OK, "a call was answered with {}", answer.status());
    let mut from = answer.into_body();
    while !end.load(Relaxed) {
        let number = beats.load(Relaxed) as u64;
        // Not compressed, eight bytes.
        let message = [&[0, 0, 0, 0, 8][..], &number.to_be_bytes()].concat();
        to.send_data(Bytes::copy_from_slice(&message), false).context("a call was cut")?;
        let mut back = Vec::new();
        while back.len() < message.len() {
            let data = timeout(TIMEOUT, from.data()).await.context("no message")?;
            let data = data.context("a call ended")?.context("a call was cut")?;
            from.flow_control().release_capacity(data.len())?;
            back.extend_from_slice(&data);
        }
        ensure!(back == message, "{message:?} came back as {back:?}");
        beats.fetch_add(1, Relaxed);
        sleep(PACE).await;
    }
    to.send_data(Bytes::new(), true)?;
    let last = timeout(TIMEOUT, from.data()).await.context("a call does not end")?;
    ensure!(last.is_none_or(|data| data.is_ok_and(|data| data.is_empty())), "a call did not end well");
    let trailers = timeout(TIMEOUT, from.trailers()).await.context("no trailers")??;
    let status = trailers.as_ref().and_then(|trailers| trailers.get(GRPC_STATUS));
    ensure!(status.is_some_and(|status| status == "0"), "a call ended with {trailers:?}");
    Ok(())
}
