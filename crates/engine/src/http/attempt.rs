//! One attempt to have a request answered by an endpoint: the request goes up and the answer comes down at the same time.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::buffer::{Buffers, Inbox, send};
use super::connection::Connection;
use super::decision::Forward;
use super::fault::Fault;
use super::h1::framing::{Body, Framing};
use super::h1::response::Response;
use super::h1::scan::Scan;
use super::h1::{HEAD, Version, chunked};
use super::mirror::Copies;
use super::onward;
use super::wire::Wire;
use crate::clock;
use crate::close_reason::CloseReason;
use crate::connections::Entry;
use crate::tcp::{Downstream, Upstream};

/// Data up to here are gathered with what is around them, more is sent from where it lies.
const SMALL: usize = 4 << 10;
/// What is gathered before it is sent.
const GATHERED: usize = 16 << 10;

/// How long a client may take for what it is sent at a time, and how long it may pause in the middle of a body.
const SLOW_READ: Duration = Duration::from_mins(1);
const SLOW_BODY: Duration = Duration::from_mins(5);

/// How an attempt ended.
pub(crate) enum Heard {
    /// The client has the whole answer; whether the endpoint would take another request.
    Answer {
        reusable: bool,
    },
    /// The endpoint changed the protocol, and the client knows.
    Tunnel,
    /// The endpoint ended without a word.
    Nothing,
    /// What the endpoint said is no answer.
    Nonsense(&'static str),
    /// The endpoint answered with a status that counts as a failure, and the client knows nothing of it.
    Failure,
    /// The answer broke off.
    Cut,
    ClientGone(CloseReason),
    /// The body of the request is not what its head said.
    BadBody(Fault),
    TimedOut,
    /// It had to end.
    Ended(CloseReason),
}

/// What ended the way up.
enum Lost {
    Client(CloseReason),
    Endpoint,
    Faulty(Fault),
}

/// What an answer's head leads to.
enum Step {
    /// Another head follows.
    Interim,
    Switch,
    Failure,
    Body {
        framing: Framing,
        to_client: Framing,
        keep_alive: bool,
    },
}

/// One attempt.
pub(crate) struct Attempt<'a> {
    connection: &'a Connection,
    forward: &'a Forward,
    /// The request's head as it goes to the endpoint.
    head: &'a [u8],
    server: &'a Upstream,
    entry: &'a Entry,
    /// Statuses that count as failures.
    failures: &'a [u16],
    /// Get the body, too.
    copies: &'a RefCell<Copies>,
    /// The endpoint has all of the request.
    pub(crate) sent: Cell<bool>,
    /// Some of the request's body was taken from the client.
    pub(crate) taken: Cell<bool>,
    /// The client has some of the answer.
    pub(crate) answered: Cell<bool>,
    /// The client was told that the connection goes on.
    pub(crate) keeps: Cell<bool>,
    pub(crate) status: Cell<u16>,
    /// When the answer began.
    pub(crate) began: Cell<u64>,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        forward: &'a Forward,
        head: &'a [u8],
        server: &'a Upstream,
        entry: &'a Entry,
        failures: &'a [u16],
        copies: &'a RefCell<Copies>,
    ) -> Self {
        Self {
            connection,
            forward,
            head,
            server,
            entry,
            failures,
            copies,
            sent: Cell::new(false),
            taken: Cell::new(false),
            answered: Cell::new(false),
            keeps: Cell::new(false),
            status: Cell::new(0),
            began: Cell::new(0),
        }
    }

    fn buffers(&self) -> &Buffers {
        &self.connection.worker.workspace.buffers
    }

    fn client(&self) -> &Downstream {
        &self.connection.stream
    }

    /// Notes bytes carried.
    fn moved(&self, up: usize, down: usize) {
        let (before_up, before_down) = self.entry.bytes();
        self.entry.moved(before_up + up as u64, before_down + down as u64);
    }

    /// Carries the request up and the answer down.
    ///
    /// # Cancellation
    /// Dropping the future leaves both connections in the middle of a message; they have to be closed.
    pub(crate) async fn run(
        &self,
        inbox: &mut Inbox,
        answer: &mut Inbox,
        deadline: Option<Instant>,
    ) -> Heard {
        let mut up = pin!(self.up(inbox));
        let mut down = pin!(self.down(answer));
        let mut late = pin!(async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        });
        let mut up_is_over = false;
        poll_fn(|cx| {
            clock::wake();
            if let Some(reason) = self.entry.ending() {
                return Poll::Ready(Heard::Ended(reason));
            }
            self.entry.watch(cx.waker());
            if self.entry.take_due() {
                let settings = &self.entry.cluster.state().settings;
                self.client().socket().keep_alive(&settings.keepalive);
                self.server.socket().keep_alive(&settings.keepalive);
            }
            if !up_is_over && let Poll::Ready(lost) = up.as_mut().poll(cx) {
                match lost {
                    Lost::Client(reason) => return Poll::Ready(Heard::ClientGone(reason)),
                    Lost::Faulty(fault) => return Poll::Ready(Heard::BadBody(fault)),
                    // It may have answered before it closed.
                    Lost::Endpoint => up_is_over = true,
                }
            }
            if let Poll::Ready(heard) = down.as_mut().poll(cx) {
                return Poll::Ready(heard);
            }
            late.as_mut().poll(cx).map(|()| Heard::TimedOut)
        })
        .await
    }

    /// Sends the request, then watches whether the client leaves.
    async fn up(&self, inbox: &mut Inbox) -> Lost {
        let sent = match self.forward.framing {
            Framing::None | Framing::Length(0) => {
                send(self.server, self.head, &[]).await.map_err(|_| Lost::Endpoint)
            }
            framing => self.body_up(inbox, framing).await,
        };
        if let Err(lost) = sent {
            return lost;
        }
        self.sent.set(true);
        loop {
            // What follows the request waits for its turn, and so does a client that said all it had to say.
            if !inbox.is_empty() {
                return pending().await;
            }
            match self.fill(inbox, self.client()).await {
                Ok(0) => return pending().await,
                Ok(_) => {}
                Err(_) => return Lost::Client(CloseReason::ClientReset),
            }
        }
    }

    async fn body_up(&self, inbox: &mut Inbox, framing: Framing) -> Result<(), Lost> {
        let mut body = Body::new(framing);
        let mut lines = self.buffers().take_head();
        lines.extend_from_slice(self.head);
        let mut begun = false;
        let mut head = self.head.len();
        loop {
            let (count, data) = body.take(inbox.bytes()).map_err(Lost::Faulty)?;
            if framing == Framing::Chunked && !data.is_empty() {
                begin_chunk(&mut lines, &mut begun, data.len());
            }
            // They have the head already.
            self.copies.borrow_mut().pass(&lines[std::mem::take(&mut head)..], data);
            if !(lines.is_empty() && data.is_empty()) {
                send(self.server, &lines, data).await.map_err(|_| Lost::Endpoint)?;
                self.moved(data.len(), 0);
                lines.clear();
            }
            self.taken.set(self.taken.get() || count > 0);
            inbox.consume(count);
            if body.is_done() {
                break;
            }
            if inbox.is_empty() {
                match timeout(SLOW_BODY, self.fill(inbox, self.client())).await {
                    Ok(Ok(0)) => return Err(Lost::Client(CloseReason::ClientLeft)),
                    Ok(Ok(_)) => {}
                    Ok(Err(_)) => return Err(Lost::Client(CloseReason::ClientReset)),
                    Err(_) => return Err(Lost::Faulty(Fault::new(408, "the body came too slowly"))),
                }
            }
        }
        if framing == Framing::Chunked {
            end_chunks(&mut lines, begun);
            self.copies.borrow_mut().pass(&lines, &[]);
            send(self.server, &lines, &[]).await.map_err(|_| Lost::Endpoint)?;
        }
        self.copies.take();
        self.buffers().give_back_head(lines);
        Ok(())
    }

    /// Brings the answer to the client.
    async fn down(&self, inbox: &mut Inbox) -> Heard {
        let mut out = self.buffers().take_head();
        let heard = self.answer(inbox, &mut out).await.unwrap_or_else(|heard| heard);
        self.buffers().give_back_head(out);
        heard
    }

    async fn answer(&self, inbox: &mut Inbox, out: &mut Vec<u8>) -> Result<Heard, Heard> {
        const GONE: Heard = Heard::ClientGone(CloseReason::ClientReset);
        let (framing, to_client, keep_alive) = loop {
            let length = self.head_of_answer(inbox).await?;
            let step = self.read(&inbox.bytes()[..length], out)?;
            inbox.consume(length);
            match step {
                Step::Interim if out.is_empty() => {}
                Step::Interim => {
                    self.to_client(out, &[]).await.map_err(|_| GONE)?;
                    out.clear();
                }
                Step::Switch => {
                    self.answered.set(true);
                    self.to_client(out, inbox.bytes()).await.map_err(|_| GONE)?;
                    inbox.consume(inbox.bytes().len());
                    return Ok(Heard::Tunnel);
                }
                Step::Failure => return Err(Heard::Failure),
                Step::Body { framing, to_client, keep_alive } => break (framing, to_client, keep_alive),
            }
        };
        self.answered.set(true);
        let mut body = Body::new(framing);
        let mut begun = false;
        while !body.is_done() {
            let (count, data) = body.take(inbox.bytes()).map_err(|_| Heard::Cut)?;
            if to_client == Framing::Chunked && !data.is_empty() {
                begin_chunk(out, &mut begun, data.len());
            }
            self.moved(0, data.len());
            if data.len() <= SMALL && out.len() < GATHERED {
                out.extend_from_slice(data);
            } else {
                self.to_client(out, data).await.map_err(|_| GONE)?;
                out.clear();
            }
            inbox.consume(count);
            if body.is_done() || !inbox.is_empty() {
                continue;
            }
            if !out.is_empty() {
                self.to_client(out, &[]).await.map_err(|_| GONE)?;
                out.clear();
            }
            match self.fill(inbox, self.server).await {
                Ok(0) if body.ends_with_connection() => break,
                Ok(0) | Err(_) => return Err(Heard::Cut),
                Ok(_) => {}
            }
        }
        if to_client == Framing::Chunked {
            end_chunks(out, begun);
        }
        if !out.is_empty() {
            self.to_client(out, &[]).await.map_err(|_| GONE)?;
        }
        Ok(Heard::Answer { reusable: keep_alive && self.sent.get() && inbox.is_empty() })
    }

    /// Waits for the head of an answer; its length.
    async fn head_of_answer(&self, inbox: &mut Inbox) -> Result<usize, Heard> {
        let mut scan = Scan::default();
        loop {
            if !inbox.is_empty() {
                match scan.end(inbox.bytes(), HEAD) {
                    Ok(Some(length)) => return Ok(length),
                    Ok(None) => {}
                    Err(fault) => return Err(Heard::Nonsense(fault.why)),
                }
            }
            match self.fill(inbox, self.server).await {
                Ok(count) if count > 0 => {}
                _ if inbox.is_empty() && self.status.get() == 0 => return Err(Heard::Nothing),
                _ => return Err(Heard::Nonsense("the answer broke off in its head")),
            }
        }
    }

    /// Reads the head of an answer and writes the client's.
    fn read(&self, head: &[u8], out: &mut Vec<u8>) -> Result<Step, Heard> {
        let mut index = self.buffers().index();
        let mut ending = self.forward.ending;
        let response =
            Response::parse(head, &mut index, ending.to_head).map_err(|fault| Heard::Nonsense(fault.why))?;
        self.status.set(response.status);
        self.entry.endpoint.answered();
        match response.status {
            101 => {
                let protocol = response.upgrade.filter(|_| self.forward.upgrades);
                if protocol.is_none() {
                    return Err(Heard::Nonsense("the protocol changed though nobody asked for it"));
                }
                onward::write_interim(out, &response, protocol);
                return Ok(Step::Switch);
            }
            100 if !self.forward.expects_continue => return Ok(Step::Interim),
            100..200 => {
                if ending.version == Version::Http11 {
                    onward::write_interim(out, &response, None);
                }
                return Ok(Step::Interim);
            }
            status if self.failures.contains(&status) => return Ok(Step::Failure),
            _ => {}
        }
        self.began.set(clock::woken());
        let to_client = onward::framing_for(ending.version, response.framing);
        // A client whose request is not read to its end, or that learns the end of the answer from that of the
        // connection, has no other one.
        ending.keep_alive &= self.sent.get() && to_client != Framing::UntilClose;
        self.keeps.set(ending.keep_alive);
        onward::write_response(out, &response, self.forward, to_client, ending);
        Ok(Step::Body { framing: response.framing, to_client, keep_alive: response.keep_alive })
    }

    /// Sends to the client, which has to take it in time.
    async fn to_client(&self, first: &[u8], second: &[u8]) -> io::Result<()> {
        timeout(SLOW_READ, send(self.client(), first, second)).await?
    }

    async fn fill(&self, inbox: &mut Inbox, wire: &impl Wire) -> io::Result<usize> {
        poll_fn(|cx| inbox.poll_fill(cx, wire, self.buffers())).await
    }
}

/// Writes what comes before a chunk's data: the end of the chunk before, and the size.
fn begin_chunk(out: &mut Vec<u8>, begun: &mut bool, length: usize) {
    if std::mem::replace(begun, true) {
        out.extend_from_slice(b"\r\n");
    }
    chunked::write_size(out, length);
}

fn end_chunks(out: &mut Vec<u8>, begun: bool) {
    if begun {
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(chunked::LAST);
}
