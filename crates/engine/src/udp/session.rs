//! One client and its endpoint.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;

use tokio::net::UdpSocket;

use super::far::Far;
use crate::clock;
use crate::close_reason::CloseReason;
use crate::cluster::{Cluster, Endpoint, State};
use crate::connections::{Entry, Registered};
use crate::metrics::Held;
use crate::record::Record;
use crate::table::{Mode, Table};
use crate::tcp::{self, is_local};
use crate::worker::Worker;
use crate::workspace::Workspace;

pub(super) struct Session {
    far: Far,
    entry: Registered,
    up: Cell<u64>,
    down: Cell<u64>,
}

impl Session {
    /// Chooses an endpoint for a client.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn open(
        table: &Table,
        worker: &Worker,
        record: &mut Record,
    ) -> Result<Self, CloseReason> {
        let Mode::Plain(route) = &table.mode else { return Err(CloseReason::Plaintext) };
        record.route = Some(Arc::clone(route));
        if route.shared.is_over() {
            return Err(CloseReason::Drained);
        }
        let mut candidate = Arc::clone(route.cluster(clock::woken()).map_err(|_| CloseReason::Refused)?);
        let route = Held::within(Arc::clone(route), route.limit).ok_or(CloseReason::RouteLimit)?;
        let began = clock::woken();
        let (cluster, state, (far, endpoint)) = loop {
            record.cluster = Some(Arc::clone(&candidate));
            let state = candidate.state();
            let limit = state.settings.connection_limit;
            let cluster = Held::within(candidate, limit).ok_or(CloseReason::ClusterLimit)?;
            match reach(&cluster, &state, record).await {
                Ok(reached) => break (cluster, state, reached),
                Err(reason) => candidate = Arc::clone(route.cluster_after(&cluster).ok_or(reason)?),
            }
        };
        clock::wake();
        record.connect = clock::woken() - began;
        record.endpoint = Some(Arc::clone(&endpoint));
        cluster.metrics.total.inc();
        endpoint.total.inc();
        let entry = worker.connections.insert(Entry::new(
            record.client,
            Arc::clone(&table.listener),
            None,
            route,
            cluster,
            Held::new(endpoint),
            state.settings.idle_limit,
        ));
        Ok(Self { far, entry, up: Cell::new(0), down: Cell::new(0) })
    }

    /// Whether its endpoint is still the one to send to: in a cluster that the route leads to, and healthy unless no
    /// other is.
    pub(super) fn is_fit(&self, table: &Table) -> bool {
        let (cluster, endpoint) = (&self.entry.cluster, &self.entry.endpoint);
        let leads_there = matches!(&table.mode, Mode::Plain(route) if route.leads_to(cluster));
        let better = || cluster.state().has_better_than(endpoint, clock::woken());
        leads_there && endpoint.is_serving() && (endpoint.is_healthy() || !better())
    }

    /// Sends what the client said.
    ///
    /// # Errors
    /// If there is no room now, or the endpoint's host said that nobody listens there.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.far.send(bytes)?;
        self.up.set(self.up.get() + bytes.len() as u64);
        self.entry.moved(self.up.get(), self.down.get());
        Ok(())
    }

    pub(super) fn end(&self, reason: CloseReason) {
        self.entry.end(reason);
    }

    pub(super) fn bytes(&self) -> (u64, u64) {
        self.entry.bytes()
    }

    /// Counts an end that the endpoint is to blame for.
    pub(super) fn judge(&self, reason: CloseReason) {
        if reason == CloseReason::EndpointReset {
            let cluster = &self.entry.cluster;
            cluster.connect_failed(&cluster.state(), &self.entry.endpoint, true);
        }
    }

    /// Passes answers to the client until the session ends.
    pub(super) async fn answer(
        &self,
        client: SocketAddr,
        socket: &UdpSocket,
        workspace: &Workspace,
    ) -> CloseReason {
        poll_fn(|cx| {
            clock::wake();
            loop {
                if let Some(reason) = self.entry.ending() {
                    return Poll::Ready(reason);
                }
                self.entry.watch(cx.waker());
                let mut buffer = workspace.buffer();
                match self.far.poll_receive(cx, &mut buffer) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(length)) => {
                        // A datagram that does not fit is lost, as on any network.
                        let sent = socket.try_send_to(&buffer[..length], client).is_ok();
                        let count = if sent { length as u64 } else { 0 };
                        self.entry.endpoint.succeeded();
                        self.down.set(self.down.get() + count);
                        self.entry.moved(self.up.get(), self.down.get());
                    }
                    Poll::Ready(Err(_)) => return Poll::Ready(CloseReason::EndpointReset),
                }
            }
        })
        .await
    }
}

/// Finds an endpoint of a cluster, and how it is reached.
async fn reach(
    cluster: &Cluster,
    state: &State,
    record: &mut Record,
) -> Result<(Far, Arc<Endpoint>), CloseReason> {
    if state.settings.is_secured {
        let (server, endpoint) = tcp::connect(cluster, state, true, record).await?;
        return Ok((Far::stream(server), endpoint));
    }
    let picked = cluster.pick(state, record.client.ip(), &[], clock::woken());
    let endpoint = picked.ok_or(CloseReason::NoEndpoint)?;
    record.attempts += 1;
    let connected = match endpoint.address.socket() {
        Some(address) => connect(address).await,
        None => Err(io::ErrorKind::Unsupported.into()),
    };
    match connected {
        Ok(socket) => Ok((Far::Datagrams(socket), endpoint)),
        Err(error) => {
            cluster.connect_failed(state, &endpoint, !is_local(&error));
            Err(CloseReason::ConnectFailed)
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(address).await?;
    socket.writable().await?;
    Ok(socket)
}
