//! One client's connection of HTTP/2. Each request is decided on as it comes and, if it is forwarded, served by a task of
//! its own; this one frames, counts and watches the time.

use std::cell::{Cell, RefCell};
use std::future::{Future as _, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::h2::server::{self, Builder, SendResponse};
use ::h2::{Error, Reason, RecvStream};
use bytes::Bytes;
use causeway_ir::Keepalive;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::as_is::{self, Asked};
use super::guard::Guard;
use super::pipe::{Io, Pipe, Watch};
use super::{Inflow, Outflow, SEND_BUFFER, STREAM_WINDOW, head};
use crate::clock;
use crate::close_reason::CloseReason;
use crate::http::buffer::Inbox;
use crate::http::connection::{IDLE, linger};
use crate::http::decision::{self, Decision, Forward, Notes, Seen};
use crate::http::exchange::{self, After};
use crate::http::h1::HEAD;
use crate::http::origin::Origin;
use crate::http::record::RequestRecord;
use crate::http::reply::Reply;
use crate::http::source::Source;
use crate::http::waiting::Registered;
use crate::table::Unserved;
use crate::tcp::Downstream;

/// Requests of a client at a time.
const STREAMS: u32 = 128;
/// What a client may send on all streams before it is asked for more.
const WINDOW: u32 = 1 << 20;
/// Milliseconds that a client has, once its last request is answered, to hear that the connection ends.
const FAREWELL: u64 = 1000;
/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

type Server = server::Connection<Io<Downstream>, Bytes>;

/// What the streams of a connection share.
struct Shared {
    origin: Rc<Origin>,
    guard: Rc<Guard>,
    wait: Registered,
    /// When the time of a client without a request is over; 0 while it has one.
    idle: Cell<u64>,
    /// Streams that are being served.
    open: Cell<usize>,
    /// The client was told that the connection ends.
    leaving: Cell<bool>,
    /// More is asked of clients by now than of this one.
    unproven: Cell<bool>,
    /// The address that the client connected to.
    local: Option<SocketAddr>,
}

impl Shared {
    /// Begins to wait for the next request.
    fn wait_for_next(&self) {
        let millis = if self.leaving.get() { FAREWELL } else { IDLE };
        self.idle.set(clock::woken() + millis);
        self.wait.set(self.idle.get());
    }
}

/// A stream that is being served.
struct Stream(Rc<Shared>);

impl Stream {
    fn new(shared: &Rc<Shared>) -> Self {
        shared.open.set(shared.open.get() + 1);
        shared.idle.set(0);
        shared.wait.clear();
        Self(Rc::clone(shared))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let open = self.0.open.get() - 1;
        self.0.open.set(open);
        if open == 0 {
            self.0.wait_for_next();
        }
    }
}

/// Serves until the connection ends; `bytes` were read already.
pub(crate) async fn serve(stream: Downstream, origin: Rc<Origin>, bytes: Vec<u8>) -> CloseReason {
    let guard = Rc::new(Guard::default());
    let local = stream.socket().local_address();
    stream.socket().keep_alive(&Keepalive::default());
    let pipe = Pipe::new(stream, Watch::Client(Rc::clone(&guard)), &origin.worker);
    let wait = origin.worker.waiting.insert();
    let first = clock::woken() + origin.handshake_millis();
    wait.set(first);
    let shared = Rc::new(Shared {
        origin,
        guard,
        wait,
        idle: Cell::new(first),
        open: Cell::new(0),
        leaving: Cell::new(false),
        unproven: Cell::new(false),
        local,
    });
    let reason = match shake(&pipe, &shared, bytes).await {
        Ok(mut connection) => run(&mut connection, &pipe, &shared).await,
        Err(reason) => reason,
    };
    // A client with bytes on their way would be reset, and not read why.
    if !matches!(reason, CloseReason::ClientReset | CloseReason::Finished) {
        linger(&pipe.wire, &mut Inbox::default(), shared.origin.buffers()).await;
    }
    reason
}

/// What clients may do.
pub(crate) fn settings() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(HEAD as u32)
        .max_send_buffer_size(SEND_BUFFER)
        .enable_connect_protocol();
    builder
}

