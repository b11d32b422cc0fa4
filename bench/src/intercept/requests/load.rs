//! The load: connections that stay, each with one request on its way; every answer is checked to be of who has to answer.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};

use crate::compare::load::{Figures, Measured, Now, Settings, Stopwatch, TICK, nanos, quantiles};
use crate::http::frames::{Block, Event, Name, Side};
use crate::http::setting::{LONGER_MESSAGE, MESSAGE, SMALL_BODY};

const WARM_UP: Duration = Duration::from_secs(1);
const LENGTH: Duration = Duration::from_secs(5);
/// An answer that takes longer has failed.
const STUCK: Duration = Duration::from_secs(5);

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// Asks, and knows who has to answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    pub(super) at: SocketAddrV4,
    pub(super) version: Version,
    pub(super) header: Option<(&'static str, &'static str)>,
    pub(super) by_laptop: bool,
}

const BEFORE: u8 = 0;
const COUNTING: u8 = 1;
const OVER: u8 = 2;

impl Asker {
    /// One request.
    pub(super) fn probe(&self) -> anyhow::Result<()> {
        Connection::open(self)?.ask()
    }

    pub(super) fn run(&self, settings: &Settings<'_>, connections: usize) -> anyhow::Result<Measured> {
        let phase = AtomicU8::new(BEFORE);
        let mut watch = Stopwatch::new(settings, WARM_UP, LENGTH);
        let (times, spent) = std::thread::scope(|scope| {
            let askers: Vec<_> = (0..connections).map(|_| scope.spawn(|| self.keep_asking(&phase))).collect();
            loop {
                match watch.look() {
                    Now::Going => std::thread::sleep(TICK),
                    Now::Begins => phase.store(COUNTING, Relaxed),
                    Now::Over => break,
                }
                if askers.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                    break;
                }
            }
            let spent = watch.stop();
            phase.store(OVER, Relaxed);
            let times =
                askers.into_iter().map(|asker| asker.join().map_err(|_| anyhow!("a client broke down"))?);
            (times.collect::<anyhow::Result<Vec<_>>>(), spent)
        });
        let mut times = times?.concat();
        ensure!(!times.is_empty(), "nothing was answered");
        let count = times.len() as f64;
        let mut figures = Figures::from([("requests", count), ("perSecond", count / spent.seconds)]);
        quantiles(&mut times, &mut figures);
        Ok((spent, figures))
    }

    fn keep_asking(&self, phase: &AtomicU8) -> anyhow::Result<Vec<u32>> {
        let (mut connection, mut times) = (Connection::open(self)?, Vec::new());
        loop {
            let (before, began) = (phase.load(Relaxed), Instant::now());
            if before == OVER {
                return Ok(times);
            }
            connection.ask()?;
            if before == COUNTING {
                times.push(nanos(began));
            }
        }
    }
}

/// One connection.
struct Connection {
    socket: TcpStream,
    speech: Speech,
    buffer: Vec<u8>,
}

enum Speech {
    First { request: Vec<u8>, who: u8 },
    Second { side: Box<Side>, head: Block, next: u32, length: usize },
}

impl Connection {
    fn open(asker: &Asker) -> anyhow::Result<Self> {
        let socket = TcpStream::connect_timeout(&asker.at.into(), STUCK).context("can't connect")?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(STUCK))?;
        let speech = match asker.version {
            Version::Http1 => {
                let header =
                    asker.header.map(|(name, value)| format!("{name}: {value}\r\n")).unwrap_or_default();
                let request = format!("GET /api/items/42 HTTP/1.1\r\nHost: {}\r\n{header}\r\n", asker.at);
                Speech::First {
                    request: request.into_bytes(),
                    who: if asker.by_laptop { b'1' } else { b'0' },
                }
            }
            Version::Http2 => {
                let at = asker.at.to_string();
                let mut fields = vec![
                    (Name::Known(1), at.as_str()),
                    (Name::Known(4), "/bench.Echo/Say"),
                    (Name::Text("te"), "trailers"),
                    (Name::Known(31), "application/grpc"),
                ];
                fields.extend(asker.header.map(|(name, value)| (Name::Text(name), value)));
                let length = if asker.by_laptop { LONGER_MESSAGE.len() } else { MESSAGE.len() };
                let head = Block::new(&[0x83, 0x86], &fields, 0);
                Speech::Second { side: Box::new(Side::client()), head, next: 1, length }
            }
        };
        Ok(Self { socket, speech, buffer: vec![0; 64 << 10] })
    }

    /// One request and its answer.
    fn ask(&mut self) -> anyhow::Result<()> {
        let Self { socket, speech, buffer } = self;
        match speech {
            Speech::First { request, who } => {
                socket.write_all(request)?;
                let (mut got, mut body) = (0, None);
                while body.is_none_or(|body| got < body + SMALL_BODY) {
                    got += read(socket, &mut buffer[got..])?;
                    body = body
                        .or_else(|| buffer[..got].windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4));
                }
                ensure!(buffer.starts_with(b"HTTP/1.1 200"), "no 200");
                let body = body.context("no body")?;
                ensure!(buffer[body] == *who, "the wrong one answers");
            }
            Speech::Second { side, head, next, length } => {
                let stream = *next;
                *next += 2;
                ensure!(side.say(stream, head, &MESSAGE, None), "no room for a message");
                let mut heard = 0;
                loop {
                    socket.write_all(&side.out)?;
                    side.out.clear();
                    let count = read(socket, buffer)?;
                    side.feed(&buffer[..count]);
                    let mut over = false;
                    while let Some(event) = side.next()? {
                        match event {
                            Event::Body { length, .. } => heard += length,
                            Event::Head { ends: true, .. } => over = true,
                            _ => {}
                        }
                    }
                    if over {
                        break;
                    }
                }
                ensure!(heard == *length, "the wrong one answers: {heard} bytes");
            }
        }
        Ok(())
    }
}

fn read(socket: &mut TcpStream, buffer: &mut [u8]) -> anyhow::Result<usize> {
    match socket.read(buffer).context("no answer")? {
        0 => bail!("the connection ended"),
        count => Ok(count),
    }
}
