//! One client's connection: HTTP/2 if the client asks for it, or requests one after the other, each answered before the
//! next is looked at.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::buffer::{Buffers, Inbox};
use super::decision::{self, Client, Decision, Notes, Seen};
use super::exchange::{self, After};
use super::fault::Fault;
use super::h1::HEAD;
use super::h1::scan::Scan;
use super::h2;
use super::origin::Origin;
use super::record::RequestRecord;
use super::reply::{Reply, send_in_time};
use super::source::Source;
use super::waiting::Registered;
use super::wire::Wire;
use crate::clock;
use crate::close_reason::CloseReason;
use crate::table::{CurrentTable, Unserved, Within};
use crate::tcp::Downstream;
use crate::worker::{Stop, Worker};

/// Milliseconds that a connection may wait for its next request.
pub(crate) const IDLE: u64 = 60_000;
/// How long, and for how many bytes, a client that was refused is still listened to, so that it gets to read why.
const LINGER: Duration = Duration::from_millis(1500);
const LINGER_BYTES: usize = 1 << 20;

/// What a client hears that has to come anew, since it was asked for less when it came than others are now.
const UNPROVEN: Fault = Fault::new(421, "the connection began before a certificate was asked for");

/// How a TLS handshake begins, and no request.
const TLS_RECORD: u8 = 0x16;

/// A client's connection that carries requests.
pub(crate) struct Connection {
    pub(crate) stream: Downstream,
    pub(crate) client: Client,
    pub(crate) within: Within,
    pub(crate) table: CurrentTable,
    pub(crate) stop: Stop,
    pub(crate) worker: Rc<Worker>,
}

impl Connection {
    /// Serves until the connection ends; `bytes` were read already.
    pub(crate) async fn serve(self, bytes: Vec<u8>) -> CloseReason {
        let Self { stream, client, within, table, stop, worker } = self;
        let origin = Rc::new(Origin { client, within, table, stop, worker });
        if stream.agreed_on_h2() {
            return Box::pin(h2::serve(stream, origin, bytes)).await;
        }
        let mut inbox = Inbox::new(bytes);
        let mut requests = Requests { stream, origin };
        let ended = requests.serve(&mut inbox).await;
        let Requests { stream, origin } = requests;
        let reason = match ended {
            Ended::Http2 => return Box::pin(h2::serve(stream, origin, inbox.take())).await,
            Ended::Closed(reason) => reason,
            Ended::Reset(reason) => {
                stream.into_socket().refuse();
                reason
            }
        };
        inbox.release(origin.buffers());
        reason
    }
}

/// How requests one after the other came to an end.
enum Ended {
    Closed(CloseReason),
    /// It has to be cut.
    Reset(CloseReason),
    /// The client speaks HTTP/2: what it said is in the inbox.
    Http2,
}

/// A connection with requests one after the other.
struct Requests {
    stream: Downstream,
    origin: Rc<Origin>,
}

/// What came instead of a request.
enum Missing {
    Closed(CloseReason),
    Faulty(Fault),
}

impl Requests {
    async fn serve(&mut self, inbox: &mut Inbox) -> Ended {
        let wait = self.origin.worker.waiting.insert();
        wait.set(clock::woken() + self.origin.handshake_millis());
        let mut is_first = true;
        loop {
            let length = match self.next(inbox, &wait).await {
                Ok(length) => length,
                Err(Missing::Closed(reason)) => return Ended::Closed(reason),
                Err(Missing::Faulty(fault)) => {
                    self.refuse(fault, inbox).await;
                    return Ended::Closed(CloseReason::InvalidRequest);
                }
            };
            wait.clear();
            if std::mem::take(&mut is_first) && &inbox.bytes()[..length] == h2::PREFACE_HEAD {
                return Ended::Http2;
            }
            // Boxed, so that an idle connection does not carry the room that a request takes.
            let after = Box::pin(self.request(inbox, length)).await;
            match after {
                After::Next => wait.set(clock::woken() + IDLE),
                After::Close(reason) => return Ended::Closed(reason),
                After::Linger(reason) => {
                    linger(&self.stream, inbox, self.origin.buffers()).await;
                    return Ended::Closed(reason);
                }
                After::Reset(reason) => {
                    inbox.release(self.origin.buffers());
                    return Ended::Reset(reason);
                }
            }
        }
    }

