//! Workstations that come by WireGuard: an address each, behind a key each. What they open goes out into the cluster as from a
//! link, and what is meant for them is opened to their address. A laptop of ours has its link inside of it, at the gateway's
//! address.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::{Duration, SystemTime};

use causeway_base::lock::{lock, read, write};
use causeway_link::reset_on_close;
use causeway_netstack::wireguard::{self, Config, Peer, PeerStatus, PublicKey, SecretKey};
use causeway_netstack::{Arrivals, Incoming, Pending, Stack, TcpFlow, UdpFlow};
use ipnet::IpNet;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::deliver::CONNECT;
use super::outward;
use super::{Hub, Standing, Workstation};
use crate::datagrams;
use crate::join::join;
use crate::place::Place;
use crate::refusal::{Cause, Refusal};
use crate::way::Way;
use crate::wireguard::{LINK_PORT, gateway};

/// How often to look who is there.
const LOOK: Duration = Duration::from_secs(1);
/// A peer that was not heard for longer is gone: its keys are good no longer, and one that is awake renews them before.
const SILENCE: Duration = Duration::from_mins(3);
/// How long a peer may say nothing while it has streams from here: as long as on a link.
const SILENT: Duration = Duration::from_millis(2500);
/// How long the own port for links may take.
const OWN: Duration = Duration::from_secs(1);

/// The socket, the stack behind it, and whose addresses are whose.
pub(super) struct WireGuard {
    socket: wireguard::Hub,
    stack: Stack,
    peers: RwLock<Peers>,
    /// Who did not answer, and when: not there until heard again.
    silent: Mutex<HashMap<Arc<str>, SystemTime>>,
    /// Laptops of ours, and when they last had their link inside, or tried it: they take streams by their link alone, which may
    /// be elsewhere by now.
    ours: Mutex<HashMap<Arc<str>, SystemTime>>,
}

#[derive(Default)]
struct Peers {
    by_address: HashMap<IpAddr, Arc<str>>,
    by_uid: HashMap<Arc<str>, (PublicKey, IpAddr)>,
}

impl WireGuard {
    /// Listens. What arrives waits for [`serve`].
    pub(super) fn bind(key: [u8; 32], listen: SocketAddr) -> io::Result<(Self, Arrivals)> {
        let (socket, device) = wireguard::bind(Config::new(SecretKey(key), listen))?;
        let (stack, arrivals) = Stack::start(device, &causeway_netstack::Config::default());
        let (peers, silent, ours) = Default::default();
        Ok((Self { socket, stack, peers, silent, ours }, arrivals))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// Says who may come. Who no longer may, or has another key or address, is cut off.
    pub(super) fn set<'a>(&self, workstations: impl Iterator<Item = &'a Workstation>) {
        let mut wanted = Peers::default();
        let mut keys = HashSet::new();
        for Workstation { uid, wireguard_key, address, .. } in workstations {
            let (Some(key), Some(address)) = (wireguard_key, address) else { continue };
            let address = address.to_canonical();
            // Of two that claim the same, neither takes it from the other: the first has it.
            if !wanted.by_address.contains_key(&address) && keys.insert(*key) {
                let uid: Arc<str> = uid.as_str().into();
                wanted.by_address.insert(address, uid.clone());
                wanted.by_uid.insert(uid, (PublicKey(*key), address));
            }
        }
        let peers = wanted.by_uid.values().map(|(key, address)| Peer::new(*key, vec![IpNet::from(*address)]));
        self.socket.set_peers(peers.collect());
        let mut known = write(&self.peers);
        let old = std::mem::replace(&mut *known, wanted);
        for (uid, before) in &old.by_uid {
            if known.by_uid.get(uid) != Some(before) {
                self.stack.cut(before.1);
            }
        }
        let stays = |uid: &Arc<str>| known.by_uid.contains_key(uid);
        lock(&self.silent).retain(|uid, _| stays(uid));
        lock(&self.ours).retain(|uid, _| stays(uid));
    }

    fn owner(&self, address: IpAddr) -> Option<Arc<str>> {
        read(&self.peers).by_address.get(&address).cloned()
    }

    fn peer(&self, uid: &str) -> Option<(PublicKey, IpAddr)> {
        read(&self.peers).by_uid.get(uid).copied()
    }

    /// Where a workstation's packets come from.
    pub(super) fn endpoint(&self, uid: &str) -> Option<SocketAddr> {
        let (key, _) = self.peer(uid)?;
        self.socket.standings().get(&key)?.endpoint
    }

    /// The address of a workstation that is there.
    pub(super) fn address_of(&self, uid: &str) -> Option<IpAddr> {
        let (key, address) = self.peer(uid)?;
        let standings = self.socket.standings();
        self.is_heard(uid, standings.get(&key)?, SystemTime::now()).then_some(address)
    }

    fn is_heard(&self, uid: &str, status: &PeerStatus, now: SystemTime) -> bool {
        let Some(heard) = status.last_received else { return false };
        let ours = lock(&self.ours).get(uid).copied();
        if ours.is_some_and(|ours| heard < ours + SILENCE) {
            return false;
        }
        let silent = lock(&self.silent).get(uid).copied();
        silent.is_none_or(|silent| heard > silent) && now.duration_since(heard).unwrap_or_default() < SILENCE
    }

    /// Somebody dials the port for links, or has done so until now: it is a laptop of ours.
    fn is_ours(&self, uid: &Arc<str>) {
        lock(&self.ours).insert(uid.clone(), SystemTime::now());
    }

