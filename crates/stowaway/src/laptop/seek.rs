//! Keeps a laptop connected: all ways are tried side by side, the better ones with a head start; the best that answers is used;
//! a better one that answers later is moved to, and what is open on the old link ends by itself. One task does all of it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use causeway_base::Backoff;
use causeway_base::backoff::{Steady, spread};
use causeway_link::{Connection, Identity, Stream};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::Laptop;
use super::approach::Approach;
use super::deliver::Deliveries;
use super::state::{Connected, State, WayState};
use crate::driven::Driven;
use crate::greeting::{Greeting, MAX_WELCOME, Welcome};
use crate::refusal::understood;
use crate::request::{Request, hear_connected, serve_settings};
use crate::way::Way;

/// How long a better way is waited for before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);
/// The pauses between attempts while there is no connection.
const URGENT: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(3));
/// The pauses between looks for a better way than the one in use.
const CALM: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// How long a link has to be put to use.
const SERVE: Duration = Duration::from_secs(2);
/// How long another process has the workstation before this one tries again: two that both insist help nobody.
const REPLACED: Duration = Duration::from_mins(1);

/// What is asked for; it may change at any time.
#[derive(Clone)]
pub(super) struct Wishes {
    pub(super) identity: Arc<Identity>,
    pub(super) ways: Vec<Approach>,
}

/// One way, and how it has gone.
struct Road {
    approach: Approach,
    /// Not to be tried before.
    due: Instant,
    failures: u32,
    error: Option<String>,
    /// Whether an attempt is under way; its number if so.
    attempt: Option<u64>,
}

impl Road {
    fn new(approach: Approach) -> Self {
        Self { approach, due: Instant::now(), failures: 0, error: None, attempt: None }
    }

    fn way(&self) -> Way {
        self.approach.way()
    }

    fn state(&self) -> WayState {
        WayState { way: self.way(), error: self.error.clone(), failures: self.failures }
    }
}

/// The link in use.
struct Sitting {
    driven: Driven,
    /// Open for as long as the link counts.
    stream: Stream,
    way: Way,
    via: String,
    replica: String,
    since: SystemTime,
    /// Whether another link is to take its place as soon as there is one: the hub asks for it, or the identity is another.
    fades: bool,
    /// Whether the hub has asked for it.
    asked: bool,
}

/// What has happened.
enum Event {
    Attempted {
        number: u64,
        result: Box<Result<(Connection, String), String>>,
    },
    /// A link was put to use, or was not.
    Seated {
        number: u64,
        result: Box<Result<Sitting, String>>,
    },
    /// The hub asks for the seat, or has taken it.
    Asked(io::Error),
    Lost(String),
    Changed,
    Due,
    Stopped,
}

pub(super) struct Seeker {
    laptop: Arc<Laptop>,
    wishes: watch::Receiver<Wishes>,
    identity: Arc<Identity>,
    roads: Vec<Road>,
    attempts: JoinSet<Event>,
    attempt: u64,
    sitting: Option<Sitting>,
    /// The attempt whose link is being put to use; one at a time, since the hub gives the seat to the last that asks for it.
    seating: Option<(u64, AbortHandle)>,
    /// Connections that wait for that, by their attempts.
    arrived: VecDeque<(u64, Connection, String)>,
    /// Links that others took the place of.
    leaving: Vec<Driven>,
    /// Nothing is tried before, and why.
    paused: Option<(Instant, String)>,
    /// Links that were lost: one that breaks again and again is not made again at once.
    losses: Steady,
}

impl Seeker {
    pub(super) fn new(laptop: Arc<Laptop>, wishes: watch::Receiver<Wishes>) -> Self {
        let identity = wishes.borrow().identity.clone();
        Self {
            laptop,
            identity,
            wishes,
            roads: Vec::new(),
            attempts: JoinSet::new(),
            attempt: 0,
            sitting: None,
            seating: None,
            arrived: VecDeque::new(),
            leaving: Vec::new(),
            paused: None,
            losses: Steady::new(URGENT),
        }
    }

