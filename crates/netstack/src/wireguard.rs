//! WireGuard in user space: a hub with one UDP socket and many peers, or one peer that dials a hub. The protocol's core is
//! gotatun's; sockets, routes between peers, roaming and the defence against floods are here.
//!
//! [`bind`] and [`dial`] give two things: a [`Device`] for a [`Stack`](crate::Stack), which does all the work, and a
//! [`Hub`], by which its owner changes peers and sees how they stand. A change touches nobody but whom it names.

mod device;
mod keys;
mod limiter;
mod peers;
mod routes;
#[cfg(test)]
mod tests;
mod trains;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use causeway_base::lock::lock;
use futures::task::AtomicWaker;
use ipnet::IpNet;
use tokio::sync::watch;

pub use device::Device;
pub use keys::{InvalidKey, PublicKey, SecretKey};

/// What fits into the packets of nearly every network, with room for the headers of IPv6.
pub const MTU: u16 = 1420;
/// How often a peer that dials makes itself heard, so that routers on the way remember it.
const KEEPALIVE: Duration = Duration::from_secs(25);

/// What a socket is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who this side is.
    pub key: SecretKey,
    /// Where it listens. `[::]` takes IPv4, too, and falls back to it on a machine without IPv6.
    pub listen: SocketAddr,
    /// The largest packet inside; both sides may differ.
    pub mtu: u16,
}

impl Config {
    /// With the usual size of packets.
    pub fn new(key: SecretKey, listen: SocketAddr) -> Self {
        Self { key, listen, mtu: MTU }
    }
}

/// Somebody who may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Who it is.
    pub key: PublicKey,
    /// A secret that both know, on top of their keys.
    pub preshared: Option<SecretKey>,
    /// Addresses that its packets may come from, and that packets to which go to it. Of two peers with one network the
    /// later in the list has it.
    pub allowed: Vec<IpNet>,
    /// Where it is, if that is known; else it must come first. It is followed when it moves.
    pub endpoint: Option<SocketAddr>,
    /// How often something is sent to it although there is nothing to say; in whole seconds.
    pub keepalive: Option<Duration>,
}

impl Peer {
    /// A peer that comes from wherever it is.
    pub fn new(key: PublicKey, allowed: Vec<IpNet>) -> Self {
        Self { key, preshared: None, allowed, endpoint: None, keepalive: None }
    }

    /// A hub that is dialled, through which everything goes.
    pub fn hub(key: PublicKey, endpoint: SocketAddr) -> Self {
        let everything = [(Ipv4Addr::UNSPECIFIED.into(), 0), (Ipv6Addr::UNSPECIFIED.into(), 0)];
        let allowed = everything.into_iter().filter_map(|(net, length)| IpNet::new(net, length).ok());
        let mut hub = Self::new(key, allowed.collect());
        (hub.endpoint, hub.keepalive) = (Some(endpoint), Some(KEEPALIVE));
        hub
    }
}

/// How a peer stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerStatus {
    /// Where its last authenticated packet came from, or where it is to be found.
    pub endpoint: Option<SocketAddr>,
    /// When keys were last agreed on.
    pub last_handshake: Option<SystemTime>,
    /// When something of it was last received, to about a quarter of a second.
    pub last_received: Option<SystemTime>,
    /// Bytes of packets that it sent, and that it was sent.
    pub received: u64,
    /// See `received`.
    pub sent: u64,
}

/// How all peers stand.
pub type Standings = HashMap<PublicKey, PeerStatus>;

/// A socket's peers, as its owner has them. Clones are the same.
#[derive(Clone)]
pub struct Hub(Arc<Shared>);

/// What the owner and the device share.
struct Shared {
    address: SocketAddr,
    key: PublicKey,
    /// Peers that are to be, if that changed.
    wanted: Mutex<Option<Vec<Peer>>>,
    device: AtomicWaker,
    standings: watch::Sender<Arc<Standings>>,
}

impl Hub {
    /// Sets who may come. Who is no longer in the list is forgotten; who is stays as it is, with its keys agreed on and its
    /// endpoint, and takes over what changed.
    pub fn set_peers(&self, peers: Vec<Peer>) {
        *lock(&self.0.wanted) = Some(peers);
        self.0.device.wake();
    }

    /// How all peers stand now, as of the last quarter of a second.
    pub fn standings(&self) -> Arc<Standings> {
        Arc::clone(&self.0.standings.borrow())
    }

    /// How all peers stand, whenever an endpoint, a handshake or the list of peers changes.
    pub fn watch(&self) -> watch::Receiver<Arc<Standings>> {
        self.0.standings.subscribe()
    }

    /// Who this side is.
    pub fn public_key(&self) -> PublicKey {
        self.0.key
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.address
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("key", &self.0.key)
            .field("address", &self.0.address)
            .finish_non_exhaustive()
    }
}

/// Opens a socket for many peers, none at first. To be called in a runtime.
///
/// # Errors
/// When the address can't be listened at.
pub fn bind(config: Config) -> io::Result<(Hub, Device)> {
    Device::open(&config, Vec::new())
}

/// Opens a socket from which a hub is dialled, at once and again and again. To be called in a runtime.
///
/// # Errors
/// When no socket can be had.
pub fn dial(key: SecretKey, mtu: u16, hub: Peer) -> io::Result<(Hub, Device)> {
    let is_v4 = hub.endpoint.is_none_or(|endpoint| endpoint.is_ipv4());
    let listen = if is_v4 { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    Device::open(&Config { key, listen, mtu }, vec![hub])
}
