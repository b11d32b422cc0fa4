//! A request on its way: an endpoint is chosen and reached, the request is sent and the answer brought back; what fails
//! before the client has heard a word is tried again where that is safe, or answered here.

use std::cell::RefCell;
use std::sync::Arc;

use causeway_base::backoff::Backoff;
use causeway_ir::ProxyVersion;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer;
use super::attempt::{Attempt, Heard};
use super::buffer::{Inbox, send};
use super::connection::Connection;
use super::decision::{self, Forward};
use super::h1::framing::Framing;
use super::mirror::Copies;
use super::record::RequestRecord;
use super::tunnel;
use crate::clock;
use crate::close_reason::CloseReason;
use crate::cluster::{Cluster, Endpoint, State};
use crate::connections::Entry;
use crate::metrics::Held;
use crate::tcp::{Downstream, Upstream, copy, is_local, proxy_protocol};

/// What becomes of the client's connection.
pub(crate) enum After {
    /// The next request.
    Next,
    Close(CloseReason),
    /// It is closed once the client has had time to read the answer.
    Linger(CloseReason),
    /// It is cut, so that nobody takes what was sent for the whole.
    Reset(CloseReason),
}

/// Milliseconds that a connection may have waited to be given a request that can't be sent twice.
const FRESH: u64 = 1000;

/// Carries a request out; also the buffer that its head lies in.
pub(crate) async fn run(
    connection: &Connection,
    inbox: &mut Inbox,
    forward: Forward,
    mut head: Vec<u8>,
    record: &mut RequestRecord,
) -> (After, Vec<u8>) {
    record.route = Some(Arc::clone(&forward.route));
    let exchange = Exchange { connection, forward: &forward };
    match exchange.run(inbox, &mut head, record).await {
        Ok(after) => (after, head),
        Err(status) => {
            record.status = status;
            let after = exchange.answer(status, &mut head).await;
            (after, head)
        }
    }
}

struct Exchange<'a> {
    connection: &'a Connection,
    forward: &'a Forward,
}

/// A connection to an endpoint.
struct Reached {
    server: Upstream,
    endpoint: Arc<Endpoint>,
    /// It carried requests before.
    reused: bool,
}

