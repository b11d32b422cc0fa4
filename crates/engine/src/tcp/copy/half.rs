//! One direction of a connection.

use std::io;
use std::task::{Context, Poll, ready};

use rustix::pipe::{SpliceFlags, splice};
use tokio::io::Interest;

use super::pipe::{self, Pipe};
use crate::tcp::socket::Socket;
use crate::workspace::Workspace;

/// A stream is bulk after this much in reads that are all at least `LARGE`.
const BULK_AFTER: usize = 128 << 10;
const LARGE: usize = 16 << 10;
/// It is bulk no longer after this many reads in a row that are all below `SMALL`.
const SMALL: usize = 4 << 10;
const SMALL_READS: u8 = 8;
/// After so many rounds other connections of the thread get their turn: once in and once out. More would leave what
/// was read to grow cold while others wait.
const ROUNDS: usize = 2;

/// Where one direction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// The source has ended or was reset; what is held still has to go out.
    Ending {
        reset: bool,
    },
    Done,
    /// The source was reset.
    SourceReset,
    /// The sink was reset; whatever the source still says has nowhere to go.
    SinkReset,
}

/// How the sink treats small writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delay {
    /// It sends them at once.
    Never,
    /// It would gather them. The first is sent at once either way, and many connections have no second.
    BeforeFirst,
    BeforeSecond,
}

/// How the bytes of a direction travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// Through the thread's buffer; so many bytes were in large reads lately.
    Buffer { large: usize },
    /// Through a pipe; so many reads were small lately.
    Pipe { small: u8 },
    /// Through the thread's buffer, because there are no pipes to be had.
    BufferOnly,
}

pub(super) struct Half {
    pub(super) phase: Phase,
    /// What the sink did not take at once.
    pending: Vec<u8>,
    sent: usize,
    pipe: Option<Box<Pipe>>,
    piped: usize,
    means: Means,
    delay: Delay,
    pub(super) bytes: u64,
}

impl Half {
    /// A direction whose sink gets `pending` first. `gathers`: the sink holds small writes back until it is told not to.
    pub(super) fn new(pending: Vec<u8>, gathers: bool) -> Self {
        Self {
            phase: Phase::Open,
            pending,
            sent: 0,
            pipe: None,
            piped: 0,
            means: Means::Buffer { large: 0 },
            delay: if gathers { Delay::BeforeFirst } else { Delay::Never },
            bytes: 0,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::SourceReset | Phase::SinkReset)
    }

    /// Whether the sink was reset while there was nothing to send to it.
    pub(super) fn sink_is_gone(&mut self, sink: &Socket) -> bool {
        let gone = sink.is_gone();
        if gone {
            self.phase = Phase::SinkReset;
        }
        gone
    }