    /// Runs until it is stopped; every link is closed then.
    pub(super) async fn run(mut self) {
        self.take_wishes();
        loop {
            self.try_roads();
            self.publish();
            match self.next().await {
                Event::Attempted { number, result } => self.attempted(number, *result),
                Event::Seated { number, result } => self.seated(number, *result),
                Event::Asked(error) => self.asked(error),
                Event::Lost(reason) => self.lost(&reason),
                Event::Changed => self.take_wishes(),
                Event::Due => {}
                Event::Stopped => break,
            }
        }
        self.laptop.link.send_replace(None);
        self.laptop.state.send_modify(|state| state.connection = None);
    }

    async fn next(&mut self) -> Event {
        let due = self.next_due();
        let Self { laptop, wishes, attempts, sitting, .. } = self;
        tokio::select! {
            () = laptop.stopped.cancelled() => Event::Stopped,
            event = watch_over(sitting) => event,
            Some(done) = attempts.join_next() => done.unwrap_or(Event::Due),
            changed = wishes.changed() => if changed.is_ok() { Event::Changed } else { Event::Stopped },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Event::Due,
        }
    }

    /// When the next attempt is due, if there is one to make.
    fn next_due(&self) -> Option<Instant> {
        let wanted = self.roads.iter().filter(|road| road.attempt.is_none() && self.wants(road.way()));
        let due = wanted.map(|road| road.due).min()?;
        Some(self.paused.as_ref().map_or(due, |(until, _)| due.max(*until)))
    }

    /// Whether a link by this way would take the place of what is there.
    fn wants(&self, way: Way) -> bool {
        self.sitting.as_ref().is_none_or(|sitting| sitting.fades || way < sitting.way)
    }

    /// Begins the attempts that are due.
    fn try_roads(&mut self) {
        let now = Instant::now();
        if self.paused.as_ref().is_some_and(|(until, _)| now < *until) {
            return;
        }
        self.paused = None;
        for index in 0..self.roads.len() {
            let way = self.roads[index].way();
            let wanted = self.wants(way);
            let road = &mut self.roads[index];
            if road.attempt.is_some() || road.due > now || !wanted {
                continue;
            }
            self.attempt += 1;
            let (number, approach) = (self.attempt, road.approach.clone());
            road.attempt = Some(number);
            let greeting = Greeting { way, session: self.laptop.session.clone() }.encode();
            let identity = self.identity.clone();
            self.attempts.spawn(async move {
                let result = Box::new(approach.go(&identity, &greeting).await);
                Event::Attempted { number, result }
            });
        }
    }

    /// The road of an attempt, if its way is still asked for.
    fn road_of(&self, number: u64) -> Option<usize> {
        self.roads.iter().position(|road| road.attempt == Some(number))
    }

    fn attempted(&mut self, number: u64, result: Result<(Connection, String), String>) {
        let Some(index) = self.road_of(number) else {
            // Of a way that is no longer asked for: the connection is dropped.
            return;
        };
        match result {
            Ok((connection, via)) => {
                self.arrived.push_back((number, connection, via));
                self.seat_next();
            }
            Err(error) => {
                self.roads[index].attempt = None;
                self.failed(index, error);
            }
        }
    }

    /// Puts the next link to use that is still wanted, if none is on the way to that.
    fn seat_next(&mut self) {
        while self.seating.is_none() {
            let Some((number, connection, via)) = self.arrived.pop_front() else { return };
            let Some(index) = self.road_of(number) else { continue };
            let way = self.roads[index].way();
            if !self.wants(way) {
                // Another has come first; the hub never hears of this one.
                self.roads[index].attempt = None;
                continue;
            }
            let laptop = self.laptop.clone();
            let task = self.attempts.spawn(async move {
                let result = Box::new(sit(&laptop, way, connection, via).await);
                Event::Seated { number, result }
            });
            self.seating = Some((number, task));
        }
    }

