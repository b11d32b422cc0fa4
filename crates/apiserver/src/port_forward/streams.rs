//! Streams of SPDY/3.1, as kubectl speaks them: for each connection to a port the client opens one stream for errors and one for
//! data, which name the port and belong together by a number.

use std::collections::HashMap;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncRead;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::inbox::Inbox;
use super::outbox::{Gone, Outbox};
use super::relay::{self, Fed, Feed, Lane};
use super::spdy::{self, Compressor, Decoder, Event, Headers, Status};
use super::{Pod, Violation};

/// Streams of one session, of which a connection has two.
const MOST_STREAMS: usize = 1024;
/// Of the number of a connection, which is any text.
const LONGEST_NUMBER: usize = 64;
/// How long a stream waits for the other one of its pair.
const PAIR: Duration = Duration::from_secs(30);

/// Speaks until the client leaves.
pub(super) async fn run<R: AsyncRead + Unpin>(inbox: &mut Inbox<R>, outbox: Outbox, pod: Pod) {
    let mut session = Streams {
        outbox,
        pod,
        headers: Compressor::default(),
        last: 0,
        open: HashMap::new(),
        waiting: HashMap::new(),
        relays: JoinSet::new(),
    };
    match session.speak(inbox).await {
        Ok(()) => {
            // What the client said before it left still reaches the pod.
            session.open.clear();
            relay::finish_all(session.relays).await;
        }
        Err(End::Violation(Violation(why))) => {
            tracing::debug!(why, "a client that forwards ports broke the rules");
            session.outbox.complain();
            let _ = session.outbox.send(&[], spdy::go_away(session.last)).await;
        }
        Err(End::Gone) => {}
    }
}

/// Why a session can't go on.
enum End {
    Violation(Violation),
    Gone,
}

impl From<Violation> for End {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl From<Gone> for End {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

struct Streams {
    outbox: Outbox,
    pod: Pod,
    headers: Compressor,
    /// The last stream that the client opened.
    last: u32,
    /// By number.
    open: HashMap<u32, Stream>,
    /// By the number of their connection.
    waiting: HashMap<String, Waiting>,
    relays: JoinSet<Lane>,
}

/// A stream that is open.
enum Stream {
    /// The number of its connection.
    Error { request: String },
    Data {
        request: String,
        /// Until the client has said everything.
        feed: Option<Feed>,
        /// Its connection, once the pair is complete.
        relay: Option<(AbortHandle, u32)>,
    },
}

/// A pair that is not complete.
struct Waiting {
    since: Instant,
    error: Option<u32>,
    data: Option<(u32, u16, Fed)>,
}

impl Streams {
    async fn speak<R: AsyncRead + Unpin>(&mut self, inbox: &mut Inbox<R>) -> Result<(), End> {
        let (mut decoder, mut input) = (Decoder::default(), BytesMut::new());
        loop {
            while let Some(event) = decoder.next(&mut input)? {
                self.handle(event).await?;
            }
            let oldest = self.waiting.values().map(|waiting| waiting.since).min();
            let late = async {
                match oldest {
                    Some(since) => sleep_until(since + PAIR).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                piece = inbox.next(&self.outbox) => match piece? {
                    Some(piece) => input.extend_from_slice(&piece.bytes),
                    None => return Ok(()),
                },
                Some(ended) = self.relays.join_next() => {
                    if let Ok(Lane::Streams { data, error }) = ended {
                        self.open.remove(&data);
                        self.open.remove(&error);
                    }
                }
                () = late => self.give_up_waiting().await?,
            }
        }
    }

    async fn handle(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Open { id, headers, fin } => self.open(id, &headers, fin).await,
            Event::Data { id, bytes, fin } => {
                // What is said on streams for errors, or on those that are over, is for nobody.
                if let Some(Stream::Data { feed, .. }) = self.open.get_mut(&id) {
                    if let Some(feed) = feed.as_ref().filter(|_| !bytes.is_empty()) {
                        feed.send(&self.pod, bytes).await;
                    }
                    if fin {
                        *feed = None;
                    }
                }
                Ok(())
            }
            Event::Reset { id } => self.reset(id).await,
            // Its own are odd; even ones are answers.
            Event::Ping { id } if id % 2 == 1 => Ok(self.outbox.send(&[], spdy::ping(id)).await?),
            Event::Ping { .. } | Event::Other => Ok(()),
        }
    }