    /// Connects to a port of a workstation.
    pub(super) async fn connect(&self, uid: &Arc<str>, to: SocketAddr) -> Result<TcpFlow, Refusal> {
        let began = SystemTime::now();
        match timeout(CONNECT, self.stack.connect_tcp(gateway(to.ip(), 0), to)).await {
            Ok(Ok(flow)) => {
                flow.limit_silence(SILENT);
                Ok(flow)
            }
            Ok(Err(error)) => Err(Refusal::of(to, &error)),
            Err(_) => {
                lock(&self.silent).insert(uid.clone(), began);
                Err(Refusal::new(
                    Cause::Timeout,
                    format!("{to}: no answer within {} s", CONNECT.as_secs_f32()),
                ))
            }
        }
    }

    /// A stream to a peer has broken for silence: unless anything was heard of it since it was asked whether it is there, it is
    /// gone.
    pub(super) fn fell_silent(&self, uid: &str) {
        let asked = SystemTime::now() - SILENT * 2 / 3;
        if self.peer(uid).is_some() {
            lock(&self.silent).insert(uid.into(), asked);
        }
    }

    /// Opens a flow to a port of a workstation.
    pub(super) async fn datagrams(&self, to: SocketAddr) -> Result<UdpFlow, Refusal> {
        let opened = self.stack.open_udp(gateway(to.ip(), 0), to).await;
        opened.map_err(|error| Refusal::of(to, &error))
    }

    /// Who is there, by WireGuard.
    fn standings(&self, before: &HashMap<Arc<str>, Standing>) -> HashMap<Arc<str>, Standing> {
        let (heard, now) = (self.socket.standings(), SystemTime::now());
        let peers = read(&self.peers);
        let there = peers.by_uid.iter().filter_map(|(uid, (key, _))| {
            let status = heard.get(key).filter(|status| self.is_heard(uid, status, now))?;
            let since = before.get(uid).map_or(now, |standing| standing.since);
            Some((uid.clone(), Standing { way: Way::WireGuard, from: status.endpoint?, since }))
        });
        there.collect()
    }
}

/// Tells who is there, for as long as the hub is.
pub(super) async fn watch_over(hub: Weak<Hub>) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = HashMap::new();
    loop {
        look.tick().await;
        let Some(hub) = hub.upgrade() else { return };
        let Some(wireguard) = &hub.wireguard else { return };
        let standings = wireguard.standings(&known);
        if standings != known {
            hub.seats.heard(&standings);
            known = standings;
        }
    }
}

/// Takes what peers open, for as long as the stack is.
pub(super) async fn serve(hub: Weak<Hub>, link: SocketAddr, mut arrivals: Arrivals) {
    while let Some(incoming) = arrivals.next().await {
        let Some(hub) = hub.upgrade() else { return };
        match incoming {
            Incoming::Tcp(pending) => {
                tokio::spawn(take(hub, pending, link));
            }
            Incoming::Udp(flow) => {
                tokio::spawn(take_datagrams(hub, flow));
            }
        }
    }
}

/// Carries a peer's stream; dropped, it is refused.
async fn take(hub: Arc<Hub>, pending: Pending, link: SocketAddr) {
    let (from, to) = (pending.from().ip(), pending.to());
    let Some(wireguard) = &hub.wireguard else { return };
    let Some(uid) = wireguard.owner(from) else { return };
    if to == gateway(from, LINK_PORT) {
        wireguard.is_ours(&uid);
        let here = Arc::downgrade(&hub);
        drop(hub);
        if let Ok(socket) = causeway_link::connect(reachable(link), OWN).await {
            carry(pending.accept(), socket).await;
        }
        if let Some(wireguard) = here.upgrade().as_ref().and_then(|hub| hub.wireguard.as_ref()) {
            wireguard.is_ours(&uid);
        }
        return;
    }
    let Ok(place) = hub.places.take(&uid) else { return };
    match outward::connect(&hub, &uid, &Place::from(to)).await {
        Ok(socket) => {
            drop(hub);
            if !pending.is_gone() {
                carry(pending.accept(), socket).await;
            }
        }
        Err(refusal) => tracing::debug!(workstation = %uid, %to, %refusal, "refused"),
    }
    drop(place);
}

async fn carry(mut flow: TcpFlow, mut socket: TcpStream) {
    if join(&mut flow, &mut socket).await.is_err() {
        // What was cut off must not look as if it had come to its end.
        reset_on_close(&socket);
        flow.reset();
    }
}

async fn take_datagrams(hub: Arc<Hub>, flow: UdpFlow) {
    let Some(uid) = hub.wireguard.as_ref().and_then(|wireguard| wireguard.owner(flow.from().ip())) else {
        return;
    };
    let Ok(place) = hub.places.take(&uid) else { return flow.refuse() };
    let to = flow.to();
    let socket = match outward::target(hub, uid.clone(), Place::from(to)).await {
        Ok(target) => datagrams::connect(target).map_err(|error| Refusal::of(target, &error)),
        Err(refusal) => Err(refusal),
    };
    match socket {
        Ok(socket) => pass(&flow, &socket).await,
        Err(refusal) => {
            tracing::debug!(workstation = %uid, %to, %refusal, "refused");
            flow.refuse();
        }
    }
    drop(place);
}

/// Passes datagrams both ways until the flow ends.
async fn pass(flow: &UdpFlow, socket: &UdpSocket) {
    loop {
        tokio::select! {
            datagram = flow.receive() => match datagram {
                Some(datagram) => datagrams::send_now(socket, &datagram),
                None => return,
            },
            readable = socket.readable() => {
                if readable.is_err() {
                    return;
                }
                // A refusal by the service is not the end: it may be about to start.
                let _ = datagrams::pass_on(socket, |datagram| flow.send(datagram));
            }
        }
    }
}

/// Where a listener's own machine finds it.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = listener.ip();
    // One that takes IPv6 and IPv4 takes this, too.
    SocketAddr::new(if ip.is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { ip }, listener.port())
}
