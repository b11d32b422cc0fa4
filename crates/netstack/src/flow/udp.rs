//! Datagrams between two addresses, as their owner has them.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use causeway_base::Share;
use causeway_base::lock::lock;

use super::Ends;
use crate::engine::{Command, Mailbox};
use crate::tcp::Memory;

/// Datagrams that wait to be read; further ones are dropped.
const WAITING: usize = 256;
/// The largest that IP carries.
const LONGEST: usize = 65_507;

/// What owner and engine share.
pub(crate) struct UdpCell {
    pub ends: Ends,
    mailbox: Arc<Mailbox>,
    state: Mutex<UdpState>,
    _place: Share<IpAddr>,
}

struct UdpState {
    waiting: VecDeque<Bytes>,
    memory: Memory,
    reader: Option<Waker>,
    moved: Instant,
    ended: bool,
}

impl UdpCell {
    pub(crate) fn new(ends: Ends, mailbox: Arc<Mailbox>, memory: Memory, place: Share<IpAddr>) -> Arc<Self> {
        let state =
            UdpState { waiting: VecDeque::new(), memory, reader: None, moved: Instant::now(), ended: false };
        Arc::new(Self { ends, mailbox, state: Mutex::new(state), _place: place })
    }

    fn lock(&self) -> MutexGuard<'_, UdpState> {
        lock(&self.state)
    }

    /// A datagram came.
    pub(crate) fn deliver(&self, datagram: &[u8], now: Instant) {
        let mut state = self.lock();
        state.moved = now;
        if state.waiting.len() < WAITING && !state.ended && state.memory.grow_by(datagram.len()) {
            state.waiting.push_back(Bytes::copy_from_slice(datagram));
            let reader = state.reader.take();
            drop(state);
            reader.into_iter().for_each(Waker::wake);
        }
    }

    /// Nothing more will come.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    /// Whether nothing moved for so long.
    pub(crate) fn is_idle(&self, now: Instant, limit: Duration) -> bool {
        now.saturating_duration_since(self.lock().moved) >= limit
    }
}

/// Datagrams between two addresses. It ends when nothing moved for a while; dropped, what comes later is a new flow.
pub struct UdpFlow {
    cell: Arc<UdpCell>,
    is_outgoing: bool,
}

impl UdpFlow {
    pub(crate) fn new(cell: Arc<UdpCell>, is_outgoing: bool) -> Self {
        Self { cell, is_outgoing }
    }

    /// The address of who opened it.
    pub fn from(&self) -> SocketAddr {
        if self.is_outgoing { self.cell.ends.here } else { self.cell.ends.there }
    }

    /// The address that it was opened to.
    pub fn to(&self) -> SocketAddr {
        if self.is_outgoing { self.cell.ends.there } else { self.cell.ends.here }
    }

    /// The next datagram; none when the flow has ended.
    pub async fn receive(&self) -> Option<Bytes> {
        std::future::poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// The same for who polls.
    pub fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.cell.lock();
        if let Some(datagram) = state.waiting.pop_front() {
            state.memory.shrink_by(datagram.len());
            return Poll::Ready(Some(datagram));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Sends a datagram. One that is too large for IP, or for which there is no room, is lost, as datagrams are.
    pub fn send(&self, datagram: &[u8]) {
        if datagram.len() <= LONGEST {
            self.cell.lock().moved = Instant::now();
            self.cell.mailbox.send_datagram(self.cell.ends, Bytes::copy_from_slice(datagram));
        }
    }

    /// Tells the client that nobody takes its datagrams there, as a host does where nobody listens.
    pub fn refuse(self) {
        let first = self.cell.lock().waiting.pop_front();
        self.cell.mailbox.command(Command::RefuseUdp(self.cell.ends, first.unwrap_or_default()));
    }
}

impl Drop for UdpFlow {
    fn drop(&mut self) {
        self.cell.mailbox.command(Command::EndUdp(Arc::clone(&self.cell)));
    }
}

impl fmt::Debug for UdpFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpFlow").field("from", &self.from()).field("to", &self.to()).finish()
    }
}

/// A datagram with its header and without its checksum.
pub(crate) fn header(from: u16, to: u16, datagram: &[u8]) -> Vec<u8> {
    let length = 8 + datagram.len();
    let mut bytes = Vec::with_capacity(length);
    bytes.extend(from.to_be_bytes());
    bytes.extend(to.to_be_bytes());
    bytes.extend((length as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend_from_slice(datagram);
    bytes
}
