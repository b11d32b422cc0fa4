//! The flows of a stack and what packets do to them, without IO.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use causeway_base::{Budget, Share};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpAddress, IpProtocol, TcpControl, TcpPacket, TcpRepr, UdpPacket};
use tokio::sync::mpsc;

use super::mailbox::{Command, Mailbox};
use super::ports::{free_ends, no_place};
use super::segments::{send_segment, write_segment};
use crate::config::Config;
use crate::device::Device;
use crate::flow::{Ends, Incoming, Pending, TcpCell, TcpState, UdpCell, UdpFlow, udp_header};
use crate::fragments::{self, Fragments};
use crate::icmp::{self, Kind, Message, Trouble};
use crate::ip::{self, Packet};
use crate::tcp::{Connection, Failure, Memory, Phase, Settings, reset_for};

/// Segments that one connection sends before others have their turn.
const TURN: usize = 64;
/// Answers of the stack itself that wait to be sent; further ones are dropped.
const ANSWERS: usize = 1024;
/// Ended connections that still answer; of more, the oldest are forgotten.
const LINGERING: usize = 8192;
/// How often what is idle gives back what it holds.
const SWEEP: Duration = Duration::from_secs(2);
/// The least time between two looks for what waits for a way that is there again.
const NUDGE: Duration = Duration::from_millis(50);
/// No path is narrower (RFC 791, 8200), whatever a router says.
const NARROWEST: (usize, usize) = (576, 1280);

/// The flows of a stack.
pub(crate) struct Core {
    mtu: usize,
    checksums: ChecksumCapabilities,
    settings: Settings,
    udp_idle: Duration,
    mailbox: Arc<Mailbox>,
    arrivals: mpsc::Sender<Incoming>,
    places: Arc<Budget<IpAddr>>,
    tcp: HashMap<Ends, Arc<TcpCell>>,
    udp: HashMap<Ends, Arc<UdpCell>>,
    /// The connection that the last segment was of: bulk comes in rows.
    last: Option<Arc<TcpCell>>,
    /// Connections that may have something to send.
    active: VecDeque<Arc<TcpCell>>,
    /// Ended connections that answer what is still on the way, the oldest first.
    lingering: VecDeque<Arc<TcpCell>>,
    /// When to look at which connection, once each. What it waits for may have moved to later.
    schedule: BTreeSet<(Instant, Ends)>,
    nudged: Option<Instant>,
    answers: VecDeque<Vec<u8>>,
    fragments: Fragments,
    fragment_id: u32,
    swept: Instant,
}

impl Core {
    pub(crate) fn new(
        config: &Config,
        mtu: usize,
        is_sound: bool,
        mailbox: Arc<Mailbox>,
        arrivals: mpsc::Sender<Incoming>,
    ) -> Self {
        let checksums =
            if is_sound { ChecksumCapabilities::ignored() } else { ChecksumCapabilities::default() };
        Self {
            mtu,
            checksums,
            settings: Settings {
                largest_window: u64::from(config.largest_window),
                memories: Budget::new(config.memory),
                keepalive: config.keepalive,
                give_up: config.give_up,
            },
            udp_idle: config.udp_idle,
            mailbox,
            arrivals,
            places: Budget::new(config.max_flows),
            tcp: HashMap::new(),
            udp: HashMap::new(),
            last: None,
            active: VecDeque::new(),
            lingering: VecDeque::new(),
            schedule: BTreeSet::new(),
            nudged: None,
            answers: VecDeque::new(),
            fragments: Fragments::default(),
            fragment_id: causeway_base::random::number() as u32,
            swept: Instant::now(),
        }
    }

    /// Takes a packet from the device.
    pub(crate) fn take(&mut self, bytes: &[u8], now: Instant) {
        let Some(packet) = ip::read(bytes) else { return };
        if !ip::is_single(packet.from) {
            return;
        }
        let Some(part) = packet.fragment else {
            self.take_packet(&packet, now);
            return;
        };
        if let Some((protocol, payload)) = self.fragments.add(&packet, part, now) {
            self.take_packet(&Packet { protocol, payload: &payload, fragment: None, ..packet }, now);
        }
    }

