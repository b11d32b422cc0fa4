//! The peers of a socket, without the socket: datagrams go in and out, packets go in and out, time passes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use gotatun::noise::errors::WireGuardError;
use gotatun::noise::handshake::parse_handshake_anon;
use gotatun::noise::index_table::IndexTable;
use gotatun::noise::{TimerParams, Tunn, TunnResult};
use gotatun::packet::{Packet, WgKind};
use gotatun::tun::MtuWatcher;
use gotatun::x25519;

use super::limiter::Limiter;
use super::routes::Routes;
use super::trains::{Endpoint, Trains};
use super::{Peer, PeerStatus, PublicKey, SecretKey, Standings};
use crate::ip;

/// How often [`Peers::tick`] is to be called.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// The kinds of datagrams, by their first byte.
const DATA: u8 = 4;
/// Header and tag around a packet; what is shorter is no datagram of WireGuard's.
const OVERHEAD: usize = 32;
/// Numbers of sessions that are remembered for a peer: more than it can have open.
const INDICES: usize = 16;
/// Sooner than the protocol's paper has it, since nobody waits five seconds for a lost packet. Any peer takes it: what
/// they refuse is more than fifty handshakes a second.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(1333));
/// A peer that restarted forgot its keys; who dials notices by its silence. A hub is never silent for so long, since it
/// answers what has no answer after less.
const SILENCE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_millis(3333));
const ANSWER: Duration = Duration::from_secs(1);

/// A number of a peer, as long as it is one.
type Id = usize;

/// Numbers of sessions are chosen here and by chance, so they are as good as their hashes.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u32(&mut self, number: u32) {
        // The upper bits count, too.
        self.0 = u64::from(number) | u64::from(number) << 32;
    }
}

/// One peer.
struct Known {
    peer: Peer,
    tunnel: Tunn,
    endpoint: Option<Endpoint>,
    indices: VecDeque<u32>,
    received: Option<Instant>,
}

/// All peers.
pub(super) struct Peers {
    secret: x25519::StaticSecret,
    public: x25519::PublicKey,
    limiter: Limiter,
    table: IndexTable,
    mtu: MtuWatcher,
    known: Vec<Option<Known>>,
    free: Vec<Id>,
    by_key: HashMap<PublicKey, Id>,
    by_index: HashMap<u32, Id, BuildHasherDefault<AsItIs>>,
    routes: Routes<Id>,
    /// Whether replies leave by the address that was asked.
    keeps_local: bool,
    /// Whether keys were agreed on anew with somebody.
    pub renewed: bool,
}

impl Peers {
    pub(super) fn new(key: &SecretKey, mtu: u16, keeps_local: bool, now: Instant) -> Self {
        let secret = x25519::StaticSecret::from(key.0);
        let public = x25519::PublicKey::from(&secret);
        Self {
            limiter: Limiter::new(&public, now),
            secret,
            public,
            table: IndexTable::from_os_rng(),
            mtu: MtuWatcher::new(mtu),
            known: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            by_index: HashMap::default(),
            routes: Routes::default(),
            keeps_local,
            renewed: false,
        }
    }

    /// Sets who is a peer; who stays is not disturbed.
    pub(super) fn set(&mut self, wanted: Vec<Peer>) {
        let keys: HashSet<PublicKey> = wanted.iter().map(|peer| peer.key).collect();
        let gone: Vec<Id> =
            self.by_key.iter().filter(|(key, _)| !keys.contains(key)).map(|(_, id)| *id).collect();
        for id in gone {
            self.remove(id);
        }
        self.routes = Routes::default();
        for peer in wanted {
            // A peer with the own key would be a loop.
            if peer.key.0 == *self.public.as_bytes() {
                continue;
            }
            let known = self.by_key.get(&peer.key).copied();
            let id = known.unwrap_or_else(|| self.free.pop().unwrap_or(self.known.len()));
            for network in &peer.allowed {
                self.routes.insert(*network, id);
            }
            if known.is_some() { self.change(id, peer) } else { self.add(id, peer) }
        }
    }

