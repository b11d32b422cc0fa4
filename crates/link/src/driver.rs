//! Drives one data link: encrypts what the streams put into the outbox, decrypts what comes and hands it to them,
//! notices when the other end is gone. One task does both directions, so nothing is shared but the outbox.

use std::future::poll_fn;
use std::io::{self, BufRead as _, Write as _};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustls::Connection;
use tokio::net::TcpStream;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::frame::{Decoder, Frame};
use crate::mux::{Broken, Link, Side};
use crate::stream::Stream;

/// How much is read from the connection at once.
const READ: usize = 128 << 10;
/// After so many rounds other tasks get their turn.
const ROUNDS: usize = 16;
/// How often to look whether the other end is still there.
const BEAT: Duration = Duration::from_millis(500);
/// Silence after which it is taken for gone. TCP alone would try for minutes, and go on long after the way is free.
const PATIENCE: Duration = Duration::from_secs(3);
/// Idle streams are looked for every so many beats.
const BEATS_PER_SWEEP: u32 = 10;

/// One end of a connection that carries streams.
pub struct Driver<S> {
    socket: TcpStream,
    tls: Connection,
    link: Arc<Link>,
    side: Arc<S>,
    decoder: Decoder,
    /// What was taken from the outbox.
    plain: Vec<u8>,
    /// What was read from the connection.
    wire: Vec<u8>,
    /// The stream that data came for last, which the next is likely for too.
    latest: Latest,
    beat: Interval,
    beats: u32,
    heard: Instant,
}

