//! Takes connections from a listening socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SocketFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::spawn_local;

use super::downstream::Downstream;
use super::socket::Socket;
use super::{connection, events};
use crate::listener::ProxyHeader;
use crate::permit::Permit;
use crate::table::CurrentTable;
use crate::worker::{Stop, Worker};

/// How long to wait when there are no descriptors left to accept with.
const PAUSE: Duration = Duration::from_millis(50);

/// A listening socket of a core.
pub(crate) struct Listening {
    io: AsyncFd<OwnedFd>,
}

impl Listening {
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { io: events::watch(socket, Interest::READABLE)? })
    }

    async fn accept(&self) -> io::Result<(OwnedFd, SocketAddr)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, peer) = self
            .io
            .async_io(Interest::READABLE, |socket| Ok(rustix::net::acceptfrom_with(socket, flags)?))
            .await?;
        let peer = peer.and_then(|peer| peer.try_into().ok()).ok_or(Errno::AFNOSUPPORT)?;
        Ok((socket, peer))
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

/// Serves one socket until it is stopped.
pub(crate) async fn serve(listening: Rc<Listening>, table: CurrentTable, stop: Stop, worker: Rc<Worker>) {
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listening.accept() => accepted,
            () = stop.told.cancelled() => return,
        };
        let admitted = accepted.and_then(|(client, peer)| admit(client, peer, &table, &stop, &worker));
        if let Err(error) = admitted {
            worker.shared.metrics.accept_errors.inc();
            // A client that left while it waited is no reason to pause; missing descriptors are.
            if !matches!(error.kind(), io::ErrorKind::ConnectionAborted) {
                tracing::warn!(%error, "accepting failed; raise the limit of open files if there are too few");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn admit(
    client: OwnedFd,
    peer: SocketAddr,
    table: &CurrentTable,
    stop: &Stop,
    worker: &Rc<Worker>,
) -> io::Result<()> {
    let socket = Socket::new(client)?;
    let listener = Arc::clone(&table.borrow().listener);
    let permit = match listener.proxy_header(peer.ip()) {
        // Who the client is shows in the header.
        ProxyHeader::Wanted => Permit::take(worker, &listener),
        _ => Permit::take_for(peer.ip(), worker, &listener),
    };
    match permit {
        Ok(permit) => {
            let (table, stop, worker) = (Rc::clone(table), stop.clone(), Rc::clone(worker));
            spawn_local(connection::handle(Downstream::Tcp(socket), peer, table, stop, worker, permit));
        }
        Err(reason) => {
            listener.metrics.closed.count(reason);
            worker.shared.limits.tell(&listener.name, reason);
            socket.refuse();
        }
    }
    Ok(())
}