    /// Moves what can be moved; ready when this direction is over. For the last one the sockets are closed next,
    /// which tells the sink as well as an end would.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &Socket,
        sink: &Socket,
        workspace: &Workspace,
        last: bool,
    ) -> Poll<()> {
        for _ in 0..ROUNDS {
            if self.is_over() {
                return Poll::Ready(());
            }
            if self.piped > 0 || !self.pending.is_empty() {
                if ready!(self.poll_flush(cx, sink)).is_err() {
                    self.phase = Phase::SinkReset;
                }
                continue;
            }
            if !matches!(self.phase, Phase::Ending { .. })
                && ready!(self.poll_fill(cx, source, sink, workspace)).is_err()
            {
                self.phase = Phase::Ending { reset: true };
            }
            // The end goes out with the last bytes, which wait for it.
            if matches!(self.phase, Phase::Ending { .. }) && self.piped == 0 && self.pending.is_empty() {
                self.finish(sink, workspace, last);
            }
        }
        if self.is_over() {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn finish(&mut self, sink: &Socket, workspace: &Workspace, last: bool) {
        if self.phase == (Phase::Ending { reset: true }) {
            self.phase = Phase::SourceReset;
            return;
        }
        self.release_pipe(workspace);
        if !last {
            sink.end();
        }
        self.phase = Phase::Done;
    }

    /// Sends what is held.
    fn poll_flush(&mut self, cx: &mut Context<'_>, sink: &Socket) -> Poll<io::Result<()>> {
        while self.piped > 0 || !self.pending.is_empty() {
            self.before_write(sink);
            let sent = match &self.pipe {
                Some(pipe) if self.piped > 0 => sink.try_io(Interest::WRITABLE, |sink| {
                    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                    Ok(splice(&pipe.read, None, sink, None, self.piped, flags)?)
                }),
                _ => sink.try_send(&self.pending[self.sent..], false),
            };
            match sent {
                Ok(count) => {
                    self.bytes += count as u64;
                    if self.piped > 0 {
                        self.piped -= count;
                    } else {
                        self.sent += count;
                        if self.sent == self.pending.len() {
                            self.pending = Vec::new();
                            self.sent = 0;
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(sink.poll_writable(cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn before_write(&mut self, sink: &Socket) {
        match self.delay {
            Delay::Never => {}
            Delay::BeforeFirst => self.delay = Delay::BeforeSecond,
            Delay::BeforeSecond => {
                sink.send_without_delay();
                self.delay = Delay::Never;
            }
        }
    }

    /// Reads once and passes on what the sink takes. An error is the source's.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        source: &Socket,
        sink: &Socket,
        workspace: &Workspace,
    ) -> Poll<io::Result<()>> {
        if matches!(self.means, Means::Pipe { .. }) {
            if let Some(filled) = self.poll_splice(cx, source, workspace) {
                return filled;
            }
            self.means = Means::BufferOnly;
        }
        let mut buffer = workspace.buffer();
        let received = ready!(source.poll_receive(cx, &mut buffer))?;
        let bytes = &buffer[..received.count];
        if received.ended {
            self.phase = Phase::Ending { reset: false };
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if let Means::Buffer { large } = self.means {
            let large = if bytes.len() >= LARGE { large + bytes.len() } else { 0 };
            self.means = if large >= BULK_AFTER { Means::Pipe { small: 0 } } else { Means::Buffer { large } };
        }
        self.before_write(sink);
        match sink.try_send(bytes, received.ended) {
            Ok(count) => {
                self.bytes += count as u64;
                self.pending = bytes[count..].to_vec();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.pending = bytes.to_vec(),
            Err(_) => self.phase = Phase::SinkReset,
        }
        Poll::Ready(Ok(()))
    }

    /// Fills the pipe; `None` if there is none to be had.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        source: &Socket,
        workspace: &Workspace,
    ) -> Option<Poll<io::Result<()>>> {
        loop {
            if self.pipe.is_none() {
                self.pipe = Some(Box::new(workspace.pipes.take().ok()?));
            }
            let pipe = self.pipe.as_ref()?;
            let filled = source.try_io(Interest::READABLE, |source| {
                let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                Ok(splice(source, None, &pipe.write, None, pipe::SIZE, flags)?)
            });
            match filled {
                Ok(0) => self.phase = Phase::Ending { reset: false },
                Ok(count) => {
                    self.piped = count;
                    self.count_read(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.release_pipe(workspace);
                    match source.poll_readable(cx) {
                        Poll::Ready(Ok(())) => continue,
                        waiting_or_failed => return Some(waiting_or_failed),
                    }
                }
                Err(error) => return Some(Poll::Ready(Err(error))),
            }
            return Some(Poll::Ready(Ok(())));
        }
    }

    /// Notes how much a pipe took, since small reads are better copied.
    fn count_read(&mut self, count: usize) {
        if let Means::Pipe { small } = self.means {
            let small = if count < SMALL { small + 1 } else { 0 };
            self.means =
                if small >= SMALL_READS { Means::Buffer { large: 0 } } else { Means::Pipe { small } };
        }
    }

    /// Gives an empty pipe back; one that still holds bytes of this stream is closed.
    pub(super) fn release_pipe(&mut self, workspace: &Workspace) {
        if let Some(pipe) = self.pipe.take()
            && self.piped == 0
        {
            workspace.pipes.give_back(*pipe);
        }
    }
}
