//! One TCP connection from accept to its line in the log: look → match → connect → copy → account.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use causeway_ir::http::Scheme;
use causeway_ir::{ProxyVersion, Refusal};
use tokio::time::timeout;

use super::downstream::Downstream;
use super::opening::{Greeting, Opening, Reader, Wanted};
use super::upstream::{self, Carries, Upstream};
use super::{client_hello, copy, proxy_protocol};
use crate::clock;
use crate::close_reason::CloseReason;
use crate::cluster::{Cluster, Endpoint, State};
use crate::connections::Entry;
use crate::http;
use crate::limits::FromSource;
use crate::listener::{Listener, ProxyHeader};
use crate::metrics::Held;
use crate::permit::Permit;
use crate::record::Record;
use crate::table::{self, CurrentTable, Destination, Inside, Mode, Route, Table, Verdict};
use crate::tls::{self, Clients, TlsStream};
use crate::worker::{Stop, Worker};

/// A connection that has its endpoint.
struct Opened {
    server: Upstream,
    /// What the endpoint gets before the copying begins.
    head: Vec<u8>,
    listener: Arc<Listener>,
    route: Held<Route>,
    cluster: Held<Cluster>,
    endpoint: Held<Endpoint>,
    idle_limit: u64,
    /// Counts the client that a PROXY header named.
    source: Option<FromSource>,
}

/// Where a connection goes.
enum Found {
    Cluster(Arc<Route>, Arc<Cluster>),
    /// Its TLS ends here.
    Terminated(Arc<Route>),
}

/// What an accepted connection turned out to be.
enum Turned {
    Stream(Opened),
    /// Requests in clear text.
    Requests {
        /// What was read of them.
        bytes: Vec<u8>,
        /// Counts the client that a PROXY header named.
        _source: Option<FromSource>,
    },
    /// TLS that ends here.
    Tls(Secured),
}

/// TLS that ends here, before hands are shaken.
struct Secured {
    /// The route that ends it.
    route: Arc<Route>,
    /// What was read of it.
    bytes: Vec<u8>,
    addresses: Option<(SocketAddr, SocketAddr)>,
    source: Option<FromSource>,
}

/// What is inside of TLS that ended here.
enum Within {
    Stream(Opened),
    Requests {
        /// What was asked of the client, if anything was.
        asked: Option<Arc<Clients>>,
        /// What endpoints hear of the client's certificate.
        introduction: Vec<u8>,
        _source: Option<FromSource>,
    },
}

/// Serves one accepted connection.
pub(super) async fn handle(
    client: Downstream,
    peer: SocketAddr,
    table: CurrentTable,
    stop: Stop,
    worker: Rc<Worker>,
    _permit: Permit,
) {
    clock::wake();
    let mut record = Record::new(peer);
    // Boxed, so that an idle connection does not carry the room that opening takes.
    let opened = Box::pin(open(&client, peer, &table, &worker, &mut record)).await;
    let listener = Arc::clone(&table.borrow().listener);
    let (client, opened) = match opened {
        Ok(Turned::Stream(opened)) => (client, opened),
        Ok(Turned::Requests { bytes, _source }) => {
            let arrival =
                Arrived { client: record.client, within: table::Within::Clear, introduction: Vec::new() };
            // They have their own lines in the log. Boxed, so that other connections do not carry the room they take.
            let reason = Box::pin(serve(client, arrival, table, stop, &worker, bytes)).await;
            listener.metrics.closed.count(reason);
            return;
        }
        Ok(Turned::Tls(secured)) => {
            match Box::pin(secure(client, secured, &listener, &worker, &mut record)).await {
                Ok((client, Within::Stream(opened))) => (client, opened),
                Ok((client, Within::Requests { asked, introduction, _source })) => {
                    let within = table::Within::Tls(table::Secured::new(record.server_name.clone(), asked));
                    let arrival = Arrived { client: record.client, within, introduction };
                    let reason = Box::pin(serve(client, arrival, table, stop, &worker, Vec::new())).await;
                    listener.metrics.closed.count(reason);
                    return;
                }
                Err(reason) => {
                    record.close(reason, &listener, &worker.shared);
                    return;
                }
            }
        }
        Err(reason) => {
            record.close(reason, &listener, &worker.shared);
            return;
        }
    };
    drop((table, stop));
    let reason = carry(client, opened, &worker, &mut record).await;
    record.close(reason, &listener, &worker.shared);
}

