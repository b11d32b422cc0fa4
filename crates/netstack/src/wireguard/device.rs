//! The socket of WireGuard: many datagrams in each call to the kernel.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use causeway_base::Throttle;
use causeway_base::lock::lock;
use futures::task::AtomicWaker;
use gotatun::packet::{Packet, PacketBufPool};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::peers::{Peers, TICK, canonical, canonical_ip};
use super::trains::{Endpoint, Train, Trains};
use super::{Config, Hub, Peer, Shared, Standings};

/// Datagrams (or rows of them) that one call brings, and how long each may be.
const RECEIVED: usize = 8;
const LONGEST: usize = 1 << 16;
/// What the kernel is asked to keep for us; it gives what its settings allow.
const BUFFER: usize = 4 << 20;

/// The socket with its peers: a [`Device`](crate::Device) for a [`Stack`](crate::Stack).
pub struct Device {
    socket: UdpSocket,
    state: UdpSocketState,
    is_v6: bool,
    mtu: u16,
    peers: Peers,
    trains: Trains,
    /// Memory for what comes: cut into datagrams where it is, it comes back when they are gone.
    pool: PacketBufPool<LONGEST>,
    received: [Packet; RECEIVED],
    clock: Interval,
    shared: Arc<Shared>,
    complaints: Throttle,
}

impl Device {
    pub(super) fn open(config: &Config, peers: Vec<Peer>) -> io::Result<(Hub, Self)> {
        let socket = listen(config.listen)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        allow_fragments(&socket);
        let socket = UdpSocket::from_std(socket.into())?;
        let address = socket.local_addr()?;
        // Replies of a hub come from the address that was asked; who dials has none to keep, and moves between networks.
        let keeps_local = address.ip().is_unspecified() && peers.is_empty();
        let mut known = Peers::new(&config.key, config.mtu, keeps_local, Instant::now());
        known.set(peers);
        let shared = Arc::new(Shared {
            address,
            key: config.key.public(),
            wanted: Mutex::default(),
            device: AtomicWaker::new(),
            standings: watch::Sender::new(Arc::new(known.standings())),
        });
        let mut clock = interval(TICK);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let pool = PacketBufPool::new(RECEIVED);
        let device = Self {
            received: std::array::from_fn(|_| pool.get()),
            pool,
            trains: Trains::new(state.max_gso_segments()),
            socket,
            state,
            is_v6: address.is_ipv6(),
            mtu: config.mtu,
            peers: known,
            clock,
            shared: Arc::clone(&shared),
            complaints: Throttle::new(std::time::Duration::from_mins(1)),
        };
        Ok((Hub(shared), device))
    }

    /// Does what the owner wants, and what the time wants.
    fn keep_up(&mut self, cx: &mut Context<'_>) {
        self.shared.device.register(cx.waker());
        let wanted = lock(&self.shared.wanted).take();
        let changed = wanted.is_some();
        if let Some(wanted) = wanted {
            self.peers.set(wanted);
        }
        let mut ticked = false;
        while self.clock.poll_tick(cx).is_ready() {
            self.peers.tick(&mut self.trains);
            ticked = true;
        }
        if changed || ticked {
            self.publish();
        }
    }

    fn publish(&self) {
        let standings = self.peers.standings();
        self.shared.standings.send_if_modified(|old| {
            let is_news = differ(old, &standings);
            *old = Arc::new(standings);
            is_news
        });
    }

    /// Sends a row of datagrams in one call, or, where that can't be, one by one.
    fn transmit(&self, train: &Train) -> io::Result<()> {
        let send = |contents: &[u8], segment_size: Option<usize>| {
            let transmit = Transmit {
                destination: self.outer(train.to.address),
                ecn: None,
                contents,
                segment_size,
                src_ip: train.to.local,
            };
            self.socket
                .try_io(Interest::WRITABLE, || self.state.try_send(UdpSockRef::from(&self.socket), &transmit))
        };
        let is_row = train.bytes.len() > train.size;
        match send(&train.bytes, is_row.then_some(train.size)) {
            Err(error) if is_row && error.kind() != io::ErrorKind::WouldBlock => {
                // The path's packets are smaller, or the card can't cut rows; alone the kernel sends them in parts.
                train.bytes.chunks(train.size).try_for_each(|datagram| match send(datagram, None) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                    other => other,
                })
            }
            other => other,
        }
    }

    /// An address as this socket needs it.
    fn outer(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(ip) if self.is_v6 => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
            _ => address,
        }
    }
}