impl Exchange<'_> {
    fn has_body(&self) -> bool {
        !matches!(self.forward.framing, Framing::None | Framing::Length(0))
    }

    /// Answers with a status, when the client has heard nothing yet.
    async fn answer(&self, status: u16, out: &mut Vec<u8>) -> After {
        out.clear();
        let mut ending = self.forward.ending;
        // What is left of the request's body is not waited for.
        ending.keep_alive &= !self.has_body();
        answer::write_plain(out, status, ending);
        match send(&self.connection.stream, out, &[]).await {
            Err(_) => After::Close(CloseReason::ClientReset),
            Ok(()) if ending.keep_alive => After::Next,
            Ok(()) => After::Linger(CloseReason::Finished),
        }
    }

    /// Tries until the client has an answer, or says with which status to answer.
    async fn run(
        &self,
        inbox: &mut Inbox,
        head: &mut Vec<u8>,
        record: &mut RequestRecord,
    ) -> Result<After, u16> {
        let (route, worker) = (&self.forward.route, &self.connection.worker);
        let base = &route.base;
        let deadline = route.request_timeout.map(|limit| Instant::now() + limit);
        let cluster = Arc::clone(base.cluster().map_err(|_| 503_u16)?);
        let state = cluster.state();
        record.cluster = Some(Arc::clone(&cluster));
        let held = Held::within(Arc::clone(&cluster), state.settings.connection_limit);
        let mut held = Some(held.ok_or(503_u16)?);
        let client = self.connection.client.address.ip();
        let to_head = self.forward.ending.to_head;
        let copies = RefCell::new(Copies::begin(&route.mirrors, head, to_head, client, worker));
        if !self.has_body() {
            copies.take();
        }
        let mut tried = Vec::new();
        let mut failed = 0;
        let mut is_stale = false;
        loop {
            let reaching = self.reach(&cluster, &state, &mut tried, is_stale, record);
            let reached = match deadline {
                Some(deadline) => timeout_at(deadline, reaching).await.map_err(|_| 504_u16)?,
                None => reaching.await,
            };
            clock::wake();
            let Reached { server, endpoint, reused } = reached?;
            if let Some(version) = state.settings.send_proxy_protocol
                && failed == 0
            {
                self.introduce(version, head);
            }
            record.endpoint = Some(Arc::clone(&endpoint));
            cluster.metrics.requests.inc();
            let entry = worker.connections.insert(Entry::new(
                self.connection.client.address,
                Arc::clone(&self.connection.table.borrow().listener),
                None,
                Held::new(Arc::clone(base)),
                held.take().unwrap_or_else(|| Held::new(Arc::clone(&cluster))),
                Held::new(Arc::clone(&endpoint)),
                state.settings.idle_limit,
            ));
            let may_repeat = !self.has_body();
            let retry = route.retry.as_ref().filter(|retry| may_repeat && failed < retry.attempts);
            let failures = retry.map_or(&[][..], |retry| &retry.statuses[..]);
            let until = route.attempt_timeout.map(|limit| Instant::now() + limit);
            let until = until.into_iter().chain(deadline).min();
            let mut answer = Inbox::default();
            let attempt =
                Attempt::new(self.connection, self.forward, head, &server, &entry, failures, &copies);
            let heard = attempt.run(inbox, &mut answer, until).await;
            let (sent, taken, answered, keeps) =
                (attempt.sent.get(), attempt.taken.get(), attempt.answered.get(), attempt.keeps.get());
            record.status = attempt.status.get();
            record.first_byte = attempt.began.get();
            let rest = answer.is_empty();
            answer.release(&worker.workspace.buffers);
            let (up, down) = entry.bytes();
            record.bytes = (record.bytes.0 + up, record.bytes.1 + down);
            // Whether it is worth another try, with how long a pause before.
            let again = match heard {
                Heard::Answer { reusable } => {
                    drop(entry);
                    if reusable && rest && state.settings.send_proxy_protocol.is_none() {
                        worker.pool.give_back(&endpoint, server);
                    }
                    return Ok(if keeps { After::Next } else { After::Linger(CloseReason::Finished) });
                }
                Heard::Tunnel => {
                    let early = inbox.take();
                    let (stream, workspace) = (&self.connection.stream, &worker.workspace);
                    let reason = match stream {
                        Downstream::Tcp(_) => copy::both(stream, &server, early, &entry, workspace).await,
                        Downstream::Tls(_) => {
                            tunnel::both(stream, &server, early, &entry, &workspace.buffers).await
                        }
                    };
                    record.bytes = entry.bytes();
                    drop(entry);
                    return Ok(match reason {
                        CloseReason::EndpointReset => After::Reset(reason),
                        CloseReason::ClientReset => {
                            server.into_socket().reset().await;
                            After::Close(reason)
                        }
                        _ => After::Close(reason),
                    });
                }
                Heard::ClientGone(reason) => {
                    record.status = 499;
                    return Ok(After::Close(reason));
                }
                Heard::BadBody(fault) if !answered => {
                    record.status = fault.status;
                    head.clear();
                    decision::refuse(head, fault);
                    return Ok(match send(&self.connection.stream, head, &[]).await {
                        Ok(()) => After::Linger(CloseReason::InvalidRequest),
                        Err(_) => After::Close(CloseReason::ClientReset),
                    });
                }
                Heard::BadBody(_) => return Ok(After::Reset(CloseReason::InvalidRequest)),
                Heard::Cut => return Ok(After::Reset(CloseReason::EndpointReset)),
                Heard::Ended(reason) if answered => return Ok(After::Reset(reason)),
                Heard::Ended(CloseReason::IdleTimeout) => return Err(504),
                Heard::Ended(_) => return Err(503),
                Heard::TimedOut if answered => return Ok(After::Reset(CloseReason::IdleTimeout)),
                Heard::TimedOut => {
                    let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    if over || retry.is_none() || !self.forward.is_idempotent {
                        return Err(504);
                    }
                    Again::Later
                }
                Heard::Nonsense(why) => {
                    tracing::debug!(cluster = %cluster.name, endpoint = %endpoint.address, why, "no proper answer");
                    return Err(502);
                }
                Heard::Failure => Again::Later,
                // The endpoint closed a connection that waited, while the request was on its way: it never saw it, or
                // seeing it twice does no harm.
                Heard::Nothing if reused && !taken && (self.forward.is_idempotent || !sent) => Again::AtOnce,
                Heard::Nothing => {
                    cluster.reset_early(&state, &endpoint);
                    if taken || retry.is_none() || !self.forward.is_idempotent {
                        return Err(502);
                    }
                    Again::Later
                }
            };
            drop(entry);
            match (again, &route.retry) {
                (Again::Later, Some(retry)) => {
                    failed += 1;
                    tried.push(endpoint);
                    let pause = Backoff::new(retry.backoff, retry.backoff * 10).delay(failed);
                    tokio::time::sleep(pause).await;
                    clock::wake();
                }
                _ => is_stale = true,
            }
        }
    }

    /// A connection to an endpoint: one that waits, or a new one. Nothing was sent yet, so a failure is tried again
    /// elsewhere.
    async fn reach(
        &self,
        cluster: &Cluster,
        state: &State,
        tried: &mut Vec<Arc<Endpoint>>,
        is_stale: bool,
        record: &mut RequestRecord,
    ) -> Result<Reached, u16> {
        let client = self.connection.client.address.ip();
        let mut failures = 0;
        let mut status = 503;
        while failures <= state.settings.retries {
            let now = clock::woken();
            let picked = cluster.pick(state, client, tried, now);
            // A single endpoint that failed once may do better the next time.
            let picked =
                picked.or_else(|| if failures == 0 { cluster.pick(state, client, &[], now) } else { None });
            let Some(endpoint) = picked else { break };
            record.attempts += 1;
            let limit = if self.forward.is_idempotent { u64::MAX } else { FRESH };
            if !is_stale
                && state.settings.send_proxy_protocol.is_none()
                && let Some(server) = self.connection.worker.pool.take(&endpoint, limit)
            {
                return Ok(Reached { server, endpoint, reused: true });
            }
            let connecting = Upstream::connect(&endpoint.address, true);
            let endpoint_to_blame = match timeout(state.settings.connect_timeout, connecting).await {
                Ok(Ok(server)) => {
                    endpoint.succeeded();
                    endpoint.total.inc();
                    cluster.metrics.total.inc();
                    server.socket().send_without_delay();
                    return Ok(Reached { server, endpoint, reused: false });
                }
                Ok(Err(error)) => {
                    tracing::debug!(cluster = %cluster.name, endpoint = %endpoint.address, %error, "connecting failed");
                    status = 502;
                    !is_local(&error)
                }
                Err(_) => {
                    tracing::debug!(cluster = %cluster.name, endpoint = %endpoint.address, "connecting timed out");
                    status = 504;
                    true
                }
            };
            clock::wake();
            cluster.connect_failed(state, &endpoint, endpoint_to_blame);
            failures += 1;
            tried.push(endpoint);
        }
        Err(status)
    }

    /// Puts the PROXY protocol header before a request.
    fn introduce(&self, version: ProxyVersion, head: &mut Vec<u8>) {
        let client = self.connection.client.address;
        let asked = self.connection.stream.socket().local_address();
        let destination = asked.unwrap_or(self.connection.table.borrow().listener.address);
        let mut introduced = match version {
            ProxyVersion::V1 => proxy_protocol::encode_v1(client, destination),
            ProxyVersion::V2 => proxy_protocol::encode_v2(client, destination),
        };
        introduced.append(head);
        *head = introduced;
    }
}

/// How soon a request is tried again.
enum Again {
    AtOnce,
    Later,
}