async fn open(
    client: &Downstream,
    peer: SocketAddr,
    current: &CurrentTable,
    worker: &Worker,
    record: &mut Record,
) -> Result<Turned, CloseReason> {
    let wanted = wanted(&current.borrow(), peer)?;
    let opening =
        if wanted.nothing() { Opening::default() } else { read(client, peer, wanted, worker).await? };
    record.handshake = clock::woken() - record.started;

    let table = Arc::clone(&current.borrow());
    // The permit counts the peer, unless it speaks for others: then the client is counted.
    let mut source = None;
    if let Some((client, _)) = opening.addresses {
        record.client = client;
        if !table.listener.allows(client.ip()) {
            return Err(CloseReason::SourceNotAllowed);
        }
        source = Some(worker.shared.limits.enter(client.ip())?);
    }
    let Opening { addresses, bytes, greeting } = opening;
    if matches!(table.mode, Mode::Http(_)) && greeting != Greeting::NoRequest {
        return Ok(Turned::Requests { bytes, _source: source });
    }
    let found = find(&table.mode, greeting, record).and_then(|route| {
        if matches!(route.destination, Destination::Terminate(_)) {
            return Ok(Found::Terminated(route));
        }
        let cluster = route.cluster(clock::woken()).map_err(|refusal| (CloseReason::Refused, refusal))?;
        let cluster = Arc::clone(cluster);
        Ok(Found::Cluster(route, cluster))
    });
    let (route, cluster) = match found {
        Ok(Found::Terminated(route)) => return Ok(Turned::Tls(Secured { route, bytes, addresses, source })),
        Ok(Found::Cluster(route, cluster)) => (route, cluster),
        Err((reason, refusal)) => {
            if refusal == Refusal::Alert {
                client.socket().send_now_and_end(&client_hello::alert_unrecognized_name());
            } else if reason == CloseReason::Plaintext && table.speaks_https() && is_request(&bytes) {
                client.socket().send_now_and_end(SPEAKS_HTTPS);
            }
            return Err(reason);
        }
    };
    // What is below may take a while, and the names of a plan must not wait for it.
    let listener = Arc::clone(&table.listener);
    drop(table);
    let opened = enter(client, listener, (route, cluster), (addresses, bytes), record).await?;
    Ok(Turned::Stream(Opened { source, ..opened }))
}

/// Finds an endpoint for a connection that has its route, and connects to it; the endpoint first gets `bytes`. Where nothing
/// of a cluster can be reached, that of the next priority is tried: nothing was sent yet.
async fn enter(
    client: &Downstream,
    listener: Arc<Listener>,
    (route, cluster): (Arc<Route>, Arc<Cluster>),
    (addresses, bytes): (Option<(SocketAddr, SocketAddr)>, Vec<u8>),
    record: &mut Record,
) -> Result<Opened, CloseReason> {
    let limit = route.limit;
    let route = Held::within(route, limit).ok_or(CloseReason::RouteLimit)?;
    let began = clock::woken();
    let mut candidate = cluster;
    let (cluster, state, (server, endpoint)) = loop {
        record.cluster = Some(Arc::clone(&candidate));
        let state = candidate.state();
        let settings = &state.settings;
        let cluster = Held::within(candidate, settings.connection_limit).ok_or(CloseReason::ClusterLimit)?;
        let speaks_first = !bytes.is_empty() || settings.send_proxy_protocol.is_some();
        match connect(&cluster, &state, speaks_first, record).await {
            Ok(connected) => break (cluster, state, connected),
            Err(reason) => candidate = Arc::clone(route.cluster_after(&cluster).ok_or(reason)?),
        }
    };
    clock::wake();
    record.connect = clock::woken() - began;
    if route.shared.is_over() {
        return Err(CloseReason::Drained);
    }
    let head = match state.settings.send_proxy_protocol {
        None => bytes,
        Some(version) => {
            // A listener may stand on every address of the host; the client asked for one of them.
            let destination = match addresses {
                Some((_, destination)) => destination,
                None => client.socket().local_address().unwrap_or(listener.address),
            };
            introduced(version, record.client, destination, &bytes)
        }
    };
    record.endpoint = Some(Arc::clone(&endpoint));
    cluster.metrics.total.inc();
    endpoint.total.inc();
    let idle_limit = state.settings.idle_limit;
    let endpoint = Held::new(endpoint);
    Ok(Opened { server, head, listener, route, cluster, endpoint, idle_limit, source: None })
}