impl crate::Device for Device {
    fn mtu(&self) -> usize {
        self.mtu.into()
    }

    /// Every packet carries a proof of its peer's key.
    fn is_sound(&self) -> bool {
        true
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, each: &mut dyn FnMut(&[u8])) -> Poll<io::Result<()>> {
        self.keep_up(cx);
        let mut metas = [RecvMeta::default(); RECEIVED];
        let count = loop {
            ready!(self.socket.poll_recv_ready(cx))?;
            let mut buffers = self.received.each_mut().map(|packet| IoSliceMut::new(packet.buf_mut()));
            let (socket, state) = (&self.socket, &self.state);
            let received = socket.try_io(Interest::READABLE, || {
                state.recv(UdpSockRef::from(socket), &mut buffers, &mut metas)
            });
            match received {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // What routers say of datagrams that were sent (refused, unreachable) is no reason to stop.
                Err(_) => return Poll::Ready(Ok(())),
            }
        };
        let now = Instant::now();
        for (meta, packet) in metas.iter().zip(&mut self.received).take(count) {
            let from = Endpoint { address: canonical(meta.addr), local: meta.dst_ip.map(canonical_ip) };
            let bytes = packet.buf_mut();
            let mut row = bytes.split_to(meta.len.min(bytes.len()));
            while !row.is_empty() {
                let datagram = row.split_to(meta.stride.clamp(1, row.len()));
                self.peers.receive(from, datagram, now, &mut self.trains, each);
            }
            drop(row);
            drop(std::mem::take(packet));
            *packet = self.pool.get();
        }
        Poll::Ready(Ok(()))
    }

    fn take_renewed(&mut self) -> bool {
        std::mem::take(&mut self.peers.renewed)
    }

    fn has_room(&self) -> bool {
        self.trains.has_room()
    }

    fn send(&mut self, length: usize, write: impl FnOnce(&mut [u8])) {
        self.peers.send(length, write, &mut self.trains);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(train) = self.trains.first() {
            match self.transmit(train) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.socket.poll_send_ready(cx))?;
                }
                // The address that it was to come from may be gone.
                Err(_) if train.to.local.is_some() => self.trains.forget_local(),
                sent => {
                    if let Err(error) = sent
                        && let Some(count) = self.complaints.pass()
                    {
                        let peer = train.to.address;
                        tracing::debug!(%error, %peer, count, "datagrams of WireGuard could not be sent");
                    }
                    self.trains.done();
                    self.trains.most = self.state.max_gso_segments();
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

/// Whether more than counts changed.
fn differ(old: &Standings, new: &Standings) -> bool {
    let whole = |time: Option<std::time::SystemTime>| {
        // Told by how long ago it was, a time is not the same to the last digit.
        time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
            .map(|time| (time.as_millis() + 500) / 1000)
    };
    old.len() != new.len()
        || new.iter().any(|(key, new)| {
            old.get(key).is_none_or(|old| {
                let apart =
                    whole(old.last_handshake).unwrap_or(0).abs_diff(whole(new.last_handshake).unwrap_or(0));
                old.endpoint != new.endpoint || apart > 1
            })
        })
}

fn listen(address: SocketAddr) -> io::Result<Socket> {
    let open = |address: SocketAddr| {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            socket.set_only_v6(false)?;
        }
        // What can't be had costs speed only.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER);
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    match open(address) {
        Err(_) if address.is_ipv6() && address.ip().is_unspecified() => {
            open(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()))
        }
        other => other,
    }
}

/// Routers may cut datagrams that are too large for them: a slow way is better than none.
#[cfg(target_os = "linux")]
fn allow_fragments(socket: &Socket) {
    use rustix::net::sockopt::{
        Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    };
    let _ = set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT);
    let _ = set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::DONT);
}

#[cfg(not(target_os = "linux"))]
fn allow_fragments(_: &Socket) {}