    /// Waits for a complete head; its length.
    async fn next(&self, inbox: &mut Inbox, wait: &Registered) -> Result<usize, Missing> {
        let origin = &self.origin;
        let mut scan = Scan::default();
        let mut begun = false;
        let mut skipped = false;
        let mut room = None;
        poll_fn(|cx| {
            clock::wake();
            loop {
                // One empty line before a request is forgiven, as old clients send it after a body.
                if !skipped && inbox.bytes().starts_with(b"\r\n") {
                    inbox.consume(2);
                    skipped = true;
                }
                let bytes = inbox.bytes();
                if !bytes.is_empty() {
                    if !begun {
                        // Who speaks TLS here understands no answer.
                        if bytes[0] == TLS_RECORD && matches!(origin.within, Within::Clear) {
                            return Poll::Ready(Err(Missing::Closed(CloseReason::UnexpectedTls)));
                        }
                        begun = true;
                        wait.set(clock::woken() + origin.handshake_millis());
                    }
                    if skipped || bytes != b"\r" {
                        match scan.end(bytes, HEAD) {
                            Ok(Some(length)) => return Poll::Ready(Ok(length)),
                            Ok(None) => {}
                            Err(fault) => return Poll::Ready(Err(Missing::Faulty(fault))),
                        }
                    }
                    // A head that comes slowly takes its share of what all such heads may take.
                    let limits = &origin.worker.shared.limits;
                    let held = room.get_or_insert_with(|| limits.handshake(origin.client.address.ip()));
                    if !held.as_mut().is_some_and(|held| held.grow_to(inbox.held())) {
                        return Poll::Ready(Err(Missing::Closed(CloseReason::HandshakeLimit)));
                    }
                }
                let left = if begun { CloseReason::ClientLeft } else { CloseReason::Finished };
                match inbox.poll_fill(cx, &self.stream, origin.buffers()) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(Missing::Closed(left))),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(_)) => {
                        return Poll::Ready(Err(Missing::Closed(CloseReason::ClientReset)));
                    }
                    Poll::Pending => {
                        if wait.is_over() && begun {
                            return Poll::Ready(Err(Missing::Faulty(Fault::new(
                                408,
                                "the head came too slowly",
                            ))));
                        }
                        if wait.is_over() {
                            return Poll::Ready(Err(Missing::Closed(CloseReason::IdleTimeout)));
                        }
                        if !begun && origin.is_leaving() {
                            return Poll::Ready(Err(Missing::Closed(CloseReason::Drained)));
                        }
                        wait.watch(cx.waker());
                        return Poll::Pending;
                    }
                }
            }
        })
        .await
    }

    /// Serves one request, whose head is complete.
    async fn request(&self, inbox: &mut Inbox, length: usize) -> After {
        let origin = &*self.origin;
        let (worker, buffers) = (&origin.worker, origin.buffers());
        let mut record = RequestRecord::new(origin.client.address);
        let mut out = buffers.take_head();
        let decided = {
            let table = origin.table.borrow();
            let decided = match table.requests(&origin.within) {
                Ok(router) => {
                    let mut seen: Option<Seen> = None;
                    let notes = Notes::wanted(&worker.shared, &mut seen);
                    let head = &inbox.bytes()[..length];
                    let decided =
                        decision::decide(head, &mut buffers.index(), router, &origin.client, notes, &mut out);
                    record.seen = seen;
                    decided
                }
                // The listener became another one.
                Err(Unserved::Gone) => return After::Close(CloseReason::Drained),
                Err(Unserved::Unproven) => {
                    decision::refuse(&mut out, UNPROVEN);
                    Decision::Answered { status: UNPROVEN.status, route: None, keep_alive: false }
                }
            };
            record.listener = Some(Arc::clone(&table.listener));
            decided
        };
        inbox.consume(length);
        let after = match decided {
            Decision::Forward(mut forward) => {
                forward.ending.keep_alive &= !origin.ends_soon();
                let source = Source::h1(&self.stream, inbox, forward.framing);
                let reply = Reply::H1(&self.stream);
                let (after, rest) = exchange::run(origin, source, reply, forward, out, &mut record).await;
                out = rest;
                after
            }
            Decision::Answered { status, route, keep_alive } => {
                record.status = status;
                record.route = route;
                match send_in_time(&self.stream, &out).await {
                    Err(_) => After::Close(CloseReason::ClientReset),
                    Ok(()) if keep_alive => After::Next,
                    Ok(()) if status == 400 => After::Linger(CloseReason::InvalidRequest),
                    Ok(()) => After::Linger(CloseReason::Finished),
                }
            }
        };
        buffers.give_back_head(out);
        record.close(&worker.shared);
        after
    }

    /// Tells a client that this is no request.
    async fn refuse(&self, fault: Fault, inbox: &mut Inbox) {
        let buffers = self.origin.buffers();
        let mut out = buffers.take_head();
        decision::refuse(&mut out, fault);
        let sent = send_in_time(&self.stream, &out).await;
        buffers.give_back_head(out);
        if sent.is_ok() {
            linger(&self.stream, inbox, buffers).await;
        }
    }
}

/// Ends this side and hears the client out for a moment: to close with its bytes unread would take the answer away.
pub(crate) async fn linger(stream: &Downstream, inbox: &mut Inbox, buffers: &Buffers) {
    stream.end();
    let heard = Cell::new(0);
    let listening = poll_fn(|cx| {
        loop {
            inbox.release(buffers);
            match std::task::ready!(inbox.poll_fill(cx, stream, buffers)) {
                Ok(count) if count > 0 && heard.get() < LINGER_BYTES => heard.set(heard.get() + count),
                _ => return Poll::Ready(()),
            }
        }
    });
    // Whether the client ended or its time is over, the connection is closed.
    let _ = tokio::time::timeout(LINGER, listening).await;
}