    fn take_packet(&mut self, packet: &Packet<'_>, now: Instant) {
        match packet.protocol {
            IpProtocol::Tcp if ip::is_single(packet.to) => self.take_segment(packet, now),
            IpProtocol::Udp if ip::is_single(packet.to) => self.take_datagram(packet, now),
            IpProtocol::Icmp | IpProtocol::Icmpv6 => match icmp::read(packet) {
                Some(Message::Answer(answer)) => self.answer(answer),
                Some(Message::Trouble(trouble)) => self.take_trouble(&trouble),
                None => {}
            },
            _ => {}
        }
    }

    fn take_segment(&mut self, packet: &Packet<'_>, now: Instant) {
        let addresses = (IpAddress::from(packet.from), IpAddress::from(packet.to));
        let Ok(segment) = TcpPacket::new_checked(packet.payload) else { return };
        let Ok(segment) = TcpRepr::parse(&segment, &addresses.0, &addresses.1, &self.checksums) else {
            return;
        };
        let ends = Ends {
            here: SocketAddr::new(packet.to, segment.dst_port),
            there: SocketAddr::new(packet.from, segment.src_port),
        };
        let is_new = segment.control == TcpControl::Syn && segment.ack_number.is_none();
        let known = match &self.last {
            Some(cell) if cell.ends == ends => Some(Arc::clone(cell)),
            _ => self.tcp.get(&ends).cloned(),
        };
        if let Some(cell) = known {
            let mut state = cell.lock();
            if !(is_new && matches!(state.connection.phase(), Phase::Lingering | Phase::Closed)) {
                let fits = state.connection.take(&segment, now);
                self.touch(&cell, state);
                self.last = Some(cell);
                if !fits {
                    self.refuse(&segment, &ends);
                }
                return;
            }
            // The same ends, another connection: what lingers gives way.
            drop(state);
            self.forget(&cell);
        }
        if is_new { self.offer(&segment, ends, now) } else { self.refuse(&segment, &ends) }
    }

    /// Somebody asks for a connection.
    fn offer(&mut self, syn: &TcpRepr<'_>, ends: Ends, now: Instant) {
        let Some((place, memory)) = self.admit(ends.there.ip()) else { return };
        let Ok(permit) = self.arrivals.clone().try_reserve_owned() else { return };
        let connection = Connection::asked(&self.settings, memory, self.own_segment(ends), syn, now);
        let cell = TcpCell::new(ends, Arc::clone(&self.mailbox), connection, place);
        self.tcp.insert(ends, Arc::clone(&cell));
        permit.send(Incoming::Tcp(Pending::new(cell)));
    }

    /// A place for a flow and an account for its memory; none when all are taken.
    fn admit(&self, there: IpAddr) -> Option<(Share<IpAddr>, Memory)> {
        Some((self.places.take(there, 1)?, Memory::open(&self.settings.memories, there)?))
    }

    /// The largest segment that fits into a packet.
    fn own_segment(&self, ends: Ends) -> u16 {
        let headers = ip::header_len(ends.there.ip()) + smoltcp::wire::TCP_HEADER_LEN;
        u16::try_from(self.mtu.saturating_sub(headers)).unwrap_or(u16::MAX)
    }

    fn refuse(&mut self, segment: &TcpRepr<'_>, ends: &Ends) {
        if let Some(reset) = reset_for(segment) {
            let (here, there) = ends.addresses();
            let mut packet = vec![0; ip::header_len(there) + reset.header_len()];
            write_segment(&mut packet, here, there, &reset, |_| {});
            self.answer(packet);
        }
    }

    fn answer(&mut self, packet: Vec<u8>) {
        if self.answers.len() < ANSWERS {
            self.answers.push_back(packet);
        }
    }

