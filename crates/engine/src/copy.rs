//! Carries bytes both ways until both sides have ended. Small messages go through one buffer per thread; what the
//! other side can't take at once is kept in a buffer of its own; a stream that proves to be bulk goes through a
//! pipe with `splice` and never enters user space. An idle connection holds no buffer and no pipe.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::close_reason::CloseReason;
use crate::connections::Entry;
use crate::socket;

const BUFFER: usize = 64 << 10;
const PIPE: usize = 256 << 10;
/// Pipes that a thread keeps for the next bulk stream.
const SPARE_PIPES: usize = 32;
/// A stream is bulk after this much in reads that are all at least `LARGE`.
const BULK_AFTER: usize = 128 << 10;
const LARGE: usize = 16 << 10;
/// It is bulk no longer after this many reads in a row that are all below `SMALL`.
const SMALL: usize = 4 << 10;
const SMALL_READS: u8 = 8;
/// After so many rounds other connections of the thread get their turn: once in and once out. More would leave what
/// was read to grow cold while others wait.
const ROUNDS: usize = 2;

/// What the connections of a thread share.
pub struct Workspace {
    buffer: RefCell<Box<[u8]>>,
    pipes: RefCell<Vec<Pipe>>,
}

impl Default for Workspace {
    fn default() -> Self {
        Self { buffer: RefCell::new(vec![0; BUFFER].into()), pipes: RefCell::default() }
    }
}

impl Workspace {
    /// Lends the thread's buffer, which is as large as the largest datagram.
    pub fn with_buffer<T>(&self, work: impl FnOnce(&mut [u8]) -> T) -> T {
        work(&mut self.buffer.borrow_mut())
    }
}

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Beyond a user's share of pipe memory the kernel leaves it at the usual size: slower, not wrong.
        let _ = fcntl_setpipe_size(&write, PIPE);
        Ok(Self { read, write })
    }
}

/// Where one direction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
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

/// One direction of a connection.
struct Half {
    phase: Phase,
    /// What the sink did not take at once.
    pending: Vec<u8>,
    sent: usize,
    pipe: Option<Box<Pipe>>,
    piped: usize,
    bulk: bool,
    run: usize,
    small: u8,
    bytes: u64,
}

impl Half {
    fn new(pending: Vec<u8>) -> Self {
        Self {
            phase: Phase::Open,
            pending,
            sent: 0,
            pipe: None,
            piped: 0,
            bulk: false,
            run: 0,
            small: 0,
            bytes: 0,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::SourceReset | Phase::SinkReset)
    }

    /// Whether the sink was reset while there was nothing to send to it.
    fn sink_is_gone(&mut self, sink: &TcpStream) -> bool {
        let gone = matches!(sink.take_error(), Ok(Some(_)) | Err(_));
        if gone {
            self.phase = Phase::SinkReset;
        }
        gone
    }

