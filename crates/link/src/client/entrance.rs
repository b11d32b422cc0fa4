//! The tunnels' ports on the container's end: bound as the host says, open only while the host is connected and
//! somebody answers there.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{ACCEPT_PAUSE, ContainerEnd};
use crate::control::{self, Listen};
use crate::counters::Tally;
use crate::datagram::{self, Sessions};
use crate::frame::MAX_PAYLOAD;
use crate::gate::{Gate, bind_datagrams};
use crate::mux::lock;
use crate::stream::{Socket, Stream};
use crate::tunnel::{Port, Protocol, TunnelId};
use crate::{pump, socket};

/// How long the streams of a tunnel that was removed may go on.
const DRAIN: Duration = Duration::from_secs(30);

/// All tunnels of the container's end.
#[derive(Default)]
pub struct Entrances(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Whether a data link is up.
    connected: bool,
    tunnels: BTreeMap<TunnelId, Entrance>,
}

struct Entrance {
    rules: watch::Sender<Listen>,
    tally: Arc<Tally>,
    door: Result<Door, String>,
}

enum Door {
    Tcp { gate: Gate, acceptor: Option<JoinHandle<()>> },
    Udp { port: u16, receiver: JoinHandle<()> },
}

impl Entrances {
    /// Makes the tunnels those that the host wants.
    pub fn apply(&self, end: &Arc<ContainerEnd>, wanted: Vec<Listen>) {
        let mut inner = lock(&self.0);
        let connected = inner.connected;
        let mut old = std::mem::take(&mut inner.tunnels);
        for listen in wanted {
            let id = listen.id;
            let entrance = match old.remove(&id) {
                Some(entrance) if entrance.door.is_ok() => {
                    entrance.rules.send_replace(listen);
                    entrance
                }
                // A port that could not be had is tried again.
                _ => Entrance::new(end, listen),
            };
            inner.tunnels.insert(id, entrance);
        }
        for entrance in inner.tunnels.values_mut() {
            entrance.adjust(end, connected);
        }
        drop(inner);
        for (id, removed) in old {
            removed.close();
            let end = end.clone();
            tokio::spawn(async move {
                sleep(DRAIN).await;
                let links = lock(&end.links).clone();
                for stream in links.iter().flat_map(|link| link.select(|stream| stream.tunnel == id)) {
                    stream.abort();
                }
            });
        }
    }

    /// Tries to have the ports that others had; true when there is one that is had now.
    pub fn retry(&self, end: &Arc<ContainerEnd>) -> bool {
        let mut inner = lock(&self.0);
        let connected = inner.connected;
        let mut had = false;
        for entrance in inner.tunnels.values_mut().filter(|entrance| entrance.door.is_err()) {
            let listen = entrance.rules.borrow().clone();
            *entrance = Entrance::new(end, listen);
            entrance.adjust(end, connected);
            had |= entrance.door.is_ok();
        }
        had
    }

    /// Somebody answers on the host, or nobody does any longer.
    pub fn gate(&self, end: &Arc<ContainerEnd>, tunnel: TunnelId, open: bool) {
        let mut inner = lock(&self.0);
        let connected = inner.connected;
        if let Some(entrance) = inner.tunnels.get_mut(&tunnel) {
            entrance.rules.send_modify(|listen| listen.open = open);
            entrance.adjust(end, connected);
        }
    }

    /// A data link has come or gone. Links are counted under the lock: of two who count, the later one must win.
    pub fn links_changed(&self, end: &Arc<ContainerEnd>) {
        let mut inner = lock(&self.0);
        let connected = end.usable_links() > 0;
        inner.connected = connected;
        for entrance in inner.tunnels.values_mut() {
            entrance.adjust(end, connected);
        }
    }

    /// The port of each tunnel, or why it has none.
    pub fn report(&self) -> Vec<(TunnelId, Result<control::Door, String>)> {
        let inner = lock(&self.0);
        let door = |entrance: &Entrance| match &entrance.door {
            Ok(Door::Tcp { gate, acceptor }) => {
                Ok(control::Door { port: gate.port(), open: acceptor.is_some() })
            }
            Ok(Door::Udp { port, .. }) => {
                Ok(control::Door { port: *port, open: inner.connected && entrance.rules.borrow().open })
            }
            Err(error) => Err(error.clone()),
        };
        inner.tunnels.iter().map(|(id, entrance)| (*id, door(entrance))).collect()
    }

    /// Closes all of them.
    pub fn clear(&self) {
        for entrance in std::mem::take(&mut lock(&self.0).tunnels).into_values() {
            entrance.close();
        }
    }
}

impl Entrance {
    fn new(end: &Arc<ContainerEnd>, listen: Listen) -> Self {
        let (tally, rules) = (Arc::default(), watch::channel(listen.clone()).0);
        let door = match listen.protocol {
            Protocol::Tcp => Gate::bind(listen.port).map(|gate| Door::Tcp { gate, acceptor: None }),
            Protocol::Udp => bind_datagrams(listen.port).map(|(socket, port)| {
                let receiver = receive(end.clone(), socket, rules.subscribe(), Arc::clone(&tally));
                Door::Udp { port, receiver: tokio::spawn(receiver) }
            }),
        };
        let door = door.map_err(|error| {
            let port = match listen.port {
                Port::Fixed(port) | Port::Preferred(port) => format!("port {port}"),
                Port::Any => "any port".to_owned(),
            };
            format!("can't listen on {port} in the container: {error}")
        });
        Self { rules, tally, door }
    }

