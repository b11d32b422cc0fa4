//! One attempt to have a request answered by an endpoint: the request goes up and the answer comes down at the same time.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use ::h2::client::ResponseFuture;
use ::h2::{Reason, RecvStream};
use http::HeaderMap;
use tokio::time::{Instant, sleep_until};

use super::answer::{Ending, reason};
use super::buffer::{Buffers, Inbox, send};
use super::decision::Forward;
use super::fault::Fault;
use super::h1::framing::Framing;
use super::h1::response::Response;
use super::h1::scan::Scan;
use super::h1::{HEAD, Version};
use super::h2::{Inflow, Outflow, Share, as_is, head};
use super::mirror::Copies;
use super::onward;
use super::origin::Origin;
use super::reach::Server;
use super::reply::{Reply, SLOW_READ};
use super::sink::{Patience, Sink, carry, in_time};
use super::source::{Broken, Piece, Source};
use super::tunnel;
use crate::clock;
use crate::close_reason::CloseReason;
use crate::connections::Entry;
use crate::tcp::{Downstream, Upstream, copy};

/// How long a client may pause in the middle of a body.
const SLOW_BODY: Duration = Duration::from_mins(5);

/// How an attempt ended.
pub(crate) enum Heard {
    /// The client has the whole answer; whether the endpoint would take another request.
    Answer {
        reusable: bool,
    },
    /// The endpoint changed the protocol, the client knew, and that is over, too.
    Tunnel(CloseReason),
    /// The connection to the endpoint ended without a word.
    Nothing,
    /// The endpoint gave the request up without a word.
    Dropped,
    /// The endpoint never looked at the request, and says so.
    Refused,
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
        /// Of the head as it goes on, where it was not written.
        fields: Option<HeaderMap>,
    },
}

/// The way to the endpoint.
#[derive(Clone, Copy)]
enum Up<'a> {
    H1(&'a Upstream),
    H2(&'a RefCell<Outflow>),
}

/// The way back from it.
enum Down<'a> {
    H1 { wire: &'a Upstream, inbox: &'a mut Inbox },
    H2 { coming: ResponseFuture, body: Option<Inflow> },
}

impl Down<'_> {
    /// The body of an answer, or whatever takes over.
    fn source(&mut self, framing: Framing) -> Option<Source<'_, Upstream>> {
        match self {
            Self::H1 { wire, inbox } => Some(Source::h1(*wire, inbox, framing)),
            Self::H2 { body, .. } => Some(Source::H2(body.take()?)),
        }
    }
}

/// One attempt.
pub(crate) struct Attempt<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) reply: Reply<'a>,
    pub(crate) forward: &'a Forward,
    /// The request's head as it goes to the endpoint.
    pub(crate) head: &'a [u8],
    pub(crate) server: &'a Server,
    pub(crate) entry: &'a Entry,
    /// Statuses that count as failures.
    pub(crate) failures: &'a [u16],
    /// Lines for the answer, with which the client stays at this endpoint.
    pub(crate) session: &'a [u8],
    /// Get the body, too.
    pub(crate) copies: &'a RefCell<Copies>,
    pub(crate) so_far: SoFar,
}

