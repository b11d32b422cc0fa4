//! The streams that the container opens: each is connected to the tunnel's service, without keeping any other waiting.

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
use tokio::sync::watch;
use tokio::time::Instant;

use super::HostEnd;
use super::exit::{Exit, Wanted};
use crate::counters::OpenStream;
use crate::request::Request;

thread_local! {
    /// The largest datagram fits; no session has a buffer of its own.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; 64 << 10].into());
}

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
        // The container counts too, but what is at stake here is this process.
        let Some(place) = exit.tally.enter(tunnel.max_streams.get()) else {
            exit.tally.refused();
            return incoming.refuse("the tunnel has as many streams as it may have");
        };
        tracing::debug!(tunnel = %tunnel.name, %source, "a client");
        let settings = Settings { idle_timeout: tunnel.idle_timeout(), traffic: exit.tally.traffic.clone() };
        if incoming.is_flow() {
            open_flow(incoming, settings, &exit, &wanted, place);
        } else {
            tokio::spawn(carry(incoming.accept(settings), end, exit, wanted, place));
        }
    }
}

async fn carry(stream: Stream, end: Arc<HostEnd>, exit: Arc<Exit>, wanted: Arc<Wanted>, place: OpenStream) {
    let began = Instant::now();
    match exit.connect(&wanted).await {
        Ok(socket) => {
            exit.tally.opened();
            // What counts of a tunnel that is removed meanwhile is this stream, not the tunnel.
            drop((end, exit, wanted));
            stream.relay(socket).await;
        }
        Err(error) => {
            exit.tally.refused();
            stream.refuse(error.clone());
            exit.found_fault(&end, began, error);
        }
    }
    drop(place);
}

/// Here and now: the first datagram follows on its heels.
fn open_flow(
    incoming: Incoming<'_>,
    settings: Settings,
    exit: &Arc<Exit>,
    wanted: &Wanted,
    place: OpenStream,
) {
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
    tokio::spawn(answer(flow, socket, target, exit.follow(), place));
}

/// Carries what the service answers until the session ends: with the other end, with the link, after a long silence,
/// or when the tunnel goes elsewhere.
async fn answer(
    flow: Flow,
    socket: Arc<UdpSocket>,
    target: SocketAddr,
    mut wanted: watch::Receiver<Arc<Wanted>>,
    _place: OpenStream,
) {
    loop {
        tokio::select! {
            readable = socket.readable() => {
                if readable.is_err() {
                    return;
                }
                BUFFER.with_borrow_mut(|buffer| {
                    // A refusal by the service is not the end: it may be about to start.
                    while let Ok(count) = socket.try_recv(buffer) {
                        flow.send(&buffer[..count]);
                    }
                });
            }
            _ = flow.over() => return,
            // Also when there is no such tunnel any more.
            _ = wanted.wait_for(|wanted| !wanted.targets.contains(&target)) => return,
        }
    }
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