    fn add(&mut self, id: Id, peer: Peer) {
        let mut tunnel = Tunn::new(
            self.secret.clone(),
            x25519::PublicKey::from(peer.key.0),
            peer.preshared.as_ref().map(|key| key.0),
            keepalive(&peer),
            self.table.clone(),
            self.limiter.usual(),
        );
        let mut timers = TimerParams { rekey_timeout: RETRY.0..=RETRY.1, ..TimerParams::default() };
        if peer.endpoint.is_some() {
            timers.new_handshake_timeout = SILENCE.0..=SILENCE.1;
        } else {
            timers.keepalive_timeout = ANSWER..=ANSWER;
        }
        tunnel.dangerously_set_timer_params(timers);
        let endpoint = peer.endpoint.map(|address| Endpoint { address, local: None });
        let key = peer.key;
        let known = Known { peer, tunnel, endpoint, indices: VecDeque::new(), received: None };
        if id == self.known.len() {
            self.known.push(None);
        }
        self.known[id] = Some(known);
        self.by_key.insert(key, id);
    }

    fn change(&mut self, id: Id, peer: Peer) {
        let Some(known) = self.known.get_mut(id).and_then(Option::as_mut) else { return };
        if known.peer.preshared != peer.preshared {
            known.tunnel.set_preshared_key(peer.preshared.as_ref().map(|key| key.0));
        }
        if known.peer.keepalive != peer.keepalive {
            known.tunnel.set_persistent_keepalive(keepalive(&peer));
        }
        if known.peer.endpoint != peer.endpoint && peer.endpoint.is_some() {
            known.endpoint = peer.endpoint.map(|address| Endpoint { address, local: None });
        }
        known.peer = peer;
    }

    fn remove(&mut self, id: Id) {
        let Some(known) = self.known.get_mut(id).and_then(Option::take) else { return };
        self.by_key.remove(&known.peer.key);
        self.free.push(id);
        for index in known.indices {
            if self.by_index.get(&index) == Some(&id) {
                self.by_index.remove(&index);
            }
        }
    }

    /// Takes a datagram; packets in it go to `each`, answers to `out`.
    pub(super) fn receive(
        &mut self,
        from: Endpoint,
        datagram: BytesMut,
        now: Instant,
        out: &mut Trains,
        each: &mut dyn FnMut(&[u8]),
    ) {
        if datagram.len() < OVERHEAD {
            return;
        }
        // Data of nobody is not looked at any further.
        if datagram[0] == DATA && self.of_index(&datagram).is_none() {
            return;
        }
        let packet = Packet::from_bytes(datagram);
        let kind = match self.limiter.check(from.address, packet, now) {
            Ok(kind) => kind,
            Err(TunnResult::WriteToNetwork(cookie)) => {
                out.push(self.reply_to(from), &Packet::from(cookie));
                return;
            }
            Err(_) => return,
        };
        let id = match &kind {
            WgKind::HandshakeInit(init) => {
                let half = parse_handshake_anon(&self.secret, &self.public, init);
                half.ok().and_then(|half| self.by_key.get(&PublicKey(half.peer_static_public)).copied())
            }
            WgKind::HandshakeResp(_) | WgKind::CookieReply(_) | WgKind::Data(_) => self.of_kind(&kind),
        };
        let Some(id) = id else { return };
        let endpoint = self.reply_to(from);
        let Some(known) = self.known.get_mut(id).and_then(Option::as_mut) else { return };
        match known.tunnel.handle_incoming_packet(kind) {
            TunnResult::WriteToTunnel(packet) => {
                known.authenticated(endpoint, now);
                let source = ip::addresses(&packet).map(|(source, _)| source);
                if let Some(source) = source {
                    if self.routes.owner(source) == Some(id) {
                        each(&packet);
                    }
                } else if packet.is_empty() {
                    // Sent when keys were agreed on: what waited for them can go.
                    self.renewed = true;
                    self.send_queued(id, out);
                }
            }
            TunnResult::WriteToNetwork(answer) => {
                known.authenticated(endpoint, now);
                self.renewed |= matches!(answer, WgKind::Data(_));
                self.transmit(id, answer, out);
                self.send_queued(id, out);
            }
            TunnResult::Done | TunnResult::Err(_) => {}
        }
    }

    fn reply_to(&self, from: Endpoint) -> Endpoint {
        Endpoint { local: from.local.filter(|_| self.keeps_local), ..from }
    }

    fn of_index(&self, datagram: &[u8]) -> Option<Id> {
        let index = u32::from_le_bytes(datagram.get(4..8)?.try_into().ok()?);
        self.by_index.get(&index).copied()
    }

    fn of_kind(&self, kind: &WgKind) -> Option<Id> {
        let index = match kind {
            WgKind::HandshakeInit(_) => return None,
            WgKind::HandshakeResp(packet) => packet.receiver_idx.get(),
            WgKind::CookieReply(packet) => packet.receiver_idx.get(),
            WgKind::Data(packet) => packet.header.receiver_idx.get(),
        };
        self.by_index.get(&index).copied()
    }