    /// Puts a connection on the list of those that may have something to send, or something for who waits.
    fn touch(&mut self, cell: &Arc<TcpCell>, mut state: MutexGuard<'_, TcpState>) {
        if !std::mem::replace(&mut state.is_listed, true) {
            self.active.push_back(Arc::clone(cell));
        }
    }

    fn take_datagram(&mut self, packet: &Packet<'_>, now: Instant) {
        let Ok(datagram) = UdpPacket::new_checked(packet.payload) else { return };
        let (from, to) = (IpAddress::from(packet.from), IpAddress::from(packet.to));
        if self.checksums.udp.rx() && !datagram.verify_checksum(&from, &to) {
            return;
        }
        let ends = Ends {
            here: SocketAddr::new(packet.to, datagram.dst_port()),
            there: SocketAddr::new(packet.from, datagram.src_port()),
        };
        if ends.here.port() == 0 || ends.there.port() == 0 {
            return;
        }
        if let Some(cell) = self.udp.get(&ends) {
            cell.deliver(datagram.payload(), now);
            return;
        }
        let Some((place, memory)) = self.admit(ends.there.ip()) else { return };
        let Ok(permit) = self.arrivals.clone().try_reserve_owned() else { return };
        let cell = UdpCell::new(ends, Arc::clone(&self.mailbox), memory, place);
        cell.deliver(datagram.payload(), now);
        self.udp.insert(ends, Arc::clone(&cell));
        permit.send(Incoming::Udp(UdpFlow::new(cell, false)));
    }

    /// A router says that a packet of ours did not get through.
    fn take_trouble(&mut self, trouble: &Trouble) {
        let ends = Ends { here: trouble.from, there: trouble.to };
        match trouble.protocol {
            IpProtocol::Tcp => {
                let Some(cell) = self.tcp.get(&ends).cloned() else { return };
                let mut state = cell.lock();
                if !state.connection.is_in_flight(trouble.number) {
                    return;
                }
                match trouble.kind {
                    Kind::TooLarge { mtu } => {
                        let least = if ends.there.is_ipv4() { NARROWEST.0 } else { NARROWEST.1 };
                        let headers = ip::header_len(ends.there.ip()) + smoltcp::wire::TCP_HEADER_LEN;
                        state.connection.shrink_segment((mtu.max(least) - headers) as u32);
                    }
                    // Of an open connection nobody else may say that it is at its end.
                    Kind::Unreachable if state.connection.phase() == Phase::Asking => {
                        state.connection.fail(Failure::Unreachable);
                    }
                    Kind::Unreachable => {}
                }
                self.touch(&cell, state);
            }
            IpProtocol::Udp if trouble.kind == Kind::Unreachable => {
                if let Some(cell) = self.udp.remove(&ends) {
                    cell.end();
                }
            }
            _ => {}
        }
    }

    /// Does what owners ask for; false if that is to stop.
    pub(crate) fn take_mail(&mut self, now: Instant) -> bool {
        self.active.extend(self.mailbox.take_kicked());
        for command in self.mailbox.take_commands() {
            match command {
                Command::Connect(from, to, reply) => {
                    let _ = reply.send(self.connect(from, to, now));
                }
                Command::OpenUdp(from, to, reply) => {
                    let _ = reply.send(self.open_udp(from, to));
                }
                Command::EndUdp(cell) => {
                    if self.udp.get(&cell.ends).is_some_and(|known| Arc::ptr_eq(known, &cell)) {
                        self.udp.remove(&cell.ends);
                    }
                }
                Command::RefuseUdp(ends, first) => self.refuse_udp(ends, &first),
                Command::Cut(address) => self.cut(address),
                Command::Stop => return false,
            }
        }
        true
    }

