//! Datagrams: all that one client sends is a session with one endpoint, until it idles too long or the endpoint is no
//! longer fit. Sessions are listed, limited, counted and logged like connections; they end with their listener, since
//! nobody hears the client then.

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

type Sessions = Rc<RefCell<HashMap<SocketAddr, Rc<Session>>>>;

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
            Some(session) if session.is_fit(&table.borrow()) => session,
            old => {
                if let Some(old) = old {
                    sessions.borrow_mut().remove(&client);
                    old.end(CloseReason::Drained);
                }
                let table = Arc::clone(&table.borrow());
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
    for session in sessions.borrow().values() {
        session.end(CloseReason::Drained);
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
            sessions.borrow_mut().insert(client, Rc::clone(&session));
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
    if sessions.get(&client).is_some_and(|listed| Rc::ptr_eq(listed, session)) {
        sessions.remove(&client);
    }
}