impl<S: Side> Driver<S> {
    /// Takes a connection whose handshake is over.
    pub fn new(socket: TcpStream, mut tls: Connection, link: Arc<Link>, side: Arc<S>) -> Self {
        // The outbox is the bound; a second one inside would only cut writes short.
        tls.set_buffer_limit(None);
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            socket,
            tls,
            link,
            side,
            decoder: Decoder::default(),
            plain: Vec::new(),
            wire: vec![0; READ],
            latest: Latest::default(),
            beat,
            beats: 0,
            heard: Instant::now(),
        }
    }

    /// Runs until the connection ends; every stream on it has ended then too.
    pub async fn run(mut self) -> Broken {
        let broken = match self.take_plaintext() {
            // The other end may have spoken together with its last words of the handshake.
            Err(broken) => broken,
            Ok(()) => poll_fn(|cx| self.poll(cx)).await,
        };
        self.link.close();
        broken
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        self.link.outbox.driver.register(cx.waker());
        if self.link.is_closed() {
            return Poll::Ready(Broken::Replaced);
        }
        for _ in 0..ROUNDS {
            match self.step(cx) {
                Ok(true) => {}
                Ok(false) => {
                    if self.is_done() {
                        return Poll::Ready(Broken::Replaced);
                    }
                    return match self.poll_beat(cx) {
                        Poll::Ready(broken) => Poll::Ready(broken),
                        Poll::Pending => Poll::Pending,
                    };
                }
                Err(broken) => return Poll::Ready(broken),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether the link was told to leave and everything on it is over and sent.
    fn is_done(&self) -> bool {
        self.link.has_left() && self.link.outbox.is_empty() && !self.tls.wants_write()
    }

    /// Moves something each way; says whether anything moved.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<bool, Broken> {
        let wrote = self.write(cx)?;
        let read = self.read(cx)?;
        Ok(wrote || read)
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, Broken> {
        // Nothing more is encrypted before the last batch is gone, so the outbox fills and holds the streams back.
        if !self.tls.wants_write() && self.link.outbox.take(&mut self.plain) {
            self.tls.writer().write_all(&self.plain)?;
            self.plain.clear();
        }
        let mut moved = false;
        while self.tls.wants_write() {
            match self.socket.poll_write_ready(cx) {
                Poll::Pending => break,
                Poll::Ready(ready) => ready?,
            }
            match self.tls.write_tls(&mut Wire(&self.socket)) {
                Ok(_) => moved = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(moved)
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Broken> {
        match self.socket.poll_read_ready(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(ready) => ready?,
        }
        match self.socket.try_read(&mut self.wire) {
            Ok(0) => Err(Broken::Closed),
            Ok(count) => {
                self.heard = Instant::now();
                let wire = std::mem::take(&mut self.wire);
                let result = self.decrypt(&wire[..count]);
                self.wire = wire;
                result.map(|()| true)
            }
            // The next look at readiness leaves the waker behind.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn decrypt(&mut self, mut wire: &[u8]) -> Result<(), Broken> {
        while !wire.is_empty() {
            self.tls.read_tls(&mut wire)?;
            let state = self.tls.process_new_packets()?;
            if state.plaintext_bytes_to_read() > 0 {
                self.take_plaintext()?;
            }
            if state.peer_has_closed() {
                return Err(Broken::Closed);
            }
        }
        Ok(())
    }

    fn take_plaintext(&mut self) -> Result<(), Broken> {
        loop {
            let mut reader = self.tls.reader();
            let count = {
                let bytes = match reader.fill_buf() {
                    Ok([]) => return Ok(()),
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error.into()),
                };
                let (link, side, latest) = (&self.link, &self.side, &mut self.latest);
                self.decoder.feed(bytes, |frame| hear(link, side.as_ref(), latest, frame))?;
                bytes.len()
            };
            reader.consume(count);
        }
    }

    fn poll_beat(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        while self.beat.poll_tick(cx).is_ready() {
            let silence = self.heard.elapsed();
            if silence > PATIENCE {
                return Poll::Ready(Broken::Silent(silence));
            }
            if silence > BEAT {
                self.link.outbox.put(&Frame::Ping);
            }
            self.beats = self.beats.wrapping_add(1);
            if self.beats.is_multiple_of(BEATS_PER_SWEEP) {
                for stream in self.link.select(Stream::is_idle) {
                    stream.abort();
                }
            }
        }
        Poll::Pending
    }
}

fn hear<S: Side>(link: &Arc<Link>, side: &S, latest: &mut Latest, frame: Frame<'_>) -> Result<(), Broken> {
    match frame {
        Frame::Data { stream, piece, last } => {
            // What comes for a stream that has ended here is on its way from before that was known there.
            if let Some(stream) = latest.find(link, stream) {
                stream.deliver(piece, last);
            }
        }
        Frame::Credit { stream, bytes } => {
            if let Some(stream) = link.stream(stream) {
                stream.credited(bytes);
            }
        }
        Frame::Open { stream, tunnel, source } => side.open(link, stream, tunnel, source)?,
        // The container sends a client's bytes without waiting for this.
        Frame::Accept { .. } => {}
        Frame::Pong => link.answered.notify_one(),
        Frame::Refuse { stream, reason } => {
            if let Some(stream) = link.stream(stream) {
                stream.tally.failed(reason.to_owned());
                stream.break_off();
            }
        }
        Frame::Fin { stream } => {
            if let Some(stream) = link.stream(stream) {
                stream.finished();
            }
        }
        Frame::Reset { stream } => {
            if let Some(stream) = link.stream(stream) {
                stream.break_off();
            }
        }
        Frame::Ping => link.outbox.put(&Frame::Pong),
        Frame::Hello { session } => side.hello(link, session)?,
        Frame::Leave => link.leave(),
    }
    Ok(())
}

/// A way past the table for one piece of data after another. It must not keep the stream: its socket would stay open.
#[derive(Default)]
struct Latest {
    id: u32,
    stream: Weak<Stream>,
}

impl Latest {
    fn find(&mut self, link: &Link, id: u32) -> Option<Arc<Stream>> {
        if self.id == id
            && let Some(stream) = self.stream.upgrade()
        {
            return Some(stream);
        }
        let stream = link.stream(id)?;
        *self = Self { id, stream: Arc::downgrade(&stream) };
        Some(stream)
    }
}

/// The connection as rustls writes to it.
struct Wire<'a>(&'a TcpStream);

impl io::Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