    fn connect(&mut self, from: SocketAddr, to: SocketAddr, now: Instant) -> io::Result<Arc<TcpCell>> {
        let ends = free_ends(&self.tcp, from, to)?;
        let (place, memory) = self.admit(to.ip()).ok_or_else(no_place)?;
        let connection = Connection::asking(&self.settings, memory, self.own_segment(ends), now);
        let cell = TcpCell::new(ends, Arc::clone(&self.mailbox), connection, place);
        self.tcp.insert(ends, Arc::clone(&cell));
        self.touch(&cell, cell.lock());
        Ok(cell)
    }

    fn open_udp(&mut self, from: SocketAddr, to: SocketAddr) -> io::Result<Arc<UdpCell>> {
        let ends = free_ends(&self.udp, from, to)?;
        let (place, memory) = self.admit(to.ip()).ok_or_else(no_place)?;
        let cell = UdpCell::new(ends, Arc::clone(&self.mailbox), memory, place);
        self.udp.insert(ends, Arc::clone(&cell));
        Ok(cell)
    }

    fn refuse_udp(&mut self, ends: Ends, first: &Bytes) {
        let (here, there) = ends.addresses();
        let payload = udp_header(ends.there.port(), ends.here.port(), first);
        let packet =
            Packet { from: there, to: here, protocol: IpProtocol::Udp, payload: &payload, fragment: None };
        self.answer(icmp::unreachable(&packet));
    }

    fn cut(&mut self, address: IpAddr) {
        let of_it: Vec<_> =
            self.tcp.values().filter(|cell| cell.ends.there.ip() == address).cloned().collect();
        for cell in of_it {
            self.abort(&cell);
        }
        self.udp.retain(|ends, cell| {
            let stays = ends.there.ip() != address;
            if !stays {
                cell.end();
            }
            stays
        });
    }

    fn abort(&mut self, cell: &Arc<TcpCell>) {
        let mut state = cell.lock();
        state.connection.abort(Failure::Aborted);
        self.touch(cell, state);
    }

    /// The stack ends.
    pub(crate) fn abort_all(&mut self) {
        for cell in self.tcp.values().cloned().collect::<Vec<_>>() {
            self.abort(&cell);
            // The device may take nothing more, and nobody may be left waiting.
            let wakers = cell.lock().take_wakers();
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
        for (_, cell) in self.udp.drain() {
            cell.end();
        }
    }

    /// When something is to be done without anybody asking.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let next = self.schedule.first().map(|(at, _)| *at);
        let is_idle = self.tcp.is_empty() && self.udp.is_empty();
        let sweep = (!is_idle).then_some(self.swept + SWEEP);
        next.into_iter().chain(sweep).min()
    }

    /// Whether something could be sent that was left for others to have their turn.
    pub(crate) fn has_more(&self) -> bool {
        !self.active.is_empty() || !self.answers.is_empty() || self.mailbox.has_datagrams()
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant) {
        while let Some((at, ends)) = self.schedule.first().copied() {
            if at > now {
                break;
            }
            self.schedule.pop_first();
            let Some(cell) = self.tcp.get(&ends).cloned() else { continue };
            let mut state = cell.lock();
            if state.scheduled != Some(at) {
                // Of an earlier connection with the same ends.
                continue;
            }
            state.scheduled = None;
            if state.connection.deadline().is_some_and(|deadline| deadline <= now) {
                state.connection.tick(now);
                self.touch(&cell, state);
            } else {
                self.plan(&cell, &mut state);
            }
        }
        if now.saturating_duration_since(self.swept) >= SWEEP {
            self.sweep(now);
        }
    }

    /// The way is there again: what waits longer and longer for it need not.
    pub(crate) fn nudge(&mut self, now: Instant) {
        if self.nudged.is_some_and(|last| now.saturating_duration_since(last) < NUDGE) {
            return;
        }
        self.nudged = Some(now);
        let waiting: Vec<_> =
            self.tcp.values().filter(|cell| cell.lock().connection.nudge(now)).cloned().collect();
        for cell in waiting {
            self.touch(&cell, cell.lock());
        }
    }

