//! The streams that the client end opens: each is connected to the tunnel's service, without keeping any other waiting.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};

use causeway_base::lock::lock;
use causeway_ir::tunnel::TunnelProtocol;
use causeway_link::{Flow, Handler, Incoming, Settings, Stream};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::HostEnd;
use super::exit::{Exit, Wanted};
use crate::places::Place;
use crate::request::Request;

thread_local! {
    /// The largest datagram fits; no session has a buffer of its own.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; 64 << 10].into());
}

/// Datagrams of one session that are passed on in one turn.
const AT_ONCE: usize = 32;

/// Takes the streams of data links.
pub(super) struct Streams(pub(super) Weak<HostEnd>);

impl Handler for Streams {
    fn opened(&self, incoming: Incoming<'_>) {
        let Some(end) = self.0.upgrade() else { return };
        let Some(Request { tunnel, source }) = Request::decode(incoming.request()) else {
            return incoming.refuse("the request can't be read");
        };
        let exit = lock(&end.exits).get(&tunnel).cloned();
        let Some(exit) = exit else { return incoming.refuse("there is no such tunnel") };
        let wanted = exit.wanted();
        let tunnel = &wanted.tunnel;
        if incoming.is_flow() != (tunnel.protocol == TunnelProtocol::Udp) {
            return incoming.refuse("the tunnel carries something else");
        }
        // The client end counts too, but what is at stake here is this process.
        let place = match end.places.take(&exit.tally, (tunnel.id, tunnel.max_streams.get()), source.ip()) {
            Ok(place) => place,
            Err(limit) => {
                exit.tally.limited();
                end.places.tell(&tunnel.name, limit);
                return incoming.refuse(limit.as_str());
            }
        };
        tracing::debug!(tunnel = %tunnel.name, %source, "a client");
        let settings = Settings {
            idle_timeout: tunnel.idle_timeout(),
            traffic: exit.tally.traffic.clone(),
            client: Some(source.ip()),
        };
        if incoming.is_flow() {
            open_flow(incoming, settings, &exit, &wanted, place);
        } else {
            tokio::spawn(carry(incoming.accept(settings), end, exit, wanted, place));
        }
    }
}

async fn carry(stream: Stream, end: Arc<HostEnd>, exit: Arc<Exit>, wanted: Arc<Wanted>, place: Place) {
    let began = Instant::now();
    match exit.connect(&wanted).await {
        Ok(socket) => {
            exit.tally.opened();
            // What counts of a tunnel that is removed meanwhile is this stream, not the tunnel.
            drop((end, exit, wanted));
            stream.relay(socket).await;
        }
        Err(failure) => {
            exit.tally.refused();
            stream.refuse(failure.text.clone());
            exit.found_fault(&end, began, failure);
        }
    }
    drop(place);
}

/// Here and now: the first datagram follows on its heels.
fn open_flow(incoming: Incoming<'_>, settings: Settings, exit: &Arc<Exit>, wanted: &Wanted, place: Place) {
    let refuse = |incoming: Incoming<'_>, error: String| {
        exit.tally.refused();
        incoming.refuse(&error);
        exit.tally.failed(error);
    };
    let Some(target) = exit.next_target(wanted) else {
        return refuse(incoming, "there is no endpoint".to_owned());
    };
    let socket = match connect_datagrams(target) {
        Ok(socket) => Arc::new(socket),
        Err(error) => return refuse(incoming, format!("{target}: {error}")),
    };
    exit.tally.opened();
    let sending = socket.clone();
    let sink = Box::new(move |datagram: &[u8]| {
        // The kernel is asked directly: the runtime does not know yet that a socket made a moment ago can be written
        // to. What the kernel does not take at once is lost, as datagrams are.
        if send(&sending, datagram, SendFlags::DONTWAIT) == Err(Errno::CONNREFUSED) {
            // The refusal is that of an earlier datagram, and this one has not been sent.
            let _ = send(&sending, datagram, SendFlags::DONTWAIT);
        }
    });
    let flow = incoming.accept_flow(settings, sink);
    tokio::spawn(answer(flow, socket, target, Arc::clone(exit), place));
}

/// Carries what the service answers until the session ends: with the other end, with the link, after a long silence,
/// or when the tunnel goes elsewhere.
async fn answer(flow: Flow, socket: Arc<UdpSocket>, target: SocketAddr, exit: Arc<Exit>, _place: Place) {
    let (mut wanted, exit) = (exit.follow(), Arc::downgrade(&exit));
    loop {
        tokio::select! {
            readable = socket.readable() => {
                if readable.is_err() {
                    return;
                }
                let ended = pass_on(&socket, |datagram| {
                    flow.send(datagram);
                });
                // A refusal by the service is not the end: it may be about to start.
                if ended.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
                    && let Some(exit) = exit.upgrade()
                {
                    exit.is_deaf(target);
                }
            }
            _ = flow.over() => return,
            // Also when there is no such tunnel any more.
            _ = wanted.wait_for(|wanted| !wanted.targets.contains(&target)) => return,
        }
    }
}

/// Passes on what has come, but no more than a few datagrams: others want their turn, too.
fn pass_on(socket: &UdpSocket, each: impl Fn(&[u8])) -> io::Result<()> {
    BUFFER.with_borrow_mut(|buffer| {
        for _ in 0..AT_ONCE {
            let count = socket.try_recv(buffer)?;
            each(&buffer[..count]);
        }
        Ok(())
    })
}

/// A socket of the host for one client's datagrams.
fn connect_datagrams(target: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.connect(target)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_service_that_floods_leaves_others_their_turn() {
        let service = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let socket = connect_datagrams(service.local_addr().expect("an address")).expect("a socket");
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, socket.local_addr().expect("an address").port()));
        for _ in 0..3 * AT_ONCE {
            service.send_to(b"flood", at).await.expect("sends");
        }
        socket.readable().await.expect("something is there");
        let passed = Cell::new(0);
        pass_on(&socket, |_| passed.set(passed.get() + 1)).expect("there is more");
        assert_eq!(passed.get(), AT_ONCE);
    }
}
