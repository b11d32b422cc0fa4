//! Requests by HTTP/2, so many at a time on each connection. Every answer is checked.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::count::Count;
use super::requests::{BUFFER, WARM_UP};
use super::wire::{Heard, Wire};
use super::world::World;
use crate::compare::load::{Measured, Now, Settings, Stopwatch, TICK};
use crate::compare::net::{EventFlags, Poller};
use crate::compare::running::Never;
use crate::http::frames::{Event, Side};

const CONNECTIONS: usize = 16;
const STREAMS: usize = 16;

struct Stream {
    id: u32,
    since: Instant,
    /// Whether its head has come, and bytes of its body.
    headed: bool,
    got: usize,
}

/// A connection with its streams.
pub(super) struct Talk<'a> {
    world: &'a World,
    pub(super) wire: Wire,
    side: Side,
    next: u32,
    streams: Vec<Stream>,
    /// Requests that are still to be made; none before the gateway has said how.
    owed: usize,
    /// How many there are at a time.
    width: usize,
    greeted: bool,
}

pub(super) fn run(world: &World, settings: &Settings<'_>, length: Duration) -> anyhow::Result<Measured> {
    let mut poller = Poller::new()?;
    let (mut turn, mut buffer, mut count) = (0, vec![0; BUFFER], Count::new());
    let mut open = |poller: &Poller, number| {
        turn += 1;
        let talk = Talk::open(world, STREAMS, turn)?;
        poller.add(&talk.wire.socket, number, EventFlags::IN | EventFlags::OUT | EventFlags::ET)?;
        anyhow::Ok(talk)
    };
    let mut talks =
        (0..CONNECTIONS).map(|number| open(&poller, number)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut watch = Stopwatch::new(settings, WARM_UP, length);
    loop {
        match watch.look() {
            Now::Going => {}
            Now::Begins => count.begin(),
            Now::Over => break,
        }
        for event in 0..poller.wait(Some(TICK))? {
            let (number, _) = poller.event(event);
            if let Err(error) = talks[number].step(&mut buffer, &mut |since| count.done(since)) {
                count.fail(&error)?;
                talks[number] = open(&poller, number)?;
            }
        }
    }
    let spent = watch.stop();
    Ok((spent, count.figures(&spent)?))
}

impl<'a> Talk<'a> {
    /// Begins to connect.
    pub(super) fn open(world: &'a World, width: usize, turn: usize) -> anyhow::Result<Self> {
        let mut side = Side::client();
        let mut wire = world.open(0, 0, turn)?;
        wire.say(&side.out)?;
        side.out.clear();
        Ok(Self { world, wire, side, next: 1, streams: Vec::new(), owed: 0, width, greeted: false })
    }

    /// Goes on as far as it can, and tells of every answer when it was asked for.
    pub(super) fn step(&mut self, buffer: &mut [u8], done: &mut impl FnMut(Instant)) -> anyhow::Result<()> {
        let side = &mut self.side;
        let heard = self.wire.hear(buffer, |bytes| {
            side.feed(bytes);
            Ok(())
        })?;
        if self.wire.has_tls() && self.wire.protocol().is_some_and(|protocol| protocol != b"h2") {
            return Err(Never("TLS did not agree on HTTP/2").into());
        }
        while let Some(event) = self.side.next()? {
            self.take(event, done)?;
        }
        while self.owed > 0 && self.ask() {
            self.owed -= 1;
        }
        if !self.side.out.is_empty() {
            self.wire.say(&self.side.out)?;
            self.side.out.clear();
        }
        if heard == Heard::Ended {
            bail!("the connection was closed");
        }
        Ok(())
    }

    fn ask(&mut self) -> bool {
        let said = self.side.say(self.next, &self.world.head, self.world.body, None);
        if said {
            self.streams.push(Stream { id: self.next, since: Instant::now(), headed: false, got: 0 });
            self.next += 2;
        }
        said
    }

    fn take(&mut self, event: Event, done: &mut impl FnMut(Instant)) -> anyhow::Result<()> {
        let expected = self.world.asks[0].expected;
        let (id, over) = match event {
            Event::Settings => {
                if !std::mem::replace(&mut self.greeted, true) {
                    self.owed = self.width;
                }
                return Ok(());
            }
            Event::Head { stream, ok, ends } => {
                let head = self.stream(stream)?;
                // The second one has trailers.
                ensure!(ok || head.headed, "a status that is not 200");
                head.headed = true;
                (stream, ends)
            }
            Event::Body { stream, length, first, ends } => {
                let body = self.stream(stream)?;
                let right = body.got > 0 || first.is_none_or(|first| first == expected.first);
                ensure!(right, "an answer from the wrong backend");
                body.got += length;
                (stream, ends)
            }
        };
        if over {
            let place =
                self.streams.iter().position(|stream| stream.id == id).context("an unknown stream")?;
            let stream = self.streams.swap_remove(place);
            ensure!(stream.got == expected.length, "{} bytes, not {}", stream.got, expected.length);
            done(stream.since);
            self.owed += 1;
        }
        Ok(())
    }

    fn stream(&mut self, id: u32) -> anyhow::Result<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.id == id).context("something of a stream that is over")
    }
}
