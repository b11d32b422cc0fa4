//! The tunnels' ports on the client end: bound as the host says, open only while the host is connected and
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

use super::{ClientEnd, datagrams};
use crate::control::{self, Listen};
use crate::gate::{Gate, bind_datagrams};
use crate::places::Place;
use crate::request::Request;
use crate::tally::Tally;

/// How long the streams of a tunnel that was removed may go on.
const DRAIN: Duration = Duration::from_secs(30);
/// A pause after the kernel could not accept, for example for want of descriptors.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// All tunnels of the client end.
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
    pub(super) fn apply(&self, end: &Arc<ClientEnd>, wanted: Vec<Listen>) {
        let mut inner = lock(&self.0);
        let connected = inner.connected;
        let mut old = std::mem::take(&mut inner.tunnels);
        let mut moved = Vec::new();
        for listen in wanted {
            let id = listen.id;
            let entrance = match old.remove(&id) {
                Some(entrance) if entrance.serves(&listen) => {
                    entrance.rules.send_replace(listen);
                    entrance
                }
                // A port that could not be had is tried again.
                other => {
                    moved.extend(other);
                    Entrance::new(end, listen)
                }
            };
            inner.tunnels.insert(id, entrance);
        }
        for entrance in inner.tunnels.values_mut() {
            entrance.adjust(end, connected);
        }
        drop(inner);
        for removed in old.into_values().chain(moved) {
            removed.close(DRAIN);
        }
    }

    /// Tries to have the ports that others had; true when there is one that is had now.
    pub(super) fn retry(&self, end: &Arc<ClientEnd>) -> bool {
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
    pub(super) fn gate(&self, end: &Arc<ClientEnd>, tunnel: TunnelId, open: bool) {
        let mut inner = lock(&self.0);
        let connected = inner.connected;
        if let Some(entrance) = inner.tunnels.get_mut(&tunnel) {
            entrance.rules.send_modify(|listen| listen.open = open);
            entrance.adjust(end, connected);
        }
    }

    /// A data link has come or gone. Links are counted under the lock: of two who count, the later one must win.
    pub(super) fn links_changed(&self, end: &Arc<ClientEnd>) {
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

    /// How many clients of each tunnel were refused because of a limit, where any were.
    pub(super) fn limited(&self) -> Vec<(TunnelId, u64)> {
        let inner = lock(&self.0);
        let all = inner.tunnels.iter().map(|(id, entrance)| (*id, entrance.tally.snapshot().limited));
        all.filter(|(_, limited)| *limited > 0).collect()
    }

    /// Closes all of them.
    pub(super) fn clear(&self) {
        for entrance in std::mem::take(&mut lock(&self.0).tunnels).into_values() {
            entrance.close(Duration::ZERO);
        }
    }
}

impl Entrance {
    fn new(end: &Arc<ClientEnd>, listen: Listen) -> Self {
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

    /// Whether it has the port that is asked for. Who asks for no other port than before keeps the one it got.
    fn serves(&self, listen: &Listen) -> bool {
        let before = self.rules.borrow();
        let port = match &self.listener {
            Ok(Listener::Tcp { gate, .. }) => gate.port(),
            Ok(Listener::Udp { port, .. }) => *port,
            Err(_) => return false,
        };
        let has_port = match listen.port {
            wanted if wanted == before.port => true,
            Port::Fixed(wanted) | Port::Preferred(wanted) => wanted == port,
            Port::Any => true,
        };
        has_port && listen.protocol == before.protocol
    }

    /// Opens or closes the port as things stand.
    fn adjust(&mut self, end: &Arc<ClientEnd>, connected: bool) {
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
    end: Arc<ClientEnd>,
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

/// A stream for a client that may enter, if there is a link; whoever gets none is counted.
fn open(end: &ClientEnd, rules: &Listen, tally: &Arc<Tally>, source: SocketAddr) -> Option<(Stream, Place)> {
    let place = enter(end, rules, tally, source.ip())?;
    let stream = open_on_a_link(end, rules, source, |link, request| {
        link.open(request, settings(rules, tally, source))
    });
    if stream.is_none() {
        tally.refused();
    }
    Some((stream?, place))
}

/// A place for a client, unless it may not come in or there is none left; that is counted and, now and then, said.
pub(super) fn enter(end: &ClientEnd, rules: &Listen, tally: &Arc<Tally>, source: IpAddr) -> Option<Place> {
    if !may_enter(rules, source) {
        tally.refused();
        if let Some(refused) = end.strangers.pass() {
            let (tunnel, source) = (rules.id, source.to_canonical());
            tracing::warn!(tunnel, %source, refused, "refused a client that is not among the allowed sources");
        }
        return None;
    }
    match end.places.take(tally, (rules.id, rules.max_streams), source) {
        Ok(place) => Some(place),
        Err(limit) => {
            tally.limited();
            end.places.tell(&format!("number {}", rules.id), limit);
            None
        }
    }
}

/// Carries one client.
async fn carry(stream: Stream, socket: TcpStream, place: Place, cut: CancellationToken) {
    tokio::select! {
        ended = stream.relay(socket) => {
            if let RelayEnd::Reset { reason } = ended && !reason.is_empty() {
                place.counted.0.failed(reason);
            }
        }
        () = cut.cancelled() => {}
    }
}

/// Opens something on one of the links, if there is any.
pub(super) fn open_on_a_link<T>(
    end: &ClientEnd,
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

pub(super) fn settings(rules: &Listen, tally: &Tally, source: SocketAddr) -> Settings {
    Settings {
        idle_timeout: Duration::from_millis(rules.idle_timeout_millis),
        traffic: tally.traffic.clone(),
        client: Some(source.ip().to_canonical()),
    }
}

/// Whether a client is among those allowed; an empty list allows all.
fn may_enter(rules: &Listen, source: IpAddr) -> bool {
    let (allowed, source) = (&rules.allowed_sources, source.to_canonical());
    allowed.is_empty() || allowed.iter().any(|net: &IpNet| net.contains(&source))
}

#[cfg(test)]
mod tests {
    use causeway_ir::Name;
    use causeway_ir::tunnel::Tunnel;
    use causeway_link::{Authority, Credentials};

    use super::*;

    fn end() -> Arc<ClientEnd> {
        let identity = crate::client_identity(&Authority::new().expect("keys")).expect("keys");
        let credentials = Credentials::new(&identity).expect("fits");
        Arc::new(ClientEnd::new(credentials, identity, None))
    }

    fn listen(port: Port) -> Listen {
        Listen { port, ..Listen::new(&Tunnel::new(1, Name::parse("web").expect("a name")), true) }
    }

    #[tokio::test]
    async fn another_port_is_moved_to_and_the_same_wish_moves_nothing() {
        let end = end();
        let ask = |port: Port| {
            end.entrances.apply(&end, vec![listen(port)]);
            let report = end.entrances.report();
            report[0].1.clone().expect("it listens").port
        };
        let first = ask(Port::Any);
        assert_eq!(
            (ask(Port::Any), ask(Port::Preferred(first)), ask(Port::Fixed(first))),
            (first, first, first)
        );
        let free = {
            let free = std::net::TcpListener::bind("[::]:0").expect("a port");
            free.local_addr().expect("an address").port()
        };
        assert_eq!(ask(Port::Fixed(free)), free, "another port under the same number");
        assert_eq!(ask(Port::Any), free, "any port is this one");
        let taken = std::net::TcpListener::bind("[::]:0").expect("a port");
        let preferred = Port::Preferred(taken.local_addr().expect("an address").port());
        let other = ask(preferred);
        assert_eq!(ask(preferred), other, "the same wish again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_that_is_asked_for_again_is_not_cut_with_the_one_before_it() {
        let (end, listen) = (end(), listen(Port::Any));
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