/// Exchanges settings.
async fn shake(pipe: &Rc<Pipe<Downstream>>, shared: &Shared, bytes: Vec<u8>) -> Result<Server, CloseReason> {
    let mut shaking = pin!(settings().handshake(Io::new(pipe, bytes)));
    poll_fn(|cx| {
        clock::wake();
        let shaken = shaking.as_mut().poll(cx);
        if let Poll::Ready(Err(_)) = pipe.poll_drain(cx) {
            return Poll::Ready(Err(CloseReason::ClientReset));
        }
        match shaken {
            Poll::Ready(Ok(connection)) => return Poll::Ready(Ok(connection)),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(reason_of(&error))),
            Poll::Pending => {}
        }
        if shared.wait.is_due() {
            return Poll::Ready(Err(CloseReason::HandshakeTimeout));
        }
        shared.wait.watch(cx.waker());
        Poll::Pending
    })
    .await
}

async fn run(connection: &mut Server, pipe: &Pipe<Downstream>, shared: &Rc<Shared>) -> CloseReason {
    let reason = poll_fn(|cx| poll(connection, pipe, shared, cx)).await;
    let words = match reason {
        CloseReason::Flooded | CloseReason::HandshakeTimeout => Reason::ENHANCE_YOUR_CALM,
        CloseReason::IdleTimeout | CloseReason::Drained => Reason::NO_ERROR,
        // The framing has said why, or there is nobody to say it to.
        _ => return reason,
    };
    connection.abrupt_shutdown(words);
    // Whether the client takes it or not, the connection is closed.
    let _ = timeout(LAST_WORDS, poll_fn(|cx| connection.poll_closed(cx))).await;
    reason
}

/// Goes on as far as it can; why the connection ends, once it does.
fn poll(
    connection: &mut Server,
    pipe: &Pipe<Downstream>,
    shared: &Rc<Shared>,
    cx: &mut Context<'_>,
) -> Poll<CloseReason> {
    clock::wake();
    let Shared { origin, guard, wait, idle, open, leaving, unproven, .. } = &**shared;
    loop {
        match connection.poll_accept(cx) {
            Poll::Ready(Some(Ok((request, respond)))) => begin(shared, request, respond),
            Poll::Ready(Some(Err(error))) => return Poll::Ready(reason_of(&error)),
            Poll::Ready(None) => {
                let reason = if leaving.get() { CloseReason::Drained } else { CloseReason::Finished };
                return Poll::Ready(reason);
            }
            Poll::Pending if guard.is_flooded() => return Poll::Ready(CloseReason::Flooded),
            Poll::Pending if (origin.ends_soon() || unproven.get()) && !leaving.replace(true) => {
                connection.graceful_shutdown();
                if open.get() == 0 {
                    shared.wait_for_next();
                }
            }
            Poll::Pending => break,
        }
    }
    if let Poll::Ready(Err(_)) = pipe.poll_drain(cx) {
        return Poll::Ready(CloseReason::ClientReset);
    }
    let head = guard.head_since().map(|since| since + origin.handshake_millis());
    if head.is_some_and(|due| clock::woken() >= due) {
        return Poll::Ready(CloseReason::HandshakeTimeout);
    }
    let idle = Some(idle.get()).filter(|due| *due > 0);
    if idle.is_some_and(|due| clock::woken() >= due) {
        return Poll::Ready(if leaving.get() { CloseReason::Drained } else { CloseReason::IdleTimeout });
    }
    wait.set(head.into_iter().chain(idle).min().unwrap_or(0));
    wait.watch(cx.waker());
    Poll::Pending
}

/// Why the framing gave a connection up.
fn reason_of(error: &Error) -> CloseReason {
    if error.is_io() || error.is_remote() {
        return CloseReason::ClientReset;
    }
    match error.reason() {
        Some(Reason::ENHANCE_YOUR_CALM) => CloseReason::Flooded,
        _ => CloseReason::InvalidRequest,
    }
}