    /// Sends a packet to whose address it has; what is of nobody is dropped.
    pub(super) fn send(&mut self, length: usize, write: impl FnOnce(&mut [u8]), out: &mut Trains) {
        // Padded as the protocol wants it, so that lengths tell less; never beyond the largest.
        let padded = length.next_multiple_of(16).min(usize::from(self.mtu.get())).max(length);
        let mut bytes = BytesMut::zeroed(padded);
        write(&mut bytes[..length]);
        let Some((_, to)) = ip::addresses(&bytes) else { return };
        let Some(id) = self.routes.owner(to) else { return };
        let Some(known) = self.known.get_mut(id).and_then(Option::as_mut) else { return };
        let Some(endpoint) = known.endpoint else { return };
        match known.tunnel.encapsulate_with_session(Packet::from_bytes(bytes)) {
            Ok(datagram) => out.push(endpoint, &Packet::<[u8]>::from(datagram)),
            Err(packet) => {
                if let Some(handshake) = known.tunnel.handle_outgoing_packet(packet, None) {
                    self.transmit(id, handshake, out);
                }
            }
        }
    }

    fn send_queued(&mut self, id: Id, out: &mut Trains) {
        let Some(known) = self.known.get_mut(id).and_then(Option::as_mut) else { return };
        let queued: Vec<_> = known.tunnel.get_queued_packets(&mut self.mtu).collect();
        for datagram in queued {
            self.transmit(id, datagram, out);
        }
    }

    /// Sends a datagram of the protocol itself; the number that the other side will answer with is remembered.
    fn transmit(&mut self, id: Id, datagram: WgKind, out: &mut Trains) {
        let index = match &datagram {
            WgKind::HandshakeInit(packet) => Some(packet.sender_idx.get()),
            WgKind::HandshakeResp(packet) => Some(packet.sender_idx.get()),
            WgKind::CookieReply(_) | WgKind::Data(_) => None,
        };
        let Some(known) = self.known.get_mut(id).and_then(Option::as_mut) else { return };
        if let Some(index) = index {
            self.by_index.insert(index, id);
            known.indices.push_back(index);
            if known.indices.len() > INDICES
                && let Some(old) = known.indices.pop_front()
                && self.by_index.get(&old) == Some(&id)
            {
                self.by_index.remove(&old);
            }
        }
        if let Some(endpoint) = known.endpoint {
            out.push(endpoint, &Packet::from(datagram));
        }
    }

    /// Time has passed: keys are renewed, peers are kept awake.
    pub(super) fn tick(&mut self, out: &mut Trains) {
        for id in 0..self.known.len() {
            let Some(known) = self.known.get_mut(id).and_then(Option::as_mut) else { continue };
            match known.tunnel.update_timers() {
                Ok(Some(datagram)) => self.transmit(id, datagram, out),
                Err(WireGuardError::ConnectionExpired) if known.peer.keepalive.is_some() => {
                    // It would wait for something to send; who dials wants to be there when something comes.
                    known.tunnel.reset();
                }
                Ok(None) | Err(_) => {}
            }
        }
    }

    /// How all peers stand.
    pub(super) fn standings(&self) -> Standings {
        let now = SystemTime::now();
        let known = self.known.iter().flatten();
        known
            .map(|known| {
                let (handshake, sent, received, ..) = known.tunnel.stats();
                let status = PeerStatus {
                    endpoint: known.endpoint.map(|endpoint| endpoint.address),
                    last_handshake: handshake.and_then(|ago| now.checked_sub(ago)),
                    last_received: known.received.and_then(|at| now.checked_sub(at.elapsed())),
                    received: received as u64,
                    sent: sent as u64,
                };
                (known.peer.key, status)
            })
            .collect()
    }
}

impl Known {
    /// A packet of this peer was authentic: it is where that came from.
    fn authenticated(&mut self, from: Endpoint, now: Instant) {
        self.endpoint = Some(from);
        self.received = Some(now);
    }
}

fn keepalive(peer: &Peer) -> Option<u16> {
    peer.keepalive.map(|every| every.as_secs().clamp(1, u64::from(u16::MAX)) as u16)
}

/// The address as it is without the form that IPv4 has in a socket of IPv6.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The same for an address alone.
pub(super) fn canonical_ip(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