    /// Opens or closes the port as things stand.
    fn adjust(&mut self, end: &Arc<ContainerEnd>, connected: bool) {
        let Ok(Door::Tcp { gate, acceptor }) = &mut self.door else { return };
        let open = connected && self.rules.borrow().open;
        if open == acceptor.is_some() {
            return;
        }
        if let Some(acceptor) = acceptor.take() {
            acceptor.abort();
            gate.close();
            return;
        }
        match gate.open() {
            Ok(listener) => {
                let accept = accept(end.clone(), listener, self.rules.subscribe(), self.tally.clone());
                *acceptor = Some(tokio::spawn(accept));
            }
            Err(error) => {
                self.door = Err(format!("can't listen on port {} in the container: {error}", gate.port()));
            }
        }
    }

    fn close(self) {
        match self.door {
            Ok(Door::Tcp { gate, acceptor }) => {
                if let Some(acceptor) = acceptor {
                    acceptor.abort();
                }
                gate.close();
            }
            Ok(Door::Udp { receiver, .. }) => receiver.abort(),
            Err(_) => {}
        }
    }
}

/// Takes the clients of one tunnel.
async fn accept(
    end: Arc<ContainerEnd>,
    listener: TcpListener,
    rules: watch::Receiver<Listen>,
    tally: Arc<Tally>,
) {
    loop {
        match listener.accept().await {
            Ok((socket, source)) => admit(&end, &rules.borrow(), &tally, socket, source),
            Err(error) => {
                tracing::warn!(%error, "can't accept a client");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn admit(end: &ContainerEnd, rules: &Listen, tally: &Arc<Tally>, socket: TcpStream, source: SocketAddr) {
    let socket = Socket::Tcp(socket);
    let opened = if may_enter(rules, tally, source.ip()) {
        open(end, rules, tally, socket, source)
    } else {
        Err(socket)
    };
    match opened {
        Ok(stream) => drop(tokio::spawn(pump::run(stream))),
        Err(socket) => {
            tally.refused.fetch_add(1, Relaxed);
            if let Socket::Tcp(socket) = &socket {
                socket::reset_on_close(socket);
            }
        }
    }
}

/// Opens a stream on one of the links; without any the client comes back.
fn open(
    end: &ContainerEnd,
    rules: &Listen,
    tally: &Arc<Tally>,
    mut socket: Socket,
    source: SocketAddr,
) -> Result<Arc<Stream>, Socket> {
    let idle = Duration::from_millis(rules.idle_timeout_millis);
    tally.open.fetch_add(1, Relaxed);
    // The one that was picked may have been told to leave meanwhile.
    while let Some(link) = end.pick() {
        match link.open(rules.id, canonical(source), socket, tally.clone(), idle) {
            Ok(stream) => return Ok(stream),
            Err(back) => socket = back,
        }
    }
    tally.open.fetch_sub(1, Relaxed);
    Err(socket)
}

/// Takes the datagrams of one tunnel.
async fn receive(
    end: Arc<ContainerEnd>,
    socket: UdpSocket,
    rules: watch::Receiver<Listen>,
    tally: Arc<Tally>,
) {
    let (socket, sessions) = (Arc::new(socket), Arc::new(Sessions::default()));
    let mut buffer = vec![0; MAX_PAYLOAD];
    loop {
        let (count, source) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::warn!(%error, "can't receive a datagram");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let rules = rules.borrow();
        let stream = if let Some(stream) = sessions.find(source) {
            stream
        } else {
            let peer = Socket::Peer(socket.clone(), source);
            let opened = if rules.open && may_enter(&rules, &tally, source.ip()) {
                open(&end, &rules, &tally, peer, source)
            } else {
                Err(peer)
            };
            let Ok(stream) = opened else {
                tally.refused.fetch_add(1, Relaxed);
                continue;
            };
            sessions.insert(source, &stream);
            tokio::spawn(datagram::watch(stream.clone(), sessions.clone(), source));
            stream
        };
        datagram::forward(&stream, &buffer[..count]);
    }
}

fn may_enter(rules: &Listen, tally: &Tally, source: IpAddr) -> bool {
    is_allowed(&rules.allowed_sources, source) && tally.open.load(Relaxed) < u64::from(rules.max_streams)
}

/// Whether an address is among those allowed; an empty list allows all.
fn is_allowed(allowed: &[IpNet], source: IpAddr) -> bool {
    let source = source.to_canonical();
    allowed.is_empty() || allowed.iter().any(|net| net.contains(&source))
}

fn canonical(source: SocketAddr) -> SocketAddr {
    SocketAddr::new(source.ip().to_canonical(), source.port())
}
