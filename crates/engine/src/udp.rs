//! Datagrams: all that one client sends is a session with one endpoint, until it idles too long. Sessions are listed,
//! limited, counted and logged like connections; they end with their listener, since nobody hears the client then.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::task::spawn_local;

use crate::clock;
use crate::close_reason::CloseReason;
use crate::cluster::State;
use crate::connection::{self, Record};
use crate::connections::{Entry, Registered};
use crate::metrics::Held;
use crate::table::{Mode, Table};
use crate::worker::{self, Stop, Worker};

const LARGEST: usize = 64 << 10;

struct Session {
    upstream: UdpSocket,
    entry: Registered,
    up: Cell<u64>,
    down: Cell<u64>,
}

type Sessions = Rc<RefCell<HashMap<SocketAddr, Rc<Session>>>>;

/// Serves one socket until it is stopped.
pub async fn serve(socket: Rc<UdpSocket>, table: Rc<RefCell<Arc<Table>>>, stop: Stop, worker: Rc<Worker>) {
    let sessions = Sessions::default();
    let mut buffer = vec![0; LARGEST];
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            () = stop.told.cancelled() => break,
        };
        // An error here is one of an earlier answer that did not arrive.
        let Ok((count, client)) = received else { continue };
        let known = sessions.borrow().get(&client).cloned();
        let session = if let Some(session) = known {
            session
        } else {
            let table = Arc::clone(&table.borrow());
            let Some(session) = begin(client, table, &socket, &sessions, &worker).await else { continue };
            session
        };
        match session.upstream.try_send(&buffer[..count]) {
            Ok(_) => {
                session.up.set(session.up.get() + count as u64);
                session.entry.moved(session.up.get(), session.down.get());
            }
            // A datagram that does not fit is lost, as on any network.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The endpoint's host said to an earlier one that nobody listens there; the next may find another.
            Err(_) => {
                sessions.borrow_mut().remove(&client);
                session.entry.end(CloseReason::EndpointReset);
            }
        }
    }
    if stop.handed_over.get() {
        // The successor hears the clients now; what their endpoints still have to say goes out from here.
        return;
    }
    for session in sessions.borrow().values() {
        session.entry.end(CloseReason::Drained);
    }
}

/// Opens a session, or counts why not.
async fn begin(
    client: SocketAddr,
    table: Arc<Table>,
    socket: &Rc<UdpSocket>,
    sessions: &Sessions,
    worker: &Rc<Worker>,
) -> Option<Rc<Session>> {
    let held = match worker::leave(&table, worker) {
        Ok(held) => held,
        Err(reason) => {
            table.listener.metrics.closed.count(reason);
            return None;
        }
    };
    let mut record = Record::new(client);
    match open(&table, worker, &mut record).await {
        Ok((session, state, more)) => {
            let session = Rc::new(session);
            sessions.borrow_mut().insert(client, Rc::clone(&session));
            let (answered, socket, sessions, worker) =
                (Rc::clone(&session), Rc::clone(socket), Rc::clone(sessions), Rc::clone(worker));
            let front = Arc::clone(&table.listener);
            spawn_local(async move {
                let _held = (held, more);
                let reason = answer(&answered, client, &socket, &worker).await;
                forget(&sessions, client, &answered);
                if reason == CloseReason::EndpointReset {
                    let entry = &answered.entry;
                    entry.route.cluster.failed(&state, &entry.endpoint);
                }
                record.bytes = answered.entry.bytes();
                connection::account(&record, reason, &front, &worker);
            });
            Some(session)
        }
        Err(reason) => {
            connection::account(&record, reason, &table.listener, worker);
            None
        }
    }
}

/// Takes a session off the list, unless the client has another one by now.
fn forget(sessions: &Sessions, client: SocketAddr, session: &Rc<Session>) {
    let mut sessions = sessions.borrow_mut();
    if sessions.get(&client).is_some_and(|listed| Rc::ptr_eq(listed, session)) {
        sessions.remove(&client);
    }
}

async fn open(
    table: &Table,
    worker: &Worker,
    record: &mut Record,
) -> Result<(Session, Arc<State>, [Held; 3]), CloseReason> {
    let Mode::Plain(route) = &table.mode else { return Err(CloseReason::Plaintext) };
    record.route = Some(Arc::clone(route));
    let cluster = &route.cluster;
    let state = cluster.state();
    let route_held = Held::within(&route.shared.active, route.limit).ok_or(CloseReason::RouteLimit)?;
    let cluster_held = Held::within(&cluster.metrics.active, state.plan.connection_limit)
        .ok_or(CloseReason::ClusterLimit)?;
    let endpoint = cluster.pick(&state, record.client.ip(), &[]).ok_or(CloseReason::NoEndpoint)?;
    record.attempts = 1;
    let any: SocketAddr = match endpoint.address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let began = clock::now();
    let upstream = UdpSocket::bind(any).await.map_err(|_| CloseReason::ConnectFailed)?;
    if upstream.connect(endpoint.address).await.is_err() || upstream.writable().await.is_err() {
        cluster.failed(&state, &endpoint);
        return Err(CloseReason::ConnectFailed);
    }
    record.connect = clock::now() - began;
    record.endpoint = Some(Arc::clone(&endpoint));
    cluster.metrics.total.inc();
    endpoint.total.inc();
    let held = [route_held, cluster_held, Held::new(&endpoint.active)];
    let entry = worker.connections.insert(Entry::new(
        record.client,
        Arc::clone(&table.listener),
        None,
        Arc::clone(route),
        endpoint,
        connection::idle_limit(state.plan.idle_timeout),
    ));
    Ok((Session { upstream, entry, up: Cell::new(0), down: Cell::new(0) }, state, held))
}

/// Passes answers to the client until the session ends.
async fn answer(session: &Session, client: SocketAddr, socket: &UdpSocket, worker: &Worker) -> CloseReason {
    poll_fn(|cx| {
        loop {
            if let Some(reason) = session.entry.ending() {
                return Poll::Ready(reason);
            }
            session.entry.watch(cx.waker());
            let received = worker.workspace.with_buffer(|buffer| {
                let mut read = ReadBuf::new(buffer);
                session.upstream.poll_recv(cx, &mut read).map_ok(|()| {
                    // A datagram that does not fit is lost, as on any network.
                    let sent = socket.try_send_to(read.filled(), client).is_ok();
                    if sent { read.filled().len() as u64 } else { 0 }
                })
            });
            match received {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count)) => {
                    session.entry.endpoint.succeeded();
                    session.down.set(session.down.get() + count);
                    session.entry.moved(session.up.get(), session.down.get());
                }
                Poll::Ready(Err(_)) => return Poll::Ready(CloseReason::EndpointReset),
            }
        }
    })
    .await
}
