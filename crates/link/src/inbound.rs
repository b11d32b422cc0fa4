//! What comes over a link for one stream, and where it goes: to a socket at once, to whoever reads, or, datagram by
//! datagram, to a function. Only what can't go on at once is kept, at most one window.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::socket;
use crate::waiting::Waiting;
use crate::window::Window;

/// Where a stream's bytes go.
#[derive(Default)]
pub(crate) enum Sink {
    /// They wait to be read.
    #[default]
    Reader,
    /// Into a socket.
    Socket(Arc<TcpStream>),
    /// Whole datagrams to a function.
    Datagrams(crate::flow::Sink),
    /// Nowhere: the socket takes no more. What its peer said before is still to be read.
    Gone,
}

/// How a stream broke off. What came before is still delivered unless this end gave up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// This end gave up: the other one has to hear of it.
    Here,
    /// The other end gave up, and why if it said so.
    There(String),
    /// The link is gone.
    Lost,
}

/// The receiving half of a stream.
#[derive(Default)]
pub(crate) struct Inbound {
    pub(crate) sink: Sink,
    pub(crate) queue: VecDeque<u8>,
    /// What the queue takes of the process's memory.
    waiting: Waiting,
    pub(crate) window: Window,
    /// Nothing more will come.
    pub(crate) fin: bool,
    pub(crate) broken: Option<Broken>,
    /// A datagram of which only a part has come.
    datagram: Vec<u8>,
}

/// What became of a piece.
pub(crate) enum Delivery {
    /// So many bytes have gone on; the rest is kept.
    Taken(usize),
    /// The socket takes no more.
    Nowhere,
    /// It can't go on: the other end sends more than it may, or too much waits here already.
    Failed,
}

impl Inbound {
    pub(crate) fn new(sink: Sink, waiting: Waiting) -> Self {
        Self { sink, waiting, ..Self::default() }
    }

    /// Takes a piece; `last` ends its frame.
    pub(crate) fn deliver(&mut self, piece: &[u8], last: bool) -> Delivery {
        if self.broken.is_some() || self.fin {
            return Delivery::Taken(0);
        }
        let sent = match &self.sink {
            Sink::Datagrams(sink) => {
                if last && self.datagram.is_empty() {
                    sink(piece);
                } else {
                    self.datagram.extend_from_slice(piece);
                    if last {
                        sink(&std::mem::take(&mut self.datagram));
                    }
                }
                return Delivery::Taken(0);
            }
            Sink::Socket(socket) if self.queue.is_empty() => {
                let Ok(sent) = socket::send(socket, piece, !last) else {
                    self.lose_sink();
                    return Delivery::Nowhere;
                };
                sent
            }
            Sink::Gone => return Delivery::Taken(piece.len()),
            Sink::Socket(_) | Sink::Reader => 0,
        };
        let kept = &piece[sent..];
        let queued = self.queue.len() + kept.len();
        if queued > self.window.size() as usize || !self.waiting.set(queued) {
            return Delivery::Failed;
        }
        self.queue.extend(kept);
        Delivery::Taken(sent)
    }

    /// Writes what is kept as far as the socket takes it; says how much that was. To a socket that takes no more all of it
    /// is gone.
    pub(crate) fn flush(&mut self, socket: &TcpStream) -> usize {
        let Ok(sent) = socket::send_both(socket, self.queue.as_slices()) else { return self.lose_sink() };
        self.consume(sent);
        sent
    }

    /// The socket takes no more; says how much is gone with it.
    fn lose_sink(&mut self) -> usize {
        let lost = self.queue.len();
        self.consume(lost);
        self.sink = Sink::Gone;
        lost
    }

    pub(crate) fn has_lost_sink(&self) -> bool {
        matches!(self.sink, Sink::Gone)
    }

    /// Drops what was taken from the front; a queue that is empty gives its memory back.
    pub(crate) fn consume(&mut self, count: usize) {
        if count == self.queue.len() {
            self.queue = VecDeque::new();
        } else {
            self.queue.drain(..count);
        }
        self.waiting.set(self.queue.len());
    }

    /// Lets go of what nobody will take any more.
    pub(crate) fn clear(&mut self) {
        self.sink = Sink::Reader;
        self.consume(self.queue.len());
    }
}