/// Ends the TLS of a client and looks at what is inside.
async fn secure(
    client: Downstream,
    secured: Secured,
    listener: &Arc<Listener>,
    worker: &Worker,
    record: &mut Record,
) -> Result<(Downstream, Within), CloseReason> {
    let Secured { route, bytes, addresses, source } = secured;
    let Destination::Terminate(terminated) = &route.destination else { return Err(CloseReason::Refused) };
    let accepting = TlsStream::accept(client.into_socket(), Arc::clone(&terminated.config), &bytes);
    let accepted = timeout(worker.shared.limits.handshake_timeout(), accepting).await;
    clock::wake();
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            return Err(CloseReason::TlsFailed);
        }
        Err(_) => return Err(CloseReason::HandshakeTimeout),
    };
    record.handshake = clock::woken() - record.started;
    let inner = match &terminated.inside {
        Inside::Requests(_) => {
            let introduce =
                |clients: &Arc<Clients>| stream.with_peer_certificates(|shown| clients.introduction(shown));
            let introduction = terminated.clients.as_ref().map(introduce).unwrap_or_default();
            let client = Downstream::Tls(Box::new(stream));
            let asked = terminated.clients.clone();
            return Ok((client, Within::Requests { asked, introduction, _source: source }));
        }
        Inside::Bytes(route) => Arc::clone(route),
    };
    drop(route);
    record.route = Some(Arc::clone(&inner));
    let client = Downstream::Tls(Box::new(stream));
    let cluster = Arc::clone(inner.cluster(clock::woken()).map_err(|_| CloseReason::Refused)?);
    let ways = (inner, cluster);
    let opened = enter(&client, Arc::clone(listener), ways, (addresses, Vec::new()), record).await?;
    Ok((client, Within::Stream(Opened { source, ..opened })))
}

/// Whose requests come, and how.
struct Arrived {
    client: SocketAddr,
    within: table::Within,
    /// What endpoints hear of the client's certificate.
    introduction: Vec<u8>,
}

/// Serves requests.
async fn serve(
    stream: Downstream,
    arrived: Arrived,
    table: CurrentTable,
    stop: Stop,
    worker: &Rc<Worker>,
    bytes: Vec<u8>,
) -> CloseReason {
    let Arrived { client, within, introduction } = arrived;
    let port = table.borrow().listener.port;
    let scheme = if matches!(within, table::Within::Clear) { Scheme::Http } else { Scheme::Https };
    let client = http::Client::new(client, scheme, port, &introduction);
    let worker = Rc::clone(worker);
    http::Connection { stream, client, within, table, stop, worker }.serve(bytes).await
}

/// What a client hears that sends requests without TLS where they are served with it.
const SPEAKS_HTTPS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 45\r\n\
    connection: close\r\n\r\nThis port speaks HTTPS: write https:// here.\n";

/// Whether this is how a request begins.
fn is_request(bytes: &[u8]) -> bool {
    const LONGEST: usize = 16;
    let method = bytes.iter().take(LONGEST).position(|b| !b.is_ascii_uppercase());
    method.is_some_and(|length| length > 0 && bytes[length] == b' ')
}

/// What a listener has to read of a peer's connection before it knows its way.
fn wanted(table: &Table, peer: SocketAddr) -> Result<Wanted, CloseReason> {
    let proxy_header = match table.listener.proxy_header(peer.ip()) {
        ProxyHeader::None => false,
        ProxyHeader::Wanted => true,
        ProxyHeader::Untrusted => return Err(CloseReason::InvalidProxyHeader),
    };
    let request = matches!(&table.mode, Mode::Http(requests) if requests.otherwise.is_some());
    Ok(Wanted { proxy_header, client_hello: matches!(table.mode, Mode::Tls(_)), request })
}

/// How long a client may say nothing before its server is taken to speak first.
const SERVER_FIRST: Duration = Duration::from_secs(3);

/// Reads the opening of a connection.
async fn read(
    client: &Downstream,
    peer: SocketAddr,
    wanted: Wanted,
    worker: &Worker,
) -> Result<Opening, CloseReason> {
    let mut reader = Reader::new(wanted);
    let socket = client.socket();
    // Most clients have said it all by the time they are accepted.
    let first = {
        let mut buffer = worker.workspace.buffer();
        match socket.receive_now(&mut buffer) {
            Ok(Some(received)) => reader.feed(&buffer[..received.count])?,
            Ok(None) => None,
            Err(_) => return Err(CloseReason::ClientReset),
        }
    };
    if let Some(opening) = first {
        return Ok(opening);
    }
    let limits = &worker.shared.limits;
    let mut room = limits.handshake(peer.ip()).ok_or(CloseReason::HandshakeLimit)?;
    if !room.grow_to(reader.kept()) {
        return Err(CloseReason::HandshakeLimit);
    }
    let reading = poll_fn(|cx| {
        clock::wake();
        loop {
            let mut buffer = worker.workspace.buffer();
            let received = std::task::ready!(socket.poll_receive(cx, &mut buffer));
            let Ok(received) = received else { return Err(CloseReason::ClientReset).into() };
            match reader.feed(&buffer[..received.count]) {
                Ok(None) if room.grow_to(reader.kept()) => {}
                Ok(None) => return Err(CloseReason::HandshakeLimit).into(),
                Ok(Some(opening)) => return Ok(opening).into(),
                Err(reason) => return Err(reason).into(),
            }
        }
    });
    let limit = limits.handshake_timeout();
    let patience = if wanted.request { limit.min(SERVER_FIRST) } else { limit };
    match timeout(patience, reading).await {
        Ok(read) => read,
        Err(_) => reader.give_up().ok_or(CloseReason::HandshakeTimeout),
    }
}

