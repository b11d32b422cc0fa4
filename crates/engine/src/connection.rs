//! One TCP connection from accept to its line in the log: sniff → match → connect → copy → account.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use causeway_ir::{ProxyVersion, Refusal};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::access_log::Line;
use crate::close_reason::CloseReason;
use crate::cluster::{Cluster, Endpoint, State};
use crate::connections::Entry;
use crate::metrics::Held;
use crate::sniff::{self, Greeting, Opening};
use crate::table::{Front, Mode, Route, Table, Verdict};
use crate::worker::Worker;
use crate::{client_hello, clock, copy, proxy_protocol, socket};

/// What is known of a connection when it ends.
pub struct Record {
    pub client: SocketAddr,
    pub started: u64,
    pub handshake: u64,
    pub connect: u64,
    pub attempts: u32,
    pub server_name: Option<Arc<str>>,
    pub route: Option<Arc<Route>>,
    pub endpoint: Option<Arc<Endpoint>>,
    pub bytes: (u64, u64),
}

impl Record {
    pub fn new(client: SocketAddr) -> Self {
        Self {
            client,
            started: clock::now(),
            handshake: 0,
            connect: 0,
            attempts: 0,
            server_name: None,
            route: None,
            endpoint: None,
            bytes: (0, 0),
        }
    }
}

/// A connection that has its endpoint.
struct Opened {
    server: TcpStream,
    /// What the endpoint gets before the copying begins.
    head: Vec<u8>,
    route: Arc<Route>,
    endpoint: Arc<Endpoint>,
    state: Arc<State>,
    _held: [Held; 3],
}

/// Serves one accepted connection.
pub async fn handle(mut client: TcpStream, peer: SocketAddr, table: Arc<Table>, worker: Rc<Worker>) {
    let mut record = Box::new(Record::new(peer));
    // Boxed, so that an idle connection does not carry the room that opening takes.
    let opened = Box::pin(open(&mut client, &table, &worker, &mut record)).await;
    // A connection keeps no table: it would keep the names of its plan in memory for as long as it lives.
    let front = Arc::clone(&table.listener);
    drop(table);
    let reason = match opened {
        Ok(opened) => carry(client, opened, &front, &worker, &mut record).await,
        Err(reason) => reason,
    };
    account(&record, reason, &front, &worker);
}

async fn open(
    client: &mut TcpStream,
    table: &Table,
    worker: &Worker,
    record: &mut Record,
) -> Result<Opened, CloseReason> {
    let tls = matches!(table.mode, Mode::Tls(_));
    let opening = if tls || table.listener.accept_proxy_protocol {
        let reading = sniff::read(client, table.listener.accept_proxy_protocol, tls);
        timeout(worker.shared.limits.handshake_timeout(), reading)
            .await
            .map_err(|_| CloseReason::HandshakeTimeout)??
    } else {
        Opening::default()
    };
    record.handshake = clock::now() - record.started;
    record.client = opening.addresses.map_or(record.client, |(source, _)| source);

    let route = match route(&table.mode, opening.greeting, record) {
        Verdict::Forward(route) => route,
        Verdict::Refuse(reason, refusal) => {
            if refusal == Refusal::Alert {
                // The client may be gone; it is refused either way.
                let _ = client.write_all(&client_hello::alert_unrecognized_name()).await;
                let _ = client.shutdown().await;
            }
            return Err(reason);
        }
    };
    record.route = Some(Arc::clone(&route));
    let cluster = &route.cluster;
    let state = cluster.state();
    let route_held = Held::within(&route.shared.active, route.limit).ok_or(CloseReason::RouteLimit)?;
    let cluster_held = Held::within(&cluster.metrics.active, state.plan.connection_limit)
        .ok_or(CloseReason::ClusterLimit)?;

    let began = clock::now();
    let connected = connect(cluster, &state, record).await;
    record.connect = clock::now() - began;
    let (server, endpoint) = connected?;
    record.endpoint = Some(Arc::clone(&endpoint));
    cluster.metrics.total.inc();
    endpoint.total.inc();

    let destination = opening.addresses.map_or(table.listener.address, |(_, destination)| destination);
    let head = head(state.plan.send_proxy_protocol, record.client, destination, opening.bytes);
    let endpoint_held = Held::new(&endpoint.active);
    Ok(Opened { server, head, route, endpoint, state, _held: [route_held, cluster_held, endpoint_held] })
}

