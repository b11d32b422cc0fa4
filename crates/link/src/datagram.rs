//! Tunnels of datagrams. Each client of the container's socket is a session, a stream of its own on the link, with a
//! socket of its own on the host, until it has been silent for too long. What does not fit is dropped, never queued.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;

use tokio::net::UdpSocket;

use crate::frame::Frame;
use crate::mux::{lock, with_buffer};
use crate::stream::{self, Socket, Stream};

/// The sessions of one tunnel by client. They hold the streams weakly: a session that is over is nobody's any more.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<SocketAddr, Weak<Stream>>>);

impl Sessions {
    pub fn find(&self, client: SocketAddr) -> Option<Arc<Stream>> {
        lock(&self.0).get(&client).and_then(Weak::upgrade).filter(|stream| !is_over(stream))
    }

    pub fn insert(&self, client: SocketAddr, stream: &Arc<Stream>) {
        lock(&self.0).insert(client, Arc::downgrade(stream));
    }

    /// Forgets a client unless it has a newer session.
    fn remove(&self, client: SocketAddr, stream: &Arc<Stream>) {
        let mut sessions = lock(&self.0);
        if sessions.get(&client).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(stream))) {
            sessions.remove(&client);
        }
    }
}

/// Sends a client's datagram to the host if there is room for it.
pub fn forward(stream: &Stream, datagram: &[u8]) {
    if stream.link.outbox.has_room_for_datagram() {
        stream.send_datagram(datagram);
    }
}

/// The container's side of a session: waits for its end and forgets it. Datagrams need no task.
pub async fn watch(stream: Arc<Stream>, sessions: Arc<Sessions>, client: SocketAddr) {
    poll_fn(|cx| {
        stream.register(cx.waker());
        if is_over(&stream) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    sessions.remove(client, &stream);
    end(&stream);
}

/// The host's side of a session: carries what the service answers until the session ends.
pub async fn answer(stream: Arc<Stream>) {
    let Some(Socket::Session(socket)) = stream.socket() else { return };
    poll_fn(|cx| {
        stream.register(cx.waker());
        loop {
            if is_over(&stream) {
                return Poll::Ready(());
            }
            match socket.poll_recv_ready(cx) {
                Poll::Pending => return Poll::Pending,
                // A refusal by the service is not the end: it may be about to start.
                Poll::Ready(_) => {
                    with_buffer(|buffer| {
                        if let Ok(count) = socket.try_recv(buffer) {
                            forward(&stream, &buffer[..count]);
                        }
                    });
                }
            }
        }
    })
    .await;
    end(&stream);
}

fn is_over(stream: &Stream) -> bool {
    let inbound = stream.inbound();
    inbound.broken.is_some() || inbound.lost
}

fn end(stream: &Stream) {
    if stream.inbound().broken == Some(stream::Side::Here) {
        stream.link.outbox.put(&Frame::Reset { stream: stream.id });
    }
    stream.link.remove(stream.id);
    stream.tally.open.fetch_sub(1, Relaxed);
}

/// A socket of the host for one client's datagrams.
pub fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = std::net::UdpSocket::bind((any, 0))?;
    socket.connect(target)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
