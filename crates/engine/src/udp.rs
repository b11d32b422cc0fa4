//! Datagrams: all that one client sends is a session with one endpoint, until it idles too long or the endpoint is no
//! longer fit. Sessions are listed, limited, counted and logged like connections; they end with their listener, since
//! nobody hears the client then.

mod far;
mod session;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::net::UdpSocket;
use tokio::task::spawn_local;

use crate::clock;
use crate::close_reason::CloseReason;
use crate::permit::Permit;
use crate::record::Record;
use crate::table::{CurrentTable, Table};
use crate::worker::{Stop, Worker};
use session::Session;

const LARGEST: usize = 64 << 10;

/// Datagrams of a client that wait until its session is open; what comes then is lost, as on any network.
const WAITING: usize = 32;

type Sessions = Rc<RefCell<HashMap<SocketAddr, Known>>>;

/// A client that was heard.
#[derive(Clone)]
enum Known {
    Open(Rc<Session>),
    /// Its endpoint is being reached, which takes a handshake; what it said meanwhile.
    Opening(Rc<RefCell<Vec<Vec<u8>>>>),
}

/// Serves one socket until it is stopped.
pub(crate) async fn serve(socket: Rc<UdpSocket>, table: CurrentTable, stop: Stop, worker: Rc<Worker>) {
    let sessions = Sessions::default();
    let mut buffer = vec![0; LARGEST];
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            () = stop.told.cancelled() => break,
        };
        clock::wake();
        // An error here is one of an earlier answer that did not arrive.
        let Ok((count, client)) = received else { continue };
        let known = sessions.borrow().get(&client).cloned();
        let session = match known {
            Some(Known::Open(session)) if session.is_fit(&table.borrow()) => session,
            Some(Known::Opening(waiting)) => {
                let mut waiting = waiting.borrow_mut();
                if waiting.len() < WAITING {
                    waiting.push(buffer[..count].to_vec());
                }
                continue;
            }
            old => {
                if let Some(Known::Open(old)) = old {
                    sessions.borrow_mut().remove(&client);
                    old.end(CloseReason::Drained);
                }
                let table = Arc::clone(&table.borrow());
                if table.takes_handshakes() {
                    // Nobody else waits for that.
                    let waiting = Rc::new(RefCell::new(vec![buffer[..count].to_vec()]));
                    sessions.borrow_mut().insert(client, Known::Opening(Rc::clone(&waiting)));
                    let (socket, sessions, worker) =
                        (Rc::clone(&socket), Rc::clone(&sessions), Rc::clone(&worker));
                    spawn_local(begin_slowly(client, waiting, table, socket, sessions, worker));
                    continue;
                }
                let Some(session) = begin(client, &table, &socket, &sessions, &worker).await else {
                    continue;
                };
                session
            }
        };
        match session.send(&buffer[..count]) {
            Ok(()) => {}
            // A datagram that does not fit is lost, as on any network.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The endpoint's host said to an earlier one that nobody listens there; the next may find another.
            Err(_) => {
                sessions.borrow_mut().remove(&client);
                session.end(CloseReason::EndpointReset);
            }
        }
    }
    if stop.handed_over.get() {
        // The successor hears the clients now; what their endpoints still have to say goes out from here.
        return;
    }
    for known in sessions.borrow().values() {
        if let Known::Open(session) = known {
            session.end(CloseReason::Drained);
        }
    }
}

/// Opens a session, and sends what the client has said by then.
async fn begin_slowly(
    client: SocketAddr,
    waiting: Rc<RefCell<Vec<Vec<u8>>>>,
    table: Arc<Table>,
    socket: Rc<UdpSocket>,
    sessions: Sessions,
    worker: Rc<Worker>,
) {
    match begin(client, &table, &socket, &sessions, &worker).await {
        Some(session) => {
            for datagram in waiting.take() {
                // One that does not fit is lost, as on any network.
                let _ = session.send(&datagram);
            }
        }
        None => {
            sessions.borrow_mut().remove(&client);
        }
    }
}

/// Opens a session, or counts why not.
async fn begin(
    client: SocketAddr,
    table: &Table,
    socket: &Rc<UdpSocket>,
    sessions: &Sessions,
    worker: &Rc<Worker>,
) -> Option<Rc<Session>> {
    let listener = Arc::clone(&table.listener);
    let permit = Permit::take_for(client.ip(), worker, &listener)
        .and_then(|permit| Ok((permit, worker.shared.limits.begin_session()?)));
    let permit = match permit {
        Ok(permit) => permit,
        Err(reason) => {
            listener.metrics.closed.count(reason);
            worker.shared.limits.tell(&listener.name, reason);
            return None;
        }
    };
    let mut record = Record::new(client);
    match Session::open(table, worker, &mut record).await {
        Ok(session) => {
            let session = Rc::new(session);
            sessions.borrow_mut().insert(client, Known::Open(Rc::clone(&session)));
            let (answered, socket, sessions, worker) =
                (Rc::clone(&session), Rc::clone(socket), Rc::clone(sessions), Rc::clone(worker));
            spawn_local(async move {
                let _permit = permit;
                let reason = answered.answer(client, &socket, &worker.workspace).await;
                forget(&sessions, client, &answered);
                answered.judge(reason);
                record.bytes = answered.bytes();
                record.close(reason, &listener, &worker.shared);
            });
            Some(session)
        }
        Err(reason) => {
            record.close(reason, &listener, &worker.shared);
            None
        }
    }
}

/// Takes a session off the list, unless the client has another one by now.
fn forget(sessions: &Sessions, client: SocketAddr, session: &Rc<Session>) {
    let mut sessions = sessions.borrow_mut();
    let is_it = |known: &Known| matches!(known, Known::Open(listed) if Rc::ptr_eq(listed, session));
    if sessions.get(&client).is_some_and(is_it) {
        sessions.remove(&client);
    }
}
