//! The tunnels' ports on the container's end: bound as the host says, open only while the host is connected and
//! somebody answers there.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_base::lock::lock;
use causeway_ir::tunnel::{Port, TunnelId, TunnelProtocol};
use causeway_link::{Link, RelayEnd, Settings, Stream, Unusable, reset_on_close};
use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{ContainerEnd, datagrams};
use crate::control::{self, Listen};
use crate::counters::{OpenStream, Tally};
use crate::gate::{Gate, bind_datagrams};
use crate::request::Request;

/// How long the streams of a tunnel that was removed may go on.
const DRAIN: Duration = Duration::from_secs(30);
/// A pause after the kernel could not accept, for example for want of descriptors.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// All tunnels of the container's end.
#[derive(Default)]
pub(super) struct Entrances(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Whether a data link is up.
    connected: bool,
    tunnels: BTreeMap<TunnelId, Entrance>,
}

struct Entrance {
    rules: watch::Sender<Listen>,
    tally: Arc<Tally>,
    listener: Result<Listener, String>,
    /// Ends the streams that are left. A tunnel that is removed and asked for again has another one.
    cut: CancellationToken,
}

enum Listener {
    Tcp { gate: Gate, acceptor: Option<JoinHandle<()>> },
    Udp { port: u16, receiver: JoinHandle<()> },
}