/// Finds the way of a connection, and notes the server name it asked for.
fn route(mode: &Mode, greeting: Greeting, record: &mut Record) -> Verdict {
    match (mode, greeting) {
        (Mode::Plain(route), _) => Verdict::Forward(Arc::clone(route)),
        (Mode::Tls(names), Greeting::Tls { server_name }) => {
            record.server_name = server_name.map(Arc::from);
            names.find(record.server_name.as_deref())
        }
        (Mode::Tls(names), Greeting::Plaintext | Greeting::Unread) => names.plaintext(),
    }
}

/// Connects to an endpoint; nothing was sent yet, so a failure is tried again elsewhere.
async fn connect(
    cluster: &Cluster,
    state: &State,
    record: &mut Record,
) -> Result<(TcpStream, Arc<Endpoint>), CloseReason> {
    let mut tried = Vec::new();
    while record.attempts <= state.plan.retries {
        let Some(endpoint) = cluster.pick(state, record.client.ip(), &tried) else { break };
        record.attempts += 1;
        match timeout(state.plan.connect_timeout, socket::connect(endpoint.address)).await {
            Ok(Ok(server)) => {
                endpoint.succeeded();
                return Ok((server, endpoint));
            }
            Ok(Err(error)) => {
                tracing::debug!(cluster = cluster.name, endpoint = %endpoint.address, %error, "connecting failed");
            }
            Err(_) => {
                tracing::debug!(cluster = cluster.name, endpoint = %endpoint.address, "connecting timed out");
            }
        }
        cluster.failed(state, &endpoint);
        tried.push(endpoint.address);
    }
    Err(if tried.is_empty() { CloseReason::NoEndpoint } else { CloseReason::ConnectFailed })
}

fn head(
    version: Option<ProxyVersion>,
    client: SocketAddr,
    destination: SocketAddr,
    bytes: Vec<u8>,
) -> Vec<u8> {
    let mut head = match version {
        None => return bytes,
        Some(ProxyVersion::V1) => proxy_protocol::encode_v1(client, destination),
        Some(ProxyVersion::V2) => proxy_protocol::encode_v2(client, destination),
    };
    head.extend_from_slice(&bytes);
    head
}

async fn carry(
    mut client: TcpStream,
    mut opened: Opened,
    front: &Arc<Front>,
    worker: &Worker,
    record: &mut Record,
) -> CloseReason {
    let entry = worker.connections.insert(Entry::new(
        record.client,
        Arc::clone(front),
        record.server_name.clone(),
        opened.route,
        opened.endpoint,
        idle_limit(opened.state.plan.idle_timeout),
    ));
    drop(opened.state);
    let head = std::mem::take(&mut opened.head);
    let reason = copy::both(&mut client, &mut opened.server, head, &entry, &worker.workspace).await;
    record.bytes = entry.bytes();
    if record.bytes.1 == 0 {
        judge_silence(reason, &entry.route.cluster, &entry.endpoint);
    }
    drop(entry);
    match reason {
        CloseReason::ClientReset => socket::reset(opened.server).await,
        CloseReason::EndpointReset => socket::reset(client).await,
        _ => {}
    }
    reason
}

/// An endpoint that took a connection and never said a word may be to blame for its end.
fn judge_silence(reason: CloseReason, cluster: &Cluster, endpoint: &Endpoint) {
    match reason {
        CloseReason::EndpointReset => cluster.reset_early(&cluster.state(), endpoint),
        CloseReason::IdleTimeout => {
            cluster.metrics.unanswered.inc();
        }
        _ => {}
    }
}

/// In milliseconds.
pub fn idle_limit(timeout: Duration) -> u64 {
    timeout.as_millis() as u64
}

/// Counts the end of a connection and writes its line.
pub fn account(record: &Record, reason: CloseReason, front: &Front, worker: &Worker) {
    match &record.route {
        Some(route) => route.shared.closed.count(reason),
        None => front.metrics.closed.count(reason),
    }
    let log = &worker.shared.access_log;
    if !log.is_on() {
        return;
    }
    let written = log.write(&Line {
        time: jiff::Timestamp::now().to_string(),
        listener: &front.name,
        client: record.client,
        server_name: record.server_name.as_deref(),
        route: record.route.as_ref().map(|route| &*route.name),
        cluster: record.route.as_ref().map(|route| route.cluster.name.as_str()),
        endpoint: record.endpoint.as_ref().map(|endpoint| endpoint.address),
        attempts: record.attempts,
        bytes_up: record.bytes.0,
        bytes_down: record.bytes.1,
        handshake_millis: record.handshake,
        connect_millis: record.connect,
        duration_millis: clock::now() - record.started,
        reason,
    });
    if !written {
        worker.shared.metrics.log_lines_lost.inc();
    }
}
