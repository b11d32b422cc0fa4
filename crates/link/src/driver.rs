//! Drives one link: seals what the streams put into the outbox, opens what comes and hands it to them, notices when the
//! other end is gone. One task does both directions, so nothing is shared but the outbox.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use causeway_base::memory;
use tokio::net::TcpStream;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::frame::{self, Decoder, Frame};
use crate::inbound::Broken;
use crate::link::{Handler, Incoming, Link};
use crate::socket;
use crate::stream::Shared;
use crate::tls::{self, Outgoing, Received, Tls};

/// How much is read from the connection at once.
const READ: usize = 256 << 10;
/// The same while little comes: a process may have a thousand links, most of them idle.
const CALM_READ: usize = 4 << 10;
/// Less than this waits a turn for what other streams have to say.
const BATCH: usize = 16 << 10;
/// After so many rounds other tasks get their turn.
const ROUNDS: usize = 8;
/// How often to look whether the other end is still there, and how far away it is.
const BEAT: Duration = Duration::from_millis(500);
/// Beats in a row without a word that are still fine; with the next one, within three seconds of its last word, the other
/// end is taken for gone. TCP alone would try for minutes, and go on long after the way is free. Beats are counted, not
/// time: an end that could not look for a while has not heard for as long.
const PATIENCE: u32 = 5;
/// Idle streams are looked for every so many beats.
const BEATS_PER_SWEEP: u32 = 10;
/// How long the other end has to take what was sent before the link closes.
const CLOSING: Duration = Duration::from_secs(2);

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The connection failed.
    #[error("the connection failed")]
    Io(#[from] std::io::Error),
    /// TLS failed.
    #[error("TLS failed")]
    Tls(#[source] rustls::Error),
    /// The keys are used up.
    #[error("no more can be sent with the connection's keys")]
    Exhausted,
    /// The other end breaks the rules.
    #[error("the other end breaks the protocol")]
    Protocol(#[from] frame::Error),
    /// The other end opens a stream with a number that it may not use.
    #[error("the other end opened a stream with the number {0}, which is not its to use")]
    Number(u32),
    /// The other end asks without reading the answers.
    #[error("the other end does not read what it asks for")]
    Flooded,
    /// The other end closed the connection without a word.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end closed the link.
    #[error("the other end closed the link: {0}")]
    ClosedThere(String),
    /// This end closed the link.
    #[error("closed: {0}")]
    ClosedHere(String),
    /// Nothing was heard for too long.
    #[error("nothing was heard from the other end for {} s", .0.as_secs_f32())]
    Silent(Duration),
    /// Both ends agreed to leave and the last stream has ended.
    #[error("the link was replaced")]
    Left,
}

impl From<tls::Error> for Ended {
    fn from(error: tls::Error) -> Self {
        match error {
            tls::Error::Tls(error) => Self::Tls(error),
            tls::Error::Exhausted => Self::Exhausted,
            tls::Error::Closed => Self::Closed,
        }
    }
}

/// Does the work of one link. Dropped, it closes the link.
pub struct Driver {
    socket: TcpStream,
    tls: Tls,
    link: Arc<Link>,
    handler: Arc<dyn Handler>,
    decoder: Decoder,
    /// What was taken from the outbox.
    plain: Vec<u8>,
    sealed: Outgoing,
    /// What was read from the connection and not yet opened.
    received: Received,
    /// What was opened before the link began.
    early: Vec<u8>,
    /// How much is read at once.
    read_size: usize,
    /// More has come or gone since the last beat than the ends say to each other when nothing happens.
    busy: bool,
    /// The stream that data came for last, which the next is likely for too.
    latest: Latest,
    /// What waits to be sent was given a turn.
    gave_turn: bool,
    beat: Interval,
    beats: u32,
    /// Beats since the other end was heard.
    silence: u32,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.link.close("the end was stopped");
        // Streams may keep the link for a while, to deliver what came before its end.
        self.link.outbox.discard();
    }
}

impl Driver {
    /// Takes a connection on which both ends have greeted each other, and what came after the greeting.
    pub(crate) fn new(
        socket: TcpStream,
        tls: Tls,
        link: Arc<Link>,
        handler: Arc<dyn Handler>,
        received: Received,
        early: Vec<u8>,
    ) -> Self {
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            socket,
            tls,
            link,
            handler,
            decoder: Decoder::default(),
            plain: Vec::new(),
            sealed: Outgoing::default(),
            received,
            early,
            read_size: CALM_READ,
            busy: true,
            latest: Latest::default(),
            gave_turn: false,
            beat,
            beats: 0,
            silence: 0,
        }
    }

    /// Runs until the link ends; every stream on it has ended then too.
    ///
    /// # Cancellation
    /// Dropping the future closes the link at once.
    pub async fn run(mut self) -> Ended {
        let ended = match self.begin() {
            Err(ended) => ended,
            Ok(()) => poll_fn(|cx| self.poll(cx)).await,
        };
        let reason = match &ended {
            Ended::Left => "everything is done",
            _ => "the connection ended",
        };
        self.link.close(reason);
        if matches!(ended, Ended::Left | Ended::ClosedHere(_) | Ended::ClosedThere(_)) {
            // If the other end does not take it in time, it is gone.
            let _ = timeout(CLOSING, self.finish()).await;
        }
        ended
    }

    /// The other end may have spoken together with its greeting.
    fn begin(&mut self) -> Result<(), Ended> {
        let early = std::mem::take(&mut self.early);
        let Self { decoder, link, handler, latest, .. } = self;
        decoder.feed(&early, |frame| hear(link, handler.as_ref(), latest, frame))?;
        self.open()
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        self.link.outbox.driver.register(cx.waker());
        if let Poll::Ready(ended) = self.poll_beat(cx) {
            return Poll::Ready(ended);
        }
        for _ in 0..ROUNDS {
            if self.link.is_closed() {
                return Poll::Ready(Ended::ClosedHere(self.link.reason()));
            }
            match self.step(cx) {
                Ok(true) => {}
                Ok(false) if self.is_done() => return Poll::Ready(Ended::Left),
                Ok(false) => return Poll::Pending,
                Err(ended) => return Poll::Ready(ended),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether both ends have left and everything is sent.
    fn is_done(&self) -> bool {
        self.link.has_left() && self.link.outbox.len() == 0 && self.sealed.is_empty()
    }

    /// Moves something each way; says whether anything moved.
    fn step(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let read = self.read(cx)?;
        let wrote = self.write(cx)?;
        Ok(wrote || read)
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let room = self.received.room(self.read_size);
        let most = room.len();
        let count = match socket::poll_recv(&self.socket, cx, room) {
            Poll::Pending => return Ok(false),
            Poll::Ready(count) => count?,
        };
        if count == 0 {
            return Err(Ended::Closed);
        }
        if count == most {
            self.read_size = READ;
        }
        self.busy |= count >= CALM_READ;
        // Whatever comes is a sign of life: what the other end asks may wait behind data for a while.
        self.silence = 0;
        self.received.add(count);
        self.open()?;
        if self.received.len() > READ {
            // Records are shorter: this is a message that spans them and never ends.
            return Err(frame::Error::TooLong(self.received.len()).into());
        }
        if self.link.outbox.is_flooded() {
            return Err(Ended::Flooded);
        }
        Ok(true)
    }

    /// Opens what was read and hands it on; part of a record is kept for the next time.
    fn open(&mut self) -> Result<(), Ended> {
        let Self { tls, received, sealed, decoder, link, handler, latest, .. } = self;
        tls.open(received, sealed, |plain| {
            decoder.feed(plain, |frame| hear(link, handler.as_ref(), latest, frame))
        })
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let mut moved = false;
        loop {
            // Nothing more is sealed before the last batch is gone, so the outbox fills and holds the streams back.
            if self.sealed.is_empty() && !self.take(cx)? {
                return Ok(moved);
            }
            match self.socket.poll_write_ready(cx) {
                Poll::Pending => return Ok(moved),
                Poll::Ready(ready) => ready?,
            }
            let sent = socket::send(&self.socket, self.sealed.unsent(), false)?;
            self.sealed.sent(sent);
            moved = true;
        }
    }

    /// Seals what waits in the outbox; says whether there is anything to send now.
    fn take(&mut self, cx: &mut Context<'_>) -> Result<bool, Ended> {
        let waiting = self.link.outbox.len();
        if waiting == 0 {
            return Ok(false);
        }
        if waiting < BATCH && !self.gave_turn {
            // Streams that are ready too put their share in before this task's next turn.
            self.gave_turn = true;
            let _ = pin!(tokio::task::yield_now()).poll(cx);
            return Ok(false);
        }
        self.gave_turn = false;
        self.seal()?;
        Ok(true)
    }

    fn seal(&mut self) -> Result<(), Ended> {
        self.link.outbox.take(&mut self.plain);
        self.busy |= self.plain.len() >= CALM_READ;
        self.tls.seal(&self.plain, &mut self.received, &mut self.sealed)?;
        self.plain.clear();
        Ok(())
    }

    fn poll_beat(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        while self.beat.poll_tick(cx).is_ready() {
            self.silence += 1;
            if self.silence > PATIENCE {
                return Poll::Ready(Ended::Silent(BEAT * PATIENCE));
            }
            self.link.tick();
            self.link.outbox.put(&Frame::Ping { stamp: self.link.stamp() });
            if !std::mem::take(&mut self.busy) {
                self.rest();
            }
            if self.link.crowd.has_gone(self.link.len()) {
                tokio::task::spawn_blocking(memory::give_back);
            }
            self.beats = self.beats.wrapping_add(1);
            if self.beats.is_multiple_of(BEATS_PER_SWEEP) {
                self.link.sweep();
            }
        }
        Poll::Pending
    }

    /// Nothing but beats: the buffers are given back until there is use for them.
    fn rest(&mut self) {
        self.read_size = CALM_READ;
        self.received.release();
        self.sealed.release();
        self.plain = Vec::new();
        self.link.outbox.release();
    }

    /// Sends what is left, says that this was all, and waits for the other end to close: a connection that is closed
    /// with something unread would take back what the other end has not read yet.
    async fn finish(&mut self) -> Result<(), Ended> {
        self.seal()?;
        self.tls.close(&mut self.received, &mut self.sealed)?;
        while !self.sealed.is_empty() {
            self.socket.writable().await?;
            let sent = socket::send(&self.socket, self.sealed.unsent(), false)?;
            self.sealed.sent(sent);
        }
        socket::end_writing(&self.socket)?;
        while poll_fn(|cx| socket::poll_recv(&self.socket, cx, self.received.room(READ))).await? > 0 {}
        Ok(())
    }
}

fn hear(link: &Arc<Link>, handler: &dyn Handler, latest: &mut Latest, frame: Frame<'_>) -> Result<(), Ended> {
    match frame {
        Frame::Data { stream, piece, last } => {
            // What comes for a stream that has ended here was sent before the other end knew.
            if let Some(stream) = latest.find(link, stream) {
                stream.deliver(piece, last);
            }
        }
        Frame::Credit { stream, bytes } => {
            if let Some(stream) = link.stream(stream) {
                stream.credited(bytes);
            }
        }
        Frame::Open { stream, content, request } => {
            if !link.may_open(stream) {
                return Err(Ended::Number(stream));
            }
            handler.opened(Incoming::new(link, stream, content, request));
        }
        Frame::Fin { stream } => {
            if let Some(stream) = link.stream(stream) {
                stream.finished();
            }
        }
        Frame::Reset { stream, reason } => {
            if let Some(stream) = link.stream(stream) {
                stream.break_off(Broken::There(reason.to_owned()));
            }
        }
        Frame::Ping { stamp } => link.outbox.put(&Frame::Pong { stamp }),
        Frame::Pong { stamp } => link.answered(stamp),
        Frame::Leave => link.told_to_leave(),
        Frame::Close { reason } => return Err(Ended::ClosedThere(reason.to_owned())),
        // Both were exchanged before the link began.
        Frame::Hello { .. } => return Err(frame::Error::Malformed.into()),
    }
    Ok(())
}

/// A way past the table for one piece of data after another. It must not keep the stream: its socket would stay open.
#[derive(Default)]
struct Latest {
    id: u32,
    stream: Weak<Shared>,
}

impl Latest {
    fn find(&mut self, link: &Link, id: u32) -> Option<Arc<Shared>> {
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
