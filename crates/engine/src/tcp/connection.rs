//! One TCP connection from accept to its line in the log: look → match → connect → copy → account.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use causeway_ir::http::Scheme;
use causeway_ir::{ProxyVersion, Refusal};
use rustls::ServerConfig;
use tokio::time::timeout;

use super::downstream::Downstream;
use super::opening::{Greeting, Opening, Reader, Wanted};
use super::upstream::{self, Upstream};
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
use crate::table::{CurrentTable, Destination, Mode, Route, Table, Verdict, Within};
use crate::tls::TlsStream;
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
    Terminated(Arc<ServerConfig>),
}

/// What an accepted connection turned out to carry.
enum Carries {
    Stream(Opened),
    Requests {
        /// What was read of them.
        bytes: Vec<u8>,
        /// With TLS that ends here.
        tls: Option<Arc<ServerConfig>>,
        /// Counts the client that a PROXY header named.
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
    if let Ok(Carries::Requests { bytes, tls, _source }) = opened {
        let secured = tls.is_some();
        let opened = match tls {
            None => Ok((client, bytes)),
            Some(config) => {
                Box::pin(secure(client, config, &bytes, &worker)).await.map(|stream| (stream, Vec::new()))
            }
        };
        let reason = match opened {
            // They have their own lines in the log. Boxed, so that other connections do not carry the room they take.
            Ok((client, bytes)) => {
                let name = record.server_name.clone();
                let within = if secured { Within::Tls(name) } else { Within::Clear };
                Box::pin(serve(client, record.client, within, table, stop, &worker, bytes)).await
            }
            Err(reason) => {
                record.close(reason, &listener, &worker.shared);
                return;
            }
        };
        listener.metrics.closed.count(reason);
        return;
    }
    drop((table, stop));
    let reason = match opened {
        Ok(Carries::Stream(opened)) => carry(client, opened, &worker, &mut record).await,
        Ok(Carries::Requests { .. }) => CloseReason::Finished,
        Err(reason) => reason,
    };
    record.close(reason, &listener, &worker.shared);
}

async fn open(
    client: &Downstream,
    peer: SocketAddr,
    current: &CurrentTable,
    worker: &Worker,
    record: &mut Record,
) -> Result<Carries, CloseReason> {
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
    if matches!(table.mode, Mode::Http(_)) {
        return Ok(Carries::Requests { bytes, tls: None, _source: source });
    }
    let found = find(&table.mode, greeting, record).and_then(|route| {
        if let Destination::Terminate(terminated) = &route.destination {
            return Ok(Found::Terminated(Arc::clone(&terminated.config)));
        }
        let cluster = Arc::clone(route.cluster().map_err(|refusal| (CloseReason::Refused, refusal))?);
        record.cluster = Some(Arc::clone(&cluster));
        Ok(Found::Cluster(route, cluster))
    });
    let (route, cluster) = match found {
        Ok(Found::Terminated(config)) => {
            return Ok(Carries::Requests { bytes, tls: Some(config), _source: source });
        }
        Ok(Found::Cluster(route, cluster)) => (route, cluster),
        Err((reason, refusal)) => {
            if refusal == Refusal::Alert {
                client.socket().send_now_and_end(&client_hello::alert_unrecognized_name());
            }
            return Err(reason);
        }
    };
    // What is below may take a while, and the names of a plan must not wait for it.
    let listener = Arc::clone(&table.listener);
    drop(table);
    let limit = route.limit;
    let route = Held::within(route, limit).ok_or(CloseReason::RouteLimit)?;
    let state = cluster.state();
    let cluster = Held::within(cluster, state.settings.connection_limit).ok_or(CloseReason::ClusterLimit)?;

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
    let began = clock::woken();
    let connected = connect(&cluster, &state, !head.is_empty(), record).await;
    clock::wake();
    record.connect = clock::woken() - began;
    let (server, endpoint) = connected?;
    if route.shared.is_over() {
        return Err(CloseReason::Drained);
    }
    record.endpoint = Some(Arc::clone(&endpoint));
    cluster.metrics.total.inc();
    endpoint.total.inc();
    let idle_limit = state.settings.idle_limit;
    let endpoint = Held::new(endpoint);
    Ok(Carries::Stream(Opened { server, head, listener, route, cluster, endpoint, idle_limit, source }))
}

/// Ends the TLS of a client.
async fn secure(
    client: Downstream,
    config: Arc<ServerConfig>,
    bytes: &[u8],
    worker: &Worker,
) -> Result<Downstream, CloseReason> {
    let accepting = TlsStream::accept(client.into_socket(), config, bytes);
    let accepted = timeout(worker.shared.limits.handshake_timeout(), accepting).await;
    clock::wake();
    match accepted {
        Ok(Ok(stream)) => Ok(Downstream::Tls(Box::new(stream))),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            Err(CloseReason::TlsFailed)
        }
        Err(_) => Err(CloseReason::HandshakeTimeout),
    }
}