/// How far an attempt has come.
#[derive(Default)]
pub(crate) struct SoFar {
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

impl Attempt<'_> {
    fn buffers(&self) -> &Buffers {
        self.origin.buffers()
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
    pub(crate) async fn run(&self, request: &mut Source<'_, Downstream>, deadline: Option<Instant>) -> Heard {
        match self.server {
            Server::H1(wire) => {
                let mut inbox = Inbox::default();
                let mut down = Down::H1 { wire, inbox: &mut inbox };
                let heard = self.both(request, Up::H1(wire), &mut down, deadline).await;
                let heard = match heard {
                    Heard::Answer { reusable } => Heard::Answer { reusable: reusable && inbox.is_empty() },
                    heard => heard,
                };
                inbox.release(self.buffers());
                heard
            }
            Server::H2(share) => {
                let (coming, outflow) = match self.ask(share).await {
                    Ok(asked) => asked,
                    Err(heard) => return heard,
                };
                let outflow = RefCell::new(outflow);
                let mut down = Down::H2 { coming, body: None };
                self.both(request, Up::H2(&outflow), &mut down, deadline).await
            }
        }
    }

    /// Sends the head of a request on a place of its own.
    async fn ask(&self, share: &Share) -> Result<(ResponseFuture, Outflow), Heard> {
        let upgrades = self.forward.upgrades;
        if upgrades && !share.takes_websockets().await {
            return Err(Heard::Nonsense("the endpoint knows no WebSocket over HTTP/2"));
        }
        let (secure, trailers) = (share.secure(), self.forward.trailers);
        let as_is = self.forward.as_is.take();
        let as_is = as_is.and_then(|asked| asked.onward(&self.origin.client, secure, trailers));
        let by_lines = || head::onward(self.head, &mut self.buffers().index(), secure, trailers);
        let head = as_is.or_else(by_lines);
        let head = head.ok_or(Heard::Nonsense("the request has no form in HTTP/2"))?;
        let ended = !self.forward.has_body() && !upgrades;
        let (coming, stream) = share.send(head, ended).map_err(|_| Heard::Refused)?;
        Ok((coming, Outflow::asking(stream, ended)))
    }

    /// Carries both ways, and whatever takes over.
    async fn both(
        &self,
        request: &mut Source<'_, Downstream>,
        to: Up<'_>,
        from: &mut Down<'_>,
        deadline: Option<Instant>,
    ) -> Heard {
        let heard = if self.forward.connects {
            Box::pin(self.open()).await
        } else {
            self.exchange(request, to, from, deadline).await
        };
        if !matches!(heard, Heard::Tunnel(_)) {
            return heard;
        }
        // Boxed, so that requests do not carry the room that a tunnel takes.
        Box::pin(self.tunnel(request, to, from)).await
    }

    /// Carries both ways what is no message.
    async fn tunnel(&self, request: &mut Source<'_, Downstream>, to: Up<'_>, from: &mut Down<'_>) -> Heard {
        let (entry, workspace) = (self.entry, &self.origin.worker.workspace);
        if let (Reply::H1(client @ Downstream::Tcp(_)), Up::H1(server)) = (self.reply, to) {
            let early = request.take_rest();
            return Heard::Tunnel(copy::both(client, server, early, entry, workspace).await);
        }
        request.change_protocol();
        let Some(mut answers) = from.source(Framing::UntilClose) else { return Heard::Cut };
        answers.change_protocol();
        let to_client = match self.reply {
            Reply::H1(stream) => Sink::h1(stream, Vec::new(), Framing::UntilClose),
            Reply::H2 { flow, .. } => Sink::H2(flow),
        };
        let to_server = match to {
            Up::H1(wire) => Sink::h1(wire, Vec::new(), Framing::UntilClose),
            Up::H2(flow) => Sink::H2(flow),
        };
        let client = tunnel::End { source: request, sink: to_client };
        let server = tunnel::End { source: &mut answers, sink: to_server };
        Heard::Tunnel(tunnel::both(client, server, entry, self.buffers()).await)
    }

    /// Tells the client that the connection it asked for stands.
    async fn open(&self) -> Heard {
        let mut out = self.buffers().take_head();
        onward::write_opened(&mut out, self.forward, self.session);
        self.so_far.answered.set(true);
        self.so_far.status.set(200);
        self.so_far.began.set(clock::woken());
        let told = async { self.reply.begin(out, Framing::UntilClose, false, self.buffers())?.flush().await };
        match in_time(SLOW_READ, pin!(told)).await {
            Ok(Ok(())) => Heard::Tunnel(CloseReason::Finished),
            _ => Heard::ClientGone(CloseReason::ClientReset),
        }
    }

    async fn exchange(
        &self,
        request: &mut Source<'_, Downstream>,
        to: Up<'_>,
        from: &mut Down<'_>,
        deadline: Option<Instant>,
    ) -> Heard {
        let mut up = pin!(self.up(request, to));
        let mut down = pin!(self.down(from));
        let mut late = pin!(async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        });
        let mut up_is_over = false;
        let mut is_first = true;
        poll_fn(|cx| {
            // At first no time has passed since the endpoint was reached.
            if !std::mem::take(&mut is_first) {
                clock::wake();
            }
            if let Some(reason) = self.entry.ending() {
                return Poll::Ready(Heard::Ended(reason));
            }
            self.entry.watch(cx.waker());
            if self.entry.take_due() {
                let settings = &self.entry.cluster.state().settings;
                self.reply.keep_alive(&settings.keepalive);
                if let Server::H1(server) = self.server {
                    server.socket().keep_alive(&settings.keepalive);
                }
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
            if self.reply.poll_gone(cx).is_ready() {
                return Poll::Ready(Heard::ClientGone(CloseReason::ClientReset));
            }
            late.as_mut().poll(cx).map(|()| Heard::TimedOut)
        })
        .await
    }

    /// Sends the request, then watches whether the client leaves.
    async fn up(&self, request: &mut Source<'_, Downstream>, to: Up<'_>) -> Lost {
        let sent = match to {
            _ if self.forward.has_body() => self.body_up(request, to).await,
            Up::H1(wire) => send(wire, self.head, &[]).await.map_err(|_| Lost::Endpoint),
            Up::H2(_) => Ok(()),
        };
        if let Err(lost) = sent {
            return lost;
        }
        self.so_far.sent.set(true);
        Lost::Client(request.watch(self.buffers()).await)
    }

    async fn body_up(&self, request: &mut Source<'_, Downstream>, to: Up<'_>) -> Result<(), Lost> {
        let mut sink = match to {
            Up::H1(wire) => {
                let mut out = self.buffers().take_head();
                out.extend_from_slice(self.head);
                Sink::h1(wire, out, self.forward.framing)
            }
            Up::H2(flow) => Sink::H2(flow),
        };
        let trailers = request.is_h2() || sink.is_h2();
        if trailers {
            request.keep_trailers();
        }
        let patience = Patience { source: Some(SLOW_BODY), sink: None };
        let mut bytes = 0;
        let carried = carry(request, &mut sink, self.buffers(), patience, trailers, |piece| {
            bytes += piece.as_slice().len() as u64;
            self.forward.may_carry(bytes)?;
            self.so_far.taken.set(true);
            self.moved(piece.as_slice().len(), 0);
            self.copies.borrow_mut().pass(piece);
            Ok(())
        });
        carried.await.map_err(|broken| match broken {
            Broken::Ended => Lost::Client(CloseReason::ClientLeft),
            Broken::Reset => Lost::Client(CloseReason::ClientReset),
            Broken::Faulty(fault) => Lost::Faulty(fault),
            Broken::Sink => Lost::Endpoint,
        })?;
        self.copies.take().finish();
        sink.release(self.buffers());
        Ok(())
    }

    /// Brings the answer to the client.
    async fn down(&self, from: &mut Down<'_>) -> Heard {
        self.answer(from).await.unwrap_or_else(|heard| heard)
    }

    async fn answer(&self, from: &mut Down<'_>) -> Result<Heard, Heard> {
        const GONE: Heard = Heard::ClientGone(CloseReason::ClientReset);
        let mut out = self.buffers().take_head();
        let (framing, to_client, keep_alive, fields) = loop {
            match self.next_head(from, &mut out).await? {
                Step::Interim if out.is_empty() => {}
                Step::Interim => {
                    self.reply.interim(&out, self.buffers()).await.map_err(|_| GONE)?;
                    out.clear();
                }
                Step::Switch => {
                    self.so_far.answered.set(true);
                    let mut sink = self
                        .reply
                        .begin(out, Framing::UntilClose, false, self.buffers())
                        .map_err(|_| GONE)?;
                    // What came with it goes with it.
                    if let Down::H1 { inbox, .. } = from {
                        let early = Piece::Owned(inbox.take().into());
                        sink.push(early, false).await.map_err(|_| GONE)?;
                    }
                    sink.flush().await.map_err(|_| GONE)?;
                    return Ok(Heard::Tunnel(CloseReason::Finished));
                }
                Step::Failure => return Err(Heard::Failure),
                Step::Body { framing, to_client, keep_alive, fields } => {
                    break (framing, to_client, keep_alive, fields);
                }
            }
        };
        self.so_far.answered.set(true);
        let mut source = from.source(framing).ok_or(Heard::Cut)?;
        let ended = matches!(framing, Framing::None | Framing::Length(0)) || source.is_bare();
        let begun = match fields {
            Some(fields) => {
                self.buffers().give_back_head(out);
                self.reply.pass(self.so_far.status.get(), fields, ended)
            }
            None => self.reply.begin(out, to_client, ended, self.buffers()),
        };
        let mut sink = begun.map_err(|_| GONE)?;
        let trailers = sink.is_h2() || source.is_h2() && self.forward.trailers;
        if trailers {
            source.keep_trailers();
        }
        let patience = Patience { source: None, sink: Some(SLOW_READ) };
        if ended {
            // Whatever follows such a head belongs to nobody.
            in_time(SLOW_READ, pin!(sink.finish(None))).await.map_err(|_| GONE)?.map_err(|_| GONE)?;
        } else {
            let carried = carry(&mut source, &mut sink, self.buffers(), patience, trailers, |piece| {
                self.moved(0, piece.as_slice().len());
                Ok(())
            });
            carried.await.map_err(|broken| if matches!(broken, Broken::Sink) { GONE } else { Heard::Cut })?;
        }
        sink.release(self.buffers());
        Ok(Heard::Answer { reusable: keep_alive && self.so_far.sent.get() })
    }

    /// Waits for the next head and writes the client's.
    async fn next_head(&self, from: &mut Down<'_>, out: &mut Vec<u8>) -> Result<Step, Heard> {
        let to_head = self.forward.ending.to_head;
        match from {
            Down::H1 { wire, inbox } => {
                let length = self.head_of_answer(wire, inbox).await?;
                let step = {
                    let mut index = self.buffers().index();
                    let response = Response::parse(&inbox.bytes()[..length], &mut index, to_head);
                    self.read(&response.map_err(|fault| Heard::Nonsense(fault.why))?, false, false, out)?
                };
                inbox.consume(length);
                Ok(step)
            }
            Down::H2 { coming, body } => {
                let head = next_response(coming).await.map_err(|error| self.judge(&error))?;
                if let Server::H2(share) = self.server {
                    share.proved();
                }
                let (mut parts, stream) = head.into_parts();
                let mut stream = stream.map(Inflow::new);
                if stream.is_some()
                    && let Some(step) = self.pass(&mut parts)
                {
                    *body = stream;
                    return Ok(step);
                }
                let mut lines = self.buffers().take_head();
                head::write_lines(&mut lines, &parts.headers);
                let step = {
                    let mut index = self.buffers().index();
                    let status = parts.status.as_u16();
                    let words = reason(status).as_bytes();
                    let response = Response::of_stream(status, words, &lines, &mut index, to_head);
                    let ended = stream.as_mut().is_some_and(Inflow::is_bare);
                    self.read(&response.map_err(|fault| Heard::Nonsense(fault.why))?, true, ended, out)
                };
                self.buffers().give_back_head(lines);
                *body = stream;
                step
            }
        }
    }

    /// The last head of an answer that goes from stream to stream as it is, if it can.
    fn pass(&self, parts: &mut http::response::Parts) -> Option<Step> {
        let status = parts.status.as_u16();
        if !matches!(self.reply, Reply::H2 { .. })
            || self.forward.upgrades
            || status < 200
            || self.failures.contains(&status)
            || !self.forward.leaves_answers(self.session)
        {
            return None;
        }
        let framing = as_is::pass_answer(&mut parts.headers, status, self.forward.ending.to_head)?;
        self.so_far.status.set(status);
        self.entry.endpoint.answered();
        let (to_client, _) = self.begins(framing);
        let fields = Some(std::mem::take(&mut parts.headers));
        Some(Step::Body { framing, to_client, keep_alive: true, fields })
    }

    /// An answer begins that ends like this: how that reaches the client, and what becomes of its connection.
    fn begins(&self, framing: Framing) -> (Framing, Ending) {
        let mut ending = self.forward.ending;
        self.so_far.began.set(clock::woken());
        let to_client = onward::framing_for(ending.version, framing);
        // A client whose request is not read to its end, or that learns the end of the answer from that of the
        // connection, has no other one.
        ending.keep_alive &= self.so_far.sent.get() && to_client != Framing::UntilClose;
        self.so_far.keeps.set(ending.keep_alive);
        (to_client, ending)
    }

    /// What it means that no answer comes in a stream.
    fn judge(&self, error: &::h2::Error) -> Heard {
        if self.so_far.status.get() > 0 {
            return Heard::Nonsense("the answer broke off in its head");
        }
        let refused =
            error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM) || error.is_go_away();
        if error.is_remote() && refused {
            Heard::Refused
        } else if error.is_reset() {
            Heard::Dropped
        } else {
            Heard::Nothing
        }
    }

