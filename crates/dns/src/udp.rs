//! Datagrams: a thread per core with a socket of its own, which takes and sends many at a call.

use std::array;
use std::io::{IoSlice, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{in_pktinfo, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, RecvMsg, SockaddrStorage, recvmmsg,
    sendmmsg, sendmsg,
};
use tokio::sync::watch;

use crate::answer::{Asker, Desk, Outcome, answer};
use crate::clock::Moment;
use crate::forward;
use crate::limiter::Limiter;
use crate::socket;
use crate::table::Table;
use crate::wire::DATAGRAM;

/// Datagrams at a call.
const BATCH: usize = 64;
/// The longest question; options may make it longer than most. Not a power of two, or the beginnings of all of them would
/// compete for the same few lines of the processor's cache.
const QUESTION: usize = 2048 + 64;

/// A socket of a worker.
pub(crate) struct Socket {
    fd: OwnedFd,
    /// Whether it is for every address of the host.
    any: bool,
    ipv4: bool,
    stopped: AtomicBool,
}

/// Where a datagram was sent to, and so where its answer comes from.
#[derive(Clone, Copy)]
enum Local {
    /// The address that the socket has.
    Bound,
    V4(in_pktinfo),
    V6(in6_pktinfo),
}

impl Local {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bound, Self::Bound) => true,
            (Self::V4(a), Self::V4(b)) => a.ipi_spec_dst.s_addr == b.ipi_spec_dst.s_addr,
            (Self::V6(a), Self::V6(b)) => {
                a.ipi6_addr.s6_addr == b.ipi6_addr.s6_addr && a.ipi6_ifindex == b.ipi6_ifindex
            }
            _ => false,
        }
    }

    /// Calls with the control message that says it.
    fn with<T>(&self, send: impl FnOnce(&[ControlMessage<'_>]) -> T) -> T {
        match self {
            Self::Bound => send(&[]),
            Self::V4(info) => send(&[ControlMessage::Ipv4PacketInfo(info)]),
            Self::V6(info) => send(&[ControlMessage::Ipv6PacketInfo(info)]),
        }
    }
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd, bind: IpAddr) -> Self {
        Self { fd, any: bind.is_unspecified(), ipv4: bind.is_ipv4(), stopped: AtomicBool::new(false) }
    }

    /// Ends the worker that waits here.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        socket::wake(&self.fd);
    }

    fn headers(&self) -> MultiHeaders<SockaddrStorage> {
        let space = match (self.any, self.ipv4) {
            (false, _) => None,
            (true, true) => Some(cmsg_space!(in_pktinfo)),
            (true, false) => Some(cmsg_space!(in6_pktinfo)),
        };
        MultiHeaders::preallocate(BATCH, space)
    }

    /// Sends one answer; one that can't be sent is lost, as on any network.
    fn send(&self, packet: &[u8], to: &SockaddrStorage, from: &Local) {
        let sent = from.with(|cmsgs| {
            sendmsg(self.fd.as_raw_fd(), &[IoSlice::new(packet)], cmsgs, MsgFlags::MSG_DONTWAIT, Some(to))
        });
        if let Err(error) = sent {
            tracing::debug!(%error, "an answer was not sent");
        }
    }
}

/// One core's part of a bind.
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) socket: Arc<Socket>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) table_rx: watch::Receiver<Arc<Table>>,
}

/// Answers that wait to be sent together; they stand in buffers of the same number.
struct Outbox {
    count: usize,
    lengths: [usize; BATCH],
    to: [Option<SockaddrStorage>; BATCH],
    from: [Local; BATCH],
}

impl Worker {
    /// Answers until the socket is stopped.
    pub(crate) fn run(self) {
        let (mut headers_in, mut headers_out) = (self.socket.headers(), self.socket.headers());
        let (mut inbound, mut outbound) = (buffers::<QUESTION>(), buffers::<DATAGRAM>());
        let mut outbox =
            Outbox { count: 0, lengths: [0; BATCH], to: [None; BATCH], from: [Local::Bound; BATCH] };
        let mut limiter = Limiter::new();
        loop {
            let mut slices = inbound.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
            let fd = self.socket.fd.as_raw_fd();
            let received = recvmmsg(fd, &mut headers_in, slices.iter_mut(), MsgFlags::MSG_WAITFORONE, None);
            if self.socket.stopped.load(Relaxed) {
                return;
            }
            let received = match received {
                Ok(received) => received,
                Err(Errno::EINTR | Errno::EAGAIN | Errno::ECONNREFUSED) => continue,
                Err(error) => {
                    tracing::warn!(%error, "can't receive");
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    continue;
                }
            };
            // Not kept while there is nothing to do: it may be an old one by then.
            let table = Arc::clone(&self.table_rx.borrow());
            let now = Moment::now();
            outbox.count = 0;
            for message in received {
                self.take(&message, &table, now, &mut limiter, &mut outbox, &mut outbound[..]);
            }
            self.send(&mut headers_out, &outbox, &outbound);
        }
    }