    fn seated(&mut self, number: u64, result: Result<Sitting, String>) {
        if self.seating.take_if(|(seating, _)| *seating == number).is_none() {
            // It was given up when it had just ended.
            return;
        }
        if let Some(index) = self.road_of(number) {
            let road = &mut self.roads[index];
            road.attempt = None;
            match result {
                Ok(sitting) => {
                    (road.failures, road.error) = (0, None);
                    self.install(sitting);
                }
                Err(error) => self.failed(index, error),
            }
        }
        self.seat_next();
    }

    /// New streams go over this link from here on.
    fn install(&mut self, sitting: Sitting) {
        let Sitting { way, via, replica, .. } = &sitting;
        tracing::info!(%way, via, replica, "connected to the cluster");
        self.laptop.link.send_replace(Some(sitting.driven.link.clone()));
        if let Some(old) = self.sitting.replace(sitting) {
            // What is on it goes on until it ends.
            old.driven.link.leave();
            self.leaving.push(old.driven);
        }
        self.leaving.retain(|old| !old.has_ended());
        // Better ways are looked for, but not at once.
        self.postpone();
    }

    /// Sets when the better ways are looked at.
    fn postpone(&mut self) {
        for road in self.roads.iter_mut().filter(|road| road.attempt.is_none()) {
            road.due = Instant::now() + CALM.delay(road.failures.max(1));
        }
    }

    fn failed(&mut self, index: usize, error: String) {
        // A link that the hub wants to be rid of is as good as none.
        let connected = self.sitting.as_ref().is_some_and(|sitting| !sitting.asked);
        let road = &mut self.roads[index];
        tracing::debug!(way = %road.way(), error, failures = road.failures, "a way does not lead to the cluster");
        road.failures = road.failures.saturating_add(1);
        let backoff = if connected { CALM } else { URGENT };
        road.due = Instant::now() + backoff.delay(road.failures);
        road.error = Some(error);
        if !connected {
            // Those that waited for it need not wait any more.
            let now = Instant::now();
            for road in self.roads.iter_mut().filter(|road| road.failures == 0) {
                road.due = road.due.min(now);
            }
        }
    }

    /// The hub asks for the seat, or has given it to another.
    fn asked(&mut self, error: io::Error) {
        let Some(sitting) = &mut self.sitting else { return };
        if error.kind() == io::ErrorKind::UnexpectedEof {
            (sitting.asked, sitting.fades) = (true, true);
            if self.seating.is_some() {
                // It has given the seat to the link that is being put to use.
                return;
            }
            tracing::info!(replica = sitting.replica, "the cluster's end asks to be left");
            return self.hurry(Duration::ZERO);
        }
        let error = understood(error);
        if error.kind() == io::ErrorKind::AddrInUse {
            let until = Instant::now() + spread(REPLACED);
            self.paused = Some((until, error.to_string()));
        }
        self.lost(&error.to_string());
    }

    /// The link in use is gone.
    fn lost(&mut self, reason: &str) {
        if let Some(sitting) = self.sitting.take() {
            tracing::warn!(way = %sitting.way, reason, "the connection to the cluster is lost");
            self.laptop.link.send_replace(None);
            // Streams on it may have been left alone: the hub has only given the seat to another.
            sitting.driven.link.leave();
            self.leaving.push(sitting.driven);
            self.leaving.retain(|old| !old.has_ended());
        }
        self.losses.settle();
        let delay = self.losses.next_delay();
        self.hurry(delay);
    }

    /// All ways are tried after so long, the better ones a little before the others.
    fn hurry(&mut self, delay: Duration) {
        let mut due = Instant::now() + delay;
        for road in &mut self.roads {
            (road.failures, road.error) = (0, None);
            road.due = due;
            due += HEAD_START;
        }
    }