    /// Sees to it that the connection is looked at when it has something to do.
    fn plan(&mut self, cell: &Arc<TcpCell>, state: &mut TcpState) {
        let Some(deadline) = state.connection.deadline() else { return };
        if state.scheduled.is_none_or(|scheduled| deadline < scheduled) {
            if let Some(scheduled) = state.scheduled.replace(deadline) {
                self.schedule.remove(&(scheduled, cell.ends));
            }
            self.schedule.insert((deadline, cell.ends));
        }
    }

    /// What is at rest gives back what it holds.
    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        self.last = None;
        self.fragments.relax(now);
        for cell in self.tcp.values() {
            cell.lock().connection.relax();
        }
        while self.lingering.front().is_some_and(|cell| cell.lock().connection.is_done()) {
            self.lingering.pop_front();
        }
        self.udp.retain(|_, cell| {
            let stays = !cell.is_idle(now, self.udp_idle);
            if !stays {
                cell.end();
            }
            stays
        });
    }

    /// Sends what there is to send, as far as the device takes it and everybody has had a turn.
    pub(crate) fn send<D: Device>(&mut self, device: &mut D, now: Instant) {
        while device.has_room() {
            let Some(answer) = self.answers.pop_front() else { break };
            device.send(answer.len(), |packet| packet.copy_from_slice(&answer));
        }
        while device.has_room() {
            let Some((ends, datagram)) = self.mailbox.take_datagram() else { break };
            self.send_datagram(device, ends, &datagram);
        }
        for _ in 0..self.active.len() {
            if !device.has_room() {
                break;
            }
            let Some(cell) = self.active.pop_front() else { break };
            let mut state = cell.lock();
            state.is_listed = false;
            let mut left = TURN;
            while left > 0 && device.has_room() {
                let Some(outgoing) = state.connection.next_segment(now) else { break };
                send_segment(device, &cell.ends, &state.connection, outgoing);
                left -= 1;
            }
            if left == 0 || !device.has_room() {
                state.is_listed = true;
                self.active.push_back(Arc::clone(&cell));
            }
            self.plan(&cell, &mut state);
            let is_done = state.connection.is_done();
            // It takes no place from those that are still of use.
            let lingers = state.connection.phase() == Phase::Lingering && state.place.take().is_some();
            // Once for all that came together.
            let wakers = state.take_wakers();
            drop(state);
            wakers.into_iter().flatten().for_each(Waker::wake);
            if is_done {
                self.forget(&cell);
            } else if lingers {
                self.linger(cell);
            }
        }
    }

    fn send_datagram<D: Device>(&mut self, device: &mut D, ends: Ends, datagram: &[u8]) {
        let (here, there) = ends.addresses();
        let header = ip::header_len(there);
        let mut payload = udp_header(ends.here.port(), ends.there.port(), datagram);
        UdpPacket::new_unchecked(&mut payload[..]).fill_checksum(&here.into(), &there.into());
        if header + payload.len() <= self.mtu {
            device.send(header + payload.len(), |packet| {
                packet[header..].copy_from_slice(&payload);
                ip::write_header(packet, here, there, IpProtocol::Udp);
            });
            return;
        }
        self.fragment_id = self.fragment_id.wrapping_add(1);
        let parts = fragments::split(here, there, IpProtocol::Udp, self.fragment_id, &payload, self.mtu);
        for part in parts {
            device.send(part.len(), |packet| packet.copy_from_slice(&part));
        }
    }

    fn linger(&mut self, cell: Arc<TcpCell>) {
        self.lingering.push_back(cell);
        if self.lingering.len() > LINGERING
            && let Some(oldest) = self.lingering.pop_front()
        {
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, cell: &Arc<TcpCell>) {
        if self.tcp.get(&cell.ends).is_some_and(|known| Arc::ptr_eq(known, cell)) {
            self.tcp.remove(&cell.ends);
            if let Some(scheduled) = cell.lock().scheduled.take() {
                self.schedule.remove(&(scheduled, cell.ends));
            }
        }
        self.last.take_if(|last| Arc::ptr_eq(last, cell));
    }
}
