//! A tunnel of datagrams on the client end: each client is a session, a flow of its own on a link, until it has
//! been silent for too long.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};

use causeway_base::lock::lock;
use causeway_link::Flow;
use rustix::net::{SendFlags, sendto};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::ClientEnd;
use super::entrance::{ACCEPT_PAUSE, enter, open_on_a_link, settings};
use crate::control::Listen;
use crate::places::Place;
use crate::tally::Tally;

/// The largest datagram fits.
const BUFFER: usize = 64 << 10;

/// Takes the datagrams of one tunnel.
pub(super) async fn receive(
    end: Arc<ClientEnd>,
    socket: UdpSocket,
    rules: watch::Receiver<Listen>,
    tally: Arc<Tally>,
    cut: CancellationToken,
) {
    let (socket, sessions) = (Arc::new(socket), Arc::new(Sessions::default()));
    let mut buffer = vec![0; BUFFER];
    loop {
        let (count, source) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::warn!(%error, "can't receive a datagram");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let flow = sessions.find(source).or_else(|| {
            let (flow, place) = open(&end, &rules.borrow(), &tally, &socket, source)?;
            sessions.insert(source, &flow);
            tokio::spawn(watch_over(flow.clone(), place, sessions.clone(), source, cut.clone()));
            Some(flow)
        });
        // What there is no room for is lost, as datagrams are.
        if let Some(flow) = flow {
            flow.send(&buffer[..count]);
        }
    }
}

fn open(
    end: &ClientEnd,
    rules: &Listen,
    tally: &Arc<Tally>,
    socket: &Arc<UdpSocket>,
    source: SocketAddr,
) -> Option<(Arc<Flow>, Place)> {
    if !rules.open {
        tally.refused();
        return None;
    }
    let place = enter(end, rules, tally, source.ip())?;
    let flow = open_on_a_link(end, rules, source, |link, request| {
        let socket = socket.clone();
        // The kernel is asked directly: what it does not take at once is lost, as datagrams are.
        let sink = Box::new(move |datagram: &[u8]| {
            let _ = sendto(&socket, datagram, SendFlags::DONTWAIT, &source);
        });
        link.open_flow(request, settings(rules, tally, source), sink)
    });
    if flow.is_none() {
        tally.refused();
    }
    Some((Arc::new(flow?), place))
}

/// Waits for a session's end and forgets it.
async fn watch_over(
    flow: Arc<Flow>,
    _place: Place,
    sessions: Arc<Sessions>,
    client: SocketAddr,
    cut: CancellationToken,
) {
    tokio::select! {
        _ = flow.over() => {}
        () = cut.cancelled() => {}
    }
    sessions.remove(client, &flow);
}

/// The sessions of one tunnel by client. They hold the flows weakly: a session that is over is nobody's any more.
#[derive(Default)]
struct Sessions(Mutex<HashMap<SocketAddr, Weak<Flow>>>);

impl Sessions {
    fn find(&self, client: SocketAddr) -> Option<Arc<Flow>> {
        lock(&self.0).get(&client).and_then(Weak::upgrade).filter(|flow| !flow.is_over())
    }

    fn insert(&self, client: SocketAddr, flow: &Arc<Flow>) {
        lock(&self.0).insert(client, Arc::downgrade(flow));
    }

    /// Forgets a client unless it has a newer session.
    fn remove(&self, client: SocketAddr, flow: &Arc<Flow>) {
        let mut sessions = lock(&self.0);
        if sessions.get(&client).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(flow))) {
            sessions.remove(&client);
        }
    }
}