/// Finds the way of a connection, and notes the server name it asked for.
fn find(mode: &Mode, greeting: Greeting, record: &mut Record) -> Result<Arc<Route>, (CloseReason, Refusal)> {
    let verdict = match (mode, greeting) {
        (Mode::Plain(route), _) => Verdict::Route(Arc::clone(route)),
        (Mode::Tls(names), Greeting::Tls { server_name }) => {
            record.server_name = server_name;
            names.find(record.server_name.as_deref())
        }
        (Mode::Tls(names), _) => names.plaintext(),
        // Requests have routes of their own.
        (Mode::Http(requests), _) => match &requests.otherwise {
            Some(route) => Verdict::Route(Arc::clone(route)),
            None => Verdict::Refuse(CloseReason::Refused, Refusal::Close),
        },
    };
    let route = match verdict {
        Verdict::Route(route) => route,
        Verdict::Refuse(reason, refusal) => return Err((reason, refusal)),
    };
    record.route = Some(Arc::clone(&route));
    if route.shared.is_over() {
        // Its listener is gone, and its time to drain is over.
        return Err((CloseReason::Drained, Refusal::Close));
    }
    Ok(route)
}

/// Connects to an endpoint; nothing was sent yet, so a failure is tried again elsewhere.
pub(crate) async fn connect(
    cluster: &Cluster,
    state: &State,
    speaks_first: bool,
    record: &mut Record,
) -> Result<(Upstream, Arc<Endpoint>), CloseReason> {
    let mut tried: Vec<Arc<Endpoint>> = Vec::new();
    let mut reason = CloseReason::NoEndpoint;
    let server_name = record.server_name.clone();
    while tried.len() as u32 <= state.settings.retries {
        let picked = cluster.pick(state, record.client.ip(), &tried, clock::woken());
        let Some(endpoint) = picked else { break };
        record.attempts += 1;
        let carries = Carries::Bytes { server_name: server_name.as_deref(), speaks_first };
        let connecting = Upstream::reach(cluster, state, &endpoint, carries);
        let endpoint_to_blame = match timeout(state.settings.connect_timeout, connecting).await {
            Ok(Ok(server)) => {
                endpoint.succeeded();
                return Ok((server, endpoint));
            }
            Ok(Err(error)) => {
                tracing::debug!(cluster = %cluster.name, endpoint = %endpoint.address, %error, "connecting failed");
                let is_tls = tls::Failed::is_cause(&error);
                reason = if is_tls { CloseReason::EndpointTlsFailed } else { CloseReason::ConnectFailed };
                !upstream::is_local(&error)
            }
            Err(_) => {
                tracing::debug!(cluster = %cluster.name, endpoint = %endpoint.address, "connecting timed out");
                reason = CloseReason::ConnectFailed;
                true
            }
        };
        cluster.connect_failed(state, &endpoint, endpoint_to_blame);
        tried.push(endpoint);
    }
    Err(reason)
}

/// A PROXY protocol header and the first bytes of the client.
fn introduced(version: ProxyVersion, client: SocketAddr, destination: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut head = match version {
        ProxyVersion::V1 => proxy_protocol::encode_v1(client, destination),
        ProxyVersion::V2 => proxy_protocol::encode_v2(client, destination),
    };
    head.extend_from_slice(bytes);
    head
}

async fn carry(client: Downstream, opened: Opened, worker: &Worker, record: &mut Record) -> CloseReason {
    let Opened { server, head, listener, route, cluster, endpoint, idle_limit, source: _source } = opened;
    let server_name = record.server_name.clone();
    let entry = worker.connections.insert(Entry::new(
        record.client,
        listener,
        server_name,
        route,
        cluster,
        endpoint,
        idle_limit,
    ));
    let reason = copy::both(&client, &server, head, &entry, &worker.workspace).await;
    record.bytes = entry.bytes();
    if record.bytes.1 == 0 {
        judge_silence(reason, &entry.cluster, &entry.endpoint);
    }
    drop(entry);
    match reason {
        CloseReason::ClientReset => server.into_socket().reset().await,
        CloseReason::EndpointReset => client.into_socket().reset().await,
        _ => {}
    }
    reason
}

/// An endpoint that took a connection and never said a word may be to blame for its end.
fn judge_silence(reason: CloseReason, cluster: &Cluster, endpoint: &Endpoint) {
    match reason {
        CloseReason::EndpointReset => cluster.reset_early(&cluster.state(), endpoint),
        CloseReason::IdleTimeout => cluster.metrics.unanswered.inc(),
        _ => {}
    }
}