    async fn open(&mut self, id: u32, headers: &Headers, fin: bool) -> Result<(), End> {
        if id.is_multiple_of(2) || id <= self.last || id > i32::MAX as u32 {
            return Ok(self.outbox.send(&[], spdy::reset(id, Status::ProtocolError)).await?);
        }
        self.last = id;
        let refused = if self.open.len() >= MOST_STREAMS {
            Some(Status::RefusedStream)
        } else {
            self.admit(id, headers, fin).err()
        };
        if let Some(status) = refused {
            return Ok(self.outbox.send(&[], spdy::reset(id, status)).await?);
        }
        // Clients let data go that comes before this.
        let reply = spdy::reply(id, &self.headers.empty());
        self.outbox.send_alone(reply).await?;
        self.connect(&request(id, headers));
        Ok(())
    }

    /// Takes note of a stream, if it is one of a pair.
    fn admit(&mut self, id: u32, headers: &Headers, fin: bool) -> Result<(), Status> {
        let request = request(id, headers);
        if request.len() > LONGEST_NUMBER {
            return Err(Status::Cancel);
        }
        let port: u16 = headers.get("port").parse().ok().filter(|port| *port > 0).ok_or(Status::Cancel)?;
        let is_data = match headers.get("streamtype") {
            "data" => true,
            "error" => false,
            _ => return Err(Status::Cancel),
        };
        let new = || Waiting { since: Instant::now(), error: None, data: None };
        let waiting = self.waiting.entry(request.clone()).or_insert_with(new);
        if (is_data && waiting.data.is_some()) || (!is_data && waiting.error.is_some()) {
            return Err(Status::ProtocolError);
        }
        let stream = if is_data {
            let (feed, fed) = relay::feed();
            waiting.data = Some((id, port, fed));
            Stream::Data { request, feed: Some(feed).filter(|_| !fin), relay: None }
        } else {
            waiting.error = Some(id);
            Stream::Error { request }
        };
        self.open.insert(id, stream);
        Ok(())
    }

    /// Connects to the pod if the pair is complete.
    fn connect(&mut self, request: &str) {
        match self.waiting.remove(request) {
            Some(Waiting { error: Some(error), data: Some((data, port, fed)), .. }) => {
                let lane = Lane::Streams { data, error };
                let relay = relay::run(self.pod.clone(), port, lane, fed, self.outbox.clone());
                let handle = self.relays.spawn(relay);
                if let Some(Stream::Data { relay, .. }) = self.open.get_mut(&data) {
                    *relay = Some((handle, error));
                }
            }
            Some(half) => {
                self.waiting.insert(request.to_owned(), half);
            }
            None => {}
        }
    }

    /// The client wants no more of a stream.
    async fn reset(&mut self, id: u32) -> Result<(), End> {
        match self.open.remove(&id) {
            Some(Stream::Data { relay: Some((handle, error)), .. }) => {
                handle.abort();
                if self.open.remove(&error).is_some() {
                    relay::finish(&self.outbox, error).await?;
                }
            }
            Some(Stream::Data { request, .. }) => self.forget(&request, |waiting| waiting.data = None),
            Some(Stream::Error { request }) => self.forget(&request, |waiting| waiting.error = None),
            None => {}
        }
        Ok(())
    }

    fn forget(&mut self, request: &str, half: impl FnOnce(&mut Waiting)) {
        if let Some(waiting) = self.waiting.get_mut(request) {
            half(waiting);
            if waiting.error.is_none() && waiting.data.is_none() {
                self.waiting.remove(request);
            }
        }
    }

    /// Ends streams whose other one never came.
    async fn give_up_waiting(&mut self) -> Result<(), End> {
        let now = Instant::now();
        let late: Vec<Waiting> =
            self.waiting.extract_if(|_, waiting| waiting.since + PAIR <= now).map(|(_, late)| late).collect();
        for Waiting { error, data, .. } in late {
            let data = data.map(|(id, ..)| id);
            for id in error.into_iter().chain(data) {
                self.open.remove(&id);
                self.outbox.send(&[], spdy::reset(id, Status::Cancel)).await?;
            }
        }
        Ok(())
    }
}

/// The number of the connection that a stream belongs to. Clients of old give none; their streams come one after the other.
fn request(id: u32, headers: &Headers) -> String {
    match (headers.get("requestid"), headers.get("streamtype")) {
        ("", "data") => format!("stream {}", id.saturating_sub(2)),
        ("", _) => format!("stream {id}"),
        (number, _) => number.to_owned(),
    }
}