/// Serves requests.
async fn serve(
    stream: Downstream,
    client: SocketAddr,
    within: Within,
    table: CurrentTable,
    stop: Stop,
    worker: &Rc<Worker>,
    bytes: Vec<u8>,
) -> CloseReason {
    let port = table.borrow().listener.address.port();
    let scheme = if matches!(within, Within::Clear) { Scheme::Http } else { Scheme::Https };
    let client = http::Client::new(client, scheme, port);
    let worker = Rc::clone(worker);
    http::Connection { stream, client, within, table, stop, worker }.serve(bytes).await
}

/// What a listener has to read of a peer's connection before it knows its way.
fn wanted(table: &Table, peer: SocketAddr) -> Result<Wanted, CloseReason> {
    let proxy_header = match table.listener.proxy_header(peer.ip()) {
        ProxyHeader::None => false,
        ProxyHeader::Wanted => true,
        ProxyHeader::Untrusted => return Err(CloseReason::InvalidProxyHeader),
    };
    Ok(Wanted { proxy_header, client_hello: matches!(table.mode, Mode::Tls(_)) })
}

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
    timeout(limits.handshake_timeout(), reading).await.map_err(|_| CloseReason::HandshakeTimeout)?
}

/// Finds the way of a connection, and notes the server name it asked for.
fn find(mode: &Mode, greeting: Greeting, record: &mut Record) -> Result<Arc<Route>, (CloseReason, Refusal)> {
    let verdict = match (mode, greeting) {
        (Mode::Plain(route), _) => Verdict::Route(Arc::clone(route)),
        (Mode::Tls(names), Greeting::Tls { server_name }) => {
            record.server_name = server_name;
            names.find(record.server_name.as_deref())
        }
        (Mode::Tls(names), Greeting::Plaintext | Greeting::Unread) => names.plaintext(),
        // Carries requests, which have routes of their own.
        (Mode::Http(_), _) => Verdict::Refuse(CloseReason::Refused, Refusal::Close),
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
async fn connect(
    cluster: &Cluster,
    state: &State,
    speaks_first: bool,
    record: &mut Record,
) -> Result<(Upstream, Arc<Endpoint>), CloseReason> {
    let mut tried = Vec::new();
    while record.attempts <= state.settings.retries {
        let picked = cluster.pick(state, record.client.ip(), &tried, clock::woken());
        let Some(endpoint) = picked else { break };
        record.attempts += 1;
        let connecting = Upstream::connect(&endpoint.address, speaks_first);
        let endpoint_to_blame = match timeout(state.settings.connect_timeout, connecting).await {
            Ok(Ok(server)) => {
                endpoint.succeeded();
                return Ok((server, endpoint));
            }
            Ok(Err(error)) => {
                tracing::debug!(cluster = %cluster.name, endpoint = %endpoint.address, %error, "connecting failed");
                !upstream::is_local(&error)
            }
            Err(_) => {
                tracing::debug!(cluster = %cluster.name, endpoint = %endpoint.address, "connecting timed out");
                true
            }
        };
        cluster.connect_failed(state, &endpoint, endpoint_to_blame);
        tried.push(endpoint);
    }
    Err(if tried.is_empty() { CloseReason::NoEndpoint } else { CloseReason::ConnectFailed })
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