    /// Waits for the head of an answer; its length.
    async fn head_of_answer(&self, wire: &Upstream, inbox: &mut Inbox) -> Result<usize, Heard> {
        let mut scan = Scan::default();
        loop {
            if !inbox.is_empty() {
                match scan.end(inbox.bytes(), HEAD) {
                    Ok(Some(length)) => return Ok(length),
                    Ok(None) => {}
                    Err(fault) => return Err(Heard::Nonsense(fault.why)),
                }
            }
            match poll_fn(|cx| inbox.poll_fill(cx, wire, self.buffers())).await {
                Ok(count) if count > 0 => {}
                _ if inbox.is_empty() && self.so_far.status.get() == 0 => return Err(Heard::Nothing),
                _ => return Err(Heard::Nonsense("the answer broke off in its head")),
            }
        }
    }

    /// Reads the head of an answer and writes the client's. `in_stream`: it came by HTTP/2, and perhaps `ended` there.
    fn read(
        &self,
        response: &Response<'_>,
        in_stream: bool,
        ended: bool,
        out: &mut Vec<u8>,
    ) -> Result<Step, Heard> {
        let client = self.forward.ending.version;
        self.so_far.status.set(response.status);
        self.entry.endpoint.answered();
        match response.status {
            101 if in_stream => return Err(Heard::Nonsense("HTTP/2 has no 101")),
            101 => {
                let protocol = response.upgrade.filter(|_| self.forward.upgrades);
                if protocol.is_none() {
                    return Err(Heard::Nonsense("the protocol changed though nobody asked for it"));
                }
                if client == Version::Http2 {
                    onward::write_switch(out, response, client, self.head);
                } else {
                    onward::write_interim(out, response, protocol);
                }
                return Ok(Step::Switch);
            }
            200..300 if in_stream && self.forward.upgrades => {
                onward::write_switch(out, response, client, self.head);
                return Ok(Step::Switch);
            }
            100 if !self.forward.expects_continue => return Ok(Step::Interim),
            100..200 => {
                if client != Version::Http10 {
                    onward::write_interim(out, response, None);
                }
                return Ok(Step::Interim);
            }
            status if self.failures.contains(&status) => return Ok(Step::Failure),
            _ => {}
        }
        let framing = match response.framing {
            // A client that is told where the body ends keeps its connection.
            Framing::UntilClose if ended && client != Version::Http2 => Framing::Length(0),
            framing => framing,
        };
        let (to_client, ending) = self.begins(framing);
        onward::write_response(out, response, self.forward, self.session, to_client, ending);
        Ok(Step::Body { framing, to_client, keep_alive: response.keep_alive, fields: None })
    }
}

/// The next head in a stream; with its body, if it is the last.
async fn next_response(
    coming: &mut ResponseFuture,
) -> Result<http::Response<Option<RecvStream>>, ::h2::Error> {
    poll_fn(|cx| {
        if let Poll::Ready(Some(interim)) = coming.poll_informational(cx) {
            return Poll::Ready(interim.map(|head| head.map(|()| None)));
        }
        Pin::new(&mut *coming).poll(cx).map_ok(|head| head.map(Some))
    })
    .await
}