impl Entrances {
    /// Makes the tunnels those that the host wants.
    pub(super) fn apply(&self, end: &Arc<ContainerEnd>, wanted: Vec<Listen>) {
        let mut inner = lock(&self.0);
        let connected = inner.connected;
        let mut old = std::mem::take(&mut inner.tunnels);
        for listen in wanted {
            let id = listen.id;
            let entrance = match old.remove(&id) {
                Some(entrance) if entrance.listener.is_ok() => {
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
        for removed in old.into_values() {
            removed.close(DRAIN);
        }
    }

    /// Tries to have the ports that others had; true when there is one that is had now.
    pub(super) fn retry(&self, end: &Arc<ContainerEnd>) -> bool {
        let mut inner = lock(&self.0);
        let connected = inner.connected;
        let mut had = false;
        for entrance in inner.tunnels.values_mut().filter(|entrance| entrance.listener.is_err()) {
            let listen = entrance.rules.borrow().clone();
            *entrance = Entrance::new(end, listen);
            entrance.adjust(end, connected);
            had |= entrance.listener.is_ok();
        }
        had
    }

    /// Somebody answers on the host, or nobody does any longer.
    pub(super) fn gate(&self, end: &Arc<ContainerEnd>, tunnel: TunnelId, open: bool) {
        let mut inner = lock(&self.0);
        let connected = inner.connected;
        if let Some(entrance) = inner.tunnels.get_mut(&tunnel) {
            entrance.rules.send_modify(|listen| listen.open = open);
            entrance.adjust(end, connected);
        }
    }

    /// A data link has come or gone. Links are counted under the lock: of two who count, the later one must win.
    pub(super) fn links_changed(&self, end: &Arc<ContainerEnd>) {
        let mut inner = lock(&self.0);
        let connected = end.usable_links() > 0;
        inner.connected = connected;
        for entrance in inner.tunnels.values_mut() {
            entrance.adjust(end, connected);
        }
    }

    /// The port of each tunnel, or why it has none.
    pub(super) fn report(&self) -> Vec<(TunnelId, Result<control::Listener, String>)> {
        let inner = lock(&self.0);
        let listener = |entrance: &Entrance| match &entrance.listener {
            Ok(Listener::Tcp { gate, acceptor }) => {
                Ok(control::Listener { port: gate.port(), open: acceptor.is_some() })
            }
            Ok(Listener::Udp { port, .. }) => {
                Ok(control::Listener { port: *port, open: inner.connected && entrance.rules.borrow().open })
            }
            Err(error) => Err(error.clone()),
        };
        inner.tunnels.iter().map(|(id, entrance)| (*id, listener(entrance))).collect()
    }

    /// Closes all of them.
    pub(super) fn clear(&self) {
        for entrance in std::mem::take(&mut lock(&self.0).tunnels).into_values() {
            entrance.close(Duration::ZERO);
        }
    }
}

impl Entrance {
    fn new(end: &Arc<ContainerEnd>, listen: Listen) -> Self {
        let (tally, rules) = (Arc::default(), watch::channel(listen.clone()).0);
        let cut = CancellationToken::new();
        let listener = match listen.protocol {
            TunnelProtocol::Tcp => Gate::bind(listen.port).map(|gate| Listener::Tcp { gate, acceptor: None }),
            TunnelProtocol::Udp => bind_datagrams(listen.port).map(|(socket, port)| {
                let (rules, tally) = (rules.subscribe(), Arc::clone(&tally));
                let receiver = datagrams::receive(end.clone(), socket, rules, tally, cut.clone());
                Listener::Udp { port, receiver: tokio::spawn(receiver) }
            }),
        };
        let listener = listener.map_err(|error| {
            let port = match listen.port {
                Port::Fixed(port) | Port::Preferred(port) => format!("port {port}"),
                Port::Any => "any port".to_owned(),
            };
            format!("can't listen on {port} in the container: {error}")
        });
        Self { rules, tally, listener, cut }
    }

    /// Opens or closes the port as things stand.
    fn adjust(&mut self, end: &Arc<ContainerEnd>, connected: bool) {
        let Ok(Listener::Tcp { gate, acceptor }) = &mut self.listener else { return };
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
                let (rules, tally) = (self.rules.subscribe(), self.tally.clone());
                *acceptor = Some(tokio::spawn(accept(end.clone(), listener, rules, tally, self.cut.clone())));
            }
            Err(error) => {
                self.listener =
                    Err(format!("can't listen on port {} in the container: {error}", gate.port()));
            }
        }
    }

    /// Gives the port back; streams may go on for the given time. Datagrams have no end to wait for, and their
    /// sessions would keep the port.
    fn close(self, drain: Duration) {
        match self.listener {
            Ok(Listener::Tcp { gate, acceptor }) => {
                if let Some(acceptor) = acceptor {
                    acceptor.abort();
                }
                gate.close();
                let cut = self.cut;
                tokio::spawn(async move {
                    sleep(drain).await;
                    cut.cancel();
                });
            }
            Ok(Listener::Udp { receiver, .. }) => {
                receiver.abort();
                self.cut.cancel();
            }
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
    cut: CancellationToken,
) {
    loop {
        match listener.accept().await {
            Ok((socket, source)) => {
                if let Some((stream, place)) = open(&end, &rules.borrow(), &tally, source) {
                    tokio::spawn(carry(stream, socket, place, cut.clone()));
                } else {
                    tally.refused();
                    reset_on_close(&socket);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "can't accept a client");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A stream for a client that may enter, if there is a link.
fn open(
    end: &ContainerEnd,
    rules: &Listen,
    tally: &Arc<Tally>,
    source: SocketAddr,
) -> Option<(Stream, OpenStream)> {
    let place = may_enter(rules, source.ip()).then(|| tally.enter(rules.max_streams))??;
    let stream =
        open_on_a_link(end, rules, source, |link, request| link.open(request, settings(rules, tally)))?;
    Some((stream, place))
}

/// Carries one client.
async fn carry(stream: Stream, socket: TcpStream, place: OpenStream, cut: CancellationToken) {
    tokio::select! {
        ended = stream.relay(socket) => {
            if let RelayEnd::Reset { reason } = ended && !reason.is_empty() {
                place.0.failed(reason);
            }
        }
        () = cut.cancelled() => {}
    }
}

/// Opens something on one of the links, if there is any.
pub(super) fn open_on_a_link<T>(
    end: &ContainerEnd,
    rules: &Listen,
    source: SocketAddr,
    open: impl Fn(&Arc<Link>, &[u8]) -> Result<T, Unusable>,
) -> Option<T> {
    let source = SocketAddr::new(source.ip().to_canonical(), source.port());
    let request = Request { tunnel: rules.id, source }.encode();
    // The one that was picked may have been told to leave meanwhile.
    while let Some(link) = end.pick() {
        if let Ok(opened) = open(&link, &request) {
            return Some(opened);
        }
    }
    None
}

pub(super) fn settings(rules: &Listen, tally: &Tally) -> Settings {
    Settings {
        idle_timeout: Duration::from_millis(rules.idle_timeout_millis),
        traffic: tally.traffic.clone(),
    }
}

/// Whether a client is among those allowed; an empty list allows all.
pub(super) fn may_enter(rules: &Listen, source: IpAddr) -> bool {
    let (allowed, source) = (&rules.allowed_sources, source.to_canonical());
    allowed.is_empty() || allowed.iter().any(|net: &IpNet| net.contains(&source))
}

#[cfg(test)]
mod tests {
    use causeway_ir::Name;
    use causeway_ir::tunnel::Tunnel;
    use causeway_link::{Authority, Credentials};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_that_is_asked_for_again_is_not_cut_with_the_one_before_it() {
        let identity = crate::container_identity(&Authority::new().expect("keys")).expect("keys");
        let credentials = Credentials::new(&identity).expect("fits");
        let end = Arc::new(ContainerEnd::new(credentials, identity, None));
        let listen = Listen::new(&Tunnel::new(1, Name::parse("web").expect("a name")), true);
        let cut = || lock(&end.entrances.0).tunnels[&1].cut.clone();
        end.entrances.apply(&end, vec![listen.clone()]);
        let before = cut();
        end.entrances.apply(&end, Vec::new());
        end.entrances.apply(&end, vec![listen]);
        let after = cut();
        assert!(!before.is_cancelled(), "its streams have a while");
        sleep(DRAIN * 2).await;
        assert!(before.is_cancelled() && !after.is_cancelled());
    }
}
