//! The thread of a server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use causeway_base::lock::lock;
use causeway_ir::dhcp::{DhcpPlan, hex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::advertiser::Advertiser;
use super::clock::{Clock, now};
use super::outbox::{Destination, Outbox, Reply, V6_CLIENT_PORT, V6_RELAY_PORT};
use super::probe::{LOOK, Probes};
use super::status::{Status, Strangers};
use super::writer::{Done, Writer};
use super::{Order, Orders, Sockets, StartError, interface, socket};
use crate::clients::Clients;
use crate::lease::{Lease, Seconds};
use crate::metrics::Metrics;
use crate::store::Store;
use crate::table::Table;
use crate::v4::answer::{Answerer, Outcome, Silence};
use crate::v4::message::Message;
use crate::v6;

/// Messages that are taken before it is looked whether leases are on disk.
const GROUP: usize = 32;
/// Leases that wait for the disk at most; what comes then waits in the sockets.
const MOST_WAITING: usize = 4096;
/// Who hears nothing for longer than this may have missed what other servers prolonged.
const DEAF: Duration = Duration::from_secs(5);
/// How often others are told how things are.
const REPORT: Duration = Duration::from_secs(1);
/// Of the time at most one part of so many goes into counting leases, however many there are.
const REPORT_PART: u32 = 500;
const LARGEST: usize = 2048;

/// All that the thread has.
pub(super) struct Running {
    plan: DhcpPlan,
    sockets: Sockets,
    writer: Writer,
    clock: Clock,
    v4: Answerer,
    /// None for a plan without IPv6.
    v6: Option<v6::answer::Answerer>,
    /// Leases of networks that the plan no longer has. It may have them again before their time is over.
    retired: Vec<Lease>,
    advertiser: Advertiser,
    clients: Clients,
    probes: Probes,
    strangers: Strangers,
    metrics: Metrics,
    status: Arc<Mutex<Status>>,
    store_error: Option<String>,
    revision: u64,
    changes: Vec<Lease>,
    outbox: Outbox,
    /// When others are told again, and how long that is after the last time.
    report_at: Instant,
    pause: Duration,
    /// When the interface was fine last.
    heard: Seconds,
}

impl Running {
    pub(super) fn new(
        plan: DhcpPlan,
        mut store: Store,
        mut leases: Vec<Lease>,
        metrics: Metrics,
        status: Arc<Mutex<Status>>,
    ) -> Result<Self, StartError> {
        if plan.replica.is_some() {
            let held = hold(&mut leases, store.written(), now() + plan.lease_time.get().as_secs());
            store.commit(&held).map_err(StartError::System)?;
        }
        let own = interface::addresses(&plan.interface);
        let (mut v4, mut v6) = (Answerer::new(&plan, &own), v6::answer::Answerer::new(&plan, &own));
        let retired = place(leases, &mut v4, &mut v6, now());
        let mut running = Self {
            sockets: Sockets::open(&plan)?,
            clients: Clients::new(&plan),
            plan,
            writer: Writer::start(store).map_err(StartError::System)?,
            clock: Clock::new(),
            v4,
            v6,
            retired,
            advertiser: Advertiser::new(),
            probes: Probes::default(),
            strangers: Strangers::default(),
            metrics,
            status,
            store_error: None,
            revision: 0,
            changes: Vec::new(),
            outbox: Outbox::default(),
            report_at: Instant::now(),
            pause: REPORT,
            heard: now(),
        };
        running.report();
        Ok(running)
    }

    /// Serves until it is told to stop.
    pub(super) fn run(&mut self, orders: &Orders) {
        let mut buffer = [0; LARGEST];
        loop {
            self.wait(orders);
            if !self.obey(orders) {
                return;
            }
            if let Some(by) = self.clock.was_set() {
                self.shift(by);
            }
            self.finish_commit();
            self.commit();
            let now = now();
            self.take_v4(&mut buffer, now);
            self.take_v6(&mut buffer, now);
            self.finish_probes(now);
            self.commit();
            self.advertiser.advertise(&self.plan, &self.sockets, &mut buffer);
            self.report();
        }
    }

    fn wait(&self, orders: &Orders) {
        let timeout =
            if self.probes.is_empty() { REPORT.min(self.advertiser.pause(&self.sockets)) } else { LOOK };
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let sockets = &self.sockets;
        let clients = [Some(&sockets.v4), sockets.v6.as_ref()].into_iter().filter(|_| !self.is_full());
        let further = clients.chain([sockets.solicitations.as_ref()]).flatten();
        let all = [orders.woken.as_fd(), self.writer.fd()].into_iter().chain(further.map(AsFd::as_fd));
        let mut all: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // A signal is a reason to look as well.
        let _ = poll(&mut all, Some(&timeout));
    }

    /// False when the server is to end.
    fn obey(&mut self, orders: &Orders) -> bool {
        use std::io::Read as _;
        let mut sink = [0; 64];
        while (&orders.woken).read(&mut sink).is_ok_and(|read| read > 0) {}
        while let Ok(order) = orders.order_rx.try_recv() {
            match order {
                Order::Stop => return false,
                Order::Plan(plan, done_tx) => {
                    let _ = done_tx.send(self.change(*plan));
                }
                Order::Leases(leases_tx) => {
                    let _ = leases_tx.send(self.leases().cloned().collect());
                }
            }
        }
        true
    }

    fn change(&mut self, plan: DhcpPlan) -> Result<(), StartError> {
        Advertiser::leave(&self.plan, &plan, &self.sockets);
        self.advertiser = Advertiser::new();
        self.sockets.change(&self.plan, &plan)?;
        self.clients = Clients::new(&plan);
        self.plan = plan;
        let leases = self.all();
        self.place(leases);
        self.revision += 1;
        self.report_at = Instant::now();
        self.report();
        Ok(())
    }

    /// Follows the time, which was set by so much: clients do not hear of that.
    fn shift(&mut self, by: i64) {
        tracing::warn!(seconds = by, "the time was set; leases are moved with it");
        let mut leases = self.all();
        self.changes.extend(shift(&mut leases, now(), by));
        self.heard = self.heard.saturating_add_signed(by);
        self.place(leases);
    }

    /// Notes that the interface is fine. After a time without that, others may have prolonged what is ours.
    fn hears(&mut self) {
        let now = now();
        if self.plan.replica.is_some() && now > self.heard + (DEAF + self.pause).as_secs() {
            let mut leases = self.all();
            let held = hold(&mut leases, self.heard, now + self.plan.lease_time.get().as_secs());
            self.changes.extend(held);
            self.place(leases);
        }
        self.heard = now;
    }

    fn all(&self) -> Vec<Lease> {
        self.leases().chain(&self.retired).cloned().collect()
    }

    /// Begins anew with these leases.
    fn place(&mut self, leases: Vec<Lease>) {
        let own = interface::addresses(&self.plan.interface);
        self.v4 = Answerer::new(&self.plan, &own);
        self.v6 = v6::answer::Answerer::new(&self.plan, &own);
        self.retired = place(leases, &mut self.v4, &mut self.v6, now());
    }

    /// Whether so much waits for the disk that nothing more is taken.
    fn is_full(&self) -> bool {
        self.writer.is_busy() && self.changes.len() >= MOST_WAITING
    }

    /// Opens the sockets anew if the interface was removed and made again; says what is wrong with it.
    fn look_at_interface(&mut self) -> Option<String> {
        let name = self.plan.interface.as_str();
        if socket::index(name).is_ok_and(|index| index != self.sockets.index) {
            match Sockets::open(&self.plan) {
                Ok(sockets) => self.sockets = sockets,
                Err(error) => return Some(error.to_string()),
            }
        }
        interface::trouble(name, self.plan.server)
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.v4.tables().chain(self.v6.as_ref().map(v6::answer::Answerer::table))
    }

    fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.tables().flat_map(Table::leases)
    }

    fn take_v4(&mut self, buffer: &mut [u8], now: Seconds) {
        for _ in 0..GROUP {
            if self.is_full() {
                return;
            }
            match socket::receive(&self.sockets.v4, buffer) {
                Ok((length, to)) => self.answer_v4(&buffer[..length], to, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // What an earlier reply met, such as a client that is gone.
                Err(error) => tracing::debug!(%error, "a datagram could not be taken"),
            }
        }
    }

    fn answer_v4(&mut self, bytes: &[u8], to: Option<Ipv4Addr>, now: Seconds) {
        let mut message = match Message::parse(bytes) {
            Ok(message) => message,
            Err(error) => {
                tracing::debug!(%error, "not a message of a client");
                self.metrics.silent(name(Silence::Malformed));
                return;
            }
        };
        message.is_direct = to == Some(self.plan.server);
        self.metrics.received(message.kind.name());
        self.answer_again(&message, bytes, now);
    }

    fn answer_again(&mut self, message: &Message<'_>, bytes: &[u8], now: Seconds) {
        let mut out = self.outbox.buffer();
        let before = self.changes.len();
        let mut outcome = self.v4.answer(message, &self.clients, now, &mut out, &mut self.changes);
        if let Outcome::Probe(address) = outcome {
            let hardware = message.hardware().1;
            // Behind a relay nobody answers to ARP, and who does not answer to a datagram need not be away.
            let is_here = self.plan.network.contains(&address);
            if is_here && self.probes.begin(address, &self.plan.interface, self.plan.probe, hardware, bytes) {
                return;
            }
            if is_here {
                self.metrics.unprobed.inc();
            }
            self.v4.probed(address, None, now, &mut self.changes);
            outcome = self.v4.answer(message, &self.clients, now, &mut out, &mut self.changes);
        }
        match outcome {
            Outcome::Reply(kind, to) => {
                let reply = Reply { bytes: out, to: Destination::V4(to), message: kind.name() };
                self.send_in_time(reply, self.changes.len() != before);
            }
            Outcome::Silent(why) => {
                self.metrics.silent(name(why));
                if why == Silence::UnknownClient {
                    self.strangers.saw(message.hardware().1, now);
                }
                self.outbox.give_back(out);
            }
            Outcome::Probe(_) => self.outbox.give_back(out),
        }
    }

    fn take_v6(&mut self, buffer: &mut [u8], now: Seconds) {
        for _ in 0..GROUP {
            let Some(socket) = self.sockets.v6.as_ref().filter(|_| !self.is_full()) else { return };
            match socket.recv_from(buffer) {
                Ok((length, SocketAddr::V6(from))) => self.answer_v6(&buffer[..length], from, now),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => tracing::debug!(%error, "a datagram could not be taken"),
            }
        }
    }

    fn answer_v6(&mut self, bytes: &[u8], from: SocketAddrV6, now: Seconds) {
        let Some(answerer) = &mut self.v6 else { return };
        let mut out = self.outbox.buffer();
        let before = self.changes.len();
        match answerer.answer(bytes, *from.ip(), &self.clients, now, &mut out, &mut self.changes) {
            v6::answer::Outcome::Reply { asked, answer, relayed } => {
                self.metrics.received(asked);
                let mut to = from;
                to.set_port(if relayed { V6_RELAY_PORT } else { V6_CLIENT_PORT });
                let reply = Reply { bytes: out, to: Destination::V6(to), message: answer };
                self.send_in_time(reply, self.changes.len() != before);
            }
            v6::answer::Outcome::Silent { asked, why, hardware } => {
                if let Some(asked) = asked {
                    self.metrics.received(asked);
                }
                self.metrics.silent(name(why));
                if why == Silence::UnknownClient {
                    self.strangers.saw(&hardware, now);
                }
                self.outbox.give_back(out);
            }
        }
    }

    /// Sends a reply at once, or when the lease in it is on disk.
    fn send_in_time(&mut self, reply: Reply, has_lease: bool) {
        if has_lease {
            self.outbox.keep(reply);
        } else {
            self.send(reply);
        }
    }

    fn finish_probes(&mut self, now: Seconds) {
        for probed in self.probes.over(&self.plan.interface) {
            if let Some(card) = &probed.user {
                tracing::warn!(address = %probed.address, card = hex(card), "somebody uses an address that nobody has leased; it is left alone for a while");
                self.metrics.conflicts.inc();
            }
            self.v4.probed(probed.address, probed.user.as_deref(), now, &mut self.changes);
            if let Ok(message) = Message::parse(&probed.message) {
                self.answer_again(&message, &probed.message, now);
            }
        }
    }

    /// Has all leases of the group made durable, once the group before is.
    fn commit(&mut self) {
        if self.writer.is_busy() || self.changes.is_empty() {
            return;
        }
        self.writer.commit(std::mem::take(&mut self.changes), self.outbox.take());
        self.revision += 1;
    }

    /// Tells the clients of a group that is on disk.
    fn finish_commit(&mut self) {
        match self.writer.done() {
            None => {}
            Some(Done::Rewritten(Ok(()))) => self.store_error = None,
            Some(Done::Rewritten(Err(error))) => {
                tracing::warn!(%error, "the leases could not be written anew; it will be tried again later");
            }
            Some(Done::Committed { result, replies, wants_rewrite }) => {
                self.metrics.commits.inc();
                match &result {
                    Ok(()) => replies.into_iter().for_each(|reply| self.send(reply)),
                    // Who is not told asks again, or asks another server.
                    Err(error) => {
                        self.metrics.commit_errors.inc();
                        tracing::error!(%error, "leases could not be written; their clients are not told");
                    }
                }
                self.store_error = result.err().map(|error| error.to_string());
                if wants_rewrite {
                    let leases = self.all();
                    self.writer.rewrite(leases);
                }
            }
        }
    }

    fn send(&mut self, reply: Reply) {
        self.outbox.send(reply, &self.sockets, self.plan.server, &self.metrics);
    }

    /// Says how things are, if it is time to.
    fn report(&mut self) {
        let began = Instant::now();
        if began < self.report_at {
            return;
        }
        let trouble = self.look_at_interface();
        if trouble.is_none() {
            self.hears();
        }
        let lost = "the thread that writes them has ended; start the server again";
        let error = self.writer.is_lost().then_some(lost).or(self.store_error.as_deref());
        let written = error.map(|error| format!("leases can't be written: {error}"));
        let mut status = Status {
            problem: written.or(trouble),
            revision: self.revision,
            unicast: self.sockets.card.is_some(),
            advertises: self.sockets.solicitations.is_some() && self.sockets.card.is_some(),
            unknown: self.strangers.list(),
            ..Status::default()
        };
        status.count(self.tables(), now());
        for (what, number) in
            [("active", status.active), ("free", status.free), ("declined", status.declined)]
        {
            self.metrics.leases.get_or_create(&[("state", what)]).set(number.try_into().unwrap_or(i64::MAX));
        }
        *lock(&self.status) = status;
        self.pause = REPORT.max(began.elapsed() * REPORT_PART);
        self.report_at = Instant::now() + self.pause;
    }
}

/// Hands leases to those who know their networks, those that end last as the last; returns those of no network whose time is
/// not over.
fn place(
    mut leases: Vec<Lease>,
    v4: &mut Answerer,
    v6: &mut Option<v6::answer::Answerer>,
    now: Seconds,
) -> Vec<Lease> {
    leases.sort_by_key(|lease| lease.until);
    let left = leases.into_iter().filter_map(|lease| v4.load(lease));
    let left = left.filter_map(|lease| match v6 {
        Some(v6) => v6.load(lease),
        None => Some(lease),
    });
    left.filter(|lease| lease.until > now).collect()
}

/// Keeps leases that were active when the server ended for their clients: another server may have prolonged them since.
/// Until a lease's time has passed, all of those have asked again, and this server has heard it. Returns what has changed.
fn hold(leases: &mut [Lease], ended: Seconds, until: Seconds) -> Vec<Lease> {
    let active = leases.iter_mut().filter(|lease| lease.is_active(ended) && lease.until < until);
    active
        .map(|lease| {
            lease.until = until;
            lease.clone()
        })
        .collect()
}

/// Moves what was not over before the time was set by so much to be `now`. Returns what has changed.
fn shift(leases: &mut [Lease], now: Seconds, by: i64) -> Vec<Lease> {
    let before = now.saturating_add_signed(by.saturating_neg());
    let running = leases.iter_mut().filter(|lease| lease.until > before);
    running
        .map(|lease| {
            lease.until = lease.until.saturating_add_signed(by);
            lease.clone()
        })
        .collect()
}

fn name(why: Silence) -> &'static str {
    match why {
        Silence::Done => "done",
        Silence::Malformed => "malformed",
        Silence::OtherServer => "other_server",
        Silence::UnknownClient => "unknown_client",
        Silence::UnknownNetwork => "unknown_network",
        Silence::Exhausted => "exhausted",
        Silence::UnknownLease => "unknown_lease",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::State;

    fn lease(until: Seconds) -> Lease {
        let empty = Box::from([]);
        let address = Ipv4Addr::LOCALHOST.into();
        Lease { address, state: State::Leased, until, client: Box::from([]), hardware: empty, hostname: None }
    }

    #[test]
    fn leases_move_with_a_time_that_is_set() {
        // It was 1000, and is 8200 at once: who had 500 seconds left has them still.
        let mut leases = [lease(1500), lease(1000)];
        assert_eq!(shift(&mut leases, 8200, 7200), [lease(8700)]);
        assert_eq!(leases, [lease(8700), lease(1000)], "what was over stays so");
        assert_eq!(shift(&mut leases, 1000, -7200), [lease(1500)]);
    }

    #[test]
    fn a_client_has_what_it_got_last() {
        let plan = "interface: net1\nserver: 10.0.0.2\nnetwork: 10.0.0.0/24\npool: {first: 10.0.0.5, last: 10.0.0.9}\n";
        let plan: DhcpPlan = serde_saphyr::from_str(plan).unwrap();
        let of = |last, state, until| Lease {
            address: Ipv4Addr::new(10, 0, 0, last).into(),
            state,
            client: Box::from(*b"c"),
            ..lease(until)
        };
        let (before, now) = (of(5, State::Released, 100), of(6, State::Leased, 4000));
        for leases in [vec![before.clone(), now.clone()], vec![now, before]] {
            let mut v4 = Answerer::new(&plan, &[]);
            place(leases, &mut v4, &mut None, 200);
            let own = v4.tables().next().and_then(|table| table.address_of(b"c"));
            assert_eq!(own, Some(u32::from(Ipv4Addr::new(10, 0, 0, 6)).into()));
        }
    }

    #[test]
    fn leases_that_others_may_have_prolonged_are_held() {
        let mut leases = [lease(1500), lease(900), lease(9000)];
        assert_eq!(hold(&mut leases, 1000, 5000), [lease(5000)]);
        assert_eq!(leases, [lease(5000), lease(900), lease(9000)]);
    }
}