    /// Does what is asked for from here on.
    fn take_wishes(&mut self) {
        let Wishes { identity, ways } = self.wishes.borrow_and_update().clone();
        let mut old = std::mem::take(&mut self.roads);
        let known = |approach: Approach| match old.iter().position(|road| road.approach.is(&approach)) {
            Some(index) => old.swap_remove(index),
            None => Road::new(approach),
        };
        self.roads = ways.into_iter().map(known).collect();
        // The best first.
        self.roads.sort_by_key(Road::way);
        let renewed = !Arc::ptr_eq(&self.identity, &identity);
        if renewed {
            self.identity = identity;
            // What is under way shows the old one.
            self.roads.iter_mut().for_each(|road| road.attempt = None);
        }
        let seating = self.seating.as_ref().map(|(number, _)| *number);
        if seating.is_some_and(|number| self.road_of(number).is_none())
            && let Some((_, task)) = self.seating.take()
        {
            // Nobody waits for a link that is not asked for any more.
            task.abort();
            self.seat_next();
        }
        if let Some(sitting) = &mut self.sitting {
            // It goes on until there is a link with the new identity, or by a way that is still asked for.
            sitting.fades |= renewed || !self.roads.iter().any(|road| road.way() == sitting.way);
        }
        if renewed || self.sitting.as_ref().is_none_or(|sitting| sitting.fades) {
            self.hurry(Duration::ZERO);
        }
    }

    /// Tells how things stand.
    fn publish(&self) {
        let ways: Vec<_> = self.roads.iter().map(Road::state).collect();
        let connection = self.sitting.as_ref().map(|sitting| {
            let better = ways.iter().filter(|known| known.way < sitting.way);
            let errors: Vec<_> = better.filter_map(WayState::complaint).collect();
            let why = match errors.as_slice() {
                [] => "no better way is known".to_owned(),
                _ => format!("better ways do not lead to the cluster: {}", errors.join("; ")),
            };
            let (via, replica) = (sitting.via.clone(), sitting.replica.clone());
            Connected { way: sitting.way, via, replica, since: sitting.since, why }
        });
        let trouble = self.paused.as_ref().map(|(_, why)| why.clone());
        let state = State { connection, ways, trouble };
        self.laptop.state.send_if_modified(|known| {
            let differs = *known != state;
            *known = state;
            differs
        });
    }
}

/// Puts a link to use.
async fn sit(laptop: &Arc<Laptop>, way: Way, connection: Connection, via: String) -> Result<Sitting, String> {
    let deliveries = Arc::new(Deliveries(Arc::downgrade(laptop)));
    let driven = Driven::start(connection, deliveries, &laptop.tasks, |_| ());
    let settings = serve_settings(&laptop.traffic);
    let mut stream =
        driven.link.open(&Request::Serve.encode(), settings).map_err(|error| error.to_string())?;
    hear_connected(&mut stream, SERVE).await.map_err(|error| error.to_string())?;
    let welcome = timeout(SERVE, read_line(&mut stream)).await.ok().flatten();
    let Some(Welcome { replica }) = welcome.as_deref().and_then(Welcome::decode) else {
        return Err("the cluster's end did not say who it is".to_owned());
    };
    let since = SystemTime::now();
    Ok(Sitting { driven, stream, way, via, replica, since, fades: false, asked: false })
}

/// Waits until something happens to the link in use; for ever if there is none.
async fn watch_over(sitting: &mut Option<Sitting>) -> Event {
    let Some(Sitting { driven, stream, asked, .. }) = sitting else { return std::future::pending().await };
    tokio::select! {
        biased;
        reason = driven.ended() => Event::Lost(reason),
        // The hub has nothing to say on it but that it ends.
        heard = stream.read_u8(), if !*asked => {
            Event::Asked(heard.err().unwrap_or_else(|| io::ErrorKind::InvalidData.into()))
        }
    }
}

/// The first line of a stream, if it is not too long.
async fn read_line(stream: &mut Stream) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    while line.len() < MAX_WELCOME {
        match stream.read_u8().await.ok()? {
            b'\n' => return Some(line),
            byte => line.push(byte),
        }
    }
    None
}