    /// Moves what can be moved; ready when this direction is over. For the last one the sockets are closed next,
    /// which tells the sink as well as a shutdown would.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut TcpStream,
        sink: &mut TcpStream,
        workspace: &Workspace,
        last: bool,
    ) -> Poll<()> {
        for _ in 0..ROUNDS {
            if self.is_over() {
                return Poll::Ready(());
            }
            if self.piped > 0 || !self.pending.is_empty() {
                match ready!(self.poll_flush(cx, sink)) {
                    Ok(()) => {}
                    Err(_) => self.phase = Phase::SinkReset,
                }
                continue;
            }
            match self.phase {
                Phase::Ending { reset: true } => self.phase = Phase::SourceReset,
                Phase::Ending { reset: false } => {
                    self.release_pipe(workspace);
                    if !last {
                        // An error here means that the sink is gone; its own direction reports how.
                        let _ = ready!(Pin::new(&mut *sink).poll_shutdown(cx));
                    }
                    self.phase = Phase::Done;
                }
                _ => match ready!(self.poll_fill(cx, source, sink, workspace)) {
                    Ok(0) => self.phase = Phase::Ending { reset: false },
                    Ok(_) => {}
                    Err(_) => self.phase = Phase::Ending { reset: true },
                },
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sends what is held.
    fn poll_flush(&mut self, cx: &mut Context<'_>, sink: &TcpStream) -> Poll<io::Result<()>> {
        while self.piped > 0 || !self.pending.is_empty() {
            let sent = match &self.pipe {
                Some(pipe) if self.piped > 0 => sink.try_io(Interest::WRITABLE, || {
                    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                    Ok(splice(&pipe.read, None, sink, None, self.piped, flags)?)
                }),
                _ => sink.try_write(&self.pending[self.sent..]),
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
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(sink.poll_write_ready(cx))?,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once and passes on what the sink takes; the bytes read, 0 at the end.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut TcpStream,
        sink: &TcpStream,
        workspace: &Workspace,
    ) -> Poll<io::Result<usize>> {
        if self.bulk {
            if let Some(filled) = self.poll_splice(cx, source, workspace) {
                return filled;
            }
            // No pipe to be had: copying works without.
            self.bulk = false;
        }
        let mut buffer = workspace.buffer.borrow_mut();
        let mut read = ReadBuf::new(&mut buffer);
        ready!(Pin::new(source).poll_read(cx, &mut read))?;
        let bytes = read.filled();
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.run = if bytes.len() >= LARGE { self.run + bytes.len() } else { 0 };
        if self.run >= BULK_AFTER {
            (self.bulk, self.run, self.small) = (true, 0, 0);
        }
        match sink.try_write(bytes) {
            Ok(count) => {
                self.bytes += count as u64;
                if count < bytes.len() {
                    self.pending = bytes[count..].to_vec();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.pending = bytes.to_vec(),
            // Only the source's errors are answered here; the flush meets the sink's again.
            Err(_) => self.phase = Phase::SinkReset,
        }
        Poll::Ready(Ok(bytes.len()))
    }

    /// Fills the pipe; `None` if there is none.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        source: &TcpStream,
        workspace: &Workspace,
    ) -> Option<Poll<io::Result<usize>>> {
        loop {
            if self.pipe.is_none() {
                let spare = workspace.pipes.borrow_mut().pop();
                self.pipe = Some(Box::new(match spare {
                    Some(pipe) => pipe,
                    None => Pipe::new().ok()?,
                }));
            }
            let pipe = self.pipe.as_ref()?;
            let filled = source.try_io(Interest::READABLE, || {
                let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                Ok(splice(source, None, &pipe.write, None, PIPE, flags)?)
            });
            match filled {
                Ok(count) => {
                    self.piped = count;
                    self.small = if count < SMALL { self.small + 1 } else { 0 };
                    if self.small >= SMALL_READS {
                        self.bulk = false;
                    }
                    return Some(Poll::Ready(Ok(count)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.release_pipe(workspace);
                    match source.poll_read_ready(cx) {
                        Poll::Pending => return Some(Poll::Pending),
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                    }
                }
                Err(error) => return Some(Poll::Ready(Err(error))),
            }
        }
    }

    /// Gives an empty pipe back; one that still holds bytes of this stream is closed.
    fn release_pipe(&mut self, workspace: &Workspace) {
        let Some(pipe) = self.pipe.take() else { return };
        let mut spare = workspace.pipes.borrow_mut();
        if self.piped == 0 && spare.len() < SPARE_PIPES {
            spare.push(*pipe);
        }
    }
}

/// Carries bytes between a client and an endpoint, which first gets `head`, until both have ended.
pub async fn both(
    client: &mut TcpStream,
    server: &mut TcpStream,
    head: Vec<u8>,
    entry: &Entry,
    workspace: &Workspace,
) -> CloseReason {
    let mut up = Half::new(head);
    let mut down = Half::new(Vec::new());
    let mut kept_alive = false;
    let reason = poll_fn(|cx| {
        if let Some(reason) = entry.ending() {
            return Poll::Ready(reason);
        }
        entry.watch(cx.waker());
        let due = entry.take_due();
        if due && !kept_alive {
            kept_alive = true;
            let state = entry.route.cluster.state();
            socket::keep_alive(client, &state.plan.keepalive);
            socket::keep_alive(server, &state.plan.keepalive);
        }
        let before = (up.bytes, down.bytes);
        let mut up_over = up.poll(cx, client, server, workspace, down.is_over()).is_ready();
        let mut down_over = down.poll(cx, server, client, workspace, up_over).is_ready();
        if up_over != down_over {
            entry.half_closed();
            if due {
                up_over = up_over || up.sink_is_gone(server);
                down_over = down_over || down.sink_is_gone(client);
            }
        }
        if (up.bytes, down.bytes) != before {
            entry.moved(up.bytes, down.bytes);
        }
        if up.phase == Phase::SourceReset {
            return Poll::Ready(CloseReason::ClientReset);
        }
        if down.phase == Phase::SourceReset {
            return Poll::Ready(CloseReason::EndpointReset);
        }
        if !(up_over && down_over) {
            return Poll::Pending;
        }
        // After a failed write the kernel reports a reset as a plain end to the reader.
        Poll::Ready(match (up.phase, down.phase) {
            (_, Phase::SinkReset) => CloseReason::ClientReset,
            (Phase::SinkReset, _) => CloseReason::EndpointReset,
            _ => CloseReason::Finished,
        })
    })
    .await;
    up.release_pipe(workspace);
    down.release_pipe(workspace);
    reason
}