/// Decides on a request; what can't be answered here and now gets a task of its own.
fn begin(shared: &Rc<Shared>, request: http::Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let origin = &*shared.origin;
    let buffers = origin.buffers();
    let mut record = RequestRecord::new(origin.client.address);
    let (parts, body) = request.into_parts();
    let mut body = Inflow::new(body);
    if body.ready().is_err() {
        // It was taken back already.
        return;
    }
    let decided = {
        let table = origin.table.borrow();
        let router = match table.requests(&origin.within) {
            Ok(router) => router,
            Err(unserved) => {
                // Nobody has looked at the request: the client asks again, on another connection if it has to.
                respond.send_reset(Reason::REFUSED_STREAM);
                shared.unproven.set(shared.unproven.get() || matches!(unserved, Unserved::Unproven));
                return;
            }
        };
        let mut out = buffers.take_head();
        let mut lines = buffers.take_head();
        head::write_lines(&mut lines, &parts.headers);
        let mut seen: Option<Seen> = None;
        let notes = Notes::wanted(&origin.worker.shared, &mut seen);
        let (decision, can_pass) = {
            let mut index = buffers.index();
            match head::request(&parts, &lines, &mut index, body.is_bare()) {
                Ok(request) => {
                    let decided = decision::decide_on(&request, router, &origin.client, notes, &mut out);
                    let is_unchanged = matches!(&decided, Decision::Forward(f) if f.unchanged.is_some());
                    (decided, is_unchanged && as_is::can_pass(&request, &parts))
                }
                Err(fault) => {
                    decision::refuse(&mut out, fault);
                    (Decision::Answered { status: fault.status, route: None, keep_alive: true }, false)
                }
            }
        };
        if let Decision::Forward(forward) = &decision
            && can_pass
        {
            forward.as_is.set(Asked::new(parts, forward));
        }
        buffers.give_back_head(lines);
        record.seen = seen;
        record.listener = Some(Arc::clone(&table.listener));
        (decision, out)
    };
    let call = Call { stream: Stream::new(shared), body, respond, record };
    match decided {
        (Decision::Forward(forward), out) => {
            origin.worker.hands.give(Job { call, forward, head: out }, Job::run);
        }
        (Decision::Answered { status, route, .. }, out) => {
            let mut call = call;
            call.record.status = status;
            call.record.route = route;
            let mut answering = Box::pin(call.answer(out));
            // Most clients have room for the whole answer.
            let polled = answering.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
            if polled.is_pending() {
                spawn_local(answering);
            }
        }
    }
}

/// A request of a client that an endpoint has to answer.
pub(crate) struct Job {
    call: Call,
    forward: Forward,
    head: Vec<u8>,
}

/// One request of a client.
struct Call {
    stream: Stream,
    body: Inflow,
    respond: SendResponse<Bytes>,
    record: RequestRecord,
}

impl Call {
    /// Sends an answer that was given here.
    async fn answer(self, out: Vec<u8>) {
        let Self { stream, body: _body, respond, record } = self;
        let origin = &*stream.0.origin;
        let flow = RefCell::new(Outflow::answering(respond));
        let reply = Reply::H2 { flow: &flow, local: None };
        if reply.whole(&out, origin.buffers()).await.is_ok() {
            stream.0.guard.answered();
        } else {
            flow.borrow_mut().reset(Reason::CANCEL);
        }
        origin.buffers().give_back_head(out);
        record.close(&origin.worker.shared);
    }
}

impl Job {
    /// Has an endpoint answer.
    async fn run(self) {
        clock::wake();
        let Self { call: Call { stream, body, respond, mut record }, forward, head: out } = self;
        let origin = &*stream.0.origin;
        let flow = RefCell::new(Outflow::answering(respond));
        let reply = Reply::H2 { flow: &flow, local: stream.0.local };
        let source = Source::H2(body);
        let (after, out) = exchange::run(origin, source, reply, forward, out, &mut record).await;
        // Who takes a request back once its answer has begun got what it asked for: gRPC ends streams like that.
        if record.first_byte > 0 || matches!(after, After::Next | After::Linger(_)) {
            stream.0.guard.answered();
        }
        match after {
            After::Next | After::Linger(_) | After::Close(CloseReason::Finished) => {}
            After::Close(_) => flow.borrow_mut().reset(Reason::CANCEL),
            After::Reset(_) => flow.borrow_mut().reset(Reason::INTERNAL_ERROR),
        }
        origin.buffers().give_back_head(out);
        record.close(&origin.worker.shared);
    }
}