    fn take(
        &self,
        message: &RecvMsg<'_, '_, SockaddrStorage>,
        table: &Arc<Table>,
        now: Moment,
        limiter: &mut Limiter,
        outbox: &mut Outbox,
        outbound: &mut [[u8; DATAGRAM]],
    ) {
        let (Some(to), Some(packet)) = (message.address, message.iovs().next()) else { return };
        let v4 = to.as_sockaddr_in().map(|to| IpAddr::V4(to.ip()));
        let Some(address) = v4.or_else(|| to.as_sockaddr_in6().map(|to| IpAddr::V6(to.ip()))) else { return };
        let from = if self.socket.any { destination(message) } else { Local::Bound };
        let asker = Asker { address, worker: self.number, udp: true };
        let out = &mut outbound[outbox.count];
        let outcome = match answer(&self.desk, table, asker, now, Some(limiter), packet, out) {
            Outcome::Forward => match table.forwarder.admit(address) {
                Some(waiting) => return self.forward(table, asker, packet.to_vec(), waiting, (to, from)),
                // Here and now: tasks without a bound would be memory without one.
                None => forward::decline(&self.desk, table, asker, now, packet, out),
            },
            outcome => outcome,
        };
        if let Outcome::Written(written) = outcome {
            outbox.lengths[outbox.count] = written.len;
            outbox.to[outbox.count] = Some(to);
            outbox.from[outbox.count] = from;
            outbox.count += 1;
        }
    }

    /// Answers when another resolver has.
    fn forward(
        &self,
        table: &Arc<Table>,
        asker: Asker,
        packet: Vec<u8>,
        waiting: forward::Waiting,
        (to, from): (SockaddrStorage, Local),
    ) {
        let (desk, table, socket) = (Arc::clone(&self.desk), Arc::clone(table), Arc::clone(&self.socket));
        let forwarder = Arc::clone(&table.forwarder);
        forwarder.spawn(async move {
            if let Some(reply) = forward::answer(&desk, &table, asker, &packet, waiting).await {
                socket.send(&reply, &to, &from);
            }
        });
    }

    fn send(
        &self,
        headers: &mut MultiHeaders<SockaddrStorage>,
        outbox: &Outbox,
        outbound: &[[u8; DATAGRAM]; BATCH],
    ) {
        let slices: [[IoSlice<'_>; 1]; BATCH] = array::from_fn(|i| {
            [IoSlice::new(&outbound[i][..if i < outbox.count { outbox.lengths[i] } else { 0 }])]
        });
        let mut start = 0;
        while start < outbox.count {
            // What is sent at a call comes from one address.
            let from = &outbox.from[start];
            let same =
                outbox.from[start..outbox.count].iter().take_while(|other| other.is_same(from)).count();
            let range = start..start + same;
            let fd = self.socket.fd.as_raw_fd();
            let sent = from.with(|cmsgs| {
                let sent = sendmmsg(
                    fd,
                    headers,
                    slices[range.clone()].iter(),
                    &outbox.to[range],
                    cmsgs,
                    MsgFlags::empty(),
                );
                sent.map(Iterator::count)
            });
            match sent {
                Ok(count) => start += count.max(1),
                // The first of them can't be sent; the others perhaps.
                Err(error) => {
                    tracing::debug!(%error, "an answer was not sent");
                    start += 1;
                }
            }
        }
    }
}

/// Room for as many datagrams as are taken at a call.
#[expect(clippy::unnecessary_box_returns, reason = "it is too large for a stack")]
fn buffers<const LENGTH: usize>() -> Box<[[u8; LENGTH]; BATCH]> {
    vec![[0; LENGTH]; BATCH].try_into().expect("as many as were made")
}

/// Where a datagram was sent to.
fn destination(message: &RecvMsg<'_, '_, SockaddrStorage>) -> Local {
    let Ok(messages) = message.cmsgs() else { return Local::Bound };
    for message in messages {
        match message {
            ControlMessageOwned::Ipv4PacketInfo(mut info) => {
                // The way back is the routing table's to choose.
                info.ipi_ifindex = 0;
                return Local::V4(info);
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => return Local::V6(info),
            _ => {}
        }
    }
    Local::Bound
}
